"""Runs pieces of rows as Ray tasks: results in order, with a limited number of logged retries.

Ray itself would retry a crashed task silently and without limit, so its retries are turned off.
"""

import json
import logging
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import Any

from wiesel.errors import LabelingFunctionError
from wiesel.lfs.engines.base import Job
from wiesel.lfs.engines.deaths import DeathSearch, WorkerDied
from wiesel.lfs.engines.pieces import Piece, Record, Task, delivered, vote_on_piece, votes_in
from wiesel.lfs.engines.worker import error_of_message
from wiesel.lfs.failures import Failure
from wiesel.votes import VoteMatrix

__all__ = ["RayTasks"]

_ATTEMPTS = 3
"""Attempts at a piece before the search for the rows that crash it."""
_AHEAD = 2
"""Pieces per core of the cluster that are running or wait for an earlier one."""
_POLL_SECONDS = 0.2
"""Seconds between two checks for Ctrl-C."""
_LOST = (
    "LocalRayletDiedError",
    "NodeDiedError",
    "ObjectLostError",
    "OutOfMemoryError",
    "OwnerDiedError",
    "WorkerCrashedError",
)
"""The errors that Ray raises when a process or a machine is lost."""

_log = logging.getLogger(__name__)


class RayTasks:
    """Votes on pieces with a cluster."""

    def __init__(self, ray: Any, task: Task, job: Job) -> None:
        self._ray = ray
        self._task = task
        self._job = job
        self._shared_task = ray.put(task)
        options = {"max_retries": 0, "scheduling_strategy": "SPREAD"}
        self._vote = ray.remote(**options)(vote_on_piece)
        self._lost = tuple(getattr(ray.exceptions, name) for name in _LOST)
        self._attempts: Counter[int] = Counter()

    def run(self, pieces: Sequence[Piece]) -> Iterator[Record]:
        """Yield the record of every piece, in order."""
        waiting: deque[Piece] = deque(pieces)
        under_way: dict[Any, Piece] = {}
        done: dict[int, Record] = {}
        place = 0
        try:
            while place < len(pieces):
                # A retried piece must start at once, because all later results wait for it.
                while waiting and (not under_way or len(under_way) + len(done) < self._room()):
                    piece = waiting.popleft()
                    under_way[self._vote.remote(piece, self._shared_task)] = piece
                for task in self._ready(list(under_way)):
                    piece = under_way.pop(task)
                    record = self._record(piece, task)
                    if record is None:
                        waiting.appendleft(piece)
                    else:
                        done[record["number"]] = record
                while place in done:
                    yield done.pop(place)
                    place += 1
        finally:
            for task in under_way:
                self._ray.cancel(task, force=True)

    def _room(self) -> int:
        """The number of pieces that may be running or wait for an earlier one."""
        return max(1, _AHEAD * int(self._ray.cluster_resources().get("CPU", 1)))

    def _ready(self, tasks: list[Any]) -> list[Any]:
        if not tasks:
            return []
        ready, _ = self._ray.wait(tasks, timeout=_POLL_SECONDS)
        return list(ready)

    def _record(self, piece: Piece, task: Any) -> Record | None:
        """The record of a piece; None if it must be retried."""
        try:
            return self._fetched(task)
        except WorkerDied as death:
            self._attempts[piece["number"]] += 1
            n_attempts = self._attempts[piece["number"]]
            again = (
                "are looked at more closely" if n_attempts >= _ATTEMPTS else "are voted on again"
            )
            _log.warning(
                "A process of Ray ended while it voted on %s, attempt %d of %d (%s); they %s.",
                _rows(piece), n_attempts, _ATTEMPTS, death, again,
            )  # fmt: skip
            return self._searched(piece) if n_attempts >= _ATTEMPTS else None

    def _fetched(self, task: Any) -> Record:
        while not self._ready([task]):
            pass
        try:
            record: Record = self._ray.get(task)
        except self._lost as error:
            raise WorkerDied(_short(error)) from None
        except self._ray.exceptions.RayError as error:
            raise LabelingFunctionError(f"Ray could not run a task: {_short(error)}.") from error
        return record

    def _searched(self, piece: Piece) -> Record:
        """The record of a piece in which some rows may crash the process."""
        failures: list[Failure] = []
        report: list[dict[str, Any]] = []

        def vote(first: int, count: int, skipped: tuple[int, ...]) -> VoteMatrix:
            part = Piece(**{**piece, "first": piece["first"] + first, "count": count})
            part["start"] = piece["start"] + first
            task = Task(**{**self._task, "folder": None, "skipped": list(skipped)})
            record = self._fetched(self._vote.remote(part, task))
            content = json.loads(record["report"])
            if "error" in content:
                raise error_of_message(content)
            report.extend(content["failures"])
            return votes_in(record)

        def found(row: int, place: int, reason: str) -> None:
            item = f"row {piece['start'] + row}"
            if self._task["id_column"] is not None:
                # All labeling functions are skipped: only the id is read.
                (own,) = vote(row, 1, tuple(range(len(self._job.lfs)))).ids.tolist()
                item += f" (id {own!r})"
            failure = Failure(self._job.lfs[place].name, item, reason)
            if self._job.stop_at_failure:
                raise failure.error()
            failures.append(failure)

        parts = DeathSearch(vote, len(self._job.lfs), found).votes(0, piece["count"])
        votes = VoteMatrix.concatenate([part for part, _ in parts])
        content = delivered(votes, piece["number"], self._task["folder"])
        known = {json.dumps(each): each for each in report}
        all_failures = [*known.values(), *(failure.to_dict() for failure in failures)]
        report_text = json.dumps({"failures": all_failures})
        return Record(number=piece["number"], votes=content, report=report_text)


def _rows(piece: Piece) -> str:
    return f"rows {piece['start']} to {piece['start'] + piece['count'] - 1} ({piece['file']})"


def _short(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}".rstrip(": .")
