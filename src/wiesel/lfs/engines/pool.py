"""Worker processes on this machine that vote on pieces of batches."""

import os
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import polars as pl

from wiesel.errors import Advice, LabelingFunctionError
from wiesel.io.exchange import Exchange, write_exchanged
from wiesel.io.files import content_of
from wiesel.labels import LabelSpace
from wiesel.lfs.batch import ColumnVotes, join_columns
from wiesel.lfs.engines.portable import Pace, Piece, Share, pack_lfs
from wiesel.lfs.engines.worker import error_of_message, read_message, read_votes, write_message
from wiesel.lfs.failures import Failure

__all__ = ["ChildWorker", "DeathSearch", "WorkerDied", "WorkerPool", "WorkerTooSlow"]

_AHEAD = 2
"""Pieces per worker: it votes on one while the next is being written."""
_CODE = (
    "import sys; sys.path.extend(place for place in sys.argv[2:] if place not in sys.path); "
    "import gc; gc.disable(); from wiesel.lfs.engines.worker import main; gc.enable(); main()"
)
"""The search path of this process is appended at the end, so that a polars.py in the current
folder, or next to a script, is not imported instead of Polars. Imports leave no garbage: the
search for it would take a tenth of the time to start."""
Votes = TypeVar("Votes")
Vote = Callable[[int, int, tuple[int, ...]], Votes]
"""Votes on `count` rows starting at `first`, without the skipped labeling functions."""
Found = Callable[[int, int, str], None]
"""Called with a row, the labeling function that fails on it, and the reason."""

_MOST_DEATHS = 40
"""The maximum per piece: enough for a few bad rows among thousands."""


class WorkerPool:
    """Worker processes that vote on pieces of batches. They start when first needed.

    A process that votes on a piece for more than `timeout` seconds is killed and replaced. Use the
    pool as a context manager: leaving the context ends the processes.
    """

    def __init__(self, n_workers: int, timeout: float | None = None) -> None:
        self.n_workers = n_workers
        self._timeout = timeout
        self._threads: list[_WorkerThread] = []
        self._offered_pieces = 0
        self._exchange: Exchange | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for thread in self._threads:  # kill all of them before waiting for any
            thread.kill()
        for thread in self._threads:
            thread.end()
        self._threads = []
        if self._exchange is not None:
            self._exchange.close()

    @property
    def running(self) -> bool:
        """Whether the processes have been started."""
        return bool(self._threads)

    def help(self, share: Share, labels: LabelSpace) -> None:
        """Let every worker take pieces of a share after it has finished earlier shares."""
        if self._exchange is None:
            room = 2 * _AHEAD * share.batch.frame.estimated_size()
            self._exchange = Exchange(room)
        # A process without a piece would start in vain; every further share may add processes.
        self._offered_pieces += _most_pieces(share)
        for number in range(len(self._threads), min(self.n_workers, self._offered_pieces)):
            thread = _WorkerThread(self._exchange, number, self._timeout)
            self._threads.append(thread)
            thread.start()
        offer = _Offer(share, labels)
        share.dangerous = share.dangerous or any(thread.n_deaths for thread in self._threads)
        for thread in self._threads:
            if thread.is_alive():
                share.enter()
                thread.offers.put(offer)


def _most_pieces(share: Share) -> int:
    """The most pieces into which the rows that are left can be cut, as far as they are known."""
    return max(1, -(-(share.remaining + share.batch.ahead) // share.first_rows))


class _Offer:
    """A share in the form that is sent to workers."""

    def __init__(self, share: Share, labels: LabelSpace) -> None:
        self.share = share
        self.rows = replace(share.batch, frame=_columns_read(share), shared={})
        self.fingerprints = [lf.fingerprint for lf in share.lfs]
        self.names = [lf.name for lf in share.lfs]
        self.labels = labels

    @property
    def key(self) -> tuple[Any, ...]:
        """A key that is equal for shares of the same labeling functions."""
        return (self.names, self.fingerprints, self.labels.names)

    def task(self) -> dict[str, Any]:
        """Return the labeling functions as a message."""
        packed = pack_lfs(self.share.lfs)
        return {"lfs": packed, "fingerprints": self.fingerprints, "labels": self.labels.names}


def _columns_read(share: Share) -> pl.DataFrame:
    """The rows, with only the columns that labeling functions and messages need."""
    batch = share.batch
    names = [] if batch.id_column is None else [batch.id_column]
    for lf in share.lfs:
        if lf.reads is None:
            return batch.frame
        names += lf.reads
    return batch.frame.select(name for name in dict.fromkeys(names) if name in batch.frame.columns)


class _WorkerThread(threading.Thread):
    """The thread that serves one worker: it sends pieces of the open shares, two at a time.

    This process votes too, so the thread must wait for the interpreter's lock after every access
    to a file or a pipe. With a second piece queued, the worker never waits for the thread.
    """

    def __init__(self, exchange: Exchange, number: int, timeout: float | None) -> None:
        super().__init__(daemon=True)
        self._timeout = timeout
        self.offers: queue.SimpleQueue[_Offer | None] = queue.SimpleQueue()
        self.n_deaths = 0
        self._worker = ChildWorker()
        self._files = deque(exchange.file(f"{number}-{k}.arrow") for k in range(_AHEAD))
        self._offer: _Offer | None = None
        self._loaded: tuple[Any, ...] = ()
        self._pace = Pace(1)
        self._under_way: deque[tuple[_Offer, Piece, Path]] = deque()

    def run(self) -> None:
        """Send pieces and collect votes until the pool is closed."""
        try:
            while self._step():
                pass
        except Exception as problem:  # noqa: BLE001 - raised again by the thread that waits
            for offer in (self._offer, *(under_way[0] for under_way in self._under_way)):
                if offer is not None:
                    offer.share.stop(problem)

    def kill(self) -> None:
        """Kill the process and do not replace it."""
        self._worker.kill()
        self.offers.put(None)

    def end(self) -> None:
        """Wait until the process and the thread have ended."""
        self._worker.close()
        while self.is_alive():  # Ctrl-C does not interrupt a wait without a timeout
            self.join(timeout=0.1)

    def _step(self) -> bool:
        """Do some work. Return whether there was any."""
        try:
            if not self._fill():
                return False
            self._receive()
        except WorkerDied:
            self._survive()
        return True

    def _survive(self) -> None:
        """Start a new process, and find the rows that ended the old one."""
        if self._offer is not None:
            self._offer.share.dangerous = True
        if not self._under_way:  # it ended before it voted on anything
            raise LabelingFunctionError(
                f"A worker process ended ({self._worker.how_it_ended()}) before it voted on any "
                "row.",
                Advice(" Use engine=LocalEngine(workers=1) to stay in one process."),
            )
        self.n_deaths += 1
        while self._under_way:
            offer, piece, file = self._under_way[0]
            offer.share.dangerous = True
            offer.share.put(piece, self._searched(offer, piece, file))
            self._under_way.popleft()
            self._files.append(file)

    def _searched(self, offer: _Offer, piece: Piece, file: Path) -> list[ColumnVotes]:
        """The votes on a piece in which some rows may end the process."""
        batch, lfs = offer.share.batch, offer.share.lfs
        failures: dict[int, list[Failure]] = {place: [] for place in range(len(lfs))}

        def vote(first: int, count: int, skipped: tuple[int, ...]) -> list[ColumnVotes]:
            if not self._worker.alive:
                self._worker.start()
                self._loaded = ()
            if offer.key != self._loaded:
                self._send_task(offer)
            self._ask(offer, (first, count), file, skipped)
            return self._votes_in(self._answer(), file)

        def report_death(row: int, place: int, reason: str) -> None:
            failure = batch.failure(lfs[place].name, row, reason)
            if batch.stop_at_failure:
                raise failure.error()
            failures[place].append(failure)

        parts = DeathSearch(vote, len(lfs), report_death).votes(*piece)
        by_lf = zip(*(votes for votes, _ in parts), strict=True)
        columns = [join_columns(own, [count for _, count in parts]) for own in by_lf]
        return [
            replace(column, failures=(*column.failures, *failures[place]))
            for place, column in enumerate(columns)
        ]

    def _fill(self) -> bool:
        """Fill the worker's queue of pieces. Return whether it has any."""
        while len(self._under_way) < _AHEAD:
            piece = self._next_piece()
            if piece is None or self._offer is None:
                break
            self._send(self._offer, piece)
        return bool(self._under_way)

    def _next_piece(self) -> Piece | None:
        """The next piece of the first share that has one; None if there is no work."""
        while self._offer is not None or self._accept():
            if self._offer is not None:
                piece = self._offer.share.take(self._pace.rows)
                if piece is not None:
                    return piece
                self._offer.share.leave()
                self._offer = None
        return None

    def _accept(self) -> bool:
        """Move on to the next share. Return whether there was one. Wait only if idle."""
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
        """Send labeling functions to the worker. Return whether it has identical ones."""
        while self._under_way:
            self._receive()
        if not self._worker.alive:
            self._worker.start()
        same = self._send_task(offer)
        self._pace = Pace(offer.share.first_rows)
        return same

    def _send_task(self, offer: _Offer) -> bool:
        self._worker.tell(offer.task())
        same = bool(self._worker.answer().get("same"))
        self._loaded = offer.key if same else ()
        return same

    def _send(self, offer: _Offer, piece: Piece) -> None:
        file = self._files.popleft()
        self._under_way.append((offer, piece, file))
        self._ask(offer, piece, file)

    def _ask(self, offer: _Offer, piece: Piece, file: Path, skipped: tuple[int, ...] = ()) -> None:
        first, count = piece
        write_exchanged(offer.rows.frame.slice(first, count), file)
        self._worker.tell(
            {
                "file": str(file),
                "answer": str(_answer_file(file)),
                "start": offer.rows.start + first,
                "id_column": offer.rows.id_column,
                "stop_at_failure": offer.rows.stop_at_failure,
                "skipped": skipped,
                "timed": self._timeout is not None,
            }
        )

    def _answer(self) -> dict[str, Any]:
        """Wait for the votes on a piece. The time counts from when the worker begins to vote."""
        head = self._worker.answer()
        return self._worker.answer(self._timeout) if "began" in head else head

    def _receive(self) -> None:
        """Collect the votes on the piece that was sent first."""
        offer, piece, file = self._under_way[0]
        head = self._answer()
        if "error" in head:
            offer.share.stop(error_of_message(head))
        else:
            offer.share.put(piece, self._votes_in(head, file))
            self._pace.note(piece[1], head["seconds"])
        self._under_way.popleft()
        self._files.append(file)

    def _votes_in(self, head: dict[str, Any], file: Path) -> list[ColumnVotes]:
        if "error" in head:
            raise error_of_message(head)
        return read_votes(head, content_of(_answer_file(file)))


def _answer_file(file: Path) -> Path:
    """The file for the votes on the rows in `file`."""
    return file.with_suffix(".votes")


class ChildWorker:
    """A new Python process that votes; it can be restarted after a crash."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._ended = False
        self._process = _started()

    @property
    def alive(self) -> bool:
        """Whether the process is running."""
        return self._process.poll() is None

    def start(self) -> None:
        """Replace a process that has died; not possible after `kill`."""
        with self._changing:
            if self._ended:
                raise WorkerDied("it was ended")
            self._close_pipes()
            self._process = _started()

    def tell(self, message: dict[str, Any]) -> None:
        """Send a message."""
        try:
            write_message(self._process.stdin, message)  # type: ignore[arg-type]
        except OSError:
            raise WorkerDied(self.how_it_ended()) from None

    def answer(self, timeout: float | None = None) -> dict[str, Any]:
        """Wait for a message. A process that sends none within `timeout` seconds is killed."""
        deadline = None if timeout is None else _Deadline(timeout, self._process)
        message = None
        with suppress(EOFError, OSError):
            message = read_message(self._process.stdout)  # type: ignore[arg-type]
        if timeout is not None and deadline is not None and not deadline.is_met():
            self._wait()
            raise WorkerTooSlow(timeout)
        if message is None:
            raise WorkerDied(self.how_it_ended())
        return message

    def how_it_ended(self) -> str:
        """Return the exit code or the signal of a process that closed its pipe."""
        self._wait()
        code = self._process.returncode
        return f"exit code {code}" if code >= 0 else f"signal {-code}"

    def kill(self) -> None:
        """Kill the process; it cannot be restarted."""
        with self._changing:
            self._ended = True
            self._process.kill()

    def close(self) -> None:
        """Wait until a killed process has ended."""
        self._wait()
        self._close_pipes()

    def _wait(self) -> None:
        while True:  # Ctrl-C does not interrupt a wait without a timeout
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=0.1)
                return

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


class _Deadline:
    """Kills a process, and the processes it started, unless `is_met` is called in time."""

    def __init__(self, seconds: float, child: subprocess.Popen[bytes]) -> None:
        self._child = child
        self._changing = threading.Lock()
        self._over = self._passed = False
        self._timer = threading.Timer(seconds, self._pass)
        self._timer.daemon = True
        self._timer.start()

    def is_met(self) -> bool:
        """Stop the clock. Return whether it was still running."""
        with self._changing:
            self._over = True
            self._timer.cancel()
            return not self._passed

    def _pass(self) -> None:
        with self._changing:
            if not self._over:
                self._passed = True
                _kill_session(self._child)


def _kill_session(child: subprocess.Popen[bytes]) -> None:
    """Kill a process and those it started, which are in the process group that it leads."""
    if sys.platform != "win32":
        with suppress(ProcessLookupError, PermissionError):  # it has ended
            os.killpg(child.pid, signal.SIGKILL)
    child.kill()


def _started() -> subprocess.Popen[bytes]:
    # -P: the current folder may contain data and modules from untrusted sources.
    options = ["-P"]
    options += ["-E"] if sys.flags.ignore_environment else []
    options += ["-s"] if sys.flags.no_user_site else []
    places = [place for place in sys.path if place] + [os.getcwd()] * ("" in sys.path)
    return subprocess.Popen(
        [sys.executable, *options, "-c", _CODE, str(os.getpid()), *places],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # One thread for each process: there is a process for each core.
        env={"OPENBLAS_NUM_THREADS": "1", **os.environ, "POLARS_MAX_THREADS": "1"},
        start_new_session=True,  # Ctrl-C is for this process, which then ends the workers
    )


class WorkerDied(Exception):
    """A process ended while it voted; the message gives the cause."""

    @property
    def reason(self) -> str:
        """What the labeling function did, for messages."""
        return f"it ended its process ({self})"

    @property
    def advice(self) -> str:
        """What to do if it happens again and again."""
        return (
            f"Worker processes keep crashing ({self}), so this stops here. Is there too little "
            "memory, or does a labeling function crash on many rows?"
        )


class WorkerTooSlow(WorkerDied):
    """A process was killed because it did not answer in time."""

    def __init__(self, timeout: float) -> None:
        super().__init__(f"no answer within {timeout:g} s")

    @property
    def reason(self) -> str:
        """What the labeling function did, for messages."""
        return str(self)

    @property
    def advice(self) -> str:
        """What to do if it happens again and again."""
        return (
            f"Labeling functions give {self} again and again, so this stops here. Is the timeout "
            "too short, or does a labeling function never end on many rows?"
        )


class DeathSearch(Generic[Votes]):
    """Collects votes on rows even if some of them end the voting process.

    >>> def vote(first, count, skipped):
    ...     if first <= 5 < first + count and 1 not in skipped:
    ...         raise WorkerDied("exit code 3")
    ...     return list(range(first, first + count))
    >>> found = []
    >>> search = DeathSearch(vote, n_lfs=2, found=lambda *what: found.append(what))
    >>> search.votes(0, 8)
    [([0, 1, 2, 3], 4), ([4], 1), ([5], 1), ([6, 7], 2)]
    >>> found
    [(5, 1, 'it ended its process (exit code 3)')]
    """

    def __init__(
        self, vote: Vote[Votes], n_lfs: int, found: Found, most_deaths: int = _MOST_DEATHS
    ) -> None:
        self._vote = vote
        self._n_lfs = n_lfs
        self._found = found
        self._deaths_left = most_deaths

    def votes(self, first: int, count: int) -> list[tuple[Votes, int]]:
        """Return the votes in parts, each with its number of rows."""
        reason = ""
        try:
            return [(self._attempt(first, count, ()), count)]
        except WorkerDied as death:
            reason = death.reason
        if count > 1:
            return self._halves(first, count)
        return [(self._row(first, reason), 1)]

    def _halves(self, first: int, count: int) -> list[tuple[Votes, int]]:
        half = count // 2
        deaths_left = self._deaths_left
        votes = self.votes(first, half)
        harmless = self._deaths_left == deaths_left
        # If the first half is harmless, the other one is not: do not wait for its death again. A
        # single row is tried, because a process may have died of something else.
        search = self._halves if harmless and count - half > 1 else self.votes
        return votes + search(first + half, count - half)

    def _row(self, row: int, reason: str) -> Votes:
        """The votes on a row by the labeling functions that do not end their process."""
        everyone = range(self._n_lfs)
        alone = [tuple(k for k in everyone if k != own) for own in everyone]
        deadly = [k for k in everyone if self._n_lfs == 1 or self._dies(row, alone[k])]
        if not deadly or (len(deadly) < self._n_lfs and self._dies(row, tuple(deadly))):
            deadly = list(everyone)
        for lf in deadly:
            self._found(row, lf, reason)
        return self._attempt(row, 1, tuple(deadly))

    def _dies(self, row: int, skipped: tuple[int, ...]) -> bool:
        try:
            self._attempt(row, 1, skipped)
        except WorkerDied:
            return True
        return False

    def _attempt(self, first: int, count: int, skipped: tuple[int, ...]) -> Votes:
        try:
            return self._vote(first, count, skipped)
        except WorkerDied as death:
            self._deaths_left -= 1
            if self._deaths_left < 0:
                raise LabelingFunctionError(death.advice) from None
            raise
