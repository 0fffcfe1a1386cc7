"""Sends a question to a chat endpoint until it answers: retries, waits, and refused parts.

What is learned about a server while it answers (which parts of a request it refuses, how many
requests at once it takes) is remembered for the life of the process.
"""

import http.client
import json
import math
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wiesel.lfs.chat import ChatClient

__all__ = [
    "OPTIONAL",
    "ChatError",
    "Completion",
    "NotACompletion",
    "Pace",
    "Question",
    "answer_schema",
    "request_body",
    "retry_after",
    "send",
]

_POLL_SECONDS = 0.1
"""Seconds between two looks at whether all work was stopped."""
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
                tuple(
                    (str(each["token"]), float(each["logprob"])) for each in _alternatives(entry)
                ),
            )
            for entry in logprobs["content"]
        )
    except (LookupError, TypeError, ValueError, AttributeError):
        return ()


def _alternatives(entry: Any) -> list[Any]:
    """The alternatives of a token, and the token itself."""
    others = list(entry.get("top_logprobs") or ())
    own = [] if any(each["token"] == entry["token"] for each in others) else [entry]
    return others + own


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second


class Pace:
    """The number of requests that may be under way at once, shared by all threads.

    A complaint of the server halves the number, once for all requests that were under way, and
    nothing is sent until the time it asks for has passed. Every answer raises the number a little,
    so that it grows by one when as many answers have come as requests may be under way.

    >>> pace = Pace(8)
    >>> pace.leave(pace.enter(), limited=True, wait=0)
    >>> pace.allowed
    4.0
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.allowed = float(limit)
        self.under_way = 0
        self._cuts = 0
        self._not_before = 0.0
        self._changed = threading.Condition()

    def enter(self, stopped: threading.Event | None = None) -> int:
        """Wait until a request may be sent, or all work is stopped; return a pass for `leave`."""
        with self._changed:
            while not (stopped and stopped.is_set()):
                wait = self._not_before - time.monotonic()
                if wait <= 0 and self.under_way < int(self.allowed):
                    break
                self._changed.wait(min(wait, _POLL_SECONDS) if wait > 0 else _POLL_SECONDS)
            self.under_way += 1
            return self._cuts

    def leave(self, entered: int, limited: bool = False, wait: float = 0.0) -> None:
        """Count a request as done; `limited` if the server asked for fewer, and to wait."""
        with self._changed:
            self.under_way -= 1
            if not limited:
                self.allowed = min(self.limit, self.allowed + 1 / self.allowed)
            else:
                self._not_before = max(self._not_before, time.monotonic() + wait)
                if entered == self._cuts:  # a request sent before the last cut says nothing new
                    self._cuts += 1
                    self.allowed = max(1.0, self.allowed / 2)
            self._changed.notify_all()


def retry_after(headers: "Mapping[str, str] | Message", now: float) -> float | None:
    """Return the seconds that a server asks to wait: in seconds, as a date, or None if missing.

    >>> retry_after({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, now=1445412470.0)
    10.0
    >>> retry_after({"Retry-After": "1.5"}, 0), retry_after({}, 0)
    (1.5, None)
    """
    milliseconds = headers.get("Retry-After-Ms") or headers.get("retry-after-ms") or ""
    value = headers.get("Retry-After") or headers.get("retry-after") or ""
    for text, unit in ((milliseconds, 1000.0), (value, 1.0)):
        if re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?", text.strip()):
            return float(text) / unit
    try:
        wait = parsedate_to_datetime(value).timestamp() - now
    except (ValueError, TypeError, OverflowError, OSError):
        return None
    return max(0.0, wait) if math.isfinite(wait) else None


_LONGEST_WAIT = 60.0
"""Seconds of a wait that the server has not asked for."""
_LARGEST_ANSWER = 2**22
"""Bytes of a chat completion that are read."""
_RETRIED = (408, 425, 429, 500, 502, 503, 504, 529)
_REFUSED = (400, 404, 415, 422, 501)
"""Statuses of a server that may not know a part of the request."""
_NO_MONEY = ("insufficient_quota", "billing", "credit balance")
"""What services say with status 429 if waiting will not help."""
_PASSING = (OSError, http.client.HTTPException, NotACompletion)
"""Transient errors (URLError and time-outs are OSErrors)."""


class ChatError(Exception):
    """The endpoint gave no answer; the message says why."""


class _Fault(Exception):
    """A failed attempt: whether to retry, and how long the server asks to wait before that."""

    def __init__(
        self, reason: object, may_pass: bool = True, wait: float | None = None, status: int = 0
    ) -> None:
        super().__init__(str(reason))
        self.may_pass, self.wait, self.status = may_pass, wait, status
        self.limited = may_pass and (status == 429 or wait is not None)
        """Whether the server asks for fewer requests."""


@dataclass(eq=False)
class _Server:
    """What is known about a model on a server."""

    pace: Pace
    left_out: frozenset[str] = frozenset()
    """The parts of requests that it refuses."""


_SERVERS: dict[tuple[str, str, int], _Server] = {}


@dataclass(eq=False)
class _Attempts:
    """The attempts to send one question."""

    client: "ChatClient"
    failed: int = 0
    limited: int = 0
    waited: float = 0.0
    """Seconds of waits that the server asked for."""
    left_out: frozenset[str] = field(default_factory=frozenset)

    def wait_after(self, fault: _Fault) -> float:
        """Count a fault, and return the seconds to wait before the next attempt."""
        self.limited += fault.limited
        self.failed += not fault.limited
        times = self.limited if fault.limited else self.failed
        own = min(self.client.backoff * 2.0 ** min(times - 1, 30), _LONGEST_WAIT)
        if not fault.limited:
            return own
        wait = max(own, 1e-3) if fault.wait is None else fault.wait
        self.waited += wait
        return wait

    def error(self, fault: _Fault, wait: float) -> ChatError | None:
        """Return the error if no further attempt should be made."""
        lasting = not fault.may_pass or self.failed > self.client.retries
        if not lasting and self.waited <= self.client.patience:
            return None
        total = self.failed + self.limited
        times = "once" if total == 1 else f"{total} times"
        problem = f"{self.client.endpoint} did not answer (tried {times}): {fault}"
        if not lasting:
            problem += (
                f". The next attempt would be after {wait:,.0f} more seconds, but patience = "
                f"{self.client.patience:,.0f} seconds"
            )
        return ChatError(problem)

    def leaves_out(self, fault: _Fault, question: Question) -> bool:
        """Whether to try once more at once, without a part that the server seems to refuse."""
        if fault.status not in _REFUSED:
            return False
        body = request_body(question, "", 0.0, 1, tuple(self.left_out))
        parts = [part for part in OPTIONAL if part in body]
        named = [part for part in parts if part in str(fault)]
        unnamed = [part for part in parts if part in OPTIONAL[:3]]
        if not named and not unnamed:
            return False
        self.left_out |= {(named or unnamed)[0]}
        return True


def send(
    client: "ChatClient", question: Question, stopped: threading.Event, retried: Callable[[], None]
) -> Completion:
    """Return the answer to a question, with retries if the network or the service fails.

    There are no retries once `stopped` is set.
    """
    server = _SERVERS.setdefault(
        (client.endpoint, client.model, client.concurrency), _Server(Pace(client.concurrency))
    )
    attempts = _Attempts(client, left_out=server.left_out)
    while True:
        entered = server.pace.enter(stopped)
        limited, wait = False, 0.0
        try:
            answer = _attempt(client, question, tuple(attempts.left_out))
        except _Fault as fault:
            if not stopped.is_set() and attempts.leaves_out(fault, question):
                continue
            limited, wait = fault.limited, attempts.wait_after(fault)
            if stopped.is_set():
                fault.may_pass = False
            if error := attempts.error(fault, wait):
                wait = 0.0  # for others: this question does not wait
                raise error from fault
        else:
            server.left_out |= attempts.left_out
            return replace(answer, left_out=tuple(sorted(attempts.left_out)))
        finally:
            server.pace.leave(entered, limited, wait)
        retried()
        stopped.wait(wait)


def _attempt(client: "ChatClient", question: Question, left_out: tuple[str, ...]) -> Completion:
    body = request_body(question, client.model, client.temperature, client.max_tokens, left_out)
    headers = {"Content-Type": "application/json"}
    key = client.read_key()
    if key:
        headers["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(client.endpoint, json.dumps(body).encode(), headers)
    try:
        with _opener(client)(request, timeout=client.timeout) as response:
            return Completion.of_reply(_without(key, response.read(_LARGEST_ANSWER)))
    except urllib.error.HTTPError as error:
        raise _status_fault(error, key) from None
    except _PASSING as error:
        raise _Fault(getattr(error, "reason", None) or error) from error


def _opener(client: "ChatClient") -> Callable[..., Any]:
    """The function that sends requests: it follows no redirects."""
    # A proxy of the environment would get the rows that are meant for this machine only.
    direct = [urllib.request.ProxyHandler({})] if client.is_local else []
    return urllib.request.build_opener(_NoRedirect, *direct).open


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: the rows and the key are meant only for the configured host."""

    def redirect_request(self, *_: object) -> None:
        """Return no request, so that the status is an error like any other."""
        return None


def _without(key: str | None, payload: bytes) -> bytes:
    """What a server says, without the key: it would be cached, or shown in a message."""
    return payload.replace(key.encode(), b"[the key]") if key else payload


def _status_fault(error: urllib.error.HTTPError, key: str | None) -> _Fault:
    """The fault behind a status that is not 200, with what the service says about it."""
    with error:  # it holds the connection
        body = _without(key, error.read(1000)).decode("utf-8", "replace").strip()
    may_pass = error.code in _RETRIED and not any(word in body for word in _NO_MONEY)
    wait = retry_after(error.headers, time.time())
    reason = f"HTTP {error.code} {error.reason} {body[:300]}".strip()
    return _Fault(reason, may_pass, wait, error.code)
