"""The Ray engine: the machines of a cluster vote on pieces of Parquet files."""

import json
from collections.abc import Iterator
from pathlib import Path

from wiesel.errors import Argument, LabelingFunctionError, ParameterError
from wiesel.io import FilePath, VoteParts
from wiesel.io.files import appearing_folder
from wiesel.io.ray_session import load_ray, ray_session
from wiesel.lfs.engines.base import Engine, Job
from wiesel.lfs.engines.pieces import Record, cut, task_of, votes_in
from wiesel.lfs.engines.ray_tasks import RayTasks
from wiesel.lfs.engines.worker import error_of_message
from wiesel.lfs.failures import Failure
from wiesel.parameters import check_number
from wiesel.votes import VoteMatrix

__all__ = ["RayEngine"]


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
