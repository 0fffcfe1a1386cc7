"""What a person sees while labeling functions run, on a terminal only: how far they have come."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["progress_line"]


@contextmanager
def progress_line(n_lfs: int) -> Iterator[Callable[[int], None]]:
    """Yield a function that shows how many rows are done; silent where nobody watches.

    >>> with progress_line(3) as show:
    ...     show(1000)
    """
    if not sys.stderr.isatty():
        yield lambda rows: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as line:
        task = line.add_task(f"{n_lfs:,} labeling functions", total=None)
        yield lambda rows: line.update(
            task, description=f"{n_lfs:,} labeling functions, row {rows:,}"
        )
