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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from wiesel.lfs.chat import OPTIONAL, Completion, NotACompletion, Question, request_body

if TYPE_CHECKING:
    from wiesel.lfs.chat import ChatClient

__all__ = ["ChatError", "Pace", "retry_after", "send"]


_MOMENT = 0.1
"""Seconds between two looks at whether all work was stopped."""


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
                self._changed.wait(min(wait, _MOMENT) if wait > 0 else _MOMENT)
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
