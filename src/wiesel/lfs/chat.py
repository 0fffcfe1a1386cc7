"""A client of OpenAI-compatible chat endpoints, with a disk cache, retries and bounded concurrency.

Only the standard library is used. The cache stores the model's answers under digests of the
questions; the rows themselves and the API key are never written.
"""

import ipaddress
import os
import queue
import re
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias, TypeVar
from urllib.parse import urlsplit

from wiesel.errors import ParameterError
from wiesel.io.stores import KeyedStore
from wiesel.lfs.fingerprints import digest
from wiesel.lfs.function import check_fields
from wiesel.lfs.sending import ChatError, Completion, Question, send
from wiesel.lfs.spending import BudgetReached, Spending, current_spending
from wiesel.parameters import check_number
from wiesel.progress import progress

__all__ = ["ChatClient", "ChatError", "ask_in_threads", "host_of", "is_this_machine"]

_ADDRESS = re.compile(r"https?://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:\d{1,5})?(/[!-~]*)?", re.I)
_HIGHEST = {
    **{"temperature": 100, "backoff": 60, "timeout": 3600, "concurrency": 256, "retries": 100},
    "patience": 86_400,
}


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
