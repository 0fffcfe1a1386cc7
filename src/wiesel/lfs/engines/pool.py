"""Worker processes on this machine that vote on pieces of batches."""

import os
import queue
import subprocess
import sys
import threading
from collections import deque
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import polars as pl

from wiesel.errors import LabelingFunctionError
from wiesel.io.exchange import Exchange, write_exchanged
from wiesel.io.files import content_of
from wiesel.labels import LabelSpace
from wiesel.lfs.batch import Batch
from wiesel.lfs.engines.messages import read_message, read_votes, write_message
from wiesel.lfs.engines.portable import pack_lfs
from wiesel.lfs.engines.sharing import Pace, Piece, Share
from wiesel.lfs.engines.worker import told_problem

__all__ = ["WorkerPool"]

_AHEAD = 2
"""Pieces a worker has at once: it votes on one while the other is being written for it."""


class WorkerPool:
    """Worker processes that vote on pieces of batches; started when first needed.

    Use it as a context manager: leaving it ends the processes.
    """

    def __init__(self, n_workers: int) -> None:
        self.n_workers = n_workers
        self._errands: list[_Errand] = []
        self._exchange: Exchange | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for errand in self._errands:
            errand.end()
        self._errands = []
        if self._exchange is not None:
            self._exchange.close()

    @property
    def running(self) -> bool:
        """Whether the processes have been started."""
        return bool(self._errands)

    def help(self, share: Share, labels: LabelSpace) -> None:
        """Let every worker take pieces of a share, once it has done with earlier ones."""
        if self._exchange is None:
            room = 2 * _AHEAD * share.batch.frame.estimated_size()
            self._exchange = Exchange(room)
        if not self._errands:
            self._errands = [_Errand(self._exchange, n) for n in range(self.n_workers)]
            for errand in self._errands:
                errand.start()
        offer = _Offer(share, labels)
        for errand in self._errands:
            if errand.is_alive():
                share.enter()
                errand.offers.put(offer)


class _Offer:
    """A share as workers are told of it."""

    def __init__(self, share: Share, labels: LabelSpace) -> None:
        self.share = share
        self.rows = replace(share.batch, frame=_columns_read(share), shared={})
        self.fingerprints = [lf.fingerprint for lf in share.lfs]
        self.names = [lf.name for lf in share.lfs]
        self.labels = labels

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for shares of the same labeling functions."""
        return (self.names, self.fingerprints, self.labels.names)

    def task(self) -> dict[str, Any]:
        """Return the labeling functions as a message."""
        packed = pack_lfs(self.share.lfs)
        return {"lfs": packed, "fingerprints": self.fingerprints, "labels": self.labels.names}


def _columns_read(share: Share) -> pl.DataFrame:
    """The rows with the columns that labeling functions and messages need."""
    batch = share.batch
    names = [] if batch.id_column is None else [batch.id_column]
    for lf in share.lfs:
        if lf.reads is None:
            return batch.frame
        names += lf.reads
    return batch.frame.select(name for name in dict.fromkeys(names) if name in batch.frame.columns)


class _Errand(threading.Thread):
    """The thread beside one worker: gives it pieces of the shares on offer, two at a time.

    The thread waits for the interpreter's lock whenever it comes back from a file or a pipe, while
    this process votes too; with a second piece at hand, the worker does not wait for the thread.
    """

    def __init__(self, exchange: Exchange, number: int) -> None:
        super().__init__(daemon=True)
        self.offers: queue.SimpleQueue[_Offer | None] = queue.SimpleQueue()
        self._worker = _started()
        self._files = deque(exchange.file(f"{number}-{k}.arrow") for k in range(_AHEAD))
        self._offer: _Offer | None = None
        self._loaded: tuple[Any, ...] = ()
        self._pace = Pace(1)
        self._under_way: deque[tuple[_Offer, Piece, Path]] = deque()

    def run(self) -> None:
        """Send pieces and take in votes until the pool is closed."""
        try:
            while self._fill():
                self._receive()
        except Exception as problem:  # noqa: BLE001 - raised again by the thread that waits
            for offer in (self._offer, *(under_way[0] for under_way in self._under_way)):
                if offer is not None:
                    offer.share.stop(problem)

    def end(self) -> None:
        """End the process, and the thread with it."""
        self._worker.kill()
        self.offers.put(None)
        self._worker.wait()
        self.join()
        for pipe in (self._worker.stdin, self._worker.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def _fill(self) -> bool:
        """Give the worker as many pieces as it may have; return whether it has any."""
        while len(self._under_way) < _AHEAD:
            piece = self._next_piece()
            if piece is None or self._offer is None:
                break
            self._send(self._offer, piece)
        return bool(self._under_way)

    def _next_piece(self) -> Piece | None:
        """The next piece of the first share that has one; None where there is nothing to do."""
        while self._offer is not None or self._accept():
            if self._offer is not None:
                piece = self._offer.share.take(self._pace.rows)
                if piece is not None:
                    return piece
                self._offer.share.leave()
                self._offer = None
        return None

    def _accept(self) -> bool:
        """Turn to the next share; return whether there was one. Wait only if the worker is idle."""
        try:
            offer = self.offers.get(block=not self._under_way)
        except queue.Empty:
            return False
        if offer is None:
            return False
        self._offer = offer
        if offer.key != self._loaded and not self._load(offer):
            offer.share.leave()
            self._offer = None
        return True

    def _load(self, offer: _Offer) -> bool:
        """Tell the worker of labeling functions; return whether they are the same there."""
        while self._under_way:
            self._receive()
        self._tell(offer.task(), "no rows yet")
        same = bool(self._answer("no rows yet").get("same"))
        self._loaded = offer.key if same else ()
        self._pace = Pace(offer.share.first_rows)
        return same

    def _send(self, offer: _Offer, piece: Piece) -> None:
        first, count = piece
        file = self._files.popleft()
        self._under_way.append((offer, piece, file))
        write_exchanged(offer.rows.frame.slice(first, count), file)
        asked = {
            "file": str(file),
            "answer": str(_answer_file(file)),
            "start": offer.rows.start + first,
            "id_column": offer.rows.id_column,
            "stop_at_failure": offer.rows.stop_at_failure,
        }
        self._tell(asked, _rows(offer.rows, piece))

    def _receive(self) -> None:
        """Take in the votes on the piece that was sent first."""
        offer, piece, file = self._under_way[0]
        head = self._answer(_rows(offer.rows, piece))
        if "error" in head:
            offer.share.stop(told_problem(head))
        else:
            offer.share.put(piece, read_votes(head, content_of(_answer_file(file))))
            self._pace.note(piece[1], head["seconds"])
        self._under_way.popleft()
        self._files.append(file)

    def _tell(self, head: dict[str, Any], what: str) -> None:
        try:
            write_message(self._worker.stdin, head)  # type: ignore[arg-type]
        except OSError:
            raise self._death(what) from None

    def _answer(self, what: str) -> dict[str, Any]:
        try:
            return read_message(self._worker.stdout)  # type: ignore[arg-type]
        except (EOFError, OSError):
            raise self._death(what) from None

    def _death(self, what: str) -> LabelingFunctionError:
        return LabelingFunctionError(
            f"A worker process ended (exit code {self._worker.wait()}) while it voted on {what}. "
            "Use engine=LocalEngine(workers=1) to stay in one process."
        )


def _answer_file(file: Path) -> Path:
    """The file for the votes on the rows of another."""
    return file.with_suffix(".votes")


def _rows(batch: Batch, piece: Piece) -> str:
    first = batch.start + piece[0]
    return f"rows {first} to {first + piece[1] - 1}"


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
