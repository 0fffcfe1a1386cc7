"""The record of a labeling function that failed on a row."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from typing import Any

from wiesel.errors import Advice, Argument, LabelingFunctionError, WieselWarning

__all__ = [
    "Clock",
    "Failure",
    "FailureLog",
    "LabelingFunctionWarning",
    "shortened_row",
    "timed",
    "timing",
]

_EXAMPLES = 3
_VALUE_WIDTH = 80
_ROW_WIDTH = 400
_NOTABLE_SECONDS, _NOTABLE_SHARE = 1.0, 0.3


@dataclass(frozen=True)
class Failure:
    """One row on which one labeling function failed and so abstains."""

    lf: str
    """The name of the labeling function."""
    item: str
    """The row as a message names it: `row 3`, or `row 3 (id 'm17')`."""
    reason: str
    """What went wrong, such as `KeyError: 'txt'`."""
    row: str = ""
    """The row, shortened."""
    stops: bool = True
    """Whether it stops the job with `on_error="raise"`; an unreadable prompt answer does not."""
    kind: str = ""
    """Why the answer to a prompt gives no vote: `negation`, `refusal`, `unfinished`, `several` or
    `nothing`."""

    def __str__(self) -> str:
        return self.sentence("failed on")

    def sentence(self, verb: str, reason: str = "") -> str:
        """Return the failure as a sentence, with the row."""
        why = reason or self.reason
        why = why if why.endswith("?") else f"{why.removesuffix('.')}."
        return f"{self.lf!r} {verb} {self.item}: {why}{f' The row: {self.row}' * bool(self.row)}"

    def error(self) -> LabelingFunctionError:
        """Return the error for this failure, with advice."""
        error = LabelingFunctionError(
            f"{self} Fix it, or use ",
            Argument("on_error", "abstain"),
            " to go on without its vote there.",
        )
        error.failure = self
        return error

    def to_dict(self) -> dict[str, Any]:
        """Return the failure as plain data."""
        return asdict(self)


class LabelingFunctionWarning(WieselWarning):
    """Some labeling functions abstained because they failed; `failures` has every one."""

    def __init__(self, *parts: object, failures: tuple[Failure, ...] = ()) -> None:
        super().__init__(*parts)
        self.failures = failures


@dataclass(eq=False)
class FailureLog:
    """Collects the failures of a run: `apply_lfs(..., on_error=log)` abstains and fills it.

    >>> log = FailureLog()
    >>> log.add([Failure("broken", "row 0", "KeyError: 'txt'")])
    >>> log.counts
    {'broken': 1}
    >>> print(log)
    'broken' failed on 1 row, for instance row 0: KeyError: 'txt'.
    """

    failures: list[Failure] = field(default_factory=list)

    def add(self, failures: Iterable[Failure]) -> None:
        """Add failures."""
        self.failures.extend(failures)

    @property
    def counts(self) -> dict[str, int]:
        """How many rows each labeling function failed on."""
        return dict(Counter(failure.lf for failure in self.failures))

    @property
    def kinds(self) -> dict[str, dict[str, int]]:
        """How many answers each prompt could not use, by the reason."""
        found: dict[str, dict[str, int]] = {}
        for failure in self.failures:
            if failure.kind:
                own = found.setdefault(failure.lf, {})
                own[failure.kind] = own.get(failure.kind, 0) + 1
        return found

    def examples(self, lf: str, limit: int = _EXAMPLES) -> list[Failure]:
        """Return the first failures of one labeling function, one for each reason first."""
        own = [failure for failure in self.failures if failure.lf == lf]
        by_reason = {failure.reason: failure for failure in reversed(own)}
        kinds = list(reversed(by_reason.values()))
        return (kinds + [failure for failure in own if failure not in kinds])[:limit]

    def __str__(self) -> str:
        return "\n".join(self._sentence(lf, count) for lf, count in self.counts.items())

    def _sentence(self, lf: str, count: int) -> str:
        shown = "; ".join(f"{each.item}: {each.reason}" for each in self.examples(lf))
        rows = "1 row" if count == 1 else f"{count:,} rows"
        why = ", ".join(f"{n:,} {kind}" for kind, n in self.kinds.get(lf, {}).items())
        return f"{lf!r} failed on {rows}{f' ({why})' if why else ''}, for instance {shown}."

    def warning(self) -> LabelingFunctionWarning:
        """Return the warning that gives counts and examples."""
        return LabelingFunctionWarning(
            f"{self}\nThey abstain there.",
            Advice(" Pass on_error=FailureLog() to collect every failure."),
            failures=tuple(self.failures),
        )


def shortened_row(row: Mapping[str, Any]) -> str:
    """Return a row for a message, with long values truncated.

    >>> shortened_row({"id": 7, "text": "free " * 100})
    "{'id': 7, 'text': 'free free ... free free '}"
    """
    shown = ", ".join(f"{name!r}: {_shortened(value)}" for name, value in row.items())
    return f"{{{shown if len(shown) <= _ROW_WIDTH else shown[:_ROW_WIDTH] + '…'}}}"


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _VALUE_WIDTH else f"{text[: _VALUE_WIDTH - 20]}…{text[-19:]}"


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
