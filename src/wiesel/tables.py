"""In-memory tables of any common kind as Polars frames."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

import polars as pl

from wiesel.errors import DataError, listed, suggest

__all__ = ["as_frame", "require_columns"]


def as_frame(table: Any) -> pl.DataFrame:
    """Return a Polars frame of a Polars, pandas or Arrow table, a dict of columns or rows of dicts.

    >>> as_frame([{"task": 1, "label": "cat"}, {"task": 2, "label": "dog"}]).shape
    (2, 2)
    """
    if isinstance(table, pl.DataFrame):
        return table
    if isinstance(table, pl.LazyFrame):
        return table.collect()
    kind = type(table).__module__.partition(".")[0]
    if kind == "pandas":
        # Column by column through lists of Python objects would be slow; Arrow is not required.
        return pl.DataFrame({str(name): _pandas_column(table[name]) for name in table.columns})
    if isinstance(table, Mapping):
        return pl.DataFrame(dict(table))
    if hasattr(table, "__arrow_c_stream__") or kind == "pyarrow":
        return cast(pl.DataFrame, pl.from_arrow(table))
    if isinstance(table, Iterable) and not isinstance(table, (str, bytes)):
        return _frame_of_rows(list(table))
    raise DataError(
        "Rows must be a Polars, pandas or Arrow table, a dict of columns or a list of dicts; "
        f"got {type(table).__name__}."
    )


def require_columns(frame: pl.DataFrame, columns: Iterable[str], purpose: str) -> None:
    """Refuse a frame that lacks one of the columns, naming the nearest one it has."""
    for column in columns:
        if column not in frame.columns:
            raise DataError(
                f"There is no column {column!r} ({purpose}). "
                f"{suggest(column, frame.columns)} The table has {listed(frame.columns)}."
            )


def _pandas_column(column: Any) -> pl.Series:
    values = column.to_numpy()
    if values.dtype == object:
        missing = column.isna().to_numpy()
        values = [None if gone else value for gone, value in zip(missing, values, strict=True)]
    return pl.Series(str(column.name), values)


def _frame_of_rows(rows: list[Any]) -> pl.DataFrame:
    for position, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise DataError(
                f"Rows must be dicts; row {position} is a {type(row).__name__}: {row!r:.80}."
            )
    return pl.from_dicts(rows, infer_schema_length=None) if rows else pl.DataFrame()
