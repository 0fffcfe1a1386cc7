"""Finds labeling functions in files: Python modules and rules files."""

import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Protocol, TypeVar

from wiesel.errors import LabelingFunctionError, WieselError, listed, suggest
from wiesel.io import FilePath, existing_file
from wiesel.labels import LabelSpace
from wiesel.lfs.access import Access
from wiesel.lfs.function import LabelingFunction, applied_elsewhere, as_lfs
from wiesel.lfs.rules_file import read_each_rule, read_off, read_rules

__all__ = [
    "LoadedLFs",
    "is_lf_module",
    "load_each_lf",
    "load_lfs",
    "load_module",
    "module_functions",
    "voting_and_off",
]

_PREFIX = "wiesel_lfs_"
"""The prefix for the names of labeling function modules, so that they shadow no others."""
_HOW = (
    "Put @labeling_function above a function, or assign what a builder such as keywords(...) "
    "returns."
)


class _Named(Protocol):
    @property
    def name(self) -> str: ...


FunctionT = TypeVar("FunctionT", bound=_Named)


@dataclass(frozen=True)
class LoadedLFs:
    """The labeling functions of a file, and the classes if the file names them."""

    lfs: tuple[LabelingFunction, ...]
    labels: LabelSpace | None = None
    off: tuple[LabelingFunction, ...] = ()
    """Labeling functions that `off = [...]` in a rules file switches off."""

    def __iter__(self) -> Iterator[LabelingFunction]:
        return iter(self.lfs)

    def __len__(self) -> int:
        return len(self.lfs)


def load_lfs(*paths: FilePath, access: Access | None = None) -> LoadedLFs:
    r"""Return the labeling functions of `.py` and `.toml` files, in their order in the files.

    From a Python file, these are all labeling functions (and lists of them) at module level; a
    `LabelSpace` there gives the classes. Loading a Python file runs its code. A `.toml` file is
    data, and its prompts may reach what `access` allows (by default what the user's environment
    allows: see `Access`).

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "rules.toml"
    >>> _ = file.write_text('[[lf]]\nkind="regex"\nlabel="spam"\npattern="w+"\ncolumn="text"')
    >>> [lf.name for lf in load_lfs(file)]
    ['spam_w']
    """
    found: list[LabelingFunction] = []
    spaces: list[LabelSpace] = []
    for path in paths:
        file = existing_file(path)
        lfs, labels = _read(file, access)
        found += lfs
        spaces += [labels] if labels is not None else []
    if len(set(spaces)) > 1:
        raise LabelingFunctionError(f"The files name different classes: {listed(set(spaces))}.")
    voting, off = voting_and_off(as_lfs(found), paths)
    return LoadedLFs(tuple(voting), spaces[0] if spaces else None, tuple(off))


def load_each_lf(
    path: FilePath,
) -> tuple[list[LabelingFunction | LabelingFunctionError], LabelSpace | None]:
    """Return the labeling functions of one file in order, on or off, and its classes.

    In a rules file, an error is in the place of a broken rule. Other errors are raised.
    """
    file = existing_file(path)
    if file.suffix != ".toml":
        return _read(file, None)
    found, labels = read_each_rule(file)
    return [rule for rule, _ in found], labels


def voting_and_off(
    functions: Sequence[FunctionT], paths: Iterable[FilePath]
) -> tuple[list[FunctionT], list[FunctionT]]:
    """Return the functions that vote, and those that a rules file among `paths` switches off."""
    names = [each.name for each in functions]
    off: set[str] = set()
    for path in map(Path, paths):
        for name in read_off(path) if path.suffix == ".toml" else ():
            if name not in names:
                raise LabelingFunctionError(
                    f"{path}: off names {name!r}, which does not exist. {suggest(name, names)}"
                )
            off.add(name)
    voting = [each for each in functions if each.name not in off]
    if not voting:
        raise LabelingFunctionError(
            f"All {len(names)} labeling functions are switched off: take a name out of off = [...]."
        )
    return voting, [each for each in functions if each.name in off]


def _read(file: Path, access: Access | None) -> tuple[list[Any], LabelSpace | None]:
    if file.suffix == ".toml":
        rules, labels = read_rules(file, access)
        return list(rules), labels
    lfs, values = module_functions(file, LabelingFunction, "labeling functions", _HOW)
    labels = next((value for value in values if isinstance(value, LabelSpace)), None)
    return lfs, labels


def module_functions(
    file: Path, kinds: type | tuple[type, ...], what: str, how: str
) -> tuple[list[Any], list[Any]]:
    """Return the functions of some types at module level of a Python file, and all values there.

    Functions in lists count, each once. Functions for other kinds of labeling are refused.
    """
    if file.suffix != ".py":
        raise LabelingFunctionError(
            f"{file}: {what} are read from .py and .toml files; got {file.suffix!r}."
        )
    named = {
        name: value for name, value in vars(load_module(file)).items() if not name.startswith("_")
    }
    for name, value in named.items():
        if applied_elsewhere(value) and not isinstance(value, kinds):
            raise LabelingFunctionError(
                f"{file}: {name!r} is not one of the {what} that are looked for here."
                f"{applied_elsewhere(value)}"
            )
    found = [each for value in named.values() for each in _functions_in(value, kinds)]
    # A list may repeat functions that also have a name in the module.
    functions = list({id(each): each for each in found}.values())
    if not functions:
        raise LabelingFunctionError(f"{file}: there are no {what}. {how}")
    return functions, list(named.values())


def load_module(file: Path) -> ModuleType:
    """Run a Python file under its own module name, and return it; errors name the line."""
    resolved = file.resolve()
    name = f"{_PREFIX}{resolved.stem}_{hashlib.sha256(bytes(resolved)).hexdigest()[:8]}"
    loader = _FromSource(name, str(resolved))
    spec = importlib.util.spec_from_file_location(name, resolved, loader=loader)
    if spec is None or spec.loader is None:
        raise LabelingFunctionError(f"{file} cannot be loaded as Python.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    # Files in its folder can be imported, as when the file is run.
    sys.path.insert(0, str(resolved.parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise LabelingFunctionError(_located(error, file, resolved)) from error
    finally:
        sys.path.remove(str(resolved.parent))
    return module


class _FromSource(SourceFileLoader):
    """Always compiles the file: cached bytecode misses an edit of the same second and length."""

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of the file's current content."""
        return self.source_to_code(self.get_data(self.path), self.path)


def is_lf_module(name: str) -> bool:
    """Return whether a module is a file that `load_module` has run."""
    return name.startswith(_PREFIX)


def _located(error: Exception, file: Path, resolved: Path) -> str:
    """The message with the deepest line of this file that led to the error."""
    if isinstance(error, SyntaxError) and error.filename == str(resolved):
        return f"{file}, line {error.lineno}: SyntaxError: {error.msg}."
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame.lineno for frame in frames if frame.filename == str(resolved)]
    kind = "" if isinstance(error, WieselError) else f"{type(error).__name__}: "
    return f"{file}, line {own[-1] if own else 1}: {kind}{error}"


def _functions_in(value: Any, kinds: type | tuple[type, ...]) -> Iterator[Any]:
    if isinstance(value, kinds):
        yield value
    elif isinstance(value, (list, tuple)):
        yield from (each for part in value for each in _functions_in(part, kinds))
