"""Span functions in files: Python modules and rules files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wiesel.errors import LabelingFunctionError
from wiesel.io import FilePath, existing_file
from wiesel.lfs.loading import load_module
from wiesel.lfs.lookup_rules import Lookup
from wiesel.lfs.rules_file import read_rules
from wiesel.lfs.text_rules import Keywords, Regex
from wiesel.spans.functions import SpanFunction
from wiesel.spans.patterns import as_span_functions

__all__ = ["load_span_lfs"]


def load_span_lfs(*paths: FilePath) -> list[SpanFunction]:
    """Return the span functions of `.py` and `.toml` files, in the order in which they stand.

    In a Python file these are all span functions, keywords, regex and lookup rules at module level
    (and lists of them); running a Python file runs its code.
    """
    found: list[Any] = []
    for path in paths:
        found += _read(existing_file(path))
    return as_span_functions(found)


def _read(file: Path) -> list[Any]:
    if file.suffix == ".toml":
        return list(read_rules(file)[0])
    if file.suffix != ".py":
        raise LabelingFunctionError(
            f"{file}: span functions are read from .py and .toml files; got {file.suffix!r}."
        )
    values = [value for name, value in vars(load_module(file)).items() if not name.startswith("_")]
    functions = list({id(each): each for value in values for each in _functions_in(value)}.values())
    if not functions:
        raise LabelingFunctionError(
            f"{file}: there are no span functions. Put @span_function above a function, or assign "
            "what a builder such as gazetteer(...) returns."
        )
    return functions


def _functions_in(value: Any) -> Iterator[Any]:
    if isinstance(value, (SpanFunction, Keywords, Regex, Lookup)):
        yield value
    elif isinstance(value, (list, tuple)):
        yield from (each for part in value for each in _functions_in(part))
