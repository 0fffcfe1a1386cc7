"""The connection to a Ray cluster (existing or temporary), and a mailbox of its processes."""

import logging
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from wiesel.errors import MissingExtraError, ParameterError, WieselError
from wiesel.io.files import FilePath
from wiesel.io.vote_parts import VoteParts, sum_files
from wiesel.votes import Add, Statistics, VoteMatrix, add_statistics

__all__ = ["Mailbox", "RayVoteParts", "load_ray", "ray_session"]

_PATIENCE = 10.0
"""Seconds to wait for a cluster to answer."""
_RETRIES = 10
"""The number of times a sum is restarted after its machine was lost."""


def load_ray() -> Any:
    """Return the package `ray`; if it is missing, the error says how to install it."""
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("Scaling out needs Ray: pip install 'wiesel[ray]'") from error
    return ray


@contextmanager
def ray_session(address: str | None = None) -> Iterator[Any]:
    """Yield the package `ray`, connected to a cluster.

    An existing connection of the program is used and left open. Otherwise a temporary one is made
    to `address` (`host:port`, `auto`, or `local` for a new cluster on this machine). Without
    `address`, it connects to the cluster in `RAY_ADDRESS`, to one that runs on this machine, or to
    a new one on this machine. Workers of a temporary connection do not import modules from the
    current folder.
    """
    ray = load_ray()
    if ray.is_initialized():
        yield ray
        return
    _connect(ray, address)
    try:
        yield ray
    finally:
        ray.shutdown()


def _connect(ray: Any, address: str | None) -> None:
    try:
        _check_reachable(address)
        with tempfile.TemporaryDirectory(prefix="wiesel-") as nothing:
            # The user's logging setup is not changed; Ray forwards what workers print.
            # Without a working_dir, Ray puts the current folder first on the search path of every
            # worker, where a polars.py among downloaded data would be imported.
            ray.init(
                address=address,
                configure_logging=False,
                logging_level=logging.WARNING,
                log_to_driver=True,
                runtime_env={"working_dir": nothing},
            )
    except OSError as error:
        raise ParameterError(
            f"There is no Ray cluster at {address!r} ({str(error).partition(chr(10))[0]}). "
            "Start one with `ray start --head`, or leave the address out."
        ) from error
    # Ray has no base class for what can go wrong here: other versions, a bad address, a time-out.
    except Exception as error:
        where = f"connect to {address!r}" if address else "start or connect"
        raise ParameterError(
            f"Ray could not {where}: {' '.join(str(error).split()):.400} Every machine needs the "
            "same versions of Python and Ray, and this one enough free memory and time to start it."
        ) from error


def _check_reachable(address: str | None) -> None:
    """Reject an address without a listening server, which Ray would retry for minutes."""
    host, _, port = (address or "").rpartition(":")
    if port.isdigit() and "/" not in host:
        socket.create_connection((host, int(port)), timeout=_PATIENCE).close()


class Mailbox:
    """An actor on the machine that started training; workers leave messages in it.

    Every epoch is reported once, in order, no matter how often training restarts.

    >>> mailbox = Mailbox()
    >>> mailbox.begin(0)
    0
    >>> mailbox.tell({"epoch": 1}), mailbox.tell({"epoch": 1})
    (False, False)
    >>> mailbox.take()
    [{'epoch': 1}]
    """

    def __init__(self) -> None:
        self._records: list[Mapping[str, Any]] = []
        self._n_sent: int | None = None
        self._stopped = False
        self._result: bytes | None = None
        self._refusal: Exception | None = None

    def begin(self, n_done: int) -> int:
        """Return how many epochs are known here; initially `n_done`, from an earlier training."""
        if self._n_sent is None:
            self._n_sent = n_done
        return self._n_sent

    def tell(self, record: Mapping[str, Any]) -> bool:
        """Keep the record of an epoch, and return whether training should stop."""
        if record["epoch"] > (self._n_sent or 0):
            self._records.append(record)
            self._n_sent = record["epoch"]
        return self._stopped

    def take(self) -> list[Mapping[str, Any]]:
        """Return the records since the last call."""
        new, self._records = self._records, []
        return new

    def stop(self) -> None:
        """Let training end after the current epoch."""
        self._stopped = True

    def keep(self, result: bytes) -> None:
        """Store the result of training, which only the process that started it can read."""
        self._result = result

    def result(self) -> bytes | None:
        """Return the result of training, or None if there is none yet."""
        return self._result

    def refuse(self, error: Exception) -> None:
        """Store the first error that would only occur again: another attempt is pointless."""
        self._refusal = self._refusal or error

    def refusal(self) -> Exception | None:
        """Return the error stored by `refuse`, or None."""
        return self._refusal


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
