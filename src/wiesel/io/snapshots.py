"""Stores the versions of a text in a SQLite file: what changed, when, and the scores."""

import json
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from wiesel.errors import DataError
from wiesel.io.files import FilePath
from wiesel.io.stores import open_database

__all__ = ["Snapshot", "SnapshotStore"]

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS snapshots (number INTEGER PRIMARY KEY AUTOINCREMENT, "
    "text TEXT NOT NULL, change TEXT NOT NULL, time REAL NOT NULL, figures TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS refused (entry TEXT PRIMARY KEY, time REAL NOT NULL)",
)


@dataclass(frozen=True)
class Snapshot:
    """One version of the text, and the change that led to it."""

    number: int
    text: str
    change: str
    time: float
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(eq=False)
class SnapshotStore:
    """Stores every version of a text, and the rejected entries.

    >>> import tempfile
    >>> from pathlib import Path
    >>> store = SnapshotStore(Path(tempfile.mkdtemp()) / "history.sqlite")
    >>> store.add("a = 1", "start"), store.add("a = 2", "more")
    (1, 2)
    >>> store.note(2, {"accuracy": 0.9})
    >>> [(each.change, each.figures) for each in store.all()]
    [('start', {}), ('more', {'accuracy': 0.9})]
    """

    path: FilePath
    _held: sqlite3.Connection | None = field(default=None, repr=False)

    @contextmanager
    def changing(self) -> Iterator["SnapshotStore"]:
        """Yield the store for one change; other threads and processes wait until it is done.

        What the block stores is kept only if the block ends without an error.
        """
        with self._open() as connection:
            if self._held is None:
                # Lock before reading: otherwise two could both start from the same version.
                connection.execute("BEGIN IMMEDIATE")
            yield SnapshotStore(self.path, connection)

    def add(self, text: str, change: str) -> int:
        """Store a version and return its number."""
        with self._open() as connection:
            done = connection.execute(
                "INSERT INTO snapshots (text, change, time, figures) VALUES (?, ?, ?, '{}')",
                (text, change, time.time()),
            )
            return int(done.lastrowid or 0)

    def follow(self, text: str) -> None:
        """Store the text if it differs from the last version, as `start` or `changed outside`."""
        with self.changing() as store:
            with store._open() as connection:
                last = connection.execute(
                    "SELECT text FROM snapshots ORDER BY number DESC LIMIT 1"
                ).fetchone()
            if last is None or last[0] != text:
                store.add(text, "start" if last is None else "changed outside")

    def note(self, number: int, figures: Mapping[str, float]) -> None:
        """Store the scores of a version."""
        with self._open() as connection:
            connection.execute(
                "UPDATE snapshots SET figures = ? WHERE number = ?",
                (json.dumps(dict(figures)), number),
            )

    def drop(self, number: int) -> None:
        """Delete a version that was undone."""
        with self._open() as connection:
            connection.execute("DELETE FROM snapshots WHERE number = ?", (number,))

    def all(self) -> list[Snapshot]:
        """Return all versions, the oldest first."""
        with self._open() as connection:
            rows = connection.execute(
                "SELECT number, text, change, time, figures FROM snapshots ORDER BY number"
            ).fetchall()
        return [
            Snapshot(number, text, change, when, _figures(figures))
            for number, text, change, when, figures in rows
        ]

    def refuse(self, entry: str) -> None:
        """Store an entry that must not be suggested again."""
        with self._open() as connection:
            connection.execute("INSERT OR REPLACE INTO refused VALUES (?, ?)", (entry, time.time()))

    def refused(self) -> set[str]:
        """Return the rejected entries."""
        with self._open() as connection:
            return {entry for (entry,) in connection.execute("SELECT entry FROM refused")}

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        if self._held is not None:
            yield self._held
            return
        try:
            with open_database(self.path, _SCHEMA) as connection, connection:
                yield connection
        except sqlite3.Error as error:
            raise DataError(f"The history in {self.path} cannot be used: {error}.") from error


def _figures(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
