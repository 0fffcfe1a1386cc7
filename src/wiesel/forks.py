"""What a forked process has lost: the threads of Polars and torch.

`os.fork`, `multiprocessing` with the start method "fork" and `gunicorn --preload` copy a process
without its threads. Polars and torch keep the threads that they started, so in the copy most
operations of Polars, and large ones of torch, wait for ever for threads that do not exist. torch
can do without them, on one thread; Polars cannot.
"""

import os
import sys
from pathlib import Path

from wiesel.errors import ForkError

__all__ = ["check_polars_threads", "polars_threads_are_lost", "torch_threads_are_lost"]

_THREADS = Path("/proc/self/task")
_POOLS = ("polars-", "async-executor", "tokio-rt")
"""How the names of Polars' threads begin."""

_Lost = tuple[bool, bool]
"""Whether the threads of Polars and of torch are lost."""

_lost_by_a_fork: _Lost = (False, False)
_lost: _Lost = (False, False)


def polars_threads_are_lost() -> bool:
    """Return whether this process was forked from one in which Polars had started its threads.

    >>> polars_threads_are_lost()
    False
    """
    return _lost[0]


def torch_threads_are_lost() -> bool:
    """Return whether this process was forked from one in which torch may have started threads.

    >>> torch_threads_are_lost()
    False
    """
    return _lost[1]


def check_polars_threads(what: str) -> None:
    """Refuse work for which Polars needs its threads, if this process does not have them."""
    if _lost[0]:
        raise ForkError(
            f"{what} needs Polars, which cannot run here: this process was forked from one in "
            "which Polars had started threads, and a fork copies no threads. Start worker "
            "processes with multiprocessing.get_context('spawn') or 'forkserver' (gunicorn: "
            "without --preload), or fork before the first use of Polars. Predictions of a fitted "
            "model do not need Polars' threads."
        )


def _note_threads() -> None:
    """Run in the parent before every fork: only there can the threads be seen."""
    global _lost_by_a_fork
    polars = _lost[0] or ("polars" in sys.modules and _pool_has_started())
    # torch's threads have no name by which to tell them.
    _lost_by_a_fork = polars, _lost[1] or "torch" in sys.modules


def _pool_has_started() -> bool:
    try:
        names = [(thread / "comm").read_text() for thread in _THREADS.iterdir()]
    except OSError:  # another system, or a thread that just ended: the cautious answer
        return True
    return any(name.startswith(_POOLS) for name in names)


def _note_loss() -> None:
    global _lost
    _lost = _lost_by_a_fork


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_note_threads, after_in_child=_note_loss)
