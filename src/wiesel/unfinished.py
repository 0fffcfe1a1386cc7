"""Half-written files: named after the process that writes them, removed once it is gone."""

import hashlib
import itertools
import os
import platform
import re
import shutil
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

__all__ = ["is_abandoned", "owner_mark", "remove_abandoned", "remove_entry", "unfinished_path"]

_MARK = re.compile(r"(\d{1,10})-(\d{1,20})-([0-9a-f]{8})")
_ENDING = ".unfinished"
_LONGEST_NAME = 100
"""Bytes of a name that are kept: with the mark behind it, it must still be a name."""
_STALE = 24 * 3600.0
"""Seconds after which something is abandoned whose owner is on another machine."""
_numbers = itertools.count()


def unfinished_path(target: Path) -> Path:
    """Return where to write what shall become `target`: beside it, marked as this process's.

    >>> path = unfinished_path(Path("out/model"))
    >>> path.parent.name, path.name.startswith(".model."), path.suffix
    ('out', True, '.unfinished')
    """
    short = target.name.encode("utf-8", "surrogateescape")[:_LONGEST_NAME].decode("utf-8", "ignore")
    return target.with_name(f".{short}.{owner_mark()}.{next(_numbers)}{_ENDING}")


def owner_mark() -> str:
    """Return what names this process: its number, when it started, and where it runs."""
    pid = os.getpid()
    return f"{pid}-{_started(pid) or 0}-{_place()}"


def is_abandoned(name: str, modified: float) -> bool:
    """Whether the owner that a name carries is gone; `modified` is when the file last changed.

    Numbers of processes mean nothing on another machine or in another container. What comes from
    there counts as abandoned after a day.
    """
    found = _MARK.search(name)
    if found is None:
        return False
    pid, started, place = int(found[1]), int(found[2]), found[3]
    # Windows has no harmless way to ask for a process by its number.
    if place != _place() or os.name == "nt":
        return time.time() - modified > _STALE
    return not _is_running(pid, started)


def remove_abandoned(folder: Path, prefix: str = ".", ending: str = _ENDING) -> list[Path]:
    """Remove what no living process owns, directly in a folder; returns what was removed.

    Only entries whose name carries the mark of a process, that are this user's, and that are no
    links.
    """
    return [entry for entry in _abandoned(folder, prefix, ending) if remove_entry(entry)]


def remove_entry(entry: Path) -> bool:
    """Remove a file or a folder; returns whether it is gone."""
    try:
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
    except OSError:
        return False
    return not entry.exists()


def _abandoned(folder: Path, prefix: str, ending: str) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            found = sorted(
                entry.name
                for entry in entries
                if entry.name.startswith(prefix)
                and entry.name.endswith(ending)
                and not entry.is_symlink()
            )
    except OSError:  # no such folder, or not ours to look into
        return
    for name in found:
        try:
            state = (folder / name).lstat()
        except OSError:  # whoever wrote it has just finished
            continue
        ours = not hasattr(os, "getuid") or state.st_uid == os.getuid()
        if ours and is_abandoned(name, state.st_mtime):
            yield folder / name


def _is_running(pid: int, started: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OverflowError, OSError):  # no such number can be, or it is another user's process
        return True
    # The number may have been given to another process since.
    now = _started(pid)
    return now is None or started in (0, now)


def _started(pid: int) -> int | None:
    """When a process started, in ticks since the machine did; None where the system has no /proc.

    A process that has ended but was not waited for writes nothing any more.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name of the program, in parentheses, may hold anything.
    fields = text.rpartition(")")[2].split()
    return -1 if fields[0] in "ZX" else int(fields[19])


@cache
def _place() -> str:
    """The machine, and the container on it."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return hashlib.sha256(f"{platform.node()} {space}".encode()).hexdigest()[:8]
