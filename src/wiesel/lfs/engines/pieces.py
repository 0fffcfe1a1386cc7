"""Splits the rows of Parquet files into pieces that machines vote on independently."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypedDict

import polars as pl

from wiesel.errors import Argument, DataError, LabelingFunctionError, listed
from wiesel.io import explained, matching_files, scan_rows, write_votes
from wiesel.io.vote_files import votes_as_bytes, votes_of_bytes
from wiesel.labels import LabelSpace
from wiesel.lfs.batch import Batch, RowSource
from wiesel.lfs.engines.local import Job, LocalEngine
from wiesel.lfs.engines.portable import is_portable, pack_lfs, unpack_lfs
from wiesel.lfs.engines.worker import error_message, vote_on_batch
from wiesel.lfs.failures import Failure, FailureLog
from wiesel.lfs.function import LabelingFunction
from wiesel.votes import VoteMatrix

__all__ = [
    "Piece",
    "Record",
    "Task",
    "cut",
    "delivered",
    "part_name",
    "task_of",
    "vote_on_piece",
    "votes_in",
]


class Piece(TypedDict):
    """Some rows of one file."""

    number: int
    file: str
    first: int
    """The first row, counted within the file."""
    count: int
    start: int
    """The number of rows before it in all files."""


class Task(TypedDict):
    """What all pieces share, as plain data, so that no user objects are pickled."""

    lfs: str
    fingerprints: list[str]
    labels: list[str]
    id_column: str | None
    columns: list[str] | None
    stop_at_failure: bool
    search_path: list[str]
    """The module search path of the main process."""
    folder: str | None
    """The folder the votes are written to; None returns them instead."""
    skipped: list[int]
    """The indices of labeling functions that abstain without being run."""
    timeout: float | None


class Record(TypedDict):
    """The result for one piece."""

    number: int
    votes: bytes
    """The content of a vote file; empty if the votes were written to the folder."""
    report: str
    """JSON with `failures`, or with `error` and `message`."""


def cut(source: RowSource, size: int) -> list[Piece]:
    """Return the rows of Parquet files in pieces of at most `size` rows.

    No piece spans two files. Only the file footers are read.
    """
    pieces: list[Piece] = []
    start = 0
    for file, n_rows in _sizes(source):
        for first in range(0, n_rows, size):
            count = min(size, n_rows - first)
            pieces.append(
                Piece(number=len(pieces), file=file, first=first, count=count, start=start + first)
            )
        start += n_rows
    if not pieces:
        raise DataError(f"{source.path} has columns but no rows.")
    return pieces


def _sizes(source: RowSource) -> Iterator[tuple[str, int]]:
    path = source.path
    files = [] if path is None else matching_files(path)
    if not files or files[0].suffix.lower() != ".parquet":
        given = type(source.rows).__name__ if path is None else str(path)
        raise DataError(
            f"The Ray engine reads Parquet files that every machine can open; got {given}. "
            "Write the rows with wiesel.io.write_rows(rows, 'rows.parquet') and give that path, "
            "or use ",
            Argument("engine", "local"),
            ".",
        )
    scan_rows(path, source.needed)  # type: ignore[arg-type]  # refuses missing columns
    for file in files:
        with explained(file):
            yield str(file.resolve()), _n_rows(file)


def _n_rows(file: Path) -> int:
    return int(pl.scan_parquet(file, glob=False).select(pl.len()).collect().item())


def task_of(job: Job, folder: Path | None = None) -> Task:
    """Return the job as plain data. The error names a labeling function that cannot be sent."""
    staying = [lf.name for lf in job.lfs if not is_portable(lf)]
    if staying:
        raise LabelingFunctionError(
            f"{listed(staying)} cannot be sent to other machines, because of what they refer to. "
            "Define them in a .py file that every machine can open and load it with load_lfs, "
            "without open files, locks or loaded models; or use ",
            Argument("engine", "local"),
            ".",
        )
    return Task(
        lfs=pack_lfs(job.lfs),
        fingerprints=list(job.fingerprints),
        labels=list(job.labels),
        id_column=job.source.id_column,
        columns=job.source.needed or None,
        stop_at_failure=job.stop_at_failure,
        search_path=[place or os.getcwd() for place in sys.path],
        folder=None if folder is None else str(folder.resolve()),
        skipped=[],
        timeout=job.timeout,
    )


def vote_on_piece(piece: Piece, task: Task) -> Record:
    """Vote on a piece, and return or write the votes. A repeated call writes the same file.

    A problem is recorded rather than raised, so that it reaches the user unchanged.
    """
    try:
        votes, failures = _votes_on(piece, task)
        report: dict[str, Any] = {"failures": [failure.to_dict() for failure in failures]}
        content = delivered(votes, piece["number"], task["folder"])
    except Exception as error:  # noqa: BLE001 - it is sent, and raised on the other side
        report, content = dict(error_message(error)), b""
    return Record(number=piece["number"], votes=content, report=json.dumps(report))


def _votes_on(piece: Piece, task: Task) -> tuple[VoteMatrix, list[Failure]]:
    lfs = _loaded(task["lfs"], tuple(task["fingerprints"]), tuple(task["search_path"]))
    with explained(piece["file"]):
        rows = scan_rows(piece["file"], task["columns"])
        frame = rows.slice(piece["first"], piece["count"]).collect()
        if len(frame) != piece["count"]:
            raise DataError(f"{piece['file']} has changed: it has fewer rows than before.")
    batch = Batch(frame, piece["start"], task["id_column"], task["stop_at_failure"])
    labels = LabelSpace(*task["labels"])
    if task["timeout"] is not None:
        # A process of its own, because Ray does not say why one of its processes has ended.
        source = RowSource(frame, task["id_column"])
        stop_at_failure, log = task["stop_at_failure"], FailureLog()
        job = Job(tuple(lfs), source, labels, None, stop_at_failure, log, task["timeout"])
        return LocalEngine(workers=1).vote_on(job, [batch], task["skipped"]), log.failures
    return vote_on_batch(lfs, batch, labels, task["skipped"])


@lru_cache(maxsize=4)
def _loaded(
    packed: str, fingerprints: tuple[str, ...], search_path: tuple[str, ...]
) -> Sequence[LabelingFunction]:
    """The labeling functions of a task, loaded once per process."""
    sys.path.extend(place for place in search_path if place not in sys.path)
    try:
        lfs = unpack_lfs(packed)
    except Exception as error:
        raise LabelingFunctionError(
            f"The labeling functions cannot be loaded on another machine: {error}. The files and "
            "modules they come from must be there too."
        ) from error
    if tuple(lf.fingerprint for lf in lfs) != fingerprints:
        raise LabelingFunctionError(
            "The labeling functions are not the same on another machine: "
            "its copy of the files they come from differs."
        )
    return lfs


def delivered(votes: VoteMatrix, number: int, folder: str | None) -> bytes:
    """Write votes to the folder, or return them as bytes if there is no folder."""
    if folder is not None:
        write_votes(votes, Path(folder) / part_name(number), layout="list")
        return b""
    return votes_as_bytes(votes)


def part_name(number: int) -> str:
    """Return the file name for the votes on a piece; names sort like numbers.

    >>> part_name(7)
    'part-00000007.parquet'
    """
    return f"part-{number:08}.parquet"


def votes_in(record: Record) -> VoteMatrix:
    """Return the votes in a record."""
    return votes_of_bytes(record["votes"])
