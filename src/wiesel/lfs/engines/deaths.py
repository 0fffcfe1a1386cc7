"""Finds rows that end the voting process, by bisection, and sets them aside.

Every engine that starts processes uses it. Each death (a crash, or no answer in time) costs one
process start, so the number of deaths is bounded.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from wiesel.errors import LabelingFunctionError

__all__ = ["DeathSearch", "WorkerDied", "WorkerTooSlow"]

Votes = TypeVar("Votes")
Vote = Callable[[int, int, tuple[int, ...]], Votes]
"""Votes on `count` rows starting at `first`, without the skipped labeling functions."""
Found = Callable[[int, int, str], None]
"""Called with a row, the labeling function that fails on it, and the reason."""

_MOST_DEATHS = 40
"""The maximum per piece: enough for a few bad rows among thousands."""


class WorkerDied(Exception):
    """A process ended while it voted; the message gives the cause."""

    @property
    def reason(self) -> str:
        """What the labeling function did, for messages."""
        return f"it ended its process ({self})"

    @property
    def advice(self) -> str:
        """What to do if it happens again and again."""
        return (
            f"Worker processes keep crashing ({self}), so this stops here. Is there too little "
            "memory, or does a labeling function crash on many rows?"
        )


class WorkerTooSlow(WorkerDied):
    """A process was killed because it did not answer in time."""

    def __init__(self, timeout: float) -> None:
        super().__init__(f"no answer within {timeout:g} s")

    @property
    def reason(self) -> str:
        """What the labeling function did, for messages."""
        return str(self)

    @property
    def advice(self) -> str:
        """What to do if it happens again and again."""
        return (
            f"Labeling functions give {self} again and again, so this stops here. Is the timeout "
            "too short, or does a labeling function never end on many rows?"
        )


class DeathSearch(Generic[Votes]):
    """Collects votes on rows even if some of them end the voting process.

    >>> def vote(first, count, skipped):
    ...     if first <= 5 < first + count and 1 not in skipped:
    ...         raise WorkerDied("exit code 3")
    ...     return list(range(first, first + count))
    >>> found = []
    >>> search = DeathSearch(vote, n_lfs=2, found=lambda *what: found.append(what))
    >>> search.votes(0, 8)
    [([0, 1, 2, 3], 4), ([4], 1), ([5], 1), ([6, 7], 2)]
    >>> found
    [(5, 1, 'it ended its process (exit code 3)')]
    """

    def __init__(
        self, vote: Vote[Votes], n_lfs: int, found: Found, most_deaths: int = _MOST_DEATHS
    ) -> None:
        self._vote = vote
        self._n_lfs = n_lfs
        self._found = found
        self._deaths_left = most_deaths

    def votes(self, first: int, count: int) -> list[tuple[Votes, int]]:
        """Return the votes in parts, each with its number of rows."""
        reason = ""
        try:
            return [(self._attempt(first, count, ()), count)]
        except WorkerDied as death:
            reason = death.reason
        if count > 1:
            return self._halves(first, count)
        return [(self._row(first, reason), 1)]

    def _halves(self, first: int, count: int) -> list[tuple[Votes, int]]:
        half = count // 2
        deaths_left = self._deaths_left
        votes = self.votes(first, half)
        harmless = self._deaths_left == deaths_left
        # If the first half is harmless, the other one is not: do not wait for its death again. A
        # single row is tried, because a process may have died of something else.
        search = self._halves if harmless and count - half > 1 else self.votes
        return votes + search(first + half, count - half)

    def _row(self, row: int, reason: str) -> Votes:
        """The votes on a row by the labeling functions that do not end their process."""
        everyone = range(self._n_lfs)
        alone = [tuple(k for k in everyone if k != own) for own in everyone]
        deadly = [k for k in everyone if self._n_lfs == 1 or self._dies(row, alone[k])]
        if not deadly or (len(deadly) < self._n_lfs and self._dies(row, tuple(deadly))):
            deadly = list(everyone)
        for lf in deadly:
            self._found(row, lf, reason)
        return self._attempt(row, 1, tuple(deadly))

    def _dies(self, row: int, skipped: tuple[int, ...]) -> bool:
        try:
            self._attempt(row, 1, skipped)
        except WorkerDied:
            return True
        return False

    def _attempt(self, first: int, count: int, skipped: tuple[int, ...]) -> Votes:
        try:
            return self._vote(first, count, skipped)
        except WorkerDied as death:
            self._deaths_left -= 1
            if self._deaths_left < 0:
                raise LabelingFunctionError(death.advice) from None
            raise
