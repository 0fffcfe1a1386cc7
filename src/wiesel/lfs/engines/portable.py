"""Serializes labeling functions as text for other processes or machines.

Rules are sent as data. A Python function is sent as the name of its module if that can be imported,
else as its compiled code with the plain values, modules and functions it refers to. A function
that refers to anything else (an open file, a loaded network) stays in this process. The text is
only for processes of the same Python version that this program starts itself: reading it runs the
code it names, so it is never stored.
"""

import base64
import importlib
import json
import marshal
import re
import sys
import threading
import time
import types
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, reduce
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder
from pathlib import Path
from typing import Any

import numpy as np

from wiesel.lfs.batch import Batch, ColumnVotes, join_columns
from wiesel.lfs.fingerprints import referenced_globals
from wiesel.lfs.function import LabelingFunction, Rule
from wiesel.lfs.loading import is_lf_module, load_module
from wiesel.lfs.python_function import Preprocessor, PythonFunction
from wiesel.lfs.rules_file import trusted_rule
from wiesel.lfs.table_rules import PolarsExpression, packed_expression, unpacked_expression

__all__ = ["Pace", "Piece", "Share", "Vote", "is_portable", "pack_lfs", "unpack_lfs"]

_SCALARS = (str, int, float, bool, type(None))
_COLLECTIONS: dict[str, Callable[[Iterable[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
}
Piece = tuple[int, int]
"""The first row of a piece, and its number of rows."""
Vote = Callable[[int, int], list[ColumnVotes]]
"""Returns the votes on a piece."""

_PIECE_SECONDS = 0.2
"""The target time per piece: long compared with the cost of sending it, but short to wait for."""


_POLL_SECONDS = 0.1
"""Seconds between two checks for Ctrl-C."""


class _NotPortable(Exception):
    """A function refers to an object that cannot be sent."""


def is_portable(lf: LabelingFunction) -> bool:
    """Return whether a labeling function can be sent to another process.

    >>> from wiesel import keywords
    >>> is_portable(keywords("spam", ["free"], column="text"))
    True
    """
    try:
        pack_lfs([lf])
    except _NotPortable:
        return False
    return True


def pack_lfs(lfs: Sequence[LabelingFunction]) -> str:
    """Return labeling functions as text."""
    packer = _Packer()
    packed = [packer.lf(lf) for lf in lfs]
    try:
        return json.dumps({"lfs": packed, "functions": packer.functions})
    except TypeError as error:
        raise _NotPortable(str(error)) from error


def unpack_lfs(text: str) -> list[LabelingFunction]:
    """Return the labeling functions in a text that `pack_lfs` wrote in a process of this program.

    >>> from wiesel import keywords
    >>> unpack_lfs(pack_lfs([keywords("spam", ["free"], column="text")]))
    [keywords(label='spam', keywords=['free'], column='text', name='spam_free')]
    """
    content = json.loads(text)
    unpacker = _Unpacker(content["functions"])
    return [unpacker.lf(packed) for packed in content["lfs"]]


class _Packer:
    """Collects each referenced function once, so that functions may refer to each other."""

    def __init__(self) -> None:
        self.functions: list[dict[str, Any]] = []
        self._places: dict[int, int] = {}
        self._kept: list[Any] = []

    def lf(self, lf: LabelingFunction) -> dict[str, Any]:
        if isinstance(lf, PolarsExpression):
            packed = packed_expression(lf.polars)
            return {"expression": packed, "label": lf.label, "name": lf.name}
        if isinstance(lf, Rule):
            return {"rule": lf.to_dict() | {"name": lf.name}}
        if not isinstance(lf, PythonFunction):
            raise _NotPortable(lf.name)
        return {
            "function": self.value(lf.function),
            "name": lf.name,
            "vectorized": lf.vectorized,
            "by_index": lf.by_index,
            "params": self.value(dict(lf.params)),
            "uses": [self.preprocessor(use) for use in lf.uses],
        }

    def preprocessor(self, use: Preprocessor) -> dict[str, Any]:
        function = self.value(use.function)
        uses = [self.preprocessor(other) for other in use.uses]
        # A shared preprocessor must stay one object, or it would run once per labeling function.
        return {"function": function, "name": use.name, "uses": uses, "key": id(use)}

    def value(self, value: Any) -> Any:
        """A value as JSON: scalars unchanged, everything else as [kind, content]."""
        if type(value) in _SCALARS:
            return value
        if type(value) is dict:
            return ["dict", [[self.value(key), self.value(own)] for key, own in value.items()]]
        for kind, collection in _COLLECTIONS.items():
            if type(value) is collection:
                return [kind, [self.value(own) for own in value]]
        return self._object(value)

    def _object(self, value: Any) -> Any:
        if isinstance(value, bytes):
            return ["bytes", base64.b64encode(value).decode()]
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            return ["array", [value.dtype.str, list(value.shape), self.value(value.tobytes())]]
        if isinstance(value, re.Pattern):
            return ["pattern", [self.value(value.pattern), value.flags]]
        if isinstance(value, types.ModuleType):
            return ["module", _importable_module(value.__name__)]
        if isinstance(value, (PythonFunction, Preprocessor)) and not _reference(value.function):
            return ["lf" if isinstance(value, PythonFunction) else "use", self._wrapped(value)]
        reference = _reference(value)
        if reference is not None:
            return ["name", reference]
        if isinstance(value, types.FunctionType):
            return ["function", self._function(value)]
        raise _NotPortable(f"{value!r:.60}")

    def _wrapped(self, value: PythonFunction | Preprocessor) -> dict[str, Any]:
        return self.lf(value) if isinstance(value, PythonFunction) else self.preprocessor(value)

    def _function(self, function: types.FunctionType) -> int:
        """The index of a function. It is assigned before the parts are packed."""
        if id(function) in self._places:
            return self._places[id(function)]
        place = self._places[id(function)] = len(self.functions)
        self._kept.append(function)  # while it is alive, no other object gets its id
        self.functions.append({})
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        self.functions[place] = {
            "code": base64.b64encode(marshal.dumps(function.__code__)).decode(),
            "name": function.__name__,
            "defaults": self.value(function.__defaults__),
            "kwdefaults": self.value(function.__kwdefaults__),
            "closure": [self.value(content) for content in cells],
            "globals": [
                [name, self.value(value)] for name, value in referenced_globals(function).items()
            ],
        }
        return place


class _Unpacker:
    """Creates all functions first, then fills in their references, which may be cyclic."""

    def __init__(self, packed: list[dict[str, Any]]) -> None:
        self._uses: dict[int, Preprocessor] = {}
        self._functions = [_empty_function(each) for each in packed]
        for function, each in zip(self._functions, packed, strict=True):
            self._fill(function, each)

    def _fill(self, function: types.FunctionType, packed: dict[str, Any]) -> None:
        function.__defaults__ = self.value(packed["defaults"])
        function.__kwdefaults__ = self.value(packed["kwdefaults"])
        for cell, content in zip(function.__closure__ or (), packed["closure"], strict=True):
            cell.cell_contents = self.value(content)
        function.__globals__.update({name: self.value(own) for name, own in packed["globals"]})

    def lf(self, packed: dict[str, Any]) -> LabelingFunction:
        if "expression" in packed:
            expression = unpacked_expression(packed["expression"])
            return PolarsExpression(packed["label"], expression, name=packed["name"])
        if "rule" in packed:
            return trusted_rule(packed["rule"])
        return PythonFunction(
            _plain_function(self.value(packed["function"])),
            packed["name"],
            packed["vectorized"],
            tuple(self.preprocessor(use) for use in packed["uses"]),
            self.value(packed["params"]),
            packed["by_index"],
        )

    def preprocessor(self, packed: dict[str, Any]) -> Preprocessor:
        if packed["key"] not in self._uses:
            uses = tuple(self.preprocessor(use) for use in packed["uses"])
            function = _plain_function(self.value(packed["function"]))
            self._uses[packed["key"]] = Preprocessor(function, packed["name"], uses)
        return self._uses[packed["key"]]

    def value(self, packed: Any) -> Any:
        if not isinstance(packed, list):
            return packed
        kind, content = packed
        if kind in _COLLECTIONS:
            return _COLLECTIONS[kind](self.value(own) for own in content)
        readers: dict[str, Callable[[Any], Any]] = {
            "dict": lambda pairs: {self.value(key): self.value(own) for key, own in pairs},
            "bytes": base64.b64decode,
            "array": self._array,
            "pattern": lambda parts: re.compile(self.value(parts[0]), parts[1]),
            "module": importlib.import_module,
            "name": _named,
            "function": self._functions.__getitem__,
            "lf": self.lf,
            "use": self.preprocessor,
        }
        return readers[kind](content)

    def _array(self, parts: list[Any]) -> np.ndarray[Any, Any]:
        dtype, shape, content = parts
        return np.frombuffer(self.value(content), dtype).reshape(shape).copy()


def _empty_function(packed: dict[str, Any]) -> types.FunctionType:
    code = marshal.loads(base64.b64decode(packed["code"]))
    cells = tuple(types.CellType() for _ in packed["closure"])
    names = {"__builtins__": __builtins__, "__name__": "wiesel_lfs_of_another_process"}
    return types.FunctionType(code, names, packed["name"], None, cells)


def _reference(value: Any) -> list[str] | None:
    """The module, name and file by which another process finds the object; None if it cannot."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or "<" in name:
        return None
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    if not _can_be_imported(module) and not is_lf_module(module):
        return None
    try:
        found = reduce(getattr, name.split("."), sys.modules[module])
    except (AttributeError, KeyError):
        return None
    return [module, name, file] if value in (found, _plain_function(found)) else None


def _named(reference: list[str]) -> Any:
    module, name, file = reference
    loaded = load_module(Path(file)) if is_lf_module(module) else importlib.import_module(module)
    return reduce(getattr, name.split("."), loaded)


def _plain_function(value: Any) -> Any:
    """The undecorated function."""
    return value.function if isinstance(value, (PythonFunction, Preprocessor)) else value


def _importable_module(name: str) -> str:
    if not _can_be_imported(name):
        raise _NotPortable(f"the module {name!r}")
    return name


@lru_cache(maxsize=1024)
def _can_be_imported(module: str) -> bool:
    """Whether another process with the same search path finds the module by its name."""
    top = module.partition(".")[0]
    finders = (BuiltinImporter, FrozenImporter, PathFinder)
    return module != "__main__" and any(finder.find_spec(top) for finder in finders)


class Pace:
    """The number of rows per piece, adapted to the time that the last piece took.

    >>> pace = Pace(100)
    >>> pace.note(100, seconds=0.1)
    >>> pace.rows
    200
    """

    def __init__(self, first_rows: int) -> None:
        self.rows = first_rows

    def note(self, n_rows: int, seconds: float) -> None:
        """Record the size and the time of a piece."""
        fitting = int(_PIECE_SECONDS * n_rows / max(seconds, 1e-9))
        self.rows = max(1, min(fitting, 8 * self.rows))


class Share:
    """Hands out the rows of a batch in pieces and collects the votes.

    A worker that is done takes the next piece. Pieces get smaller towards the end of all rows, so
    that the work is balanced.
    """

    def __init__(
        self, lfs: Sequence[LabelingFunction], batch: Batch, first_rows: int, n_takers: int
    ) -> None:
        self.lfs = tuple(lfs)
        self.batch = batch
        self.first_rows = first_rows
        self.n_takers = n_takers
        self.problem: BaseException | None = None
        self.dangerous = False
        """Whether a worker has died. This process then takes no more rows: one might crash it."""
        self._results: dict[int, tuple[int, list[ColumnVotes]]] = {}
        self._next = 0
        self._n_helpers = 0
        self._changed = threading.Condition()

    @property
    def remaining(self) -> int:
        """The number of rows that no worker has taken yet."""
        return len(self.batch) - self._next

    def take(self, wanted: int) -> Piece | None:
        """Return the next piece; None at the end."""
        with self._changed:
            if self.problem is not None or not self.remaining:
                return None
            # A finished worker continues with the next batch, so only the last one is cut finely.
            to_share = len(self.batch) if self.batch.ahead else self.remaining
            fair = max(self.first_rows, -(-to_share // (2 * self.n_takers)))
            first, count = self._next, min(wanted, fair, self.remaining)
            self._next += count
            return first, count

    def put(self, piece: Piece, votes: list[ColumnVotes]) -> None:
        """Store the votes on a piece."""
        with self._changed:
            self._results[piece[0]] = piece[1], votes
            self._changed.notify_all()

    def work(self, vote: Vote, goes_on: Callable[[int, float], bool] | None = None) -> bool:
        """Vote on pieces until none is left or `goes_on` is false; return whether none is left.

        `goes_on` is called with the size of each piece and the seconds it took.
        """
        pace = Pace(self.first_rows)
        while not self._is_for_others and (piece := self.take(pace.rows)):
            started = time.perf_counter()
            self.put(piece, vote(*piece))
            seconds = time.perf_counter() - started
            pace.note(piece[1], seconds)
            if goes_on is not None and not goes_on(piece[1], seconds):
                return not self.remaining
        return True

    @property
    def _is_for_others(self) -> bool:
        return self.dangerous and bool(self._n_helpers)

    def enter(self) -> None:
        """Count a helper that will take pieces."""
        with self._changed:
            self._n_helpers += 1

    def leave(self) -> None:
        """Count a helper that will take no more pieces."""
        with self._changed:
            self._n_helpers -= 1
            self._changed.notify_all()

    def stop(self, problem: BaseException) -> None:
        """Hand out no more rows, and keep the problem for the waiting thread."""
        with self._changed:
            self.problem = self.problem or problem
            self._changed.notify_all()

    @property
    def complete(self) -> bool:
        """Whether all rows have been voted on."""
        return self._n_done == len(self.batch)

    @property
    def _n_done(self) -> int:
        return sum(count for count, _ in self._results.values())

    def votes(self) -> list[ColumnVotes]:
        """Wait for all workers and return the votes, or raise a worker's problem."""
        with self._changed:
            # Once Polars is imported, Ctrl-C does not interrupt a wait without a timeout.
            while not self._changed.wait_for(self._is_over, timeout=_POLL_SECONDS):
                pass
        if self.problem is not None:
            raise self.problem
        pieces = [self._results[first] for first in sorted(self._results)]
        sizes = [count for count, _ in pieces]
        by_lf = zip(*(votes for _, votes in pieces), strict=True)
        return [join_columns(parts, sizes) for parts in by_lf]

    def _is_over(self) -> bool:
        nobody_takes = not self.remaining or not self._n_helpers
        return self.problem is not None or (nobody_takes and self._n_done == self._next)
