"""Measures the time of each labeling function, to name slow ones."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["Clock", "timed", "timing"]

_NOTABLE_SECONDS, _NOTABLE_SHARE = 1.0, 0.3


class Clock:
    """Counts the seconds of each labeling function that runs in this process.

    >>> clock = Clock()
    >>> clock.add("asks_a_server", 9.0)
    >>> clock.add("length", 1.0)
    >>> clock.slowest()
    "slowest: 'asks_a_server' with 90 % of the time"
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.starting: Callable[[str], None] | None = None
        """Receives the name of each labeling function when it starts on some rows."""

    def add(self, name: str, seconds: float) -> None:
        """Count the time of a labeling function."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    def slowest(self) -> str:
        """Return which functions are slow, in a sentence; empty if none is."""
        total = sum(self.seconds.values())
        if len(self.seconds) < 2 or total < _NOTABLE_SECONDS:
            return ""
        name = max(self.seconds, key=self.seconds.__getitem__)
        share = self.seconds[name] / total
        if share < _NOTABLE_SHARE:
            return ""
        return f"slowest: {name!r} with {100 * share:.0f} % of the time"


_CLOCK: ContextVar[Clock | None] = ContextVar("clock", default=None)


@contextmanager
def timing() -> Iterator[Clock]:
    """Yield a clock for the block; the active clock, if there is one."""
    running = _CLOCK.get()
    if running is not None:
        yield running
        return
    clock = Clock()
    token = _CLOCK.set(clock)
    try:
        yield clock
    finally:
        _CLOCK.reset(token)


@contextmanager
def timed(name: str) -> Iterator[None]:
    """Count the time of the block for a labeling function, if a clock is active."""
    clock = _CLOCK.get()
    if clock is None:
        yield
        return
    if clock.starting is not None:
        clock.starting(name)
    start = time.perf_counter()
    try:
        yield
    finally:
        clock.add(name, time.perf_counter() - start)
