"""Votes in many files, summed by the machines of a Ray cluster."""

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from wiesel.errors import WieselError
from wiesel.io.files import FilePath
from wiesel.io.ray_session import ray_session
from wiesel.io.vote_parts import VoteParts, sum_files
from wiesel.votes import Add, Statistics, VoteMatrix, add_statistics

__all__ = ["RayVoteParts"]

_RETRIES = 10
"""The number of times a sum is restarted after its machine was lost."""


class RayVoteParts(VoteParts):
    """Votes in files that every machine of a Ray cluster can read; each machine sums some of them.

    Only the sums are sent. A label model needs many sums, so connect first with
    `ray.init(address=...)`; otherwise every sum opens a new connection.

    >>> import tempfile, pathlib
    >>> from wiesel.io import write_votes
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> write_votes(votes, folder / "part-0.parquet")
    >>> RayVoteParts(folder)
    RayVoteParts(1 parts, 4 items x 3 voters, 2 classes)
    """

    def __init__(self, files: FilePath | Sequence[FilePath], address: str | None = None) -> None:
        super().__init__(files)
        self.files = tuple(file.resolve() for file in self.files)  # workers start in another folder
        self.address = address

    def sum(
        self, statistic: Callable[[VoteMatrix], Statistics], add: Add = add_statistics
    ) -> Statistics:
        """Return the sum of `statistic(part)` over all parts."""
        with ray_session(self.address) as ray:
            task = ray.remote(max_retries=_RETRIES)(sum_files)
            shared, adding = ray.put(statistic), ray.put(add)
            n_tasks = int(ray.cluster_resources().get("CPU", 1))
            started = [task.remote(files, shared, adding) for files in _groups(self.files, n_tasks)]
            sums = (_fetched(ray, each) for each in started)
            # Ray returns read-only arrays, but callers may modify their sums.
            first = tuple(np.array(array) for array in next(sums))
            return reduce(add, sums, first)


def _groups(files: Sequence[Path], n_groups: int) -> list[tuple[Path, ...]]:
    """Groups of consecutive files of about equal size."""
    edges = np.linspace(0, len(files), min(max(1, n_groups), len(files)) + 1).astype(int)
    return [tuple(files[start:end]) for start, end in pairwise(edges)]


def _fetched(ray: Any, task: Any) -> Statistics:
    try:
        return ray.get(task)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, WieselError):
            raise error.cause from None
        raise
