"""Distributes the rows of a batch, piece by piece, to this process and to workers."""

import threading
import time
from collections.abc import Callable, Sequence

from wiesel.lfs.batch import Batch
from wiesel.lfs.column_votes import ColumnVotes, join_columns
from wiesel.lfs.function import LabelingFunction

__all__ = ["Pace", "Piece", "Share", "Vote"]

Piece = tuple[int, int]
"""The first row of a piece, and its number of rows."""
Vote = Callable[[int, int], list[ColumnVotes]]
"""Returns the votes on a piece."""

_PIECE_SECONDS = 0.2
"""The target time per piece: long compared with the cost of sending it, but short to wait for."""


_POLL_SECONDS = 0.1
"""Seconds between two checks for Ctrl-C."""


class Pace:
    """The number of rows per piece, adapted to the time that the last piece took.

    >>> pace = Pace(100)
    >>> pace.note(100, seconds=0.1)
    >>> pace.rows
    200
    """

    def __init__(self, first_rows: int) -> None:
        self.rows = first_rows

    def note(self, n_rows: int, seconds: float) -> None:
        """Record the size and the time of a piece."""
        fitting = int(_PIECE_SECONDS * n_rows / max(seconds, 1e-9))
        self.rows = max(1, min(fitting, 8 * self.rows))


class Share:
    """Hands out the rows of a batch in pieces and collects the votes.

    A worker that is done takes the next piece. Pieces get smaller towards the end of all rows, so
    that the work is balanced.
    """

    def __init__(
        self, lfs: Sequence[LabelingFunction], batch: Batch, first_rows: int, n_takers: int
    ) -> None:
        self.lfs = tuple(lfs)
        self.batch = batch
        self.first_rows = first_rows
        self.n_takers = n_takers
        self.problem: BaseException | None = None
        self.dangerous = False
        """Whether a worker has died. This process then takes no more rows: one might crash it."""
        self._results: dict[int, tuple[int, list[ColumnVotes]]] = {}
        self._next = 0
        self._n_helpers = 0
        self._changed = threading.Condition()

    @property
    def remaining(self) -> int:
        """The number of rows that no worker has taken yet."""
        return len(self.batch) - self._next

    def take(self, wanted: int) -> Piece | None:
        """Return the next piece; None at the end."""
        with self._changed:
            if self.problem is not None or not self.remaining:
                return None
            # A finished worker continues with the next batch, so only the last one is cut finely.
            to_share = len(self.batch) if self.batch.ahead else self.remaining
            fair = max(self.first_rows, -(-to_share // (2 * self.n_takers)))
            first, count = self._next, min(wanted, fair, self.remaining)
            self._next += count
            return first, count

    def put(self, piece: Piece, votes: list[ColumnVotes]) -> None:
        """Store the votes on a piece."""
        with self._changed:
            self._results[piece[0]] = piece[1], votes
            self._changed.notify_all()

    def work(self, vote: Vote, goes_on: Callable[[int, float], bool] | None = None) -> bool:
        """Vote on pieces until none is left or `goes_on` is false; return whether none is left.

        `goes_on` is called with the size of each piece and the seconds it took.
        """
        pace = Pace(self.first_rows)
        while not self._is_for_others and (piece := self.take(pace.rows)):
            started = time.perf_counter()
            self.put(piece, vote(*piece))
            seconds = time.perf_counter() - started
            pace.note(piece[1], seconds)
            if goes_on is not None and not goes_on(piece[1], seconds):
                return not self.remaining
        return True

    @property
    def _is_for_others(self) -> bool:
        return self.dangerous and bool(self._n_helpers)

    def enter(self) -> None:
        """Count a helper that will take pieces."""
        with self._changed:
            self._n_helpers += 1

    def leave(self) -> None:
        """Count a helper that will take no more pieces."""
        with self._changed:
            self._n_helpers -= 1
            self._changed.notify_all()

    def stop(self, problem: BaseException) -> None:
        """Hand out no more rows, and keep the problem for the waiting thread."""
        with self._changed:
            self.problem = self.problem or problem
            self._changed.notify_all()

    @property
    def complete(self) -> bool:
        """Whether all rows have been voted on."""
        return self._n_done == len(self.batch)

    @property
    def _n_done(self) -> int:
        return sum(count for count, _ in self._results.values())

    def votes(self) -> list[ColumnVotes]:
        """Wait for all workers and return the votes, or raise a worker's problem."""
        with self._changed:
            # Once Polars is imported, Ctrl-C does not interrupt a wait without a timeout.
            while not self._changed.wait_for(self._is_over, timeout=_POLL_SECONDS):
                pass
        if self.problem is not None:
            raise self.problem
        pieces = [self._results[first] for first in sorted(self._results)]
        sizes = [count for count, _ in pieces]
        by_lf = zip(*(votes for _, votes in pieces), strict=True)
        return [join_columns(parts, sizes) for parts in by_lf]

    def _is_over(self) -> bool:
        nobody_takes = not self.remaining or not self._n_helpers
        return self.problem is not None or (nobody_takes and self._n_done == self._next)
