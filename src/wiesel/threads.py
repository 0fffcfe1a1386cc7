"""Chooses the number of threads, and knows the size of memory.

BLAS and torch distribute every product over all cores. The products of label models and of small
networks are so small that their threads mostly wait for each other, and on a busy machine for a
core. The same fit then takes several times the CPU time. Such work runs inside `one_thread`. Work
that consists of large independent pieces uses all cores with `map_in_threads`, one thread a piece.
"""

import atexit
import gc
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from threadpoolctl import ThreadpoolController

from wiesel.errors import ForkError

__all__ = [
    "check_polars_threads",
    "collect_seldom",
    "fitting_threads",
    "free_memory",
    "map_in_threads",
    "memory_size",
    "one_thread",
    "polars_threads_are_lost",
    "torch_threads_are_lost",
    "usable_cores",
]

Piece = TypeVar("Piece")
Result = TypeVar("Result")

_WITH_POOLS = ("numpy", "scipy.linalg", "sklearn", "torch")
"""Modules that load a BLAS library when they are imported."""
_SMALL = 2_000_000
"""A network with fewer parameters is small; tables of embeddings do not count."""
_SIZES: MutableMapping[Any, int] = WeakKeyDictionary()
"""The number of weights of networks, without tables of embeddings."""
_THREADS = Path("/proc/self/task")
_POOLS = ("polars-", "async-executor", "tokio-rt")
"""How the names of Polars' threads begin."""

_Lost = tuple[bool, bool]
"""Whether the threads of Polars and of torch are lost."""

_lost_by_a_fork: _Lost = (False, False)
_lost: _Lost = (False, False)
_CONTAINER_LIMITS = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)


class _BlasLimit:
    """The limit of the BLAS pools, which all threads of a process share.

    Only the first thread to enter sets it, and removes it when it leaves. If each thread restored
    the limit that it found, two overlapping threads could leave the limit in place forever. A
    thread that loses the limit halfway is only slower.

    A module that loads a BLAS library of its own may be imported inside the limit, as SciPy is by
    the first fit of a process. The next thread to enter, or to enter again, limits that library.
    """

    def __init__(self) -> None:
        self._before: list[tuple[Any, int]] | None = None
        self._limited: tuple[bool, ...] = ()
        self._renew()
        if hasattr(os, "register_at_fork"):  # a forked process has no thread to release the lock
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()

    def set(self) -> bool:
        """Set the limit; return whether there was none, so that the caller has to lift it."""
        with self._lock:
            first_in, modules = self._before is None, _modules_with_pools()
            if not first_in and modules == self._limited:
                return False
            # Not `ThreadpoolController.limit`: it also reads the version and the settings of every
            # library, and a small fit comes here hundreds of times.
            counts = [(pool, pool.num_threads) for pool in _blas_pools(modules)]
            unlimited = [(pool, count) for pool, count in counts if count != 1]
            for pool, _ in unlimited:
                pool.set_num_threads(1)
            self._before, self._limited = [*(self._before or ()), *unlimited], modules
            return first_in

    @property
    def is_set(self) -> bool:
        return self._before is not None

    def lift(self) -> None:
        with self._lock:
            for pool, count in self._before or ():
                pool.set_num_threads(count)
            self._before = None


_BLAS = _BlasLimit()


@contextmanager
def one_thread() -> Iterator[None]:
    """Run the code inside on one thread of BLAS and torch, then restore their settings.

    May be nested, entered by several threads at once, and used as a decorator.

    >>> from threadpoolctl import threadpool_info
    >>> def most_threads():
    ...     pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    ...     return max(pool["num_threads"] for pool in pools)
    >>> before = most_threads()
    >>> with one_thread():
    ...     most_threads()
    1
    >>> before == most_threads()
    True
    """
    first_in = _BLAS.set()
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else None
    try:
        if torch and before != 1:
            torch.set_num_threads(1)
        yield
    finally:
        if torch and before != 1:
            torch.set_num_threads(before)
        if first_in:
            _BLAS.lift()


@contextmanager
def fitting_threads(module: Any) -> Iterator[None]:
    """Run a small network on one thread, and a large one with torch's setting, then restore it.

    The matrices of a small network are so small that distributing them to threads takes longer
    than multiplying them. With two threads the paper's networks take several times the CPU time.
    A forked process has no other threads, and runs every network on one.

    >>> import torch
    >>> before = torch.get_num_threads()
    >>> with fitting_threads(torch.nn.Linear(3, 2)):
    ...     torch.get_num_threads()
    1
    >>> before == torch.get_num_threads()
    True
    """
    torch = sys.modules["torch"]
    if _BLAS.is_set and torch.get_num_threads() == 1:
        # Inside training, every evaluation comes here: there is nothing to decide or to change.
        yield
        return
    if _n_numbers(module) < _SMALL or torch_threads_are_lost():
        with one_thread():
            yield
    else:
        yield


def _n_numbers(module: Any) -> int:
    """The number of weights that are multiplied, counted once: that takes longer than predicting.

    Tables of embeddings only have their rows looked up.
    """
    known = _SIZES.get(module)
    if known is None:
        nn = sys.modules["torch"].nn
        is_lazy, tables = nn.parameter.is_lazy, (nn.Embedding, nn.EmbeddingBag)
        parts = [part for part in module.modules() if not isinstance(part, tables)]
        parameters = {own for part in parts for own in part.parameters(recurse=False)}
        known = sum(parameter.numel() for parameter in parameters if not is_lazy(parameter))
        if not any(map(is_lazy, parameters)):
            _SIZES[module] = known
    return known


def usable_cores() -> int:
    """Return how many cores this process may use; `OMP_NUM_THREADS` can lower the number.

    >>> usable_cores() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        n_cores = len(os.sched_getaffinity(0))
    else:
        n_cores = os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return min(n_cores, int(limit)) if limit.isdigit() and int(limit) else n_cores


def map_in_threads(
    function: Callable[[Piece], Result], pieces: Iterable[Piece], n_threads: int | None = None
) -> Iterator[Result]:
    """Yield the result of every piece, in order, computed by a thread for each usable core.

    Each thread uses one thread of BLAS and torch, so the results do not depend on the number of
    cores. A few pieces are taken ahead, never all. This pays off if a piece takes a few
    milliseconds or more and spends them outside Python. A single piece starts no thread.

    >>> list(map_in_threads(abs, [-2, 1]))
    [2, 1]
    """
    n_threads, pieces = n_threads or usable_cores(), iter(pieces)
    first = list(islice(pieces, 2)) if n_threads > 1 else []
    pieces = chain(first, pieces)
    with one_thread():
        if len(first) < 2:
            yield from map(function, pieces)
            return
        # torch's number of threads belongs to the thread that sets it.
        limited = one_thread()(function)
        with ThreadPoolExecutor(n_threads, "wiesel") as pool:
            ahead: deque[Future[Result]] = deque()
            try:
                for piece in pieces:
                    ahead.append(pool.submit(limited, piece))
                    if len(ahead) > n_threads:
                        yield ahead.popleft().result()
                while ahead:
                    yield ahead.popleft().result()
            finally:
                for future in ahead:
                    future.cancel()


def _modules_with_pools() -> tuple[bool, ...]:
    return tuple(name in sys.modules for name in _WITH_POOLS)


@lru_cache(maxsize=4)
def _blas_pools(modules: tuple[bool, ...]) -> list[Any]:
    """The BLAS libraries loaded so far; finding them takes milliseconds."""
    return ThreadpoolController().select(user_api="blas").lib_controllers


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


def memory_size() -> int:
    """Return the memory of this machine, or of the container this runs in, in bytes.

    >>> memory_size() > 2**20
    True
    """
    sizes = [2**63]
    with suppress(AttributeError, OSError, ValueError):
        sizes.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for file in _CONTAINER_LIMITS:
        with suppress(OSError, ValueError):  # "max" is not a number: there is no limit
            sizes.append(int(Path(file).read_text(encoding="ascii")))
    return min(size for size in sizes if size > 0)


def free_memory() -> int:
    """Return the memory that this process can still get, in bytes, as far as the system tells.

    >>> 0 < free_memory() <= memory_size()
    True
    """
    sizes = [memory_size()]
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        sizes.append(1024 * next(int(line.split()[1]) for line in lines if "MemAvailable" in line))
    with suppress(OSError, ValueError, StopIteration):  # of a container; files do not count
        lines = Path("/sys/fs/cgroup/memory.stat").read_text(encoding="ascii").splitlines()
        used = next(int(line.split()[1]) for line in lines if line.startswith("anon "))
        sizes.append(memory_size() - used)
    with suppress(ImportError, OSError, ValueError):
        import resource  # not on Windows

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            n_pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            sizes.append(limit - n_pages * resource.getpagesize())
    return max(1, min(sizes))


def collect_seldom() -> None:
    """Let Python search for garbage less often; for programs, which decide this for themselves.

    torch and its kind load half a million objects, all of which stay. With Python's defaults, the
    search passes over them again and again while they are loaded, and three times at the end.
    Together that is a third of the time in which such a program starts and ends.
    """
    gc.set_threshold(10_000, 50)
    # What is frozen is not searched. This runs last, and the end of the process frees everything.
    atexit.register(gc.freeze)
