"""A client of OpenAI-compatible chat endpoints, with a disk cache, retries and bounded concurrency.

Only the standard library is used. What is kept on disk is the model's answer under a digest of the
question; the rows themselves and the key of the service are never written.
"""

import http.client
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from wiesel.errors import ParameterError
from wiesel.io.stores import KeyedStore
from wiesel.lfs.fingerprints import digest
from wiesel.parameters import check_number

__all__ = ["ChatClient", "ChatError"]

_LONGEST_WAIT = 60.0
_RETRIED = (408, 425, 429, 500, 502, 503, 504)
_PASSING = (OSError, http.client.HTTPException)
"""What a network does now and then (URLError and time-outs are OSErrors)."""


class ChatError(Exception):
    """The endpoint gave no answer; the message says why."""


class _Fault(Exception):
    """One attempt that failed: whether another may help, and how long to wait for it."""

    def __init__(self, reason: object, may_pass: bool = True, wait: float = 0.0) -> None:
        super().__init__(str(reason))
        self.may_pass = may_pass
        self.wait = min(wait, _LONGEST_WAIT)


@dataclass(frozen=True)
class ChatClient:
    """Where a language model is asked, and how patiently.

    >>> ChatClient("http://127.0.0.1:8000/v1", "llama-3").endpoint
    'http://127.0.0.1:8000/v1/chat/completions'
    """

    url: str
    """The base of the endpoint, such as `https://api.openai.com/v1`."""
    model: str
    api_key_variable: str = "OPENAI_API_KEY"
    """The environment variable that holds the key; nothing is sent where it is not set."""
    temperature: float = 0.0
    max_tokens: int = 32
    concurrency: int = 8
    """How many requests are under way at once."""
    retries: int = 4
    backoff: float = 0.5
    """Seconds before the first retry; each further one waits twice as long."""
    timeout: float = 60.0
    cache: str | None = ""
    """A SQLite file for the answers; empty for one in the user's cache folder, None for none."""

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise ParameterError(f"The url must start with http:// or https://; got {self.url!r}.")
        check_number(self, "concurrency", self.concurrency, low=1, whole=True)
        check_number(self, "retries", self.retries, low=0, whole=True)
        check_number(self, "max_tokens", self.max_tokens, low=1, whole=True)
        for name in ("temperature", "backoff", "timeout"):
            check_number(self, name, getattr(self, name), low=0)

    @property
    def endpoint(self) -> str:
        """The address that questions are sent to."""
        return self.url.rstrip("/") + "/chat/completions"

    def ask_all(self, questions: Sequence[str]) -> Generator[tuple[int, str | ChatError]]:
        """Yield the position and the answer (or the error) of every question, as they come.

        Equal questions are asked once. Closing the iterator cancels what has not been asked.
        """
        places: dict[str, list[int]] = {}
        for place, question in enumerate(questions):
            places.setdefault(question, []).append(place)
        answers = AnswerCache(self.cache)
        known = answers.get([self._key(question) for question in places])
        for question, own in places.items():
            if self._key(question) in known:
                yield from ((place, known[self._key(question)]) for place in own)
        open_questions = [q for q in places if self._key(q) not in known]
        for question, answer in self._asked(open_questions):
            if isinstance(answer, str):
                answers.put(self._key(question), answer)
            yield from ((place, answer) for place in places[question])

    def _asked(self, questions: Sequence[str]) -> Iterator[tuple[str, str | ChatError]]:
        if not questions:
            return
        pool = ThreadPoolExecutor(min(self.concurrency, len(questions)))
        try:
            futures = {pool.submit(self._attempt, question): question for question in questions}
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _attempt(self, question: str) -> str | ChatError:
        try:
            return self.ask(question)
        except ChatError as error:
            return error

    def ask(self, question: str) -> str:
        """Return the answer to one question, asking again when the network or the service fails."""
        attempt = 0
        while True:
            try:
                return self._request(question)
            except _Fault as fault:
                attempt += 1
                if attempt > self.retries or not fault.may_pass:
                    times = "once" if attempt == 1 else f"{attempt} times"
                    problem = f"{self.endpoint} did not answer (asked {times}): {fault}"
                    raise ChatError(problem) from fault
                time.sleep(max(fault.wait, min(self.backoff * 2 ** (attempt - 1), _LONGEST_WAIT)))

    def _request(self, question: str) -> str:
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": question}],
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
        }
        headers = {"Content-Type": "application/json"}
        key = os.environ.get(self.api_key_variable)
        if key:
            headers["Authorization"] = f"Bearer {key}"
        request = urllib.request.Request(self.endpoint, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as response:
                return _content(response.read())
        except urllib.error.HTTPError as error:
            raise _refusal(error) from error
        except _PASSING as error:
            raise _Fault(getattr(error, "reason", None) or error) from error

    def _key(self, question: str) -> str:
        return digest(self.endpoint, self.model, self.temperature, self.max_tokens, question)


class AnswerCache:
    """Answers of language models in a file, under the digest of their question."""

    def __init__(self, path: str | None) -> None:
        file = Path(path) if path else _user_cache() / "answers.sqlite"
        self._store = None if path is None else KeyedStore(file)

    def get(self, keys: Sequence[str]) -> dict[str, str]:
        """Return the answers that are known."""
        known = {} if self._store is None else self._store.get(keys)
        return {key: answer.decode() for key, answer in known.items()}

    def put(self, key: str, answer: str) -> None:
        """Keep an answer."""
        if self._store is not None:
            self._store.put({key: answer.encode("utf-8", "replace")})


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wiesel"


def _refusal(error: urllib.error.HTTPError) -> _Fault:
    """The fault behind a status that is not 200, with what the service says about it."""
    with error:  # it holds the connection
        said = error.read(200).decode("utf-8", "replace").strip()
    asked = error.headers.get("Retry-After", "")
    wait = float(asked) if asked.isdigit() else 0.0
    return _Fault(f"HTTP {error.code} {error.reason} {said}".strip(), error.code in _RETRIED, wait)


def _content(payload: bytes) -> str:
    """The text of the first choice of a chat completion."""
    try:
        content = json.loads(payload)["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError) as error:
        raise _Fault(f"this is no chat completion: {payload[:80]!r}") from error
    return str(content or "")
