"""Columns of classes in files: numbers are class names if the classes are named by numbers."""

import math
import re
from collections.abc import Callable

import polars as pl

from wiesel.errors import DataError
from wiesel.labels import ABSTAIN, LabelSpace
from wiesel.long_votes import without_blanks

__all__ = ["class_column"]

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
_LONGEST = 15
"""The most characters of a name that is a number: longer ones are not exact in a column."""


def class_column(column: pl.Series, labels: LabelSpace) -> pl.Series:
    """Return a column with class names instead of numbers, if every class is named by a number.

    In a file, the class "2" and the index 2 look the same. Indices are for other class names. The
    same holds for "true" and "false". -1 is an abstention unless a class has this name. Blank texts
    become null.

    >>> class_column(pl.Series([5, 1, -1]), LabelSpace("1", "5")).to_list()
    ['5', '1', None]
    >>> class_column(pl.Series([1, 0, -1]), LabelSpace("ham", "spam")).to_list()
    [1, 0, -1]
    """
    if column.dtype == pl.Boolean:
        known = _named_by(labels, _truth)
    elif column.dtype.is_numeric():
        known = _named_by(labels, _number)
    else:
        return without_blanks(column) if column.dtype in (pl.String, pl.Categorical) else column
    if not known:
        return column
    known.setdefault(ABSTAIN, None)
    values = [value for value in column.drop_nulls().unique().to_list() if value == value]
    # A number that is no class stays as text, so that whoever looks it up says in which row it is.
    names = [known.get(value, str(value)) for value in values]
    return column.replace_strict(values, names, default=None, return_dtype=pl.String)


def _named_by(labels: LabelSpace, read: Callable[[str], float | None]) -> dict[float, str | None]:
    """The class names by their values; empty if a class has a name of another kind."""
    known: dict[float, str | None] = {}
    for name in labels:
        value = read(name)
        if value is None:
            return {}
        if value in known:
            raise DataError(
                f"The classes {known[value]!r} and {name!r} are equal in a column of numbers: "
                "rename one of them."
            )
        known[value] = name
    return known


def _truth(name: str) -> bool | None:
    return {"true": True, "false": False}.get(name.lower())


def _number(name: str) -> float | None:
    if len(name) > _LONGEST or not _NUMBER.fullmatch(name):
        return None
    value = float(name)
    return value if math.isfinite(value) else None
