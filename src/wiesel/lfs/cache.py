"""A disk cache of votes, one entry per labeling function, so that only changes are run again."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from wiesel.io.stores import KeyedStore
from wiesel.labels import LabelSpace
from wiesel.lfs.batch import Batch
from wiesel.lfs.column_votes import ColumnVotes
from wiesel.lfs.fingerprints import digest
from wiesel.lfs.function import LabelingFunction
from wiesel.version import __version__

__all__ = ["VoteCache", "cache_keys"]

_FILE_NAME = "lf_votes.sqlite"


@dataclass(eq=False)
class VoteCache:
    """A file with the votes of labeling functions; `hits` and `misses` count its use.

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
        """Return the cache itself, or the cache at a path."""
        return cls(cache) if isinstance(cache, (str, os.PathLike)) else cache

    def get(self, keys: Sequence[str]) -> dict[str, ColumnVotes]:
        """Return the cached votes, by key."""
        known = self._store().get(keys)
        found = {key: _decoded(content) for key, content in known.items()}
        self.hits += len(found)
        self.misses += len(keys) - len(found)
        return found

    def put(self, columns: Mapping[str, ColumnVotes]) -> None:
        """Store votes; those with failures are not stored, so that they are tried again."""
        self._store().put({key: _encoded(c) for key, c in columns.items() if not c.failures})

    def _store(self) -> KeyedStore:
        path = Path(self.path)
        return KeyedStore(path / _FILE_NAME if path.is_dir() else path)


def cache_keys(
    lfs: Sequence[LabelingFunction],
    fingerprints: Sequence[str],
    batch: Batch,
    labels: LabelSpace,
) -> list[str]:
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
    # Another version of Wiesel may interpret a rule differently.
    reading = digest(__version__, labels.names)
    return [
        digest(reading, fingerprint, data(everything if lf.reads is None else lf.reads))
        for lf, fingerprint in zip(lfs, fingerprints, strict=True)
    ]


def column_digest(column: pl.Series) -> str:
    """Return a digest of the values of a column, in order."""
    dtype = str(column.dtype)
    if column.dtype == pl.Object:
        return digest(dtype, column.to_list())
    values = pl.DataFrame([column]).hash_rows(seed=0).to_numpy()
    return digest(dtype, len(column), values)


def _encoded(column: ColumnVotes) -> bytes:
    """The number of votes and of probabilities for each, and the arrays."""
    rows = column.distribution
    width = 0 if rows is None else rows.shape[1]
    parts = [
        np.array([len(column.rows), width], "<i8"),
        column.rows.astype("<i8"),
        column.classes.astype("<i2"),
    ]
    parts += [] if rows is None else [rows.astype("<f4")]
    return b"".join(part.tobytes() for part in parts)


def _decoded(content: bytes) -> ColumnVotes:
    count, width = np.frombuffer(content, "<i8", 2).tolist()
    rows = np.frombuffer(content, "<i8", count, offset=16)
    classes = np.frombuffer(content, "<i2", count, offset=16 + 8 * count)
    distribution = None
    if width:
        numbers = np.frombuffer(content, "<f4", count * width, offset=16 + 10 * count)
        distribution = numbers.astype(np.float32).reshape(count, width)
    return ColumnVotes(rows.astype(np.int64), classes.astype(np.int16), distribution)
