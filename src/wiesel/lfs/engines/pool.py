"""Worker processes on this machine, and the sharing of a batch's rows among them."""

import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import polars as pl

from wiesel.errors import LabelingFunctionError
from wiesel.labels import LabelSpace
from wiesel.lfs.batch import Batch
from wiesel.lfs.column_votes import ColumnVotes, join_columns
from wiesel.lfs.engines.messages import read_message, read_votes, write_message
from wiesel.lfs.engines.portable import pack_lfs
from wiesel.lfs.engines.worker import raise_told
from wiesel.lfs.function import LabelingFunction

__all__ = ["Share", "WorkerPool"]

Vote = Callable[[int, int], list[ColumnVotes]]
"""Returns the votes on a piece of the rows: its first row, and how many."""

_PIECE_SECONDS = 0.2
"""How long a piece should take: long beside what sending it costs, short to wait for."""


class Share:
    """Hands out the rows of a batch piece by piece, to this process and to workers.

    Each taker gets as many rows as it can vote on in a fifth of a second, judged by its last
    piece, and less towards the end, so that nobody waits long for a slow function or a slow core.
    """

    def __init__(self, n_rows: int, first_rows: int, n_takers: int) -> None:
        self.n_rows = n_rows
        self.first_rows = first_rows
        self.n_takers = n_takers
        self.results: dict[int, tuple[int, list[ColumnVotes]]] = {}
        self.problem: BaseException | None = None
        self._next = 0
        self._lock = threading.Lock()

    def take(self, wanted: int) -> tuple[int, int] | None:
        """Return the first row and the number of rows of the next piece, None at the end."""
        with self._lock:
            remaining = self.n_rows - self._next
            if self.problem is not None or not remaining:
                return None
            fair = max(self.first_rows, -(-remaining // (2 * self.n_takers)))
            first, count = self._next, min(wanted, fair, remaining)
            self._next += count
            return first, count

    def work(self, vote: Vote, patience: float = math.inf) -> bool:
        """Vote on pieces until none is left or `patience` seconds have passed; return which."""
        began, wanted = time.perf_counter(), self.first_rows
        while time.perf_counter() - began <= patience:
            piece = self.take(wanted)
            if piece is None:
                return True
            started = time.perf_counter()
            self.results[piece[0]] = piece[1], vote(*piece)
            per_row = (time.perf_counter() - started) / piece[1]
            wanted = max(1, min(int(_PIECE_SECONDS / max(per_row, 1e-9)), 8 * wanted))
        return False

    def stop(self, problem: BaseException) -> None:
        """Hand out no more rows, and keep the problem for whoever waits."""
        with self._lock:
            self.problem = self.problem or problem

    @property
    def complete(self) -> bool:
        """Whether all rows have been voted on."""
        return sum(count for count, _ in self.results.values()) == self.n_rows

    def votes(self) -> list[ColumnVotes]:
        """Return the votes on all pieces, or raise the problem of a worker."""
        if self.problem is not None:
            raise self.problem
        pieces = [self.results[first] for first in sorted(self.results)]
        sizes = [count for count, _ in pieces]
        by_lf = zip(*(votes for _, votes in pieces), strict=True)
        return [join_columns(parts, sizes) for parts in by_lf]


class WorkerPool:
    """Worker processes that vote on pieces of a batch; started when first needed.

    Use it as a context manager: leaving it ends the processes.
    """

    def __init__(self, n_workers: int) -> None:
        self.n_workers = n_workers
        self._workers: list[subprocess.Popen[bytes]] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for worker in self._workers:
            worker.kill()
            worker.wait()
            for pipe in (worker.stdin, worker.stdout):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()
        self._workers = []
        if self._folder is not None:
            self._folder.cleanup()

    @property
    def running(self) -> bool:
        """Whether the processes have been started."""
        return bool(self._workers)

    def help(
        self, share: Share, lfs: Sequence[LabelingFunction], batch: Batch, labels: LabelSpace
    ) -> list[threading.Thread]:
        """Let every worker take pieces of a share, each in a thread that waits for it."""
        if not self._workers:
            self._workers = [_started() for _ in range(self.n_workers)]
        if self._folder is None:
            place = _memory_folder(batch.frame.estimated_size())
            self._folder = tempfile.TemporaryDirectory(prefix="wiesel-", dir=place)
        task = {
            "lfs": pack_lfs(lfs),
            "fingerprints": [lf.fingerprint for lf in lfs],
            "labels": labels.names,
        }
        rows = replace(batch, frame=_columns_read(lfs, batch), shared={})
        threads = []
        for number, worker in enumerate(self._workers):
            file = Path(self._folder.name) / f"{number}.arrow"
            work = _Errand(worker, share, rows, file)
            threads.append(threading.Thread(target=work.run, args=(task,), daemon=True))
            threads[-1].start()
        return threads


def _columns_read(lfs: Sequence[LabelingFunction], batch: Batch) -> pl.DataFrame:
    """The rows with the columns that labeling functions and messages need."""
    names = [] if batch.id_column is None else [batch.id_column]
    for lf in lfs:
        if lf.reads is None:
            return batch.frame
        names += lf.reads
    return batch.frame.select(name for name in dict.fromkeys(names) if name in batch.frame.columns)


def _memory_folder(size: float) -> Path | None:
    """A folder that lives in memory and has room, where the system has one."""
    folder = Path("/dev/shm")
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        return None
    return folder if shutil.disk_usage(folder).free > 2 * size + 2**24 else None


def _started() -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
        "POLARS_MAX_THREADS": "1",
    }
    return subprocess.Popen(
        [sys.executable, "-c", "from wiesel.lfs.engines.worker import main; main()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        start_new_session=True,  # Ctrl-C is for this process, which then ends the workers
    )


class _Errand:
    """What the thread beside one worker does: give it pieces of a share until none is left."""

    def __init__(
        self, worker: subprocess.Popen[bytes], share: Share, batch: Batch, file: Path
    ) -> None:
        self.worker = worker
        self.share = share
        self.batch = batch
        self.file = file

    def run(self, task: dict[str, Any]) -> None:
        try:
            head, _ = _exchange(self.worker, task, "no rows yet")
            if head["same"]:
                self.share.work(self.vote)
        except Exception as problem:  # noqa: BLE001 - raised again by the thread that waits
            self.share.stop(problem)

    def vote(self, first: int, count: int) -> list[ColumnVotes]:
        # Written over what was there: memory that the system has already given is faster to fill.
        with self.file.open("r+b" if self.file.exists() else "w+b") as stream:
            self.batch.frame.slice(first, count).write_ipc(stream, compression="uncompressed")
            stream.truncate()
        asked = {
            "file": str(self.file),
            "start": self.batch.start + first,
            "id_column": self.batch.id_column,
            "stop_at_failure": self.batch.stop_at_failure,
        }
        return read_votes(*_exchange(self.worker, asked, f"rows {first} to {first + count - 1}"))


def _exchange(
    worker: subprocess.Popen[bytes], head: dict[str, Any], what: str
) -> tuple[dict[str, Any], bytes]:
    try:
        write_message(worker.stdin, head)  # type: ignore[arg-type]
        reply, body = read_message(worker.stdout)  # type: ignore[arg-type]
    except (EOFError, OSError):
        raise LabelingFunctionError(
            f"A worker process ended (exit code {worker.wait()}) while it voted on {what}. "
            "Use engine=LocalEngine(workers=1) to stay in one process."
        ) from None
    if "error" in reply:
        raise_told(reply)
    return reply, body
