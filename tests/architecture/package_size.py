"""How large the package is: `python tests/architecture/package_size.py`.

A line counts if it holds code: no comments, no blank lines, no docstrings, and no strings under
fields, which are their documentation.
"""

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

from source_tree import ROOT, Source, sources

_NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def code_lines(text: str) -> int:
    """Return how many lines of a file hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        # A string that is a statement does nothing: it documents what is above it.
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            lines -= set(range(value.lineno, (value.end_lineno or value.lineno) + 1))
    return len(lines)


def room(source: Source) -> str:
    """Return the part of the package that a file belongs to; single modules are one room."""
    return "single modules" if source.path.parent.name == "wiesel" else source.part


def main() -> None:
    """Print lines and files of every room, and the lines of its tests in `tests/unit`."""
    lines: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for source in sources():
        lines[room(source)] += code_lines(source.path.read_text(encoding="utf-8"))
        files[room(source)] += 1
    print(f"{'room':<16}{'lines of code':>14}{'files':>8}{'lines of tests':>16}")  # noqa: T201
    for name, n_lines in lines.most_common():
        own = lines_below(ROOT / "tests" / "unit" / name)
        print(f"{name:<16}{n_lines:>14,}{files[name]:>8}{own or '-':>16}")  # noqa: T201
    total, of_tests = lines.total(), lines_below(ROOT / "tests")
    print(f"{'all':<16}{total:>14,}{files.total():>8}{of_tests:>16,}")  # noqa: T201
    print(f"All tests have {of_tests / total:.2f} of the lines of the package.")  # noqa: T201


def lines_below(folder: Path) -> int:
    """Return how many lines of code the Python files below a folder have."""
    texts = (file.read_text(encoding="utf-8") for file in folder.rglob("*.py"))
    return sum(map(code_lines, texts))


if __name__ == "__main__":
    main()
