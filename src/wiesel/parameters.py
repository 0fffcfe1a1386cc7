"""Options by name, as scikit-learn expects from every estimator."""

import ast
import inspect
import math
import os
import sys
import textwrap
import threading
from abc import ABCMeta
from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from numbers import Integral, Real
from typing import Any, Literal, Self, get_args, get_origin

import numpy as np

from wiesel.errors import NotFittedError, ParameterError, suggest

__all__ = [
    "DescribedClass",
    "Option",
    "Parameterized",
    "check_choice",
    "check_number",
    "check_timeout",
    "options_of",
]


def _set_docstring(cls: type, text: str | None) -> None:
    type.__dict__["__doc__"].__set__(cls, text)


def _docstring(cls: type) -> str | None:
    """The docstring as written, followed by the options."""
    written: str | None = vars(cls).get("__doc__")
    # `dataclass` reads the docstring between setting these two names; options are not needed then.
    unfinished = "__dataclass_params__" in vars(cls) and "__match_args__" not in vars(cls)
    if not written or unfinished or not is_dataclass(cls):
        return written
    return _with_options(cls, written)


class DescribedClass(ABCMeta):  # noqa: D101 - its docstring is that of its instances
    # The class of estimator classes. Docstrings are composed when they are read, because reading
    # the source would slow down imports.
    __doc__ = property(_docstring, _set_docstring)


class Parameterized(metaclass=DescribedClass):
    """A dataclass whose constructor arguments are its options.

    Options are the fields with `init=True`, stored untouched. What `fit` learns is declared as
    `name_: Type = field(init=False, repr=False)` and exists only after `fit`.
    `sklearn.base.clone` and grid search work with it. The string under a field describes it;
    the docstring of the class lists all options with their descriptions.

    >>> from wiesel import MajorityVote
    >>> MajorityVote(hart=True)
    Traceback (most recent call last):
    wiesel.errors.ParameterError: MajorityVote has no option 'hart'. Did you mean 'hard'?
    """

    def __new__(cls, *_: Any, **options: Any) -> Self:
        """Refuse unknown options before the dataclass's constructor sees them."""
        # __new__ is called with the arguments of __init__; copying and unpickling give it none.
        for name in options:
            cls._refuse_unknown(name)
        return super().__new__(cls)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "_check_options" in vars(cls):
            raise ParameterError(
                f"{cls.__name__}._check_options is called check_options now, and begins with "
                "super().check_options()."
            )
        # IPython prefers the `__repr__` that `dataclass` writes to an inherited `_repr_pretty_`.
        cls._repr_pretty_ = Parameterized._repr_pretty_  # type: ignore[method-assign]

    @classmethod
    def option_names(cls) -> tuple[str, ...]:
        """Return the names of the constructor's arguments."""
        return _field_names(cls, True)

    @classmethod
    def learned_names(cls) -> tuple[str, ...]:
        """Return the names of the attributes that `fit` sets."""
        return _field_names(cls, False)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the options by name; with `deep`, including those of nested estimators."""
        params = {name: getattr(self, name) for name in self.option_names()}
        if deep:
            for name, value in list(params.items()):
                if _has_options(value):
                    nested = value.get_params().items()
                    params.update({f"{name}__{key}": option for key, option in nested})
        return params

    def set_params(self, **params: Any) -> Self:
        """Set options by name (`label_model__tol=1e-4` reaches a nested estimator)."""
        for name, value in params.items():
            own, _, nested = name.partition("__")
            self._refuse_unknown(own)
            if not nested:
                setattr(self, own, value)
        # Whole objects are replaced before their options are set, as in scikit-learn.
        for name, value in params.items():
            own, _, nested = name.partition("__")
            if not nested:
                continue
            inner = getattr(self, own)
            if not _has_options(inner):
                raise ParameterError(
                    f"{name!r} cannot be set: the {own!r} of this {type(self).__name__} is "
                    f"a {type(inner).__name__}, which has no options.",
                    option=name,
                )
            inner.set_params(**{nested: value})
        return self

    def check_options(self) -> None:
        """Refuse invalid options; `fit` begins with this check.

        A class that checks more overrides it, and first calls `super().check_options()`.

        >>> from wiesel import MajorityVote
        >>> MajorityVote(hard="no").check_options()
        Traceback (most recent call last):
        wiesel.errors.ParameterError: The 'hard' option of MajorityVote must be True or False; \
got 'no'.
        """
        for option in fields(self):  # type: ignore[arg-type]
            value = getattr(self, option.name, None)
            is_flag = option.type is bool or str(option.type) in ("bool", "bool | None")
            if option.init and is_flag and not (value is None and option.default is None):
                _check_flag(self, option.name, value)
            is_path = option.init and "Path" in str(option.type)
            if is_path and not isinstance(value, (str, os.PathLike, type(None))):
                raise ParameterError(
                    f"The {option.name!r} option of {type(self).__name__} must be a path; "
                    f"got {value!r:.60}.",
                    option=option.name,
                )
            if option.init and option.name == "seed":
                check_number(self, "seed", getattr(self, "seed", 0), low=0, whole=True)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What notebooks show: the options that differ from the defaults, networks by class."""
        options = [] if cycle else self._changed_options()
        printer.text(f"{type(self).__name__}({', '.join(options)})")

    def _changed_options(self) -> list[str]:
        changed = []
        for option in fields(self):  # type: ignore[arg-type]
            value = getattr(self, option.name, None)
            if not option.init or repr(value) == repr(_default_of(option)):
                continue
            shown = repr(value)
            shown = f"{type(value).__name__}(...)" if "\n" in shown else shown
            changed.append(f"{option.name}={shown}")
        return changed

    def check_fitted(self) -> None:
        """Raise `NotFittedError` unless `fit` has run."""
        if not hasattr(self, "labels_"):
            name = type(self).__name__
            raise NotFittedError(f"This {name} is not fitted yet: call fit(...) first.")

    @classmethod
    def _refuse_unknown(cls, name: str) -> None:
        known = cls.option_names()
        if name not in known:
            problem = f"{cls.__name__} has no option {name!r}. {suggest(name, known)}"
            raise ParameterError(problem, option=name)


@cache
def _field_names(cls: type, are_options: bool) -> tuple[str, ...]:
    return tuple(found.name for found in fields(cls) if found.init is are_options)


def _default_of(option: "Field[Any]") -> Any:
    return option.default if option.default_factory is MISSING else option.default_factory()


def _has_options(value: object) -> bool:
    """Whether this is an estimator, ours or scikit-learn's; a class is not."""
    return hasattr(value, "get_params") and not isinstance(value, type)


def _check_flag(owner: object, name: str, value: object) -> None:
    # Truthy values are not enough: the string "no" is truthy.
    if not isinstance(value, (bool, np.bool_)):
        raise ParameterError(
            f"The {name!r} option of {type(owner).__name__} must be True or False; got {value!r}.",
            option=name,
        )


def check_choice(owner: object, name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Refuse an option that is not one of the allowed words."""
    if value not in allowed:
        close = suggest(value, allowed)
        meant = f" {close}" if close.startswith("Did you mean") else ""
        raise ParameterError(
            f"The {name!r} option of {type(owner).__name__} must be one of "
            f"{', '.join(map(repr, allowed))}; got {value!r}.{meant}",
            option=name,
        )


def check_number(
    owner: object,
    name: str,
    value: object,
    *,
    low: float | None = None,
    high: float | None = None,
    whole: bool = False,
) -> None:
    """Refuse an option that is not a finite number in [low, high]; NumPy numbers are allowed."""
    fits = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)
    if fits:
        try:
            number = float(value)  # type: ignore[arg-type]
        except OverflowError:  # an integer with hundreds of digits
            number = math.inf
        fits = math.isfinite(number) and (low is None or number >= low)
        fits = fits and (high is None or number <= high)
    if not fits:
        bounds = [f"at least {low}"] if low is not None else []
        bounds += [f"at most {high}"] if high is not None else []
        what = " ".join(["a whole number" if whole else "a number", " and ".join(bounds)]).strip()
        raise ParameterError(
            f"The {name!r} option of {type(owner).__name__} must be {what}; got {value!r}.",
            option=name,
        )


def check_timeout(timeout: object) -> None:
    """Refuse a timeout that is neither None nor a number of seconds.

    >>> check_timeout(0)
    Traceback (most recent call last):
    wiesel.errors.ParameterError: timeout is a number of seconds above 0; got 0.
    """
    if timeout is None:
        return
    is_number = isinstance(timeout, Real) and not isinstance(timeout, bool)
    if not is_number or not 0 < timeout <= threading.TIMEOUT_MAX:  # type: ignore[operator]
        problem = f"timeout is a number of seconds above 0; got {timeout!r:.60}."
        raise ParameterError(problem, option="timeout")


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
