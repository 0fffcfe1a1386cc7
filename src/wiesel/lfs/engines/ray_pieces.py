"""Processes the rows of many Parquet files, piece by piece, on the machines of a Ray cluster.

Workers read the rows themselves; only row ranges and results are sent.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Protocol

import polars as pl

from wiesel.errors import DataError
from wiesel.io import explained, scan_rows
from wiesel.io.ray_session import ray_session
from wiesel.lfs.engines.pieces import Piece
from wiesel.lfs.engines.worker import error_message, error_of_message

__all__ = ["PieceJob", "done_here", "done_on_ray"]

_RETRIES = 10
"""The number of times a piece is started again after its machine was lost."""
_AHEAD = 2
"""Pieces per core of the cluster that are running or wait for a core."""
_POLL_SECONDS = 0.2
"""Seconds between two checks for Ctrl-C."""


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
