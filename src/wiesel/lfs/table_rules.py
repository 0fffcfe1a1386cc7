"""Rules on columns of any type: expressions and thresholds."""

import base64
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy.typing as npt
import polars as pl
import polars.selectors as cs
from polars.exceptions import PolarsError

from wiesel.errors import DataError, ParameterError, listed
from wiesel.lfs.conditions import parse_condition
from wiesel.lfs.fingerprints import digest
from wiesel.lfs.function import LabelRule, need_columns, slug, true_rows
from wiesel.lfs.text_rules import check_pattern
from wiesel.parameters import check_number
from wiesel.tables import as_frame, require_columns

__all__ = [
    "Expression",
    "Lookup",
    "PolarsExpression",
    "Threshold",
    "check_row_by_row",
    "column_names",
    "expression",
    "known_rows",
    "lookup",
    "packed_expression",
    "serialized",
    "threshold",
    "unpacked_expression",
]

_NO_LONGER = {
    "json": "Serialized Polars expressions are not read, because reading one can run any code",
    "sql": "The condition is no longer called sql",
}


class _ConditionRule(LabelRule):
    """A rule whose condition is a Polars expression."""

    @property
    def polars_condition(self) -> pl.Expr:
        """The expression that is true on the rows where the rule votes."""
        raise NotImplementedError

    @classmethod
    def matching_rows(cls, rules: Sequence[Self], frame: pl.DataFrame) -> list[npt.NDArray[Any]]:
        """Return the rows of every rule, all conditions at once on all cores."""
        for rule in rules:
            need_columns(frame, rule)
            rule.check_types(frame)
        masks = cls._seen(frame).select(
            rule.polars_condition.alias(str(number)) for number, rule in enumerate(rules)
        )
        for rule, mask in zip(rules, masks, strict=True):
            if mask.dtype not in (pl.Boolean, pl.Null):
                raise ParameterError(
                    f"{rule.name!r} needs a condition that is true or false for every row; "
                    f"its expression gives {mask.dtype}."
                )
        if masks.height != frame.height:  # only constants: one value stands for every row
            return [true_rows(mask.new_from_index(0, frame.height)) for mask in masks]
        return [true_rows(mask) for mask in masks]

    @classmethod
    def _seen(cls, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows as conditions see them."""
        return frame

    def check_types(self, frame: pl.DataFrame) -> None:
        """Refuse columns of a type that the rule cannot read."""


@dataclass(frozen=True, repr=False)
class Expression(_ConditionRule):
    """Votes where a condition in Wiesel's condition language is true; made by `expression`."""

    kind: ClassVar[str] = "expression"
    condition: str
    """Such as `length(text) < 20 and n_links > 3`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.polars_condition  # noqa: B018 - a mistake is raised here

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the rule that `to_dict` described."""
        for name, problem in _NO_LONGER.items():
            if name in data:
                raise ParameterError(
                    f'{problem}: write condition = "length(text) < 20 and n > 3" instead of '
                    f"{name} = ... (docs/how-to/conditions.md has the language)."
                )
        return super().from_dict(data)

    def default_name(self) -> str:
        """Return the class and the columns of the condition."""
        return _default_name(self.label, self.polars_condition)

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns of the condition."""
        return tuple(dict.fromkeys(self.polars_condition.meta.root_names()))

    @cached_property
    def polars_condition(self) -> pl.Expr:
        """The condition as a Polars expression."""
        return parse_condition(self.condition, check_pattern)

    @classmethod
    def _seen(cls, frame: pl.DataFrame) -> pl.DataFrame:
        # NaN compares as the largest number in Polars, so "above" would take it.
        return frame.with_columns(cs.float().fill_nan(None))

    def check_types(self, frame: pl.DataFrame) -> None:
        """Refuse to compare a date with a number or a text."""
        first = frame.select(self.reads).head(1)
        dates = first.select(cs.temporal()).columns
        if not dates:
            return
        try:
            first.select(self.polars_condition)
            # Polars compares a date with a number as microseconds since 1970; a text it does not.
            first.with_columns(cs.temporal().cast(pl.String)).select(self.polars_condition)
        except pl.exceptions.PolarsError:
            raise DataError(
                f"{self.name!r} reads dates in the column {dates[0]!r}, which are neither numbers "
                f"nor texts in a condition. Compare to_text({dates[0]}) >= '2024-12-31'."
            ) from None


@dataclass(frozen=True, repr=False)
class PolarsExpression(_ConditionRule):
    """Votes where a Polars expression is true; made by `expression`.

    It is code, like a Python function: it is sent to other processes of this program, but never
    written to rules files or read from them.
    """

    kind: ClassVar[str] = "expression"
    polars: pl.Expr

    def __post_init__(self) -> None:
        object.__setattr__(self, "_serialized", serialized(self.polars))
        check_row_by_row(self.polars)
        super().__post_init__()

    def default_name(self) -> str:
        """Return the class and the columns of the expression."""
        return _default_name(self.label, self.polars)

    @property
    def reads(self) -> tuple[str, ...] | None:
        """The columns of the expression; None if it selects them by a pattern."""
        names = tuple(dict.fromkeys(self.polars.meta.root_names()))
        return None if self.polars.meta.has_multiple_outputs() or not names else names

    @property
    def polars_condition(self) -> pl.Expr:
        """The expression."""
        return self.polars

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the class and the expression."""
        return digest("polars", self.label, self._serialized)  # type: ignore[attr-defined]

    def to_dict(self) -> dict[str, Any]:
        """Refuse: a Polars expression is code, not data."""
        raise ParameterError(
            f"{self.name!r} is a Polars expression, which is code and cannot be kept as data. "
            "Write its condition as a text to keep it: "
            f'expression({self.label!r}, "length(text) < 20").'
        )

    def __eq__(self, other: object) -> bool:
        """Return whether two rules have the same name and vote alike."""
        if not isinstance(other, PolarsExpression):
            return NotImplemented
        return (self.name, self.fingerprint) == (other.name, other.fingerprint)

    def __hash__(self) -> int:
        return hash((self.name, self.fingerprint))

    def __repr__(self) -> str:
        name = "" if self.automatic_name else f", name={self.name!r}"
        return f"expression(label={self.label!r}, {self.polars}{name})"


@dataclass(frozen=True, repr=False)
class Threshold(_ConditionRule):
    """Votes where a number is above or below a limit; made by `threshold`."""

    kind: ClassVar[str] = "threshold"
    column: str
    above: float | None = None
    below: float | None = None

    def __post_init__(self) -> None:
        if self.above is None and self.below is None:
            raise ParameterError("threshold needs above=..., below=..., or both.")
        for name in ("above", "below"):
            if getattr(self, name) is not None:
                check_number(self, name, getattr(self, name))
        if self.above is not None and self.below is not None and self.above >= self.below:
            raise ParameterError(
                f"No number is above {self.above} and below {self.below}: it would never vote."
            )
        super().__post_init__()

    def default_name(self) -> str:
        """Return the class, the column and the limits."""
        limits = [f"above_{self.above:g}"] if self.above is not None else []
        limits += [f"below_{self.below:g}"] if self.below is not None else []
        return "_".join([slug(self.label), slug(self.column), *limits])

    @property
    def reads(self) -> tuple[str, ...]:
        """The column of numbers."""
        return (self.column,)

    def check_types(self, frame: pl.DataFrame) -> None:
        """Refuse dates, which Polars converts to microseconds since 1970."""
        dtype = frame.schema[self.column]
        if dtype.is_temporal():
            raise DataError(
                f"{self.name!r} needs numbers, but the column {self.column!r} holds {dtype}. "
                f"Dates are for expression(\"to_text({self.column}) >= '2024-12-31'\")."
            )

    @property
    def polars_condition(self) -> pl.Expr:
        """Whether the number is in the range; NaN is in none."""
        # NaN compares as the largest number in Polars, so "above" alone would take it.
        number = pl.col(self.column).cast(pl.Float64).fill_nan(None)
        inside = pl.lit(True)
        if self.above is not None:
            inside &= number > self.above
        if self.below is not None:
            inside &= number < self.below
        return inside


def expression(
    label: str, condition: pl.Expr | str, *, name: str = ""
) -> Expression | PolarsExpression:
    """Return a labeling function that votes `label` where a condition on the columns is true.

    The condition is a text in a small language, the same as in rules files: columns, constants
    (3, 'free', true), = != < <= > >=, and, or, not, in, between, is null, + - * / % and functions
    such as length, word_count, lower, contains, starts_with, ends_with, matches, abs, round
    (docs/how-to/conditions.md has all of them). Or it is a Polars expression, which is code: it is
    not written to rules files. It must use one row at a time, so that the votes do not depend on
    the batches.

    >>> import polars as pl
    >>> short = expression("ham", "length(text) < 10 and not contains(text, 'free')")
    >>> short({"text": "see you"})
    'ham'
    >>> expression("ham", pl.col("text").str.len_chars() < 10)({"text": "see you tomorrow"}) is None
    True
    """
    if isinstance(condition, str):
        return Expression(label, condition, name=name)
    if not isinstance(condition, pl.Expr):
        raise ParameterError(
            f"expression needs a condition in a text or a Polars expression; got {condition!r:.60}."
        )
    return PolarsExpression(label, condition, name=name)


def threshold(
    label: str,
    column: str,
    *,
    above: float | None = None,
    below: float | None = None,
    name: str = "",
) -> Threshold:
    """Return a labeling function that votes `label` where a number is above or below a limit.

    With both limits it votes between them. A missing number abstains.

    >>> many_links = threshold("spam", "n_links", above=3)
    >>> many_links({"n_links": 4}), many_links({"n_links": 3})
    ('spam', None)
    """
    return Threshold(label, column, above, below, name=name)


def _default_name(label: str, condition: pl.Expr) -> str:
    names = dict.fromkeys(condition.meta.root_names())
    return "_".join([slug(label), *map(slug, names), "expression"])


_PYTHON = ("AnonymousFunction", "FfiPlugin", "Python")
_CALLED = ("Map", "MapFieldNames", "callback")
"""The keys under which Polars stores other Python functions, as lists of bytes."""


def serialized(expression: pl.Expr) -> str:
    """Return an expression as text, for comparing; refuse one that calls Python functions.

    Their text differs between processes, so cached votes could not be found.
    """
    try:
        text: str = expression.meta.serialize(format="json")
    except PolarsError as error:
        raise ParameterError(f"The expression {expression} cannot be used: {error}.") from None
    foreign = sorted({name for name, value in _entries(json.loads(text)) if _is_code(name, value)})
    if foreign:
        raise ParameterError(
            f"The expression contains Python or plug-in code ({listed(foreign)}), which cannot be "
            "compared or sent. Write it as @labeling_function(vectorized=True)."
        )
    return text


def packed_expression(expression: pl.Expr) -> str:
    """Return an expression as text for another process of this program."""
    return base64.b64encode(expression.meta.serialize()).decode()


def unpacked_expression(text: str) -> pl.Expr:
    """Return the expression that `packed_expression` made in a process of this program.

    Never call it with data from a file: it would run any code in it.
    """
    return pl.Expr.deserialize(io.BytesIO(base64.b64decode(text)))


def check_row_by_row(condition: pl.Expr) -> None:
    """Refuse an expression that reads other rows than the one it votes on."""
    mixing = [part for part in _parts(condition) if not _is_row_by_row(part)]
    if mixing:
        raise ParameterError(
            f"The expression {mixing[0]} needs other rows than the one it votes on, so its votes "
            "would depend on the batch. Compute that number first and use it as a constant."
        )


def _entries(value: Any) -> Iterator[tuple[str, Any]]:
    """Every name and value of a parsed JSON text, at any depth."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield name, part
            yield from _entries(part)
    elif isinstance(value, list):
        for part in value:
            yield from _entries(part)


def _is_code(name: str, value: Any) -> bool:
    if name.startswith(_PYTHON):
        return True
    return name in _CALLED and isinstance(value, list) and all(type(own) is int for own in value)


def _parts(expression: pl.Expr) -> Iterator[pl.Expr]:
    yield expression
    for part in expression.meta.pop():
        yield from _parts(part)


def _is_row_by_row(part: pl.Expr) -> bool:
    try:
        return part.meta.is_row_separable()
    except PolarsError:  # a selection by type or pattern cannot be checked without a table
        return True


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
