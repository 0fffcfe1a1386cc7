"""What killed runs leave behind in an output folder: found, and removed where it is safe."""

import os
import re
import shutil
import time
from pathlib import Path

__all__ = ["remove_leftovers"]

_OF_A_RUN = re.compile(r"\..+\.(\d+)\.unfinished")
_TEMPORARY = re.compile(r"\..+\.(npy|parquet|csv|jsonl)\.\w{8}|\.\w+\.plain")
_STALE = 3600.0
"""Seconds after which nobody is still writing one file."""


def remove_leftovers(folder: Path) -> list[Path]:
    """Remove half-written files and folders of runs that are gone; returns what was removed.

    Their names begin with a dot and end as Wiesel ends them. What carries the number of a process
    goes once that process is gone, anything else once it is an hour old. Links are left alone.
    """
    removed = []
    places = [folder, folder / ".cache", *(folder / ".cache").glob("*/")]
    for place in places:
        for entry in sorted(place.glob(".*")):
            if not entry.is_symlink() and _is_left_over(entry):
                _remove(entry)
                removed.append(entry)
    return removed


def _is_left_over(entry: Path) -> bool:
    if named := _OF_A_RUN.fullmatch(entry.name):
        return not _is_running(int(named[1]))
    if not _TEMPORARY.fullmatch(entry.name):
        return False
    try:
        return time.time() - entry.stat().st_mtime > _STALE
    except FileNotFoundError:  # whoever wrote it has just finished
        return False


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OverflowError, PermissionError):  # no such number can be; or another user's process
        return True
    return True


def _remove(entry: Path) -> None:
    if entry.is_dir():
        shutil.rmtree(entry, ignore_errors=True)
    else:
        entry.unlink(missing_ok=True)
