"""Rows of any kind as batches, and a batch: its frame, names and shared values."""

import gc
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import Argument, ParameterError, suggest
from wiesel.io import read_batches
from wiesel.lfs.failures import Failure, shortened_row
from wiesel.tables import as_frame, require_columns
from wiesel.vote_entries import item_ids

__all__ = ["BATCH_ROWS", "SLOW_BATCH_ROWS", "Batch", "Row", "RowSource", "as_row", "rows_of"]

BATCH_ROWS = 50_000
"""The number of rows in memory at once; a row of text is a few kilobytes."""
SLOW_BATCH_ROWS = 10_000
"""The same for functions that may be slow: a failure loses at most one batch."""


class Row(dict[str, Any]):
    """A dict whose keys can be read as attributes, too.

    A column that has the name of a dict method (`items`, `keys`, `get`, ...) or is not a valid
    Python name is read as `row["items"]`.

    >>> row = Row(text="see you", words=2)
    >>> row.text, row["words"]
    ('see you', 2)
    >>> row.txt
    Traceback (most recent call last):
    AttributeError: The row has no column 'txt'. Did you mean 'text'?

    All labeling functions read the same row, so none can change it.

    >>> row["text"] = "other"
    Traceback (most recent call last):
    TypeError: A row cannot be changed: all labeling functions read it. Change dict(row), a copy.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            # Special attributes (for copying, pickling, printing) are not columns.
            problem = f"The row has no column {name!r}. {suggest(name, self)}"
            raise AttributeError(name if name.startswith("__") else problem) from None

    def _refuse_change(self, *arguments: Any, **named: Any) -> Any:
        raise TypeError(
            "A row cannot be changed: all labeling functions read it. Change dict(row), a copy."
        )

    __setitem__ = __delitem__ = __ior__ = _refuse_change
    clear = pop = popitem = setdefault = update = _refuse_change

    def __reduce__(self) -> tuple[type["Row"], tuple[dict[str, Any]]]:
        return Row, (dict(self),)

    def __or__(self, other: Mapping[str, Any]) -> "Row":  # type: ignore[override]
        return Row({**self, **other})


@dataclass(eq=False)
class Batch:
    """Consecutive rows, with their position in the whole table.

    >>> batch = Batch(pl.DataFrame({"id": ["m1"], "text": ["hi"]}), start=5, id_column="id")
    >>> batch.item(0), batch.rows
    ("row 5 (id 'm1')", [{'id': 'm1', 'text': 'hi'}])
    """

    frame: pl.DataFrame
    start: int = 0
    """The number of rows before this batch."""
    id_column: str | None = None
    stop_at_failure: bool = False
    """Whether a labeling function may stop at the first row on which it fails."""
    ahead: int = 0
    """The number of rows known to follow this batch."""
    shared: dict[object, list[Any]] = field(default_factory=dict, repr=False)
    """Columns computed by preprocessors, one value per row."""

    def __len__(self) -> int:
        return len(self.frame)

    @cached_property
    def ids(self) -> npt.NDArray[Any]:
        """The ids of the items: the id column, or the row numbers."""
        if self.id_column is None:
            return np.arange(self.start, self.start + len(self))
        return item_ids(self.frame[self.id_column], len(self))

    @cached_property
    def rows(self) -> list[Row]:
        """Every row as a dict, made once for all row-wise labeling functions."""
        return rows_of(self.frame)

    def item(self, position: int) -> str:
        """Return the name of the row at a position, for messages."""
        name = f"row {self.start + position}"
        if self.id_column is None:
            return name
        (own,) = self.ids[position : position + 1].tolist()  # 7, not np.int64(7)
        return f"{name} (id {own!r})"

    def failure(self, lf: str, position: int, error: BaseException | str) -> Failure:
        """Return the record of a labeling function that failed on a row."""
        reason = error if isinstance(error, str) else _error_text(error)
        row = shortened_row(self.frame.row(position, named=True))
        return Failure(lf, self.item(position), reason, row)

    def share(self, key: object, compute: Callable[[], list[Any]]) -> list[Any]:
        """Return the column of a preprocessor, computed on first use."""
        if key not in self.shared:
            self.shared[key] = compute()
        return self.shared[key]

    def piece(self, first: int, count: int) -> "Batch":
        """Return some of the rows as a new batch."""
        frame = self.frame.slice(first, count)
        return replace(self, frame=frame, start=self.start + first, shared={})


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


def as_row(row: Any) -> Any:
    """Return a dict as a row; anything else, such as a row of pandas, as it is."""
    return Row(row) if type(row) is dict else row


def rows_of(frame: pl.DataFrame) -> list[Row]:
    """Return every row of a frame.

    >>> rows_of(pl.DataFrame({"text": ["hi"]}))[0].text
    'hi'
    """
    values = frame.rows()
    # Unlike plain dicts of text and numbers, these are objects that the garbage collector looks
    # at, again and again while thousands are made: half of the time went into that.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return [Row(pairs) for pairs in map(zip, repeat(frame.columns), values)]
    finally:
        if collecting:
            gc.enable()


def _error_text(error: BaseException) -> str:
    """The text of an exception, with its notes."""
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    return f"{type(error).__name__}: {error}{notes}"
