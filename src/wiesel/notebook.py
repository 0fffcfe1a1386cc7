"""Notebooks: detects them, and shows a line of output that is replaced instead of growing."""

import sys
from html import escape
from importlib import import_module
from typing import Any

__all__ = ["NotebookLine", "in_notebook"]

_BAR = "display:inline-block;width:12em;height:.7em;border-radius:.35em;overflow:hidden;"
_BLUE, _TRACK = "#2a78d6", "rgba(128,128,128,.25)"


def in_notebook() -> bool:
    """Return whether this code runs in the kernel of a notebook, without importing IPython.

    >>> in_notebook()
    False
    """
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


class NotebookLine:
    """One output of a cell that is replaced as work progresses; it needs no widgets.

    Every front end that shows outputs can show it, and a saved notebook keeps its last state.
    """

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, text: str, share: float | None = None) -> None:
        """Replace the text of the line; the `share` of the work done is drawn as a bar."""
        bundle = {"text/plain": text, "text/html": line_html(text, share)}
        if self._handle is None:
            self._handle = import_module("IPython.display").DisplayHandle()
            self._handle.display(bundle, raw=True)
        else:
            self._handle.update(bundle, raw=True)


def line_html(text: str, share: float | None = None) -> str:
    """Return a line of text as HTML, after a bar if a share is given.

    >>> line_html("a < b")
    '<div style="font-variant-numeric:tabular-nums">a &lt; b</div>'
    """
    words = escape(text)
    if share is not None:
        done = f"{100 * min(max(share, 0.0), 1.0):.0f}%"
        fill = f'<span style="display:block;width:{done};height:100%;background:{_BLUE}"></span>'
        words = f'<span style="{_BAR}background:{_TRACK}">{fill}</span> {words}'
    return f'<div style="font-variant-numeric:tabular-nums">{words}</div>'
