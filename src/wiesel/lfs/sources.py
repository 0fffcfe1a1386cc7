"""Rows of any kind as batches: tables in memory, lazy frames, and files larger than memory."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from wiesel.errors import Argument, ParameterError
from wiesel.io import read_batches
from wiesel.lfs.batch import Batch
from wiesel.tables import as_frame, require_columns

__all__ = ["BATCH_ROWS", "SLOW_BATCH_ROWS", "RowSource"]

BATCH_ROWS = 50_000
"""The number of rows in memory at once; a row of text is a few kilobytes."""
SLOW_BATCH_ROWS = 10_000
"""The same for functions that may be slow: a failure loses at most one batch."""


@dataclass(frozen=True, eq=False)
class RowSource:
    """A source of rows, and the columns that are needed.

    >>> source = RowSource([{"id": 1, "text": "a"}, {"id": 2, "text": "b"}], id_column="id")
    >>> [batch.ids.tolist() for batch in source.batches(size=1)]
    [[1], [2]]
    """

    rows: Any
    id_column: str | None = None
    columns: tuple[str, ...] | None = None
    """The columns that labeling functions read; None for all."""

    def __post_init__(self) -> None:
        if self.id_column is not None and not isinstance(self.id_column, str):
            problem = f" is the name of a column; got {self.id_column!r:.60}."
            raise ParameterError(Argument("ids"), problem)

    @property
    def path(self) -> Path | None:
        """The file or pattern, if the rows are in files."""
        return Path(self.rows) if isinstance(self.rows, (str, os.PathLike)) else None

    @property
    def needed(self) -> list[str] | None:
        """The columns to read, with the id column; None for all."""
        if self.columns is None:
            return None
        ids = [] if self.id_column is None else [self.id_column]
        return list(dict.fromkeys([*ids, *self.columns]))

    def batches(self, size: int = BATCH_ROWS) -> Iterator[Batch]:
        """Yield all rows in order, at most `size` at a time; always at least one batch."""
        start = 0
        for frame, ahead in self._frames(size):
            if self.id_column is not None:
                require_columns(frame, [self.id_column], "of the item ids")
            yield Batch(frame, start, self.id_column, ahead=ahead)
            start += len(frame)

    def _frames(self, size: int) -> Iterator[tuple[pl.DataFrame, int]]:
        """Frames, each with the number of rows that are known to follow."""
        if self.path is not None:
            for frame in read_batches(self.path, self._readable(), batch_size=size):
                yield frame, 0
        elif isinstance(self.rows, pl.LazyFrame):
            for frame in self.rows.collect_batches(chunk_size=size, maintain_order=True):
                yield frame, 0
        else:
            frame = as_frame(self.rows)
            for first in range(0, max(len(frame), 1), size):
                yield frame.slice(first, size), max(len(frame) - first - size, 0)

    def _readable(self) -> Sequence[str] | None:
        # If no rule reads a column, one is still needed to count the rows.
        return self.needed or None
