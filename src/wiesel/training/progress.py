"""A progress bar on a terminal; silence everywhere else."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

__all__ = ["progress_bar"]

Show = Callable[[Mapping[str, Any]], None]


@contextmanager
def progress_bar(total: int, done: int, enabled: bool | None) -> Iterator[Show]:
    """Yield a function that shows an epoch's record; `enabled=None` means: on a terminal."""
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
