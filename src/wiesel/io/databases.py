"""SQLite files that several threads and processes can use at the same time."""

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from wiesel.io.files import FilePath

__all__ = ["open_database"]

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
