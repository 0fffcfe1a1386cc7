"""The options of an estimator with their meaning, for `help`, editors and `wiesel methods`.

The meaning of an option is the string under its field. Python does not keep such strings, so they
are read from the source of the class on first use. Without source, options have no meaning.
"""

import ast
import inspect
import sys
import textwrap
from abc import ABCMeta
from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from typing import Any, Literal, get_args, get_origin

__all__ = ["DescribedClass", "Option", "options_of"]


@dataclass(frozen=True)
class Option:
    """One option of an estimator."""

    name: str
    type: str
    """The allowed values, as annotated in the class."""
    default: str | None
    """The default as code; None if the option is required."""
    meaning: str
    """What it does, in a sentence or two."""


def _docstring(cls: type) -> str | None:
    """The docstring as written, followed by the options."""
    written: str | None = vars(cls).get("__doc__")
    # `dataclass` reads the docstring between setting these two names; options are not needed then.
    unfinished = "__dataclass_params__" in vars(cls) and "__match_args__" not in vars(cls)
    if not written or unfinished or not is_dataclass(cls):
        return written
    return _with_options(cls, written)


def _set_docstring(cls: type, text: str | None) -> None:
    type.__dict__["__doc__"].__set__(cls, text)


class DescribedClass(ABCMeta):  # noqa: D101 - its docstring is that of its instances
    # The class of estimator classes. Docstrings are composed when they are read, because reading
    # the source would slow down imports.
    __doc__ = property(_docstring, _set_docstring)


def options_of(cls: type) -> tuple[Option, ...]:
    """Return the options of an estimator class: required ones, its own, then shared ones.

    >>> from wiesel import MajorityVote
    >>> [(option.name, option.default) for option in options_of(MajorityVote)]
    [('hard', 'False'), ('ties', "'split'"), ('seed', '0')]
    >>> options_of(MajorityVote)[0].meaning
    'Return the winning class with probability 1 instead of vote shares.'
    """
    found: dict[str, Field[Any]] = {field.name: field for field in fields(cls) if field.init}
    positional = [name for name, field in found.items() if not field.kw_only]
    own = [name for base in cls.__mro__ for name in _written(base) if name in found]
    order = dict.fromkeys([*positional, *own, *found])
    return tuple(_option(cls, found[name]) for name in order)


def _option(cls: type, field: "Field[Any]") -> Option:
    owner = next((base for base in cls.__mro__ if field.name in _written(base)), None)
    if owner is None:
        return Option(field.name, inspect.formatannotation(field.type), _default(field), "")
    written, meaning = _written(owner)[field.name]
    return Option(field.name, _spelled_out(written, owner), _default(field), meaning)


def _spelled_out(annotation: str, owner: type) -> str:
    """The annotation with type aliases such as `Encoding` replaced by the allowed words."""
    named = getattr(sys.modules.get(owner.__module__), annotation, None)
    if get_origin(named) is not Literal:
        return annotation
    return f"Literal[{', '.join(map(repr, get_args(named)))}]"


def _default(field: "Field[Any]") -> str | None:
    if field.default_factory is not MISSING:
        return f"{getattr(field.default_factory, '__name__', field.default_factory)}()"
    return None if field.default is MISSING else repr(field.default)


@cache
def _written(cls: type) -> dict[str, tuple[str, str]]:
    """The type and the meaning of every field that the class itself declares, from its source."""
    if "__annotations__" not in vars(cls) or cls.__module__ == "builtins":
        return {}
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError, SyntaxError):  # typed at a prompt, or shipped without source
        return {}
    return dict(_fields(tree.body[0]))


def _fields(node: ast.stmt) -> Iterator[tuple[str, tuple[str, str]]]:
    body = getattr(node, "body", [])
    for statement, after in zip(body, [*body[1:], None], strict=True):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        meaning = ""
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            meaning = " ".join(str(after.value.value).split())
        yield statement.target.id, (ast.unparse(statement.annotation), meaning)


@cache
def _with_options(cls: type, written: str) -> str:
    lines = [inspect.cleandoc(written), "", "Parameters", "----------"]
    found = options_of(cls)
    if not found:
        return written
    for option in found:
        default = "" if option.default is None else f", default={option.default}"
        lines.append(f"{option.name} : {option.type}{default}")
        lines += textwrap.wrap(option.meaning, 92, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(lines) + "\n"
