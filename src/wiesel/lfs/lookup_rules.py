"""Distant supervision: lookups in a table of known cases."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy.typing as npt
import polars as pl

from wiesel.errors import ParameterError, listed
from wiesel.lfs.function import slug
from wiesel.lfs.rules import LabelRule, need_columns
from wiesel.tables import as_frame, require_columns

__all__ = ["Lookup", "column_names", "known_rows", "lookup"]


@dataclass(frozen=True, repr=False)
class Lookup(LabelRule):
    """Votes if the values of some columns are a known combination; made by `lookup`."""

    kind: ClassVar[str] = "lookup"
    known: tuple[tuple[Any, ...], ...]
    columns: tuple[str, ...]
    symmetric: bool = False
    case_sensitive: bool = True

    def __post_init__(self) -> None:
        names = column_names(self.columns)
        object.__setattr__(self, "columns", names)
        object.__setattr__(self, "known", _known_tuples(self.known, len(names)))
        if self.symmetric and len(names) != 2:
            raise ParameterError(
                f"symmetric=True is for pairs; there are {len(names)} columns: {listed(names)}."
            )
        super().__post_init__()

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that are looked up."""
        return self.columns

    def default_name(self) -> str:
        """Return the class and the columns."""
        return "_".join([slug(self.label), "known", *map(slug, self.reads)])

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain data."""
        return super().to_dict() | {"known": [list(row) for row in self.known]}

    def __repr__(self) -> str:
        return (
            f"lookup(label={self.label!r}, columns={list(self.reads)}, "
            f"{len(self.known):,} known: {listed(self.known, limit=2)})"
        )

    @classmethod
    def matching_rows(cls, rules: Sequence[Self], frame: pl.DataFrame) -> list[npt.NDArray[Any]]:
        """Return the rows of every rule."""
        return [rule._rows(frame) for rule in rules]

    def _rows(self, frame: pl.DataFrame) -> npt.NDArray[Any]:
        need_columns(frame, self)
        values = frame.select(self.reads)
        known = pl.DataFrame(self._entries, schema=self.reads, orient="row", strict=False)
        known = known.cast(values.schema, strict=False)
        if not self.case_sensitive:
            lower = pl.col(pl.String).str.to_lowercase()
            values, known = values.with_columns(lower), known.with_columns(lower)
        index = "position"
        while index in self.reads:
            index += "_"
        places = values.with_row_index(index).join(
            known.unique(), on=self.reads, how="semi", maintain_order="left"
        )
        return places[index].to_numpy()

    @cached_property
    def _entries(self) -> list[tuple[Any, ...]]:
        turned = [row[::-1] for row in self.known] if self.symmetric else []
        return [*self.known, *turned]


def lookup(
    label: str,
    known: Any,
    *,
    columns: str | Sequence[str],
    symmetric: bool = False,
    case_sensitive: bool = True,
    name: str = "",
) -> Lookup:
    """Return a labeling function that votes `label` where columns hold a known combination.

    This is distant supervision: `known` is a set of tuples (of values, for one column), or a table
    with these columns. With `symmetric`, a known pair counts in either order.

    >>> couples = {("Marie Curie", "Pierre Curie"), ("Ada Lovelace", "William King")}
    >>> married = lookup("spouse", couples, columns=["one", "two"], symmetric=True)
    >>> married({"one": "Pierre Curie", "two": "Marie Curie"})
    'spouse'
    """
    names = column_names(columns)
    rows = known_rows(known, names)
    return Lookup(label, rows, names, symmetric, case_sensitive, name=name)


def column_names(columns: Any) -> tuple[str, ...]:
    """Return the names of one or several columns."""
    names = (columns,) if isinstance(columns, str) else columns
    if (
        not isinstance(names, (list, tuple))
        or not names
        or not all(isinstance(name, str) and name for name in names)
    ):
        raise ParameterError(
            f"columns is the name of a column or a list of such names; got {columns!r:.60}."
        )
    if len(set(names)) < len(names):
        raise ParameterError(f"columns names a column twice: {listed(names)}.")
    return tuple(names)


def known_rows(known: Any, columns: tuple[str, ...]) -> tuple[Any, ...]:
    """Return the known cases of a table or a set, in a fixed order."""
    if hasattr(known, "columns"):
        frame = as_frame(known)
        require_columns(frame, columns, "of the known cases")
        return tuple(frame.select(columns).unique(maintain_order=True).rows())
    if isinstance(known, str) or not isinstance(known, Iterable):
        raise ParameterError(f"lookup needs a table or a set of known values; got {known!r:.60}.")
    return tuple(sorted(known, key=repr)) if isinstance(known, (set, frozenset)) else tuple(known)


def _known_tuples(known: Iterable[Any], width: int) -> tuple[tuple[Any, ...], ...]:
    if isinstance(known, (str, Mapping)) or not isinstance(known, Iterable):
        raise ParameterError(f"known is a list of known cases; got {known!r:.60}.")
    rows = tuple(tuple(row) if isinstance(row, (tuple, list)) else (row,) for row in known)
    if not rows:
        raise ParameterError("lookup needs at least one known case; got none.")
    for row in rows:
        if len(row) != width:
            raise ParameterError(
                f"Known cases must have one value for each of the {width} columns; got {row!r}."
            )
        nested = [value for value in row if isinstance(value, (list, tuple, set, Mapping))]
        if nested:
            raise ParameterError(f"Known cases are plain values; got {nested[0]!r:.60}.")
    return rows
