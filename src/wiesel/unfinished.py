"""Unfinished files: named after the process that writes them, and removed once it is gone."""

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

__all__ = [
    "finished_path",
    "is_abandoned",
    "owner_mark",
    "remove_abandoned",
    "remove_entry",
    "unfinished_path",
]

_MARK = re.compile(r"(\d{1,10})-(\d{1,20})-([0-9a-f]{8})")
_ENDING = ".unfinished"
_LONGEST_NAME = 100
"""How many bytes of a name are kept: with the mark appended, it must still be a valid name."""
_STALE = 24 * 3600.0
"""Seconds after which an entry counts as abandoned if its owner is on another machine."""
_numbers = itertools.count()


def unfinished_path(target: Path) -> Path:
    """Return where to write the future `target`: next to it, marked as this process's.

    >>> path = unfinished_path(Path("out/model"))
    >>> path.parent.name, path.name.startswith(".model."), path.suffix
    ('out', True, '.unfinished')
    """
    short = target.name.encode("utf-8", "surrogateescape")[:_LONGEST_NAME].decode("utf-8", "ignore")
    return target.with_name(f".{short}.{owner_mark()}.{next(_numbers)}{_ENDING}")


def owner_mark() -> str:
    """Return the mark of this process: its id, its start time, and where it runs."""
    pid = os.getpid()
    return f"{pid}-{_started(pid) or 0}-{_place()}"


def finished_path(path: str, target: Path) -> Path:
    """Return what a path will be called once the unfinished entry in it is `target`.

    >>> unfinished = unfinished_path(Path("out/model")) / "manifest.json"
    >>> finished_path(str(unfinished), Path("out/model")).as_posix()
    'out/model/manifest.json'
    """
    parts = Path(path).parts
    for place, part in enumerate(parts):
        if part.endswith(_ENDING) and _MARK.search(part):
            return target.joinpath(*parts[place + 1 :])
    return Path(path)


def is_abandoned(name: str, modified: float) -> bool:
    """Whether the owner in a name is gone; `modified` is when the file last changed.

    Process ids mean nothing on another machine or in another container. Files from there count as
    abandoned after a day.
    """
    found = _MARK.search(name)
    if found is None:
        return False
    pid, started, place = int(found[1]), int(found[2]), found[3]
    # Windows has no harmless way to look up a process by its id.
    if place != _place() or os.name == "nt":
        return time.time() - modified > _STALE
    return not _is_running(pid, started)


def remove_abandoned(folder: Path, prefix: str = ".", ending: str = _ENDING) -> list[Path]:
    """Remove entries directly in a folder that no running process owns, and return them.

    Only entries that have a process's mark in their name, belong to this user and are not links
    are removed.
    """
    return [entry for entry in _abandoned(folder, prefix, ending) if remove_entry(entry)]


def remove_entry(entry: Path) -> bool:
    """Remove a file or a folder, and return whether it is gone."""
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
    except OSError:  # no such folder, or no permission to read it
        return
    for name in found:
        try:
            state = (folder / name).lstat()
        except OSError:  # its writer has just finished
            continue
        ours = not hasattr(os, "getuid") or state.st_uid == os.getuid()
        if ours and is_abandoned(name, state.st_mtime):
            yield folder / name


def _is_running(pid: int, started: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OverflowError, OSError):  # not a possible id, or another user's process
        return True
    # The id may have been reused by another process since.
    now = _started(pid)
    return now is None or started in (0, now)


def _started(pid: int) -> int | None:
    """The start time of a process, in ticks since boot; None if the system has no /proc.

    A process that has ended but was not waited for (a zombie) no longer writes anything.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name of the program, in parentheses, may contain anything.
    fields = text.rpartition(")")[2].split()
    return -1 if fields[0] in "ZX" else int(fields[19])


@cache
def _place() -> str:
    """The machine and the container."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return hashlib.sha256(f"{platform.node()} {space}".encode()).hexdigest()[:8]
