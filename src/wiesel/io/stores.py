"""SQLite files that several processes use: a store of bytes, and versions of a text."""

import json
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wiesel.errors import DataError
from wiesel.io.files import FilePath

__all__ = ["KeyedStore", "Snapshot", "SnapshotStore", "open_database"]

_LABELS_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS snapshots (number INTEGER PRIMARY KEY AUTOINCREMENT, "
    "text TEXT NOT NULL, change TEXT NOT NULL, time REAL NOT NULL, figures TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS refused (entry TEXT PRIMARY KEY, time REAL NOT NULL)",
)
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS entries "
    "(key TEXT PRIMARY KEY, content BLOB NOT NULL) WITHOUT ROWID",
)


class KeyedStore:
    """A cache file that may be deleted at any time: missing results are computed again.

    >>> import tempfile
    >>> store = KeyedStore(Path(tempfile.mkdtemp()) / "answers.sqlite")
    >>> store.put({"question": b"answer"})
    >>> store.get(["question", "another"])
    {'question': b'answer'}
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def get(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Return the stored entries, by key."""
        found: dict[str, bytes] = {}
        with self._open() as connection:
            for key in keys:
                row = connection.execute("SELECT content FROM entries WHERE key = ?", (key,))
                found.update((key, content) for (content,) in row)
        return found

    def put(self, entries: Mapping[str, bytes]) -> None:
        """Store entries under their keys."""
        with self._open() as connection, connection:
            connection.executemany(
                "INSERT OR REPLACE INTO entries VALUES (?, ?)", list(entries.items())
            )

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with open_database(self.path, _SCHEMA) as connection:
                yield connection
        except (sqlite3.Error, OSError) as error:
            raise DataError(
                f"The cache {self.path} cannot be used: {error}. It may be deleted at any time: "
                "what it holds is then computed again."
            ) from error


_PATIENCE = 30.0
"""Seconds to wait for another user of the file."""


@contextmanager
def open_database(path: FilePath, schema: Sequence[str]) -> Iterator[sqlite3.Connection]:
    """Open a SQLite file with the tables of `schema`. The file is created if it is missing.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "numbers.sqlite"
    >>> with open_database(path, ["CREATE TABLE IF NOT EXISTS numbers (value INTEGER)"]) as data:
    ...     data.execute("SELECT COUNT(*) FROM numbers").fetchone()
    (0,)
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, timeout=_PATIENCE)) as connection:
        _use_write_ahead_log(connection)
        for statement in schema:
            connection.execute(statement)
        yield connection


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Let readers continue while another process writes."""
    end = time.monotonic() + _PATIENCE
    while connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        # Unlike all other statements, this one fails instead of waiting if two run it at once.
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)


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
            with open_database(self.path, _LABELS_SCHEMA) as connection, connection:
                yield connection
        except sqlite3.Error as error:
            raise DataError(f"The history in {self.path} cannot be used: {error}.") from error


def _figures(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
