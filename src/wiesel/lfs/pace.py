"""How many requests a server gets at once: fewer when it complains, more when it answers."""

import math
import re
import threading
import time
from collections.abc import Mapping
from email.message import Message
from email.utils import parsedate_to_datetime

__all__ = ["Pace", "retry_after"]

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
