"""The functions of conditions; each reads a single row and has no side effects."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import polars as pl

__all__ = ["FUNCTIONS", "Function"]

Kind = str
"""`text`, `number`, `truth`, or `any` if it depends on the table."""


@dataclass(frozen=True)
class Function:
    """A function of conditions."""

    arguments: tuple[Kind, ...]
    """The kinds of the arguments; a trailing `constant ...` must be a literal in the condition."""
    gives: Kind
    make: Callable[..., pl.Expr]
    meaning: str
    """One line for the documentation."""
    n_required: int | None = None
    """The number of required arguments; None for all."""

    @property
    def least(self) -> int:
        """The minimum number of arguments."""
        return len(self.arguments) if self.n_required is None else self.n_required


def _round(number: pl.Expr, digits: int = 0) -> pl.Expr:
    return number.cast(pl.Float64).round(digits)


FUNCTIONS: Mapping[str, Function] = {
    "length": Function(
        ("text",), "number", lambda text: text.str.len_chars().cast(pl.Int64), "its characters"
    ),
    "word_count": Function(
        ("text",),
        "number",
        lambda text: text.str.count_matches(r"\S+").cast(pl.Int64),
        "its words, separated by white space",
    ),
    "count": Function(
        ("text", "constant text"),
        "number",
        lambda text, part: text.str.count_matches(part, literal=True).cast(pl.Int64),
        "how often a text occurs in it",
    ),
    "lower": Function(("text",), "text", lambda text: text.str.to_lowercase(), "it in lower case"),
    "upper": Function(("text",), "text", lambda text: text.str.to_uppercase(), "it in upper case"),
    "trim": Function(
        ("text",),
        "text",
        lambda text: text.str.strip_chars(),
        "it without white space at both ends",
    ),
    "contains": Function(
        ("text", "text"),
        "truth",
        lambda text, part: text.str.contains(part, literal=True),
        "whether the second text occurs in the first",
    ),
    "starts_with": Function(
        ("text", "text"),
        "truth",
        lambda text, part: text.str.starts_with(part),
        "whether the first text starts with the second",
    ),
    "ends_with": Function(
        ("text", "text"),
        "truth",
        lambda text, part: text.str.ends_with(part),
        "whether the first text ends with the second",
    ),
    "matches": Function(
        ("text", "constant pattern"),
        "truth",
        lambda text, pattern: text.str.contains(pattern),
        "whether a regular expression matches somewhere in it, as in `regex`",
    ),
    "abs": Function(("number",), "number", lambda number: number.abs(), "without its sign"),
    "round": Function(
        ("number", "constant digits"),
        "number",
        _round,
        "rounded to this many decimals",
        n_required=1,
    ),
    "floor": Function(
        ("number",),
        "number",
        lambda number: number.cast(pl.Float64).floor(),
        "the next whole number below",
    ),
    "ceil": Function(
        ("number",),
        "number",
        lambda number: number.cast(pl.Float64).ceil(),
        "the next whole number above",
    ),
    "to_number": Function(
        ("any",),
        "number",
        lambda value: value.cast(pl.Float64, strict=False).fill_nan(None),
        "as a number; null if it is not one",
    ),
    "to_text": Function(
        ("any",), "text", lambda value: value.cast(pl.String, strict=False), "as a text"
    ),
    "coalesce": Function(
        ("any", "any"),
        "any",
        lambda first, second: pl.coalesce(first, second),
        "the second if the first is null",
    ),
}
"""The functions of conditions, by name."""
