"""The size of memory, so that data that cannot fit is refused in advance, and its garbage."""

import atexit
import gc
import os
from contextlib import suppress
from pathlib import Path

__all__ = ["collect_seldom", "free_memory", "memory_size"]

_CONTAINER_LIMITS = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)


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
