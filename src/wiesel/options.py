"""What every option of an estimator means, at run time: for `help`, editors and `wiesel methods`.

The sentence of an option is the string under its field, where editors and the reference find it.
Python keeps no such strings, so they are read from the class's source, on first use. Where
there is no source, options are listed without sentences.
"""

import ast
import inspect
import textwrap
from abc import ABCMeta
from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from typing import Any

__all__ = ["DescribedClass", "Option", "options_of"]


@dataclass(frozen=True)
class Option:
    """One option of an estimator."""

    name: str
    type: str
    """What may be given, as it is written in the class."""
    default: str | None
    """What it is if nothing is given, as code; None where it has to be given."""
    meaning: str
    """What it does: a sentence or two."""


def _docstring(cls: type) -> str | None:
    """What the author of a class wrote, and its options after it."""
    written: str | None = vars(cls).get("__doc__")
    # `dataclass` asks for the docstring between setting these two names; nobody needs options then.
    unfinished = "__dataclass_params__" in vars(cls) and "__match_args__" not in vars(cls)
    if not written or unfinished or not is_dataclass(cls):
        return written
    return _with_options(cls, written)


def _set_docstring(cls: type, text: str | None) -> None:
    type.__dict__["__doc__"].__set__(cls, text)


class DescribedClass(ABCMeta):  # noqa: D101 - its docstring is the one of its instances
    # The class of estimator classes. Their docstring is composed when somebody reads it, because
    # reading source costs time that an import should not take.
    __doc__ = property(_docstring, _set_docstring)


def options_of(cls: type) -> tuple[Option, ...]:
    """Return the options of an estimator class: what it needs, its own, then what all share.

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
    written, meaning = next(
        (_written(base)[field.name] for base in cls.__mro__ if field.name in _written(base)),
        (inspect.formatannotation(field.type), ""),
    )
    return Option(field.name, written, _default(field), meaning)


def _default(field: "Field[Any]") -> str | None:
    if field.default_factory is not MISSING:
        return f"{getattr(field.default_factory, '__name__', field.default_factory)}()"
    return None if field.default is MISSING else repr(field.default)


@cache
def _written(cls: type) -> dict[str, tuple[str, str]]:
    """The type and the sentence of every field that a class declares itself, from its source."""
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
        said = ""
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            said = " ".join(str(after.value.value).split())
        yield statement.target.id, (ast.unparse(statement.annotation), said)


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
