"""A client of OpenAI-compatible chat endpoints, with a disk cache, retries and bounded concurrency.

Only the standard library is used. The cache stores the model's answers under digests of the
questions; the rows themselves and the API key are never written.
"""

import ipaddress
import json
import os
import queue
import re
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

from wiesel.errors import ParameterError
from wiesel.io.stores import KeyedStore
from wiesel.lfs.fingerprints import digest
from wiesel.lfs.rules import check_fields
from wiesel.lfs.sending import ChatError, send
from wiesel.lfs.spending import BudgetReached, Spending, current_spending
from wiesel.parameters import check_number
from wiesel.progress import progress

__all__ = [
    "OPTIONAL",
    "ChatClient",
    "ChatError",
    "Completion",
    "NotACompletion",
    "Question",
    "answer_schema",
    "ask_in_threads",
    "host_of",
    "is_this_machine",
    "request_body",
]

_ADDRESS = re.compile(r"https?://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:\d{1,5})?(/[!-~]*)?", re.I)
_HIGHEST = {
    **{"temperature": 100, "backoff": 60, "timeout": 3600, "concurrency": 256, "retries": 100},
    "patience": 86_400,
}
OPTIONAL = ("response_format", "logprobs", "n", "max_tokens", "temperature")
"""Parts of a request that a server may refuse, in the order in which to leave them out.
`max_tokens` is then sent under its other name."""
_EVENT = re.compile(rb"\s*(:|data:|event:|id:|retry:)")
"""The start of a stream of events."""
_ALTERNATIVES = 20
"""How many alternatives of a token are asked for: the most that services give."""


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
class ChatClient:
    """The address of a language model, with retries and timeouts.

    >>> ChatClient("http://127.0.0.1:8000/v1", "llama-3").endpoint
    'http://127.0.0.1:8000/v1/chat/completions'
    """

    url: str
    """The base of the endpoint, such as `https://api.openai.com/v1`."""
    model: str
    api_key_variable: str = "OPENAI_API_KEY"
    """The environment variable that holds the key; no key is sent if it is not set, or if this is
    empty. Over http, a key is sent to this machine only."""
    temperature: float = 0.0
    max_tokens: int = 32
    concurrency: int = 8
    """The highest number of concurrent requests; fewer while the server asks for fewer."""
    retries: int = 4
    backoff: float = 0.5
    """Seconds before the first retry; each further one waits twice as long."""
    patience: float = 600.0
    """Seconds that a question waits in all for a server that asks for fewer requests. These waits
    do not count as retries."""
    timeout: float = 60.0
    cache: str | None = ""
    """A SQLite file for the answers; empty for one in the user's cache folder, None for none."""
    constrained: bool = True
    """Whether to ask the server to allow only the classes as an answer (`response_format`). If it
    refuses, the question is sent without."""

    def __post_init__(self) -> None:
        check_fields(self, "ChatClient")
        if self.cache is not None and not isinstance(self.cache, str):
            raise ParameterError(f"cache is the name of a file; got {self.cache!r:.60}.")
        host_of(self.url)
        check_number(self, "max_tokens", self.max_tokens, low=1, whole=True)
        for name, highest in _HIGHEST.items():
            whole, low = name in ("concurrency", "retries"), int(name == "concurrency")
            check_number(self, name, getattr(self, name), low=low, high=highest, whole=whole)

    @property
    def endpoint(self) -> str:
        """The address that questions are sent to."""
        return self.url.rstrip("/") + "/chat/completions"

    @property
    def is_local(self) -> bool:
        """Whether the server is on this machine."""
        return is_this_machine(host_of(self.url)[0])

    def read_key(self) -> str | None:
        """Return the key to send; refuse to send one to another machine without encryption."""
        key = os.environ.get(self.api_key_variable) if self.api_key_variable else None
        if not key:
            return None
        if urlsplit(self.url).scheme != "https" and not self.is_local:
            raise ParameterError(
                f"The client would send the key in {self.api_key_variable} without encryption to "
                f"{self.url!r:.80}. Use https://, or api_key_variable = '' to send no key."
            )
        return key

    def ask_all(
        self, questions: Sequence[Question | str]
    ) -> Generator[tuple[int, Completion | ChatError]]:
        """Yield the position and the answer (or the error) of every question, as they arrive.

        Equal questions are sent once. Closing the iterator cancels the remaining requests.
        """
        places: dict[Question, list[int]] = {}
        for place, question in enumerate(questions):
            places.setdefault(_as_question(question), []).append(place)
        answers = AnswerCache(self.cache)
        known = answers.get([self.key(question) for question in places])
        spent = current_spending()
        spent.cached += len(known)
        for question, own in places.items():
            if self.key(question) in known:
                yield from ((place, known[self.key(question)]) for place in own)
        open_questions = [q for q in places if self.key(q) not in known]
        for question, answer in self._requested(open_questions, answers, spent):
            yield from ((place, answer) for place in places[question])

    def _requested(
        self, questions: Sequence[Question], answers: "AnswerCache", spent: Spending
    ) -> Iterator[tuple[Question, Completion | ChatError]]:
        stopped = threading.Event()
        if questions:
            self.read_key()  # refused here, once, rather than in every thread
            spent.check(self)

        def attempt(question: Question) -> Completion | ChatError:
            answer = None
            try:
                reserved = spent.reserve(self, question, stopped)
            except BudgetReached as reached:
                return reached
            try:
                answer = self.ask(question, stopped, spent.retried)
                answers.put(self.key(question), answer)  # here, so that no paid answer is lost
            except ChatError as error:
                return error
            finally:
                spent.settle(reserved, self, question, answer)
            return answer

        total, started = len(questions), time.monotonic()
        with progress(f"asking {self.model}", total, "questions") as show:
            asked = ask_in_threads(attempt, questions, self.concurrency, stopped)
            for done, (question, answer) in enumerate(asked, start=1):
                show(done, spent.note(done, total, started))
                yield question, answer

    def ask(
        self,
        question: Question | str,
        stopped: threading.Event | None = None,
        retried: Callable[[], None] = lambda: None,
    ) -> Completion:
        """Return the answer to one question, with retries if the network or the service fails.

        There are no retries once `stopped` is set; `retried` is called before each.
        """
        asked, stop = _as_question(question), stopped or threading.Event()
        answer = send(self, asked, stop, retried)
        while len(answer.texts) < asked.samples:  # a server that gives one answer at a time
            answer = answer.with_samples_of(send(self, replace(asked, samples=1), stop, retried))
        return answer

    def key(self, question: Question) -> str:
        """Return the digest under which the cache has the answer to a question."""
        options = (self.endpoint, self.model, self.temperature, self.max_tokens)
        return digest(*options, question.text, question.schema, question.logprobs, question.samples)


def _as_question(question: Question | str) -> Question:
    return Question(question) if isinstance(question, str) else question


def host_of(url: str) -> tuple[str, int]:
    """Return the host, in lower case, and the port of an address; refuse an invalid address.

    >>> host_of("https://API.openai.com/v1")
    ('api.openai.com', 443)
    """
    if not _ADDRESS.fullmatch(url) or set("?#\\") & set(url):
        raise ParameterError(
            "The url must start with http:// or https:// and have a host and a path only, such as "
            f"https://api.openai.com/v1; got {url!r:.80}."
        )
    try:
        parts = urlsplit(url)
        return str(parts.hostname), parts.port or {"http": 80, "https": 443}[parts.scheme]
    except ValueError as error:
        raise ParameterError(f"The url {url!r:.80} is not valid: {error}.") from None


def is_this_machine(host: str) -> bool:
    """Return whether a host is this machine.

    >>> is_this_machine("127.0.0.1"), is_this_machine("127.0.0.1.example.org")
    (True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class AnswerCache:
    """Answers of language models in a file, under the digest of their question."""

    def __init__(self, path: str | None) -> None:
        file = Path(path) if path else _user_cache() / "answers.sqlite"
        self._store = None if path is None else KeyedStore(file)

    def get(self, keys: Sequence[str]) -> dict[str, Completion]:
        """Return the cached answers."""
        known = {} if self._store is None else self._store.get(keys)
        return {key: Completion.from_bytes(answer) for key, answer in known.items()}

    def put(self, key: str, answer: Completion) -> None:
        """Store an answer."""
        if self._store is not None:
            self._store.put({key: answer.to_bytes()})


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wiesel"


Answer = TypeVar("Answer")
Asked = TypeVar("Asked")
Answers: TypeAlias = "queue.SimpleQueue[tuple[Asked, Answer | None, BaseException | None]]"
"""Each question with its answer or its exception."""

_POLL_SECONDS = 0.1
"""Seconds between two checks for Ctrl-C, which does not interrupt a wait without a timeout once
Polars has been imported."""


def ask_in_threads(
    ask: Callable[[Asked], Answer],
    questions: Sequence[Asked],
    n_threads: int,
    stopped: threading.Event,
) -> Iterator[tuple[Asked, Answer]]:
    """Yield every question with its answer, as answers arrive.

    If the iterator is closed or interrupted, `stopped` is set and no more questions are sent.

    >>> sorted(ask_in_threads(str.upper, ["a", "b"], 2, threading.Event()))
    [('a', 'A'), ('b', 'B')]
    """
    waiting: queue.SimpleQueue[Asked] = queue.SimpleQueue()
    answers: Answers[Asked, Answer] = queue.SimpleQueue()
    for question in questions:
        waiting.put(question)
    for _ in range(min(n_threads, len(questions))):
        work = threading.Thread(target=_work, args=(ask, waiting, answers, stopped), daemon=True)
        work.start()
    try:
        for _ in questions:
            question, answer, error = _next(answers)
            if error is not None:
                raise error
            yield question, answer  # type: ignore[misc]
    finally:
        stopped.set()


def _work(
    ask: Callable[[Asked], Answer],
    waiting: "queue.SimpleQueue[Asked]",
    answers: "Answers[Asked, Answer]",
    stopped: threading.Event,
) -> None:
    """Ask one question after another until none is left."""
    while not stopped.is_set():
        try:
            question = waiting.get_nowait()
        except queue.Empty:
            return
        try:
            answers.put((question, ask(question), None))
        except BaseException as error:  # noqa: BLE001 - raised by the thread that waits
            answers.put((question, None, error))


def _next(answers: "Answers[Asked, Answer]") -> tuple[Asked, Answer | None, BaseException | None]:
    while True:
        try:
            return answers.get(timeout=_POLL_SECONDS)
        except queue.Empty:
            continue


class NotACompletion(ValueError):
    """A reply that is not a chat completion."""


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
