"""A progress bar on a terminal or in a notebook, or a callback; otherwise no output."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from html import escape
from importlib import import_module
from typing import Any

__all__ = ["NotebookLine", "in_notebook", "line_html", "one_line", "progress_bar", "watching"]

Show = Callable[[Mapping[str, Any]], None]

_BAR = "display:inline-block;width:12em;height:.7em;border-radius:.35em;overflow:hidden;"
_BLUE, _TRACK = "#2a78d6", "rgba(128,128,128,.25)"

_WATCHER: ContextVar[Show | None] = ContextVar("watcher", default=None)
_LINE: ContextVar["NotebookLine | None"] = ContextVar("line", default=None)


@contextmanager
def watching(show: Show) -> Iterator[None]:
    """Call `show` with every epoch's record of all training inside; show no progress bar.

    `epochs` in a record is how many there will be at most.

    >>> seen = []
    >>> with watching(seen.append), progress_bar(2, 0, None) as tell:
    ...     tell({"epoch": 1})
    >>> seen
    [{'epoch': 1, 'epochs': 2}]
    """
    token = _WATCHER.set(show)
    try:
        yield
    finally:
        _WATCHER.reset(token)


@contextmanager
def one_line(fit: bool = False) -> Iterator[None]:
    """Let all training inside share one line of a notebook; a terminal is not affected.

    `fit` says that all of it belongs to one model. After several models, such as those of a
    comparison, the line has no epochs and no losses, because they differ.
    """
    shared = _LINE.get()
    line = shared or NotebookLine()
    token = None if shared is not None else _LINE.set(line)
    line.n_fits += fit
    try:
        yield
    finally:
        if token is not None:
            _LINE.reset(token)


@contextmanager
def progress_bar(total: int, done: int, enabled: bool | None) -> Iterator[Show]:
    """Yield a function that shows an epoch's record.

    `enabled=None` shows it on a terminal and in a notebook.
    """
    watcher = _WATCHER.get()
    if watcher is not None:
        yield lambda record: watcher({**record, "epochs": total})
    elif enabled is not False and in_notebook():
        with _notebook_bar(total, done) as show:
            yield show
    elif sys.stderr.isatty() if enabled is None else enabled:
        with _terminal_bar(total, done) as show:
            yield show
    else:
        yield lambda record: None


@contextmanager
def _terminal_bar(total: int, done: int) -> Iterator[Show]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    columns = (TextColumn("epoch"), MofNCompleteColumn(), BarColumn(), Remaining())
    with Progress(*columns, TextColumn("{task.description}"), console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=total, completed=done)
        yield lambda record: bar.update(
            task, completed=record["epoch"], description=_described(record)
        )


@contextmanager
def _notebook_bar(total: int, done: int) -> Iterator[Show]:
    """A bar in a line that is updated, and that finally shows how far training came."""
    line, last = _LINE.get() or NotebookLine(), {"epoch": done}
    line.show(f"epoch {done} of {total}", done / total)

    def show(record: Mapping[str, Any]) -> None:
        last.update(record)
        words = f"epoch {record['epoch']} of {total}  {_described(record)}"
        line.show(words.rstrip(), record["epoch"] / total)

    outcome = "Stopped after"
    try:
        yield show
        outcome = "Trained"
    finally:
        line.end(outcome, last)


def _described(record: Mapping[str, Any]) -> str:
    """The numbers a person watches: losses, the validation score, agreement."""
    shown = [
        f"{name.removeprefix('validation_').replace('_', ' ')} {value:.3f}"
        for name, value in record.items()
        if name.startswith(("loss", "validation", "agreement")) and isinstance(value, float)
    ]
    return "  ".join(shown)


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
        self.n_fits = 0
        """How many models have begun to train."""
        self._handle: Any = None
        self._start = time.perf_counter()
        self._longest: Mapping[str, Any] = {"epoch": 0}

    def end(self, outcome: str, last: Mapping[str, Any]) -> None:
        """Show that networks have finished, with the last record of those that trained longest.

        Stacks of one model may train for fewer epochs, such as those that learn from gold alone.
        """
        seconds = f"{time.perf_counter() - self._start:.1f} s"
        if self.n_fits > 1:
            self.show(f"{outcome} {'for ' if outcome == 'Trained' else ''}{seconds}")
            return
        if last["epoch"] > self._longest["epoch"] or outcome != "Trained":
            self._longest = last
        n_epochs = self._longest["epoch"]
        epochs = f"{n_epochs} epoch{'' if n_epochs == 1 else 's'}"
        self.show(f"{outcome} {epochs} in {seconds}  {_described(self._longest)}".rstrip())

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
