"""Digests of code and values: labeling functions with equal fingerprints vote alike."""

import dis
import hashlib
import re
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator, Mapping, Set
from functools import partial
from typing import Any

import numpy as np

from wiesel.io.files import content_of

__all__ = ["digest", "function_digest", "referenced_globals"]

_INSTALLED = tuple(
    sysconfig.get_path(place) for place in ("stdlib", "platstdlib", "purelib", "platlib")
)
_PLAIN = (str, bytes, int, float, complex, bool, type(None), type(Ellipsis))


def digest(*values: Any) -> str:
    """Return a short digest of plain values, arrays, compiled patterns, functions and objects.

    Equal values give equal digests in every process. Objects count with their class and their
    attributes.

    >>> digest({"a": 1, "b": {2, 3}}) == digest({"b": {3, 2}, "a": 1})
    True
    >>> digest(1) == digest(1.0)
    False
    """
    return _combine(_pieces(values, ())).hex()[:32]


def function_digest(function: Callable[..., Any]) -> str:
    """Return the digest of a function: its code and all user code that it depends on.

    It covers the compiled code (so comments and formatting do not matter), default values,
    closed-over variables and module-level constants. It also covers the functions and classes of
    the user's modules that it names, recursively, and the source of such a module if the module
    itself is named. Code from installed packages counts by name only.
    """
    return digest(function)


def referenced_globals(function: types.FunctionType) -> dict[str, Any]:
    """Return the module-level names a function uses, with their values (built-ins left out)."""
    names = sorted(set(_global_names(function.__code__)))
    return {name: function.__globals__[name] for name in names if name in function.__globals__}


def _global_names(code: types.CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)


def _combine(pieces: Iterator[bytes]) -> bytes:
    total = hashlib.sha256()
    for piece in pieces:
        total.update(len(piece).to_bytes(8, "little"))
        total.update(piece)
    return total.digest()


def _pieces(value: Any, above: tuple[int, ...]) -> Iterator[bytes]:
    """The parts of a value that are hashed; `above` prevents infinite recursion."""
    if isinstance(value, _PLAIN):
        yield f"{type(value).__name__} {value!r}".encode()
        return
    if id(value) in above:
        yield b"itself"
        return
    above = (*above, id(value))
    yield type(value).__qualname__.encode()
    if isinstance(value, (Mapping, Set)):
        members = value.items() if isinstance(value, Mapping) else value
        yield from sorted(_combine(_pieces(member, above)) for member in members)
    else:
        for part in _parts(value):
            yield part if isinstance(part, bytes) else _combine(_pieces(part, above))


def _parts(value: Any) -> Iterator[Any]:
    """The components of a value."""
    if isinstance(value, (list, tuple)):
        yield from value
    elif isinstance(value, np.ndarray):
        yield from _array_parts(value)
    elif isinstance(value, re.Pattern):
        yield from (value.pattern, value.flags)
    elif isinstance(value, types.ModuleType):
        yield from _module_parts(value)
    else:
        yield from _code_parts(value)


def _module_parts(value: types.ModuleType) -> Iterator[Any]:
    """The name of a module; for user modules also the source, because all of it may be used."""
    yield value.__name__
    file = getattr(value, "__file__", None)
    if file is not None and not file.startswith(_INSTALLED):
        yield content_of(file)


def _array_parts(value: np.ndarray[Any, Any]) -> Iterator[Any]:
    yield from (value.dtype.str, value.shape)
    yield from (value.tolist(),) if value.dtype.hasobject else (value.tobytes(),)


def _code_parts(value: Any) -> Iterator[Any]:
    if isinstance(value, types.CodeType):
        yield from (value.co_code, value.co_consts, value.co_names, value.co_varnames)
    elif isinstance(value, partial):
        yield from (value.func, value.args, value.keywords)
    elif isinstance(value, types.MethodType):
        yield from (value.__func__, value.__self__)
    elif isinstance(value, types.FunctionType) and _is_users(value):
        yield from (value.__code__, value.__defaults__, value.__kwdefaults__)
        yield [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
        yield referenced_globals(value)
    elif isinstance(value, type) and _is_users(value):
        yield value.__qualname__
        yield {name: part for name, part in vars(value).items() if callable(part)}
    elif callable(value) and hasattr(value, "__qualname__"):
        yield f"{getattr(value, '__module__', '')}.{value.__qualname__}"
    else:
        yield _state(value)


def _state(value: Any) -> Any:
    """The state of an object; its own `fingerprint` has precedence."""
    known = getattr(value, "fingerprint", None)
    if isinstance(known, str):
        return known
    try:
        return value.__getstate__()
    except TypeError:  # it cannot be copied, so only its class is known
        return type(value).__qualname__


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - reading an empty cell raises
    except ValueError:
        return False
    return True


def _is_users(value: Any) -> bool:
    """Whether a function or class is user code rather than part of an installed package."""
    module = value.__module__ or ""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return module not in sys.builtin_module_names
    return not file.startswith(_INSTALLED)
