"""Preprocessors: values computed once per row and shared by several labeling functions."""

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, overload

from wiesel.errors import ParameterError
from wiesel.lfs.fingerprints import digest

__all__ = ["BrokenRow", "Preprocessor", "as_preprocessors", "preprocessor", "rows_with"]

Share = Callable[[object, Callable[[], list[Any]]], list[Any]]
"""Caches the column of a key: `Batch.share`."""


@dataclass(frozen=True)
class BrokenRow:
    """Marks a row on which a preprocessor raised; functions that use the value fail there."""

    error: Exception


@dataclass(frozen=True, eq=False)
class Preprocessor:
    """A value computed from a row and added to it under a name; made by `preprocessor`."""

    function: Callable[[dict[str, Any]], Any]
    name: str
    uses: tuple["Preprocessor", ...] = ()
    is_function: bool = False
    """Whether it calls a labeling function, so that errors need not name it."""

    @property
    def fingerprint(self) -> str:
        """A digest of the code and its dependencies, as they are now."""
        return digest(*self.fingerprint_parts)

    @property
    def fingerprint_parts(self) -> tuple[Any, ...]:
        """What the fingerprint is made of."""
        return (self.function, self.name, self.uses)

    def __call__(self, row: dict[str, Any]) -> Any:
        """Return the value for one row."""
        return self.function(rows_with(self.uses, [row])[0] if self.uses else row)

    def values(self, rows: Sequence[Any], share: Share) -> list[Any]:
        """Return the value of every row, a `BrokenRow` where it raised."""
        rows = rows_with(self.uses, rows, share) if self.uses else rows
        return share(self, lambda: [self._value(row) for row in rows])

    def _value(self, row: Any) -> Any:
        if isinstance(row, BrokenRow):
            return row
        try:
            return self.function(row)
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            if not self.is_function:
                error.add_note(f"in the preprocessor {self.name!r}")
            return BrokenRow(error)


@overload
def preprocessor(function: Callable[..., Any], /) -> Preprocessor: ...


@overload
def preprocessor(
    *, name: str = "", uses: Preprocessor | Iterable[Preprocessor] = ()
) -> Callable[[Callable[..., Any]], Preprocessor]: ...


def preprocessor(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    uses: Preprocessor | Iterable[Preprocessor] = (),
) -> Preprocessor | Callable[[Callable[..., Any]], Preprocessor]:
    """Make a value that is computed once per row and shared (a decorator).

    Labeling functions that list it in `uses` find the value in the row under its name. It may be
    any Python object, for instance a parsed document.

    >>> from wiesel import labeling_function
    >>> @preprocessor
    ... def words(row):
    ...     return row["text"].lower().split()
    >>> @labeling_function(uses=words)
    ... def greeting(row):
    ...     return "ham" if row["words"][0] in {"hi", "hello"} else None
    >>> greeting({"text": "Hello you"})
    'ham'
    """
    if function is None:
        return functools.partial(_named, name=name, uses=as_preprocessors(uses))
    return _named(function, name, as_preprocessors(uses))


def _named(function: Callable[..., Any], name: str, uses: tuple[Preprocessor, ...]) -> Preprocessor:
    """Return the preprocessor of a function, named like it unless a name is given."""
    return Preprocessor(function, name or function.__name__, uses)


def as_preprocessors(uses: Preprocessor | Iterable[Preprocessor]) -> tuple[Preprocessor, ...]:
    """Return one or several preprocessors as a tuple, refusing anything else."""
    several = tuple(uses) if isinstance(uses, Iterable) else (uses,)
    for use in several:
        if not isinstance(use, Preprocessor):
            raise ParameterError(
                f"uses=... takes preprocessors; got {use!r:.60}. Decorate it with @preprocessor."
            )
    return several


def rows_with(
    uses: Sequence[Preprocessor], rows: Sequence[Any], share: Share | None = None
) -> list[Any]:
    """Return the rows with the values of preprocessors added (a `BrokenRow` where one raised)."""
    kept: dict[object, list[Any]] = {}

    def keep(key: object, compute: Callable[[], list[Any]]) -> list[Any]:
        return kept[key] if key in kept else kept.setdefault(key, compute())

    columns = [use.values(rows, share or keep) for use in uses]
    names = [use.name for use in uses]
    return [_row_with(row, names, values) for row, *values in zip(rows, *columns, strict=True)]


def _row_with(row: dict[str, Any], names: list[str], values: list[Any]) -> Any:
    for value in values:
        if isinstance(value, BrokenRow):
            return value
    return row | dict(zip(names, values, strict=True))
