"""Finds the one-token changes of a Python file that could change a number.

Operators, comparisons, `and` and `or`, small constants, True and False, min and max. Strings,
messages of errors, type hints and decorators are left alone.
"""

import ast
import hashlib
import io
import itertools
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["Mutation", "drawn", "mutations", "mutations_of"]

_OTHERS: dict[str, tuple[str, ...]] = {
    "+": ("-",),
    "-": ("+",),
    "*": ("/",),
    "/": ("*",),
    "//": ("*",),
    "%": ("*",),
    "&": ("|",),
    "|": ("&",),
    "+=": ("-=",),
    "-=": ("+=",),
    "*=": ("/=",),
    "/=": ("*=",),
    "&=": ("|=",),
    "|=": ("&=",),
    "<": ("<=", ">"),
    "<=": ("<", ">="),
    ">": (">=", "<"),
    ">=": (">", "<="),
    "==": ("!=",),
    "!=": ("==",),
    "and": ("or",),
    "or": ("and",),
    "True": ("False",),
    "False": ("True",),
    "0": ("1",),
    "1": ("0", "2"),
    "2": ("1", "3"),
    "3": ("2", "4"),
    "0.0": ("1.0",),
    "1.0": ("0.0", "2.0"),
    "2.0": ("1.0", "3.0"),
    "3.0": ("2.0", "4.0"),
    "min": ("max",),
    "max": ("min",),
    "minimum": ("maximum",),
    "maximum": ("minimum",),
    "argmin": ("argmax",),
    "argmax": ("argmin",),
}


class Mutation(NamedTuple):
    """One token of a file, and what takes its place."""

    path: str
    """From the folder of the package, as in `nn/losses.py`."""
    function: str
    """The function or method, as in `Triplet._fit`; empty outside of functions."""
    line: int
    column: int
    text: str
    """The line, stripped."""
    old: str
    new: str
    nth: int
    """The how manieth of the same tokens in the same lines of the function."""

    @property
    def key(self) -> str:
        """What stays the same while other lines of the file change."""
        return "|".join((self.path, self.function, self.text, self.old, self.new, str(self.nth)))

    def apply(self, source: str) -> str:
        """Return the source with the change."""
        lines = source.splitlines(keepends=True)
        line = lines[self.line - 1]
        assert line[self.column :].startswith(self.old), self  # noqa: S101 - a mistake of ours
        end = self.column + len(self.old)
        lines[self.line - 1] = line[: self.column] + self.new + line[end:]
        return "".join(lines)


def drawn(found: Iterable[Mutation], seed: int, size: int) -> list[Mutation]:
    """Draw a sample: another order for each seed, in which changed code moves only itself."""
    return sorted(found, key=lambda one: _rank(f"{seed}|{one.key}"))[:size]


def mutations(package: Path, files: Iterable[str]) -> Iterator[Mutation]:
    """Yield one mutation of every token of the files that has any."""
    for path in sorted(files):
        yield from mutations_of((package / path).read_text(encoding="utf-8"), path)


def mutations_of(source: str, path: str) -> Iterator[Mutation]:
    """Yield one mutation of every token of the source that has any.

    >>> [(m.old, m.new) for m in mutations_of("def f(a: 'x < 2'): return a[0] and True", "f.py")]
    [('0', '1'), ('and', 'or'), ('True', 'False')]
    """
    marked = _MarkedPlaces(source)
    marked.visit(ast.parse(source))
    lines = source.splitlines()
    seen: Counter[tuple[str, ...]] = Counter()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        function = marked.places.get(token.start)
        if function is None or token.string not in _OTHERS:
            continue
        text, others = lines[token.start[0] - 1].strip(), _OTHERS[token.string]
        same = (function, text, token.string)
        seen[same] += 1
        new = others[_rank("|".join((path, *same, str(seen[same])))) % len(others)]
        yield Mutation(path, function, *token.start, text, token.string, new, seen[same])


class _MarkedPlaces(ast.NodeVisitor):
    """Collects where tokens may be changed, and the function around each."""

    def __init__(self, source: str) -> None:
        self.lines = source.splitlines()
        self.tokens = [
            token
            for token in tokenize.generate_tokens(io.StringIO(source).readline)
            if token.type in (tokenize.OP, tokenize.NAME)
        ]
        self.places: dict[tuple[int, int], str] = {}
        self.names: list[str] = []
        self.in_function = False

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._inside(node.name, node.body)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._inside(node.name, [node.args, *node.body], function=True)

    def _inside(self, name: str, nodes: Iterable[ast.AST], function: bool = False) -> None:
        if self.in_function:  # a function in a function counts for the outer one
            return self._all(nodes)
        self.names.append(name)
        self.in_function = function
        self._all(nodes)
        self.in_function = False
        self.names.pop()

    def _all(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        # NumPy takes every negative size for the one that is left.
        reshapes = isinstance(node.func, ast.Attribute) and node.func.attr == "reshape"
        args = [arg for arg in node.args if not (reshapes and ast.unparse(arg) == "-1")]
        self._all([node.func, *args, *node.keywords])

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg not in ("repr", "strict"):  # neither changes a number
            self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> None:
        """Type hints stay."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._all([node.value])

    def visit_Raise(self, node: ast.Raise) -> None:
        """Messages of errors stay."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Texts stay."""

    def visit_Assign(self, node: ast.Assign) -> None:
        named = [target.id for target in node.targets if isinstance(target, ast.Name)]
        if "__all__" not in named and not _is_a_type(node.value):
            self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) != "TYPE_CHECKING":
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        self._mark(self._place(node.lineno, node.col_offset))

    def visit_Name(self, node: ast.Name) -> None:
        self._mark(self._place(node.lineno, node.col_offset))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        line, column = self._end(node)
        self._mark((line, column - len(node.attr)))
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if not any(_is_text(side) for side in (node.left, node.right)):
            self._mark_between(node.left, node.right)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        self._mark(self._place(node.lineno, node.col_offset))
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._mark_between(node.target, node.value)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        for left, right in itertools.pairwise(sides):
            self._mark_between(left, right)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in itertools.pairwise(node.values):
            self._mark_between(left, right)
        self.generic_visit(node)

    def _mark_between(self, left: ast.expr, right: ast.expr) -> None:
        start = self._end(left)
        stop = self._place(right.lineno, right.col_offset)
        for token in self.tokens:
            if start <= token.start < stop and token.string in _OTHERS:
                self._mark(token.start)

    def _mark(self, place: tuple[int, int]) -> None:
        self.places[place] = ".".join(self.names) if self.in_function else ""

    def _end(self, node: ast.expr) -> tuple[int, int]:
        return self._place(node.end_lineno or 0, node.end_col_offset or 0)

    def _place(self, line: int, byte: int) -> tuple[int, int]:
        # ast counts bytes, tokenize counts characters.
        return line, len(self.lines[line - 1].encode()[:byte].decode())


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _is_a_type(node: ast.expr) -> bool:
    # A name for a type: `Part = Votes | Sequence[int]`, `Loss = Callable[[Tensor], Tensor]`.
    parts = list(ast.walk(node))
    return (
        any(isinstance(part, ast.BinOp) for part in parts)
        and all(
            isinstance(part, ast.Name | ast.Attribute | ast.BinOp | ast.BitOr | ast.Load)
            or (isinstance(part, ast.Constant) and part.value is None)
            for part in parts
            if not isinstance(part, ast.Subscript | ast.Tuple | ast.List)
        )
        and all(isinstance(p.op, ast.BitOr) for p in parts if isinstance(p, ast.BinOp))
    )


def _rank(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
