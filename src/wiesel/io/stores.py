"""SQLite files that several processes use at once, and a key-value store of bytes in one."""

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from wiesel.errors import DataError
from wiesel.io.files import FilePath

__all__ = ["KeyedStore", "open_database"]

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
