"""Processes the rows of many Parquet files, piece by piece, on the machines of a Ray cluster.

Workers read the rows themselves; only row ranges and results are sent.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import polars as pl

from wiesel.errors import DataError, ParameterError
from wiesel.io import explained, scan_rows
from wiesel.io.ray_session import ray_session
from wiesel.lfs.engines.pieces import Piece
from wiesel.lfs.engines.worker import error_message, error_of_message

__all__ = ["PieceJob", "done_here", "done_on_ray"]


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
        from ray import data

        n_cores = max(1, int(ray.cluster_resources().get("CPU", 1)))
        done = data.from_items(list(pieces), override_num_blocks=len(pieces)).map_batches(
            PieceWorker,
            fn_constructor_args=(job,),
            batch_size=1,
            num_cpus=1,
            compute=data.ActorPoolStrategy(min_size=1, max_size=min(n_cores, len(pieces))),
        )
        numbers = set()
        for record in done.iter_rows():
            problem = json.loads(record["problem"])
            if problem:
                raise error_of_message(problem)
            if int(record["number"]) not in numbers:
                numbers.add(int(record["number"]))
                yield record["content"]
        if len(numbers) != len(pieces):
            raise ParameterError(f"Ray did {len(numbers)} of {len(pieces)} parts.")


class PieceWorker:
    """A process of the cluster that handles one piece after another."""

    def __init__(self, job: PieceJob) -> None:
        self._job = job

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        """Process the pieces of a batch. A problem is recorded, so that it arrives unchanged."""
        numbers = [int(number) for number in batch["number"]]
        contents, problems = [], []
        for k in range(len(numbers)):
            piece = Piece(
                number=numbers[k],
                file=str(batch["file"][k]),
                first=int(batch["first"][k]),
                count=int(batch["count"][k]),
                start=int(batch["start"][k]),
            )
            content = b""
            problem: dict[str, str] = {}
            try:
                content = self._job(piece, _rows_of(piece, self._job.columns))
            except Exception as error:  # noqa: BLE001 - it is sent, and raised on the other side
                problem = error_message(error)
            contents.append(content)
            problems.append(json.dumps(problem))
        return {"number": numbers, "content": contents, "problem": problems}


def _rows_of(piece: Piece, columns: list[str] | None) -> pl.DataFrame:
    with explained(piece["file"]):
        rows = scan_rows(piece["file"], columns).slice(piece["first"], piece["count"]).collect()
        if len(rows) != piece["count"]:
            raise DataError(f"{piece['file']} has changed: it has fewer rows than before.")
    return rows
