"""Polars expressions from the user's program: checks, and transfer to other processes.

Reading a serialized expression can run arbitrary code, and no list of names could prevent it. So
it is read only if this program wrote it and sent it to one of its own processes.
"""

import base64
import io
import json
from collections.abc import Iterator
from typing import Any

import polars as pl
from polars.exceptions import PolarsError

from wiesel.errors import ParameterError, listed

__all__ = ["check_row_by_row", "packed_expression", "serialized", "unpacked_expression"]

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
