"""The other side of `wiesel.lfs.engines.pool`: a process that votes on the rows it is sent.

It is a fresh Python that imports what it needs. Forking a process in which Polars or torch have
started threads can hang, and spawning by `multiprocessing` runs the user's script again.
"""

import os
import sys
from typing import Any, BinaryIO

import polars as pl

from wiesel import errors
from wiesel.errors import WieselError
from wiesel.labels import LabelSpace
from wiesel.lfs.batch import Batch
from wiesel.lfs.column_votes import ColumnVotes
from wiesel.lfs.engines.messages import read_message, write_message, write_votes
from wiesel.lfs.engines.portable import unpack_lfs
from wiesel.lfs.engines.running import run_all
from wiesel.lfs.function import LabelingFunction

__all__ = ["main", "raise_told", "told_error"]


def main() -> None:
    """Answer requests until the other side closes the pipe."""
    requests = sys.stdin.buffer
    # What labeling functions print must not get between the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    worker = _Worker()
    while True:
        try:
            head, _ = read_message(requests)
        except EOFError:
            return
        worker.answer(head, answers)


class _Worker:
    """Keeps the labeling functions it was last told of."""

    def __init__(self) -> None:
        self.lfs: list[LabelingFunction] = []
        self.labels = LabelSpace("no", "yes")

    def answer(self, head: dict[str, Any], answers: BinaryIO) -> None:
        try:
            reply, body = self.load(head) if "lfs" in head else self.run(head)
        except Exception as error:  # noqa: BLE001 - it is told and raised on the other side
            reply, body = told_error(error), b""
        write_message(answers, reply, body)

    def load(self, head: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """Take over labeling functions, if they are the same here as they are there."""
        self.labels = LabelSpace(*head["labels"])
        try:
            self.lfs = unpack_lfs(head["lfs"])
        except Exception:  # noqa: BLE001 - whatever a module needs may be missing here
            return {"same": False}, b""
        return {"same": [lf.fingerprint for lf in self.lfs] == head["fingerprints"]}, b""

    def run(self, head: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """Vote on the rows of a file."""
        rows = pl.read_ipc(head["file"])
        batch = Batch(rows, head["start"], head["id_column"], head["stop_at_failure"])
        columns: dict[int, ColumnVotes] = {}
        for places, votes in run_all(self.lfs, batch, self.labels):
            columns.update(zip(places, votes, strict=True))
        return write_votes([columns[place] for place in range(len(self.lfs))])


def told_error(error: Exception) -> dict[str, str]:
    """Return an error as data, for `raise_told` on the other side."""
    own = isinstance(error, WieselError) and hasattr(errors, type(error).__name__)
    kind = type(error).__name__ if own else "LabelingFunctionError"
    return {"error": kind, "message": str(error)}


def raise_told(head: dict[str, Any]) -> None:
    """Raise the error that a worker told of, as the kind it was there."""
    kind = getattr(errors, head["error"], errors.LabelingFunctionError)
    raise kind(head["message"])
