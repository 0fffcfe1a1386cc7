"""Span functions in files: Python modules and rules files."""

from pathlib import Path
from typing import Any

from wiesel.errors import LabelingFunctionError, ParameterError
from wiesel.io import FilePath, existing_file
from wiesel.lfs.function import LabelingFunction
from wiesel.lfs.loading import module_functions, voting_and_off
from wiesel.lfs.rules_file import read_each_rule, read_rules
from wiesel.spans.functions import SpanFunction
from wiesel.spans.patterns import as_span_functions

__all__ = ["load_each_span_lf", "load_span_lfs"]

_HOW = (
    "Put @span_function above a function, or assign what a builder such as gazetteer(...) returns."
)


def load_span_lfs(*paths: FilePath) -> list[SpanFunction]:
    """Return the span functions of `.py` and `.toml` files, in their order in the files.

    From a Python file, these are all span functions, keywords, regex and lookup rules at module
    level (and lists of them); loading a Python file runs its code. Functions that a rules file
    names in `off = [...]` are left out.
    """
    found: list[Any] = []
    for path in paths:
        found += _read(existing_file(path))
    return voting_and_off(as_span_functions(found), paths)[0]


def load_each_span_lf(
    path: FilePath,
) -> tuple[list[Any], None]:
    """Return the span functions and the rules of one file in order, on or off.

    In a rules file, an error is in the place of a broken rule, and of one that marks no span. Other
    errors are raised.
    """
    file = existing_file(path)
    rules = _read(file) if file.suffix != ".toml" else [rule for rule, _ in read_each_rule(file)[0]]
    found: list[Any] = []
    for each in rules:
        try:
            if not isinstance(each, LabelingFunctionError):
                as_span_functions(each)
            found.append(each)
        except ParameterError as error:
            found.append(LabelingFunctionError(f"{file}: {error}"))
    return found, None


def _read(file: Path) -> list[Any]:
    if file.suffix == ".toml":
        return list(read_rules(file)[0])
    # Row rules that cannot mark spans are refused later, when the others become span functions.
    return module_functions(file, (SpanFunction, LabelingFunction), "span functions", _HOW)[0]
