"""A batch of rows: the frame, the names of its rows, and values shared by labeling functions."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.lfs.failures import Failure, shortened_row
from wiesel.lfs.sources import Row, rows_of
from wiesel.vote_entries import item_ids

__all__ = ["Batch"]


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


def _error_text(error: BaseException) -> str:
    """The text of an exception, with its notes."""
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    return f"{type(error).__name__}: {error}{notes}"
