"""The worker's side of `wiesel.lfs.engines.pool`: it votes on the rows it receives.

A worker is a new Python process that imports what it needs. Forking can hang after Polars or torch
have started threads, and `multiprocessing` with spawn runs the user's script again.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Collection, Hashable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from wiesel import errors
from wiesel.errors import WieselError
from wiesel.io.exchange import read_exchanged, write_exchanged
from wiesel.labels import LabelSpace
from wiesel.lfs.batch import Batch, ColumnVotes, assemble
from wiesel.lfs.engines.portable import unpack_lfs
from wiesel.lfs.failures import Failure, timed
from wiesel.lfs.function import LabelingFunction, LabelRule
from wiesel.lfs.python_function import PythonFunction
from wiesel.votes import VoteMatrix

__all__ = [
    "error_message",
    "error_of_message",
    "main",
    "passes",
    "read_message",
    "read_votes",
    "run_in_order",
    "run_pass",
    "vote_on_batch",
    "write_message",
    "write_votes",
]

_SIGNAL_AT_DEATH_OF_PARENT = 1
"""`PR_SET_PDEATHSIG` on Linux."""
_SIZE = 8
"""The size in bytes of the length prefix."""


def passes(lfs: Sequence[LabelingFunction]) -> list[list[int]]:
    """Return the positions of the labeling functions that run together, pass by pass.

    Rules come first, so that a mistake in a rule shows before slow functions run.
    """
    groups: dict[Hashable, list[int]] = {}
    for position, lf in enumerate(lfs):
        groups.setdefault(lf.pass_key, []).append(position)
    return sorted(groups.values(), key=lambda own: not isinstance(lfs[own[0]], LabelRule))


def run_pass(
    lfs: Sequence[LabelingFunction], batch: Batch, labels: LabelSpace
) -> list[ColumnVotes]:
    """Return the votes of labeling functions of one class on a batch."""
    kind: Any = type(lfs[0])
    try:
        # Each Python function records its own time.
        with nullcontext() if kind is PythonFunction else timed(_name(lfs)):
            votes: list[ColumnVotes] = kind.run_together(lfs, batch, labels)
    except WieselError:
        raise
    except Exception as error:  # noqa: BLE001 - an expression may raise whatever Polars raises
        if len(lfs) == 1:
            return [ColumnVotes.none([_failure(lfs[0], batch, error)])]
        # Run them one by one to find out which one failed.
        return [run_pass([lf], batch, labels)[0] for lf in lfs]
    return votes


def _name(lfs: Sequence[LabelingFunction]) -> str:
    return lfs[0].name if len(lfs) == 1 else f"{len(lfs)} of {type(lfs[0]).__name__}"


def run_in_order(
    lfs: Sequence[LabelingFunction],
    batch: Batch,
    labels: LabelSpace,
    skipped: Collection[int] = (),
) -> list[ColumnVotes]:
    """Return the votes of labeling functions on a batch, pass by pass; those skipped abstain."""
    columns = {position: ColumnVotes.none() for position in skipped}
    for group in passes(lfs):
        positions = [position for position in group if position not in skipped]
        if positions:
            votes = run_pass([lfs[position] for position in positions], batch, labels)
            columns.update(zip(positions, votes, strict=True))
    return [columns[position] for position in range(len(lfs))]


def vote_on_batch(
    lfs: Sequence[LabelingFunction],
    batch: Batch,
    labels: LabelSpace,
    skipped: Collection[int] = (),
) -> tuple[VoteMatrix, list[Failure]]:
    """Return the votes on one batch as part of the vote matrix, and the failures.

    Failures are in the order of the passes, so that every engine stops at the same one.
    """
    columns = run_in_order(lfs, batch, labels, skipped)
    in_turn = [columns[position] for group in passes(lfs) for position in group]
    failures = [failure for column in in_turn for failure in column.failures]
    return assemble(columns, labels, [lf.name for lf in lfs], batch.ids), failures


def _failure(lf: LabelingFunction, batch: Batch, error: Exception) -> Failure:
    lines = str(error).strip().splitlines()
    where = f"rows {batch.start} to {batch.start + len(batch) - 1}"
    return Failure(
        lf.name, where, f"{type(error).__name__}: {lines[0] if lines else ''}".rstrip(": ")
    )


def main() -> None:
    """Answer requests until the other side closes the pipe."""
    _end_with_parent()
    requests = sys.stdin.buffer
    # Keep the output that labeling functions print out of the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    worker = _Worker()
    while True:
        try:
            worker.answer(read_message(requests), answers)
        except (EOFError, BrokenPipeError):  # the main process has ended
            return


def _end_with_parent() -> None:
    """End this process when its parent is killed, even while a labeling function runs.

    Without this, a worker in an endless loop would run forever: it notices a closed pipe only when
    it reads from it.
    """
    parent = int(sys.argv[1])
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_SIGNAL_AT_DEATH_OF_PARENT, signal.SIGKILL)
    if os.getppid() != parent:  # the parent has already ended
        os._exit(1)

    def watch() -> None:  # for other systems, and for a parent thread that has ended
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class _Worker:
    """Keeps the labeling functions it was last sent."""

    def __init__(self) -> None:
        self.lfs: list[LabelingFunction] = []
        self.labels = LabelSpace("no", "yes")

    def answer(self, head: dict[str, Any], answers: BinaryIO) -> None:
        try:
            reply = self.load(head) if "lfs" in head else self.run(head, answers)
        except Exception as error:  # noqa: BLE001 - it is sent, and raised on the other side
            reply = error_message(error)
        write_message(answers, reply)

    def load(self, head: dict[str, Any]) -> dict[str, Any]:
        """Load labeling functions if they are identical to those of the main process."""
        self.labels = LabelSpace(*head["labels"])
        try:
            self.lfs = unpack_lfs(head["lfs"])
        except Exception:  # noqa: BLE001 - anything a module needs may be missing here
            return {"same": False}
        return {"same": [lf.fingerprint for lf in self.lfs] == head["fingerprints"]}

    def run(self, head: dict[str, Any], answers: BinaryIO) -> dict[str, Any]:
        """Vote on the rows of one file and write the votes to another."""
        began = time.perf_counter()
        rows = read_exchanged(Path(head["file"]))
        batch = Batch(rows, head["start"], head["id_column"], head["stop_at_failure"])
        if head["timed"]:  # the other side's clock starts here
            write_message(answers, {"began": True})
        columns = run_in_order(self.lfs, batch, self.labels, head["skipped"])
        reply, content = write_votes(columns)
        write_exchanged(content, Path(head["answer"]))
        return reply | {"seconds": time.perf_counter() - began}


def error_message(error: Exception) -> dict[str, str]:
    """Return an error as data, for `error_of_message` in the main process."""
    own = isinstance(error, WieselError) and hasattr(errors, type(error).__name__)
    kind = type(error).__name__ if own else "LabelingFunctionError"
    return {"error": kind, "message": str(error)}


def error_of_message(head: dict[str, Any]) -> WieselError:
    """Return the error that a worker sent, with its original type."""
    kind = getattr(errors, head["error"], errors.LabelingFunctionError)
    problem: WieselError = kind(head["message"])
    return problem


def write_message(stream: BinaryIO, message: dict[str, Any]) -> None:
    """Write a message as JSON."""
    encoded = json.dumps(message).encode()
    stream.write(len(encoded).to_bytes(_SIZE, "little") + encoded)
    stream.flush()


def read_message(stream: BinaryIO) -> dict[str, Any]:
    """Return the next message; raise `EOFError` if the other side has closed the pipe."""
    size = int.from_bytes(_read(stream, _SIZE), "little")
    message: dict[str, Any] = json.loads(_read(stream, size))
    return message


def write_votes(columns: Sequence[ColumnVotes]) -> tuple[dict[str, Any], bytes]:
    """Return votes as a message and its binary content.

    >>> head, body = write_votes([ColumnVotes.of_class(np.array([1, 4]), 0)])
    >>> read_votes(head, body)[0].rows
    array([1, 4])
    """
    parts: list[bytes] = []
    entries = []
    for column in columns:
        rows = column.distribution
        parts += [column.rows.tobytes(), column.classes.tobytes()]
        parts += [] if rows is None else [rows.tobytes()]
        entries.append(
            {
                "n_votes": len(column.rows),
                "n_classes": None if rows is None else rows.shape[1],
                "failures": [failure.to_dict() for failure in column.failures],
            }
        )
    return {"votes": entries}, b"".join(parts)


def read_votes(head: dict[str, Any], body: bytes) -> list[ColumnVotes]:
    """Return the votes in a message and its binary content."""
    columns, place = [], 0

    def take(dtype: type[np.generic], count: int) -> Any:
        nonlocal place
        array = np.frombuffer(body, dtype, count, place)
        place += array.nbytes
        return array

    for entry in head["votes"]:
        count, n_classes = entry["n_votes"], entry["n_classes"]
        rows, classes = take(np.int64, count), take(np.int16, count)
        distribution = None
        if n_classes is not None:
            distribution = take(np.float32, count * n_classes).reshape(count, n_classes)
        failures = tuple(Failure(**failure) for failure in entry["failures"])
        columns.append(ColumnVotes(rows, classes, distribution, failures))
    return columns


def _read(stream: BinaryIO, size: int) -> bytes:
    content = stream.read(size)
    if len(content) < size:
        raise EOFError
    return content
