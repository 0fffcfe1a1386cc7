"""Shows the progress of slow work: what it is, and how far it has come."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["Listener", "listening", "progress"]

Listener = Callable[[str], None]
"""Receives the progress of slow work, as text."""

Show = Callable[..., None]
"""`show(done, note)`: shows how much is done, with a short note."""

_LISTENER: ContextVar[tuple[Listener, float] | None] = ContextVar("listener", default=None)
_DRAWING: ContextVar[Show | None] = ContextVar("drawing", default=None)
"""The line that is already drawn, if any: a terminal has only one last line."""


@contextmanager
def listening(tell: Listener, after: float = 0.0) -> Iterator[None]:
    """Report the progress of slow work inside to `tell`, instead of drawing a bar.

    With `after`, the first report comes after that many seconds, later ones less and less often.

    >>> with listening(print), progress("embeddings", 200, "texts") as show:
    ...     show(50)
    embeddings: 50 of 200 texts
    """
    token = _LISTENER.set((tell, after))
    try:
        yield
    finally:
        _LISTENER.reset(token)


@contextmanager
def progress(what: str, total: int | None = None, unit: str = "rows") -> Iterator[Show]:
    """Yield a function that shows how much is done, to a listener, on a terminal, or nowhere.

    >>> with progress("embeddings", 200, "texts") as show:
    ...     show(50, "nearly there")
    """
    current = _LISTENER.get()
    if current is not None:
        listener = _rarely(*current)
        yield lambda done, note="": listener(_report_text(what, done, total, unit, note))
        return
    outer = _DRAWING.get()
    if outer is not None:  # work inside the work that has the line
        yield lambda done, note="": outer(None, _report_text(what, done, total, unit, note))
        return
    if not sys.stderr.isatty():
        yield lambda done, note="": None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as line:
        task = line.add_task(what, total=total)
        known = 0

        def show(done: int | None, note: str = "") -> None:
            nonlocal known
            known = known if done is None else done
            line.update(
                task, completed=known, description=_report_text(what, known, total, unit, note)
            )

        token = _DRAWING.set(show)
        try:
            yield show
        finally:
            _DRAWING.reset(token)


def _rarely(tell: Listener, after: float) -> Listener:
    """A listener that forwards reports after this many seconds, then less and less often."""
    start, due = time.monotonic(), after

    def pass_on(text: str) -> None:
        nonlocal due
        spent = time.monotonic() - start
        if spent >= due:
            tell(text)
            due = 2 * spent if after else 0.0

    return pass_on


def _report_text(what: str, done: int, total: int | None, unit: str, note: str) -> str:
    of = "" if total is None else f" of {total:,}"
    return f"{what}: {done:,}{of} {unit}{f'; {note}' if note else ''}"
