"""Converts in-memory tables of all common kinds to Polars data frames."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl

from wiesel.errors import DataError, listed, suggest
from wiesel.threads import check_polars_threads

__all__ = ["as_frame", "of_type", "require_columns"]

_MIXED = (str, int, float, Decimal, date)
"""The types that a column of Python objects may mix; a bool is an int, a datetime a date."""


def as_frame(table: Any) -> pl.DataFrame:
    """Return a Polars frame from a Polars, pandas or Arrow table, a dict of columns or dict rows.

    >>> as_frame([{"task": 1, "label": "cat"}, {"task": 2, "label": "dog"}]).shape
    (2, 2)
    """
    if isinstance(table, pl.DataFrame):
        return table
    if isinstance(table, pl.LazyFrame):
        check_polars_threads("A lazy frame")
        return table.collect()
    try:
        return _converted(table)
    except UnicodeEncodeError as error:
        raise DataError(
            f"A text in the rows has half of a character, {error.object[error.start]!r}, which "
            "cannot be stored: text.encode('utf-8', 'replace').decode() removes it."
        ) from None


def _converted(table: Any) -> pl.DataFrame:
    kind = type(table).__module__.partition(".")[0]
    if kind == "pandas" and hasattr(table, "columns"):
        return _frame_of_pandas(table)
    if isinstance(table, Mapping):
        return _frame_of_columns(table)
    if hasattr(table, "__arrow_c_stream__") or kind == "pyarrow":
        frame = pl.from_arrow(table)
        if isinstance(frame, pl.DataFrame):
            return frame
    elif isinstance(table, Iterable) and not isinstance(table, (str, bytes)):
        return _frame_of_rows(list(table))
    raise DataError(
        "Rows must be a Polars, pandas or Arrow table, a dict of columns or a list of dicts; "
        f"got {type(table).__name__}."
    )


def require_columns(frame: pl.DataFrame, columns: Iterable[str], purpose: str) -> None:
    """Refuse a frame that lacks one of the columns, and name the most similar column it has."""
    names = frame.columns  # a new list at every look
    known = set(names)
    for column in columns:
        if column not in known:
            close = suggest(column, names)
            close = f"{close} " if close.startswith("Did") else ""
            raise DataError(
                f"There is no column {column!r} ({purpose}). "
                f"{close}The table has {listed(names) or 'no columns'}."
            )


def _frame_of_pandas(table: Any) -> pl.DataFrame:
    names = [str(name) for name in table.columns]
    repeated = sorted(name for name, n in Counter(names).items() if n > 1)
    if repeated:
        raise DataError(f"The columns {listed(repeated)} appear more than once in the table.")
    # Column by column through lists of Python objects would be slow; Arrow is not required.
    return pl.DataFrame(
        [_pandas_column(name, table[key]) for name, key in zip(names, table, strict=True)]
    )


def _pandas_column(name: str, column: Any) -> pl.Series:
    """A pandas column, whose NaN, NaT and NA all mean missing."""
    missing = column.isna().to_numpy()
    plain = type(column.dtype).__module__.startswith("numpy") and column.dtype != object
    if plain or not missing.any():
        values = column.to_numpy()
        if values.dtype == object:
            return _series(name, values.tolist())
        return pl.Series(name, values, nan_to_null=True)
    pairs = zip(missing, column.tolist(), strict=True)
    return _series(name, [None if gone else value for gone, value in pairs])


def _frame_of_columns(table: Mapping[str, Any]) -> pl.DataFrame:
    try:
        return pl.DataFrame(dict(table))
    except TypeError:  # a list mixes types
        series = {n: _series(n, column) for n, column in table.items() if _is_list(column)}
        if not series:
            raise
        return _frame_of_columns({**table, **series})
    except pl.exceptions.ShapeError as error:
        lengths = {
            name: len(column) for name, column in table.items() if hasattr(column, "__len__")
        }
        raise DataError(f"The columns of a table must have one length; got {lengths}.") from error


def _frame_of_rows(rows: list[Any]) -> pl.DataFrame:
    for position, row in enumerate(rows):
        if not isinstance(row, Mapping):
            is_array = isinstance(row, np.ndarray)
            advice = " Name the columns: {'width': array[:, 0], ...}." if is_array else ""
            raise DataError(
                f"Rows must be dicts; row {position} is a {type(row).__name__}: {row!r:.80}."
                f"{advice}"
            )
    try:
        return pl.from_dicts(rows, infer_schema_length=None) if rows else pl.DataFrame()
    except (pl.exceptions.ComputeError, TypeError):
        names = dict.fromkeys(name for row in rows for name in row)
        return pl.DataFrame([_series(name, [row.get(name) for row in rows]) for name in names])


def _is_list(column: Any) -> bool:
    return isinstance(column, (list, tuple))


def _series(name: str, values: Sequence[Any]) -> pl.Series:
    """A column of Python objects; numbers of several types become the widest, among texts text."""
    try:
        return pl.Series(name, values, nan_to_null=True)
    except TypeError:
        values = [value.item() if isinstance(value, np.generic) else value for value in values]
        types = {type(value) for value in values if value is not None}
        if not all(issubclass(each, _MIXED) for each in types):
            names = listed(sorted(each.__name__ for each in types))
            raise DataError(
                f"The column {name!r} mixes values of the types {names}. Give them one type, for "
                "example text."
            ) from None
        return pl.Series(name, values, strict=False, nan_to_null=True)


def of_type(names: pl.Series, dtype: Any) -> pl.Series:
    """Return texts in their original type: numbers become numbers again.

    >>> of_type(pl.Series(["1", "2"]), pl.Int64).to_list()
    [1, 2]
    """
    if not dtype.is_numeric():
        return names
    numbers = names.cast(pl.Float64, strict=False)
    return names if numbers.null_count() else numbers.cast(dtype)
