"""Votes kept on disk, column by column, so that only what changed is run again."""

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from wiesel.errors import DataError
from wiesel.labels import LabelSpace
from wiesel.lfs.batch import Batch
from wiesel.lfs.column_votes import ColumnVotes
from wiesel.lfs.fingerprints import digest
from wiesel.lfs.function import LabelingFunction
from wiesel.version import __version__

__all__ = ["VoteCache", "cache_keys"]

_TABLE = """
CREATE TABLE IF NOT EXISTS votes (
    key TEXT PRIMARY KEY, rows BLOB NOT NULL, classes BLOB NOT NULL, distribution BLOB
) WITHOUT ROWID
"""
_FILE_NAME = "lf_votes.sqlite"


@dataclass(eq=False)
class VoteCache:
    """A SQLite file with the votes of labeling functions; `hits` and `misses` count its use.

    >>> import tempfile
    >>> cache = VoteCache(tempfile.mkdtemp())
    >>> cache.put({"some key": ColumnVotes.of_class(np.array([3]), 1)})
    >>> cache.get(["some key", "another"])["some key"].rows, cache.hits, cache.misses
    (array([3]), 1, 1)
    """

    path: str | os.PathLike[str]
    hits: int = 0
    misses: int = 0

    @classmethod
    def of(cls, cache: "VoteCache | str | os.PathLike[str] | None") -> "VoteCache | None":
        """Return the cache itself, or that of a path."""
        return cls(cache) if isinstance(cache, (str, os.PathLike)) else cache

    def get(self, keys: Sequence[str]) -> dict[str, ColumnVotes]:
        """Return the votes that are known, by key."""
        found = {}
        with self._open() as connection:
            for key in keys:
                row = connection.execute(
                    "SELECT rows, classes, distribution FROM votes WHERE key = ?", (key,)
                ).fetchone()
                if row is not None:
                    found[key] = _decoded(*row)
        self.hits += len(found)
        self.misses += len(keys) - len(found)
        return found

    def put(self, columns: Mapping[str, ColumnVotes]) -> None:
        """Keep votes; those with failures are not kept, so that they are tried again."""
        complete = [(key, *_encoded(c)) for key, c in columns.items() if not c.failures]
        with self._open() as connection, connection:
            connection.executemany("INSERT OR REPLACE INTO votes VALUES (?, ?, ?, ?)", complete)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        path = Path(self.path)
        path = path / _FILE_NAME if path.is_dir() else path
        try:
            with closing(sqlite3.connect(path)) as connection:
                connection.execute(_TABLE)
                yield connection
        except sqlite3.Error as error:
            raise DataError(
                f"The cache {path} cannot be used: {error}. It may be deleted at any time: "
                "the votes are then computed again."
            ) from error


def cache_keys(lfs: Sequence[LabelingFunction], batch: Batch, labels: LabelSpace) -> list[str]:
    """Return the key of every labeling function's votes on a batch.

    It changes with the function, the classes, and the columns that the function reads.
    """
    columns: dict[str, str] = {}

    def data(names: Sequence[str]) -> str:
        for name in names:
            if name not in columns and name in batch.frame.columns:
                columns[name] = column_digest(batch.frame[name])
        return digest([(name, columns.get(name)) for name in names])

    everything = batch.frame.columns
    # Another version of Wiesel may read a rule in another way.
    reading = digest(__version__, labels.names)
    return [
        digest(reading, lf.fingerprint, data(everything if lf.reads is None else lf.reads))
        for lf in lfs
    ]


def column_digest(column: pl.Series) -> str:
    """Return a digest of the values of a column, in order."""
    dtype = str(column.dtype)
    if column.dtype == pl.Object:
        return digest(dtype, column.to_list())
    values = pl.DataFrame([column]).hash_rows(seed=0).to_numpy()
    return digest(dtype, len(column), values)


def _encoded(column: ColumnVotes) -> tuple[Any, ...]:
    rows = column.distribution
    return (
        column.rows.astype("<i8").tobytes(),
        column.classes.astype("<i2").tobytes(),
        None if rows is None else rows.astype("<f4").tobytes(),
    )


def _decoded(rows: bytes, classes: bytes, distribution: bytes | None) -> ColumnVotes:
    places = np.frombuffer(rows, "<i8").astype(np.int64)
    numbers = None
    if distribution is not None:
        numbers = np.frombuffer(distribution, "<f4").astype(np.float32)
        numbers = numbers.reshape(len(places), -1) if len(places) else None
    return ColumnVotes(places, np.frombuffer(classes, "<i2").astype(np.int16), numbers)
