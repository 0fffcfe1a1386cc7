"""The parts of a condition: a Polars expression, and what is known about its values."""

from dataclasses import dataclass
from typing import Any

import polars as pl

from wiesel.lfs.conditions.tokens import problem

__all__ = ["Term", "check_alike", "need"]

_NAMES = {"text": "a text", "number": "a number", "truth": "true or false"}


@dataclass(frozen=True)
class Term:
    """A part of a condition."""

    expression: pl.Expr
    kind: str
    """`text`, `number`, `truth`, or `any` if it depends on the table."""
    place: int
    """Where it starts in the condition."""
    constant: bool = False
    value: Any = None
    """The value of a constant."""


def need(condition: str, term: Term, kind: str, who: str) -> None:
    """Raise an error for a part of the wrong kind."""
    if "any" not in (kind, term.kind) and term.kind != kind:
        raise problem(
            condition,
            term.place,
            f"{who} needs {_NAMES[kind]}, but this is {_NAMES[term.kind]}.{_advice(term, kind)}",
        )


def check_alike(condition: str, first: Term, second: Term) -> None:
    """Raise an error for a comparison of different kinds, such as a text and a number."""
    if "any" not in (first.kind, second.kind) and first.kind != second.kind:
        raise problem(
            condition,
            second.place,
            f"{_NAMES[first.kind]} is compared with {_NAMES[second.kind]}."
            f"{_advice(second, first.kind)}",
        )


def _advice(term: Term, kind: str) -> str:
    if kind == "text" and term.kind == "number":
        return " Write constants in quotes ('3'), or use to_text(...)."
    if kind == "number" and term.kind == "text":
        return " Write constants without quotes, or use to_number(...) or length(...)."
    return ""
