"""Requests to chat endpoints and their answers, as plain data: nothing here is sent."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

__all__ = ["OPTIONAL", "Completion", "NotACompletion", "Question", "answer_schema", "request_body"]

OPTIONAL = ("response_format", "logprobs", "n", "max_tokens", "temperature")
"""Parts of a request that a server may refuse, in the order in which to leave them out.
`max_tokens` is then sent under its other name."""
_EVENT = re.compile(rb"\s*(:|data:|event:|id:|retry:)")
"""The start of a stream of events."""
_ALTERNATIVES = 20
"""How many alternatives of a token are asked for: the most that services give."""


class NotACompletion(ValueError):
    """A reply that is not a chat completion."""


@dataclass(frozen=True)
class Question:
    """What is asked: the text, the form of the answer, and what is asked for beside it."""

    text: str
    schema: str = ""
    """The JSON schema of the answer as text, for servers that constrain answers; empty for none."""
    logprobs: bool = False
    """Whether the probabilities of the answer's tokens are asked for."""
    samples: int = 1
    """How many answers are asked for."""


@dataclass(frozen=True)
class Completion:
    """What a model answered, and what it used."""

    texts: tuple[str, ...]
    """The answers: one, or several samples."""
    cut_off: tuple[bool, ...] = (False,)
    """Whether each answer was cut off by `max_tokens`."""
    refused: bool = False
    """Whether the service says that the model refuses, or filtered the answer."""
    tokens: tuple[tuple[str, tuple[tuple[str, float], ...]], ...] = ()
    """The tokens of the first answer, each with its alternatives and their log probabilities."""
    tokens_in: int | None = None
    tokens_out: int | None = None
    model: str = ""
    """The model that answered, as the service names it."""
    left_out: tuple[str, ...] = ()
    """The parts of the request that the server refused."""

    @property
    def text(self) -> str:
        """The first answer."""
        return self.texts[0]

    def to_bytes(self) -> bytes:
        """Return the completion for the cache."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> "Completion":
        """Return the completion that `to_bytes` wrote."""
        data = json.loads(content)
        data["tokens"] = tuple(
            (t, tuple((a, float(p)) for a, p in own)) for t, own in data["tokens"]
        )
        lists = {name: tuple(data[name]) for name in ("texts", "cut_off", "left_out")}
        return cls(**{**data, **lists})

    @classmethod
    def of_reply(cls, payload: bytes) -> "Completion":
        """Return what a server replied: a chat completion, whole or as a stream of events.

        >>> reply = b'{"choices": [{"message": {"content": "ham"}, "finish_reason": "stop"}]}'
        >>> Completion.of_reply(reply).text
        'ham'
        """
        try:
            data = _joined(payload) if _EVENT.match(payload) else json.loads(payload)
            choices = data["choices"]
            texts = tuple(_text(choice["message"]) for choice in choices)
            first = choices[0]
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise NotACompletion(f"this is not a chat completion: {payload[:80]!r}") from error
        reasons = [choice.get("finish_reason") for choice in choices]
        used = data["usage"] if isinstance(data.get("usage"), dict) else {}
        return cls(
            texts,
            tuple(reason == "length" for reason in reasons),
            bool(first["message"].get("refusal")) or "content_filter" in reasons,
            _tokens(first.get("logprobs")),
            _count(used.get("prompt_tokens")),
            _count(used.get("completion_tokens")),
            str(data.get("model") or ""),
        )

    def with_samples_of(self, other: "Completion") -> "Completion":
        """Return this completion with the samples of another one, for servers that give one."""
        return replace(
            self,
            texts=self.texts + other.texts,
            cut_off=self.cut_off + other.cut_off,
            tokens_in=_sum(self.tokens_in, other.tokens_in),
            tokens_out=_sum(self.tokens_out, other.tokens_out),
        )


def request_body(
    question: Question,
    model: str,
    temperature: float,
    max_tokens: int,
    left_out: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the request for a question, without the parts that the server refuses."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": question.text}],
        "temperature": temperature,
        "max_tokens": max_tokens,
    }
    if question.schema:
        schema = {"name": "answer", "strict": True, "schema": json.loads(question.schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if question.logprobs:
        body |= {"logprobs": True, "top_logprobs": _ALTERNATIVES}
    if question.samples > 1:
        body["n"] = question.samples
    if "max_tokens" in left_out:
        body["max_completion_tokens"] = max_tokens
    if "logprobs" in left_out:
        body.pop("top_logprobs", None)
    return {name: value for name, value in body.items() if name not in left_out}


def answer_schema(values: Sequence[str]) -> str:
    """Return the JSON schema of an object with one of these answers.

    >>> json.loads(answer_schema(["yes", "no"]))["properties"]
    {'answer': {'type': 'string', 'enum': ['yes', 'no']}}
    """
    answer = {"type": "string", "enum": list(dict.fromkeys(values))}
    return object_schema({"answer": answer})


def object_schema(properties: Mapping[str, Any]) -> str:
    """Return the JSON schema of an object that has all of these properties and no others."""
    schema = {"type": "object", "properties": dict(properties), "required": list(properties)}
    return json.dumps(schema | {"additionalProperties": False})


def _joined(payload: bytes) -> dict[str, Any]:
    """A stream of events as one completion."""
    texts: dict[int, str] = {}
    reasons: dict[int, str] = {}
    whole: dict[str, Any] = {}
    for line in payload.decode("utf-8", "replace").splitlines():
        content = line.removeprefix("data:").strip()
        if not line.startswith("data:") or content == "[DONE]":
            continue
        event = json.loads(content)
        whole |= {name: event[name] for name in ("usage", "model") if event.get(name)}
        for choice in event.get("choices") or ():
            number = choice.get("index", 0)
            part = choice.get("delta") or choice.get("message") or {}
            texts[number] = texts.get(number, "") + (part.get("content") or "")
            reasons |= {number: choice["finish_reason"]} if choice.get("finish_reason") else {}
    if not reasons:
        raise NotACompletion("the stream of the answer ended too early")
    return whole | {
        "choices": [
            {"message": {"content": texts[number]}, "finish_reason": reasons.get(number)}
            for number in sorted(texts)
        ]
    }


def _text(message: Mapping[str, Any]) -> str:
    """The text of a message, which may come in parts."""
    content = message["content"] if "content" in message else message["refusal"]
    if isinstance(content, list):
        content = "".join(str(part.get("text") or "") for part in content)
    return str(content or message.get("refusal") or "")


def _tokens(logprobs: Any) -> tuple[tuple[str, tuple[tuple[str, float], ...]], ...]:
    """The tokens of an answer with their alternatives; none where the server gave none."""
    try:
        return tuple(
            (
                str(entry["token"]),
                tuple((str(each["token"]), float(each["logprob"])) for each in _with_own(entry)),
            )
            for entry in logprobs["content"]
        )
    except (LookupError, TypeError, ValueError, AttributeError):
        return ()


def _with_own(entry: Any) -> list[Any]:
    """The alternatives of a token, and the token itself."""
    others = list(entry.get("top_logprobs") or ())
    own = [] if any(each["token"] == entry["token"] for each in others) else [entry]
    return others + own


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second
