"""The tutorial as a script and as a notebook: the same text and code as the page."""

import json
import re
from pathlib import Path

__all__ = ["tutorial_notebook", "tutorial_script"]

PAGE = Path(__file__).resolve().parents[1] / "tutorial" / "tutorial.md"
_PYTHON = re.compile(r"^```python\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
_OUTPUT = re.compile(r'^```text title="Output"\n.*?^```\n', re.MULTILINE | re.DOTALL)


def tutorial_script() -> str:
    """Return the page as a Python file: prose as comments, code as it is."""
    lines = ["# Made of tutorial.md by `make docs`: change the page, not this file.\n"]
    for kind, text in _parts():
        lines.append(text if kind == "code" else _commented(text))
    return "\n".join(lines)


def tutorial_notebook() -> str:
    """Return the page as a Jupyter notebook without outputs."""
    cells = [_cell(number, kind, text) for number, (kind, text) in enumerate(_parts())]
    python = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = {
        "cells": cells,
        "metadata": {"kernelspec": python, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _parts() -> list[tuple[str, str]]:
    """The page in pieces: prose and code in turn; outputs are left out, as both make them."""
    page = _OUTPUT.sub("", PAGE.read_text(encoding="utf-8"))
    pieces = _PYTHON.split(page)
    kinds = ["prose", "code"] * len(pieces)
    named = [(kind, piece.strip("\n") + "\n") for kind, piece in zip(kinds, pieces, strict=False)]
    return [(kind, piece) for kind, piece in named if piece.strip()]


def _commented(text: str) -> str:
    return "".join(f"# {line}".rstrip() + "\n" for line in text.splitlines())


def _cell(number: int, kind: str, text: str) -> dict[str, object]:
    cell: dict[str, object] = {
        "cell_type": "code" if kind == "code" else "markdown",
        "id": f"cell-{number}",
        "metadata": {},
        "source": text.rstrip("\n").splitlines(keepends=True),
    }
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})
