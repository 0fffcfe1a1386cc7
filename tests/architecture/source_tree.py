"""The files of the package and what they import, read from their syntax trees."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "wiesel"


@dataclass(frozen=True)
class Import:
    """One imported module, and where the statement stands."""

    module: str
    line: int
    lazy: bool
    """Whether the statement is inside a function, or for the type checker only."""


@dataclass(frozen=True)
class Source:
    """One file of the package."""

    path: Path
    tree: ast.Module

    @property
    def name(self) -> str:
        """The path below src, for messages."""
        return self.path.relative_to(PACKAGE.parent).as_posix()

    @property
    def part(self) -> str:
        """The package or module directly below `wiesel` that the file belongs to."""
        return self.path.relative_to(PACKAGE).parts[0].removesuffix(".py")

    @property
    def n_lines(self) -> int:
        return len(self.path.read_text().splitlines())

    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        return _functions(self.tree)

    def imports(self) -> list[Import]:
        return _all_imports(self.tree)


@cache
def _functions(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node for node in ast.walk(tree) if isinstance(node, kinds)]


@cache
def _all_imports(tree: ast.Module) -> list[Import]:
    return list(_imports(tree, lazy=False))


@cache
def sources() -> tuple[Source, ...]:
    """All files of the package."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return tuple(Source(path, ast.parse(path.read_text(), str(path))) for path in paths)


@cache
def parts() -> frozenset[str]:
    """The names of everything directly below `wiesel`."""
    return frozenset(source.part for source in sources()) - {"__init__"}


def n_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many arguments a caller can give."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return len([argument for argument in named if argument.arg not in ("self", "cls")])


def _imports(node: ast.AST, lazy: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, child.lineno, lazy)
        elif isinstance(child, ast.ImportFrom):
            for module in _from_modules(child):
                yield Import(module, child.lineno, lazy)
        else:
            yield from _imports(child, lazy or _is_deferred(child))


def _is_deferred(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))


def _from_modules(statement: ast.ImportFrom) -> list[str]:
    module = "." * statement.level + (statement.module or "")
    if module == "wiesel":
        return [f"wiesel.{alias.name}" for alias in statement.names]
    return [module]
