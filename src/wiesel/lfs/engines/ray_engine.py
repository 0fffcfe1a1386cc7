"""The Ray engine: the machines of a cluster vote on pieces of Parquet files."""

import json
import logging
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from wiesel.errors import Argument, DataError, LabelingFunctionError, ParameterError
from wiesel.io import FilePath, VoteParts, explained, scan_rows
from wiesel.io.files import appearing_folder
from wiesel.io.ray_session import load_ray, ray_session
from wiesel.lfs.engines.local import Engine, Job
from wiesel.lfs.engines.pieces import (
    Piece,
    Record,
    Task,
    cut,
    delivered,
    task_of,
    vote_on_piece,
    votes_in,
)
from wiesel.lfs.engines.pool import DeathSearch, WorkerDied
from wiesel.lfs.engines.worker import error_message, error_of_message
from wiesel.lfs.failures import Failure
from wiesel.parameters import check_number
from wiesel.votes import VoteMatrix

__all__ = ["PieceJob", "RayEngine", "RayTasks", "done_here", "done_on_ray"]

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
_RETRIES = 10
"""The number of times a piece is started again after its machine was lost."""


class RayEngine(Engine):
    """Applies labeling functions with Ray; rows are Parquet files that all machines can open.

    This process reads only the file footers and splits the rows into parts. The machines read the
    rows, vote, and return the votes or write them (`write`), so no process keeps more than one part
    in memory. A part whose machine is lost is retried elsewhere, with at most three attempts. After
    that, the rows that crash the process are located and reported or set aside (`on_error`).
    `address` is the address of a cluster. Without it, the program's existing connection is used,
    or a cluster on this machine.

    >>> RayEngine(address="auto", part_rows=20_000)
    RayEngine(address='auto', part_rows=20000)
    """

    def __init__(self, address: str | None = None, part_rows: int | None = None) -> None:
        if part_rows is not None:
            check_number(self, "part_rows", part_rows, low=1, whole=True)
        self.address = address
        self.part_rows = part_rows

    def __repr__(self) -> str:
        return f"RayEngine(address={self.address!r}, part_rows={self.part_rows!r})"

    def apply(self, job: Job) -> VoteMatrix:
        """Return the votes of all labeling functions on all rows."""
        return VoteMatrix.concatenate([votes_in(record) for record in self._records(job)])

    def write(self, job: Job, folder: FilePath) -> VoteParts:
        """Let the machines write the votes to files in a new folder that all of them can access.

        The folder appears once all parts are complete.
        """
        with appearing_folder(folder) as unfinished:
            for _ in self._records(job, unfinished):
                pass
            for leftover in unfinished.glob(".part-*"):  # from a lost machine
                leftover.unlink()
        return VoteParts(folder)

    def _records(self, job: Job, folder: Path | None = None) -> Iterator[Record]:
        """Yield the record of every piece, in order; raise the error that stops the job."""
        load_ray()
        if job.cache is not None:
            raise ParameterError(
                "The Ray engine has no cache, as its machines share no file that all of them can "
                "write at once. Leave cache out, or use ",
                Argument("engine", "local"),
                "; to keep votes, write them with apply_lfs_to_folder.",
            )
        pieces = cut(job.source, self.part_rows or job.batch_rows)
        task = task_of(job, folder)
        with ray_session(self.address) as ray:
            for piece, record in zip(pieces, RayTasks(ray, task, job).run(pieces), strict=True):
                if record["number"] != piece["number"]:
                    raise LabelingFunctionError(
                        f"Ray gave part {record['number']} in the place of part {piece['number']}."
                    )
                report = json.loads(record["report"])
                if "error" in report:
                    raise error_of_message(report)
                job.report(Failure(**failure) for failure in report["failures"])
                yield record


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

        def report_death(row: int, place: int, reason: str) -> None:
            item = f"row {piece['start'] + row}"
            if self._task["id_column"] is not None:
                # All labeling functions are skipped: only the id is read.
                (own,) = vote(row, 1, tuple(range(len(self._job.lfs)))).ids.tolist()
                item += f" (id {own!r})"
            failure = Failure(self._job.lfs[place].name, item, reason)
            if self._job.stop_at_failure:
                raise failure.error()
            failures.append(failure)

        parts = DeathSearch(vote, len(self._job.lfs), report_death).votes(0, piece["count"])
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


class PieceJob(Protocol):
    """The work to do on every piece. Each process of the cluster gets one copy."""

    columns: list[str] | None
    """The columns to read; None for all."""

    def __call__(self, piece: Piece, rows: pl.DataFrame) -> bytes:
        """Process the rows of a piece and return the result for the calling process.

        A piece whose machine is lost is processed again, so the call must be idempotent.
        """


def done_here(job: PieceJob, pieces: Sequence[Piece]) -> Iterator[bytes]:
    """Process every piece in this process and yield the results."""
    for piece in pieces:
        yield job(piece, _rows_of(piece, job.columns))


def done_on_ray(
    job: PieceJob, pieces: Sequence[Piece], address: str | None = None
) -> Iterator[bytes]:
    """Process every piece on a cluster and yield each result once, in any order."""
    with ray_session(address) as ray:
        task = ray.remote(max_retries=_RETRIES, scheduling_strategy="SPREAD")(_done_there)
        sent = [ray.put(job)]  # in a list, or Ray would hand every task a copy of the job
        waiting = deque(pieces)
        under_way: list[Any] = []
        try:
            while waiting or under_way:
                room = _AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
                while waiting and len(under_way) < room:
                    under_way.append(task.remote(waiting.popleft(), sent))
                ready, under_way = ray.wait(under_way, timeout=_POLL_SECONDS)
                for content, problem in ray.get(ready):
                    if problem:
                        raise error_of_message(problem)
                    yield content
        except ray.exceptions.RayError as error:
            reason = str(error).splitlines()[0]
            raise DataError(
                f"Ray could not process a part of the rows, in {_RETRIES + 1} attempts: {reason} "
                "Does a process there run out of memory? Write the rows to more, smaller files."
            ) from error
        finally:
            for unfinished in under_way:
                ray.cancel(unfinished, force=True)


def _done_there(piece: Piece, sent: list[Any]) -> tuple[bytes, dict[str, str]]:
    """Process a piece in a process of the cluster.

    A problem is returned rather than raised, so that it reaches the user unchanged.
    """
    try:
        job = _received(sent[0])
        return job(piece, _rows_of(piece, job.columns)), {}
    except Exception as error:  # noqa: BLE001 - it is sent, and raised on the other side
        return b"", error_message(error)


@lru_cache(maxsize=1)
def _received(job: Any) -> PieceJob:
    """The job, fetched once per process: it may keep what it has loaded, such as a model."""
    import ray

    found: PieceJob = ray.get(job)
    return found


def _rows_of(piece: Piece, columns: list[str] | None) -> pl.DataFrame:
    with explained(piece["file"]):
        rows = scan_rows(piece["file"], columns).slice(piece["first"], piece["count"]).collect()
        if len(rows) != piece["count"]:
            raise DataError(f"{piece['file']} has changed: it has fewer rows than before.")
    return rows
