"""A client of OpenAI-compatible chat endpoints, with a disk cache, retries and bounded concurrency.

Only the standard library is used. The cache stores the model's answers under digests of the
questions; the rows themselves and the API key are never written.
"""

import http.client
import ipaddress
import json
import os
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from wiesel.errors import ParameterError
from wiesel.io.stores import KeyedStore
from wiesel.lfs.asking import ask_in_threads
from wiesel.lfs.fingerprints import digest
from wiesel.lfs.rules import check_fields
from wiesel.parameters import check_number

__all__ = ["ChatClient", "ChatError", "host_of", "is_this_machine"]

_LONGEST_WAIT = 60.0
_LARGEST_ANSWER = 2**22
"""Bytes of a chat completion that are read."""
_ADDRESS = re.compile(r"https?://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:\d{1,5})?(/[!-~]*)?", re.I)
_HIGHEST = {"temperature": 100, "backoff": 60, "timeout": 3600, "concurrency": 256, "retries": 100}
_RETRIED = (408, 425, 429, 500, 502, 503, 504)
_PASSING = (OSError, http.client.HTTPException)
"""Transient network errors (URLError and time-outs are OSErrors)."""


class ChatError(Exception):
    """The endpoint gave no answer; the message says why."""


class _RequestError(Exception):
    """A failed attempt: whether to retry, and how long to wait before that."""

    def __init__(self, reason: object, may_pass: bool = True, wait: float = 0.0) -> None:
        super().__init__(str(reason))
        self.may_pass = may_pass
        self.wait = min(wait, _LONGEST_WAIT)


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
    """The number of concurrent requests."""
    retries: int = 4
    backoff: float = 0.5
    """Seconds before the first retry; each further one waits twice as long."""
    timeout: float = 60.0
    cache: str | None = ""
    """A SQLite file for the answers; empty for one in the user's cache folder, None for none."""

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

    def read_key(self) -> str | None:
        """Return the key to send; refuse to send one to another machine without encryption."""
        key = os.environ.get(self.api_key_variable) if self.api_key_variable else None
        if not key:
            return None
        if urlsplit(self.url).scheme != "https" and not is_this_machine(host_of(self.url)[0]):
            raise ParameterError(
                f"The client would send the key in {self.api_key_variable} without encryption to "
                f"{self.url!r:.80}. Use https://, or api_key_variable = '' to send no key."
            )
        return key

    def ask_all(self, questions: Sequence[str]) -> Generator[tuple[int, str | ChatError]]:
        """Yield the position and the answer (or the error) of every question, as they arrive.

        Equal questions are sent once. Closing the iterator cancels the remaining requests.
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
        for question, answer in self._requested(open_questions):
            if isinstance(answer, str):
                answers.put(self._key(question), answer)
            yield from ((place, answer) for place in places[question])

    def _requested(self, questions: Sequence[str]) -> Iterator[tuple[str, str | ChatError]]:
        stopped = threading.Event()
        if questions:
            self.read_key()  # refused here, once, rather than in every thread

        def attempt(question: str) -> str | ChatError:
            try:
                return self.ask(question, stopped)
            except ChatError as error:
                return error

        yield from ask_in_threads(attempt, questions, self.concurrency, stopped)

    def ask(self, question: str, stopped: threading.Event | None = None) -> str:
        """Return the answer to one question, with retries if the network or the service fails.

        There are no retries once `stopped` is set.
        """
        stopped = stopped or threading.Event()
        attempt = 0
        while True:
            try:
                return self._request(question)
            except _RequestError as fault:
                attempt += 1
                if attempt > self.retries or not fault.may_pass or stopped.is_set():
                    times = "once" if attempt == 1 else f"{attempt} times"
                    problem = f"{self.endpoint} did not answer (tried {times}): {fault}"
                    raise ChatError(problem) from fault
                wait = min(self.backoff * 2.0 ** min(attempt - 1, 30), _LONGEST_WAIT)
                stopped.wait(max(fault.wait, wait))

    def _request(self, question: str) -> str:
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": question}],
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
        }
        headers = {"Content-Type": "application/json"}
        key = self.read_key()
        if key:
            headers["Authorization"] = f"Bearer {key}"
        request = urllib.request.Request(self.endpoint, json.dumps(body).encode(), headers)
        try:
            with self._urlopen(request, timeout=self.timeout) as response:
                return _content(response.read(_LARGEST_ANSWER))
        except urllib.error.HTTPError as error:
            raise _response_error(error) from error
        except _PASSING as error:
            raise _RequestError(getattr(error, "reason", None) or error) from error

    @property
    def _urlopen(self) -> Callable[..., Any]:
        """The function that sends requests: it follows no redirects."""
        # A proxy of the environment would get the rows that are meant for this machine only.
        direct = [urllib.request.ProxyHandler({})] if is_this_machine(host_of(self.url)[0]) else []
        return urllib.request.build_opener(_NoRedirect, *direct).open

    def _key(self, question: str) -> str:
        return digest(self.endpoint, self.model, self.temperature, self.max_tokens, question)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: the rows and the key are meant only for the configured host."""

    def redirect_request(self, *_: object) -> None:
        """Return no request, so that the status is an error like any other."""
        return None


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

    def get(self, keys: Sequence[str]) -> dict[str, str]:
        """Return the cached answers."""
        known = {} if self._store is None else self._store.get(keys)
        return {key: answer.decode() for key, answer in known.items()}

    def put(self, key: str, answer: str) -> None:
        """Store an answer."""
        if self._store is not None:
            self._store.put({key: answer.encode("utf-8", "replace")})


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wiesel"


def _response_error(error: urllib.error.HTTPError) -> _RequestError:
    """The fault behind a status that is not 200, with what the service says about it."""
    with error:  # it holds the connection
        body = error.read(200).decode("utf-8", "replace").strip()
    retry_after = error.headers.get("Retry-After", "")
    wait = float(retry_after) if re.fullmatch("[0-9]+", retry_after) else 0.0
    return _RequestError(
        f"HTTP {error.code} {error.reason} {body}".strip(), error.code in _RETRIED, wait
    )


def _content(payload: bytes) -> str:
    """The text of the first choice of a chat completion."""
    try:
        content = json.loads(payload)["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise _RequestError(f"this is not a chat completion: {payload[:80]!r}") from error
    return str(content or "")
