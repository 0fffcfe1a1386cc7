"""A progress bar on a terminal, or whoever watches; silence everywhere else."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

__all__ = ["progress_bar", "watching"]

Show = Callable[[Mapping[str, Any]], None]

_WATCHER: ContextVar[Show | None] = ContextVar("watcher", default=None)


@contextmanager
def watching(show: Show) -> Iterator[None]:
    """Give every epoch's record to `show`, of whatever is trained inside; there is no bar then.

    >>> seen = []
    >>> with watching(seen.append), progress_bar(2, 0, None) as tell:
    ...     tell({"epoch": 1})
    >>> seen
    [{'epoch': 1}]
    """
    token = _WATCHER.set(show)
    try:
        yield
    finally:
        _WATCHER.reset(token)


@contextmanager
def progress_bar(total: int, done: int, enabled: bool | None) -> Iterator[Show]:
    """Yield a function that shows an epoch's record; `enabled=None` means: on a terminal."""
    watcher = _WATCHER.get()
    if watcher is not None:
        yield watcher
        return
    if not (sys.stderr.isatty() if enabled is None else enabled):
        yield lambda record: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    columns = (TextColumn("epoch"), MofNCompleteColumn(), BarColumn(), Remaining())
    with Progress(*columns, TextColumn("{task.description}"), console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=total, completed=done)
        yield lambda record: bar.update(task, advance=1, description=_described(record))


def _described(record: Mapping[str, Any]) -> str:
    """The numbers a person watches: losses, the validation score, agreement."""
    shown = [
        f"{name.removeprefix('validation_').replace('_', ' ')} {value:.3f}"
        for name, value in record.items()
        if name.startswith(("loss", "validation", "agreement")) and isinstance(value, float)
    ]
    return "  ".join(shown)
