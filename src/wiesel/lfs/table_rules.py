"""Rules on columns of any type: expressions and thresholds."""

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy.typing as npt
import polars as pl
from polars.exceptions import PolarsError

from wiesel.errors import ParameterError, listed
from wiesel.lfs.function import slug
from wiesel.lfs.rules import LabelRule, need_columns, true_rows
from wiesel.parameters import check_number

__all__ = ["Expression", "Threshold", "expression", "threshold"]

_FOREIGN_CODE = ("AnonymousFunction", "FfiPlugin", "Python")
"""Parts of serialized expressions that would run code when they are read."""


class _ConditionRule(LabelRule):
    """A rule whose condition is a Polars expression."""

    @property
    def condition(self) -> pl.Expr:
        """The expression that is true where the rule votes."""
        raise NotImplementedError

    @classmethod
    def matching_rows(cls, rules: Sequence[Self], frame: pl.DataFrame) -> list[npt.NDArray[Any]]:
        """Return the rows of every rule, all conditions at once on all cores."""
        for rule in rules:
            need_columns(frame, rule)
        masks = frame.select(rule.condition.alias(str(number)) for number, rule in enumerate(rules))
        for rule, mask in zip(rules, masks, strict=True):
            if mask.dtype not in (pl.Boolean, pl.Null):
                raise ParameterError(
                    f"{rule.name!r} needs a condition that is true or false for every row; "
                    f"its expression gives {mask.dtype}."
                )
        if masks.height != frame.height:  # only constants: one value stands for every row
            masks = masks.select(pl.all().extend_constant(pl.first(), frame.height - 1))
        return [true_rows(mask) for mask in masks]


@dataclass(frozen=True, repr=False)
class Expression(_ConditionRule):
    """Votes where a Polars expression is true; made by `expression`."""

    kind: ClassVar[str] = "expression"
    sql: str = ""
    """The condition in SQL, as in `length(text) < 20 and n_links > 3`."""
    json: str = ""
    """The condition as Polars writes an expression."""

    def __post_init__(self) -> None:
        if bool(self.sql) == bool(self.json):
            raise ParameterError("An expression is given either as sql or as json.")
        _check_row_by_row(self.condition)
        super().__post_init__()

    def default_name(self) -> str:
        """Return the class and the columns of the expression."""
        return "_".join([slug(self.label), *map(slug, self.reads or ()), "expression"])

    @property
    def reads(self) -> tuple[str, ...] | None:
        """The columns of the expression; None where it selects them by a pattern."""
        names = tuple(dict.fromkeys(self.condition.meta.root_names()))
        return None if self.condition.meta.has_multiple_outputs() or not names else names

    @cached_property
    def condition(self) -> pl.Expr:
        """The expression."""
        return _parsed_sql(self.sql) if self.sql else _parsed_json(self.json)

    def __repr__(self) -> str:
        shown = self.sql if self.sql else str(self.condition)
        name = "" if self.automatic_name else f", name={self.name!r}"
        return f"expression(label={self.label!r}, {shown}{name})"


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

    @property
    def condition(self) -> pl.Expr:
        """Whether the number is in the range; NaN is in none."""
        # NaN compares as the largest number in Polars, so "above" alone would take it.
        number = pl.col(self.column).cast(pl.Float64).fill_nan(None)
        inside = pl.lit(True)
        if self.above is not None:
            inside &= number > self.above
        if self.below is not None:
            inside &= number < self.below
        return inside


def expression(label: str, condition: pl.Expr | str, *, name: str = "") -> Expression:
    """Return a labeling function that votes `label` where a condition on the columns is true.

    The condition is a Polars expression, or SQL as a string. It must look at one row at a time, so
    that the votes do not depend on how the rows are cut into batches.

    >>> import polars as pl
    >>> short = expression("ham", pl.col("text").str.len_chars() < 10)
    >>> short({"text": "see you"})
    'ham'
    >>> expression("ham", "length(text) < 10")({"text": "see you tomorrow"}) is None
    True
    """
    if isinstance(condition, str):
        return Expression(label, sql=condition, name=name)
    if not isinstance(condition, pl.Expr):
        raise ParameterError(
            f"expression needs a Polars expression or SQL in a string; got {condition!r:.60}."
        )
    return Expression(label, json=condition.meta.serialize(format="json"), name=name)


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


def _parsed_sql(sql: str) -> pl.Expr:
    try:
        return pl.sql_expr(sql)
    except PolarsError as error:
        raise ParameterError(f"The condition {sql!r} is no SQL expression: {error}.") from None


def _parsed_json(text: str) -> pl.Expr:
    try:
        parts = set(_keys(json.loads(text)))
        foreign = [part for part in sorted(parts) if part.startswith(_FOREIGN_CODE)]
        if not foreign:
            return pl.Expr.deserialize(io.StringIO(text), format="json")
    except (ValueError, PolarsError) as error:
        raise ParameterError(f"The expression cannot be read: {error}.") from None
    raise ParameterError(
        f"The expression contains Python or plug-in code ({listed(foreign)}), which cannot be kept "
        "as data. Write it as @labeling_function(vectorized=True)."
    )


def _keys(value: Any) -> Iterator[str]:
    """Every word of a parsed JSON text that may name a kind of expression."""
    if isinstance(value, dict):
        yield from value
        for part in value.values():
            yield from _keys(part)
    elif isinstance(value, list):
        for part in value:
            yield from _keys(part)


def _check_row_by_row(condition: pl.Expr) -> None:
    mixing = [part for part in _parts(condition) if not _is_row_by_row(part)]
    if mixing:
        raise ParameterError(
            f"The expression {mixing[0]} needs other rows than the one it votes on, so its votes "
            "would depend on the batch. Compute that number first and use it as a constant."
        )


def _parts(expression: pl.Expr) -> Iterator[pl.Expr]:
    yield expression
    for part in expression.meta.pop():
        yield from _parts(part)


def _is_row_by_row(part: pl.Expr) -> bool:
    try:
        return part.meta.is_row_separable()
    except PolarsError:  # a selection by type or pattern has no answer before it meets a table
        return True
