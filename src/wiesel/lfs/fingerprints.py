"""Digests of code and values: labeling functions with equal fingerprints vote alike."""

import dis
import functools
import hashlib
import importlib
import importlib.util
import itertools
import os
import re
import sys
import sysconfig
import types
from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from wiesel.io.files import content_of
from wiesel.io.stores import KeyedStore
from wiesel.labels import LabelSpace
from wiesel.lfs.batch import Batch, ColumnVotes
from wiesel.version import __version__

if TYPE_CHECKING:
    from wiesel.lfs.function import LabelingFunction

__all__ = ["VoteCache", "cache_keys", "digest", "referenced_globals"]

_INSTALLED = tuple(
    sysconfig.get_path(place) for place in ("stdlib", "platstdlib", "purelib", "platlib")
)
_PLAIN = (str, bytes, int, float, complex, bool, type(None), type(Ellipsis))
_VALUES = (list, tuple, Mapping, Set, np.ndarray, np.generic, re.Pattern)
_NO_PART_OF_A_CLASS = {
    *("__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "_abc_impl"),
    *("__annotations__", "__annotate_func__", "__annotations_cache__"),
    *("__firstlineno__", "__static_attributes__"),
}
_FILE_NAME = "lf_votes.sqlite"


def digest(*values: Any) -> str:
    """Return a short digest of plain values, arrays, compiled patterns, functions and objects.

    Equal values give equal digests in every process. Objects count with their class and their
    attributes, and dicts with their order: the first entry that matches may decide a vote.

    The digest of a function covers its code and all user code that it depends on: the compiled code
    (so comments and formatting do not matter), default values, closed-over variables and
    module-level constants, as they are now, and the functions and classes of the user's modules
    that it names, recursively. Of such a module that it names or imports, it covers the source and
    what the function names in it. Code from installed packages counts by name, with what it closes
    over. So a function that changes what it depends on, such as a list in which it counts its
    calls, has another digest afterwards.

    >>> digest({"a": 1, "b": {2, 3}}) == digest({"a": 1, "b": {3, 2}})
    True
    >>> digest(1) == digest(1.0)
    False
    """
    return _combine(_pieces(values, _Walk())).hex()[:32]


def referenced_globals(function: types.FunctionType) -> dict[str, Any]:
    """Return the module-level names a function uses, with their values (built-ins left out)."""
    names = sorted(_names_in(function.__code__).of_globals)
    return {name: function.__globals__[name] for name in names if name in function.__globals__}


@dataclass(frozen=True)
class _Names:
    """What compiled code names: module-level names, all names, and imports with their level."""

    of_globals: frozenset[str]
    all: frozenset[str]
    imports: tuple[tuple[int, str], ...]


@functools.lru_cache(maxsize=4096)
def _names_in(code: types.CodeType) -> _Names:
    of_globals: set[str] = set()
    named, imports = set(code.co_names), []
    before: list[Any] = [0, None]
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            of_globals.add(instruction.argval)
        elif instruction.opname == "IMPORT_NAME":  # the level and the names were loaded before
            imports.append((before[-2], instruction.argval))
        before = [before[-1], instruction.argval]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = _names_in(constant)
            of_globals |= inner.of_globals
            named |= inner.all
            imports += inner.imports
    return _Names(frozenset(of_globals), frozenset(named), tuple(imports))


@dataclass(frozen=True)
class _Walk:
    """The containers above the current value, and the code and objects met so far.

    Equal containers count the same wherever they are, so they are described every time.
    """

    above: tuple[int, ...] = ()
    met: dict[Hashable, tuple[int, Any]] = field(default_factory=dict)

    def first_place(self, value: Any) -> str | None:
        """Return where the value was met before; None if it is new, and note it."""
        if isinstance(value, _VALUES):
            return "itself" if id(value) in self.above else None
        key = (id(value.module), value.names) if isinstance(value, _Used) else id(value)
        if key in self.met:
            return f"met {self.met[key][0]}"
        self.met[key] = len(self.met), value  # while it is alive, no other value has its id
        return None

    def below(self, value: Any) -> "_Walk":
        return _Walk((*self.above, id(value)), self.met)

    def apart(self, value: Any) -> "_Walk":
        """A walk for one of several values whose order is unknown."""
        return self if isinstance(value, _PLAIN) else _Walk(self.above, dict(self.met))


@dataclass(frozen=True)
class _Used:
    """A module, and the names that some code uses, perhaps from it."""

    module: types.ModuleType
    names: frozenset[str]


def _combine(pieces: Iterator[bytes]) -> bytes:
    total = hashlib.sha256()
    for piece in pieces:
        total.update(len(piece).to_bytes(8, "little"))
        total.update(piece)
    return total.digest()


def _pieces(value: Any, walk: _Walk) -> Iterator[bytes]:
    """The parts of a value that are hashed; the walk prevents infinite recursion."""
    if isinstance(value, _PLAIN):
        yield f"{type(value).__name__} {value!r}".encode()
        return
    known = walk.first_place(value)
    if known is not None:
        yield known.encode()
        return
    walk = walk.below(value)
    yield type(value).__qualname__.encode()
    if _is_flat(value):
        yield repr(sorted(map(repr, value)) if isinstance(value, Set) else value).encode()
    elif isinstance(value, Set):
        yield from sorted(_combine(_pieces(member, walk.apart(member))) for member in value)
    else:
        for part in _parts(value):
            yield part if isinstance(part, bytes) else _combine(_pieces(part, walk))


def _is_flat(value: Any) -> bool:
    """Whether a container has only plain values, which are hashed at once: it may be large."""
    if type(value) not in (list, tuple, set, frozenset, dict):
        return False
    members = itertools.chain(value, value.values()) if isinstance(value, dict) else value
    return set(map(type, members)).issubset(_PLAIN)


def _parts(value: Any) -> Iterator[Any]:
    """The components of a value."""
    if isinstance(value, (list, tuple)):
        yield from value
    elif isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, (np.ndarray, np.generic)):
        yield from _array_parts(np.asarray(value))
    elif isinstance(value, re.Pattern):
        yield from (value.pattern, value.flags)
    elif isinstance(value, _Used):
        yield from _module_parts(value)
    else:
        yield from _code_parts(value)


def _code_parts(value: Any) -> Iterator[Any]:
    if isinstance(value, types.ModuleType):
        yield from _module_parts(_Used(value, frozenset()))
    elif isinstance(value, types.CodeType):
        yield from (value.co_code, value.co_consts, value.co_names, value.co_varnames)
    elif isinstance(value, types.FunctionType):
        yield from _function_parts(value)
    elif isinstance(value, type):
        yield from _class_parts(value)
    elif callable(value) and hasattr(value, "__qualname__"):
        yield from _callable_parts(value)
    else:
        yield from _object_parts(value)


def _array_parts(value: np.ndarray[Any, Any]) -> Iterator[Any]:
    yield from (value.dtype.str, value.shape)
    yield from (value.tolist(),) if value.dtype.hasobject else (value.tobytes(),)


def _module_parts(used: _Used) -> Iterator[Any]:
    """The name of a module; for user modules also the source, because all of it may be used.

    The source may have changed since the module was imported, so what is used counts as it is.
    """
    module, names = used.module, used.names
    yield module.__name__
    if not _is_users_module(module.__name__):
        return
    yield content_of(getattr(module, "__file__", None) or "")
    yield _with_names(
        {name: vars(module)[name] for name in sorted(names & set(vars(module)))}, names
    )


def _with_names(values: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
    return {
        name: _Used(value, names) if isinstance(value, types.ModuleType) else value
        for name, value in values.items()
    }


def _function_parts(value: types.FunctionType) -> Iterator[Any]:
    names = _names_in(value.__code__)
    if _is_users(value):
        yield from (value.__code__, value.__defaults__, value.__kwdefaults__)
        yield _with_names(referenced_globals(value), names.all)
        yield [_Used(module, names.all) for module in _imported(names.imports, value.__globals__)]
    else:
        yield f"{value.__module__}.{value.__qualname__}"
    cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
    kept = {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}
    yield from (_with_names(kept, names.all), vars(value))


def _imported(
    imports: tuple[tuple[int, str], ...], of_globals: dict[str, Any]
) -> Iterator[types.ModuleType]:
    """The user modules that a function imports when it is called."""
    package = of_globals.get("__package__") or ""
    for level, name in imports:
        try:
            full = importlib.util.resolve_name("." * level + name, package)
            spec = importlib.util.find_spec(full.partition(".")[0])
            if spec is not None and not (spec.origin or "").startswith(_INSTALLED):
                yield importlib.import_module(full)
        except Exception:  # noqa: BLE001 - the function itself will meet the problem
            continue


def _class_parts(value: type) -> Iterator[Any]:
    if not _is_users(value):
        yield f"{value.__module__}.{value.__qualname__}"
        return
    yield from (value.__qualname__, value.__bases__)
    own = sorted(set(vars(value)) - _NO_PART_OF_A_CLASS)
    yield {name: vars(value)[name] for name in own}


def _callable_parts(value: Any) -> Iterator[Any]:
    """The parts of a bound method, or of what a decorator such as `lru_cache` returns."""
    owner = getattr(value, "__self__", None)
    if not isinstance(owner, types.ModuleType):
        yield owner
    inner = getattr(value, "__func__", None) or getattr(value, "__wrapped__", None)
    yield f"{getattr(value, '__module__', '')}.{value.__qualname__}" if inner is None else inner


def _object_parts(value: Any) -> Iterator[Any]:
    """The class and the state of an object; its own fingerprint has precedence."""
    if isinstance(known := getattr(value, "fingerprint_parts", None), tuple):
        yield from known  # a function may name itself, whose whole fingerprint would never end
    elif isinstance(known := getattr(value, "fingerprint", None), str):
        yield known
    elif isinstance(value, (staticmethod, classmethod)):
        yield value.__func__
    elif isinstance(value, property):
        yield from (value.fget, value.fset, value.fdel)
    elif any(f"{each.__module__}.{each.__name__}" == "torch.Tensor" for each in type(value).mro()):
        yield _tensor_array(value)
    else:
        yield from _pickled_parts(value)


def _tensor_array(value: Any) -> Any:
    """The numbers of a tensor: its pickled form has an address."""
    plain = value.detach().cpu()
    try:
        return plain.numpy()
    except (TypeError, RuntimeError):  # NumPy has no such type, for example bfloat16
        return str(plain.dtype), plain.tolist()


def _pickled_parts(value: Any) -> Iterator[Any]:
    """What pickle would store of an object, one level deep."""
    try:
        reduced = value.__reduce_ex__(4)
    except Exception:  # noqa: BLE001 - such as an open file: any class may refuse, in its own way
        yield from (type(value), getattr(value, "__dict__", None))
        return
    if isinstance(reduced, str):
        yield reduced
        return
    rebuild, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    yield from (rebuild, arguments, state, list(items or ()), list(pairs or ()))


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - reading an empty cell raises
    except ValueError:
        return False
    return True


def _is_users(value: Any) -> bool:
    """Whether a function or class is user code rather than part of an installed package."""
    return _is_users_module(value.__module__ or "")


def _is_users_module(name: str) -> bool:
    if name == "__main__":  # its file may be a profiler or a debugger that runs the user's script
        return True
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None:
        return name not in sys.builtin_module_names
    return not file.startswith(_INSTALLED)


@dataclass(eq=False)
class VoteCache:
    """A file with the votes of labeling functions; `hits` and `misses` count its use.

    >>> import tempfile
    >>> cache = VoteCache(tempfile.mkdtemp())
    >>> cache.put({"some key": ColumnVotes.of_class(np.array([3]), 1)})
    >>> cache.get(["some key", "another"])["some key"].rows, cache.hits, cache.misses
    (array([3]), 1, 1)
    """

    path: str | os.PathLike[str]
    hits: int = 0
    misses: int = 0

    @classmethod
    def of(cls, cache: "VoteCache | str | os.PathLike[str] | None") -> "VoteCache | None":
        """Return the cache itself, or the cache at a path."""
        return cls(cache) if isinstance(cache, (str, os.PathLike)) else cache

    def get(self, keys: Sequence[str]) -> dict[str, ColumnVotes]:
        """Return the cached votes, by key."""
        known = self._store().get(keys)
        found = {key: _decoded(content) for key, content in known.items()}
        self.hits += len(found)
        self.misses += len(keys) - len(found)
        return found

    def put(self, columns: Mapping[str, ColumnVotes]) -> None:
        """Store votes; those with failures are not stored, so that they are tried again."""
        self._store().put({key: _encoded(c) for key, c in columns.items() if not c.failures})

    def _store(self) -> KeyedStore:
        path = Path(self.path)
        return KeyedStore(path / _FILE_NAME if path.is_dir() else path)


def cache_keys(
    lfs: "Sequence[LabelingFunction]",
    fingerprints: Sequence[str],
    batch: Batch,
    labels: LabelSpace,
) -> list[str]:
    """Return the key of every labeling function's votes on a batch.

    It changes with the function, the classes, and the columns that the function reads.
    """
    columns: dict[str, str] = {}

    def data(names: Sequence[str]) -> str:
        for name in names:
            if name not in columns and name in batch.frame.columns:
                columns[name] = column_digest(batch.frame[name])
        return digest([(name, columns.get(name)) for name in names])

    everything = batch.frame.columns
    # Another version of Wiesel may interpret a rule differently.
    reading = digest(__version__, labels.names)
    return [
        digest(reading, fingerprint, data(everything if lf.reads is None else lf.reads))
        for lf, fingerprint in zip(lfs, fingerprints, strict=True)
    ]


def column_digest(column: pl.Series) -> str:
    """Return a digest of the values of a column, in order."""
    dtype = str(column.dtype)
    if column.dtype == pl.Object:
        return digest(dtype, column.to_list())
    values = pl.DataFrame([column]).hash_rows(seed=0).to_numpy()
    return digest(dtype, len(column), values)


def _encoded(column: ColumnVotes) -> bytes:
    """The number of votes and of probabilities for each, and the arrays."""
    rows = column.distribution
    width = 0 if rows is None else rows.shape[1]
    parts = [
        np.array([len(column.rows), width], "<i8"),
        column.rows.astype("<i8"),
        column.classes.astype("<i2"),
    ]
    parts += [] if rows is None else [rows.astype("<f4")]
    return b"".join(part.tobytes() for part in parts)


def _decoded(content: bytes) -> ColumnVotes:
    count, width = np.frombuffer(content, "<i8", 2).tolist()
    rows = np.frombuffer(content, "<i8", count, offset=16)
    classes = np.frombuffer(content, "<i2", count, offset=16 + 8 * count)
    distribution = None
    if width:
        numbers = np.frombuffer(content, "<f4", count * width, offset=16 + 10 * count)
        distribution = numbers.astype(np.float32).reshape(count, width)
    return ColumnVotes(rows.astype(np.int64), classes.astype(np.int16), distribution)
