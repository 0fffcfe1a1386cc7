"""A key-value store of bytes in a SQLite file, which several processes may use at once."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from wiesel.errors import DataError
from wiesel.io.databases import open_database

__all__ = ["KeyedStore"]

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
