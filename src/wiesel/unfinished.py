"""Unfinished files: named after the process that writes them, and removed once it is gone."""

import hashlib
import itertools
import os
import platform
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

__all__ = [
    "filling",
    "finished_path",
    "is_abandoned",
    "locked",
    "named_problems",
    "owner_mark",
    "recover",
    "remove_abandoned",
    "remove_entry",
    "swap",
    "unfinished_path",
    "write_file",
    "write_synced",
]

_MARK = re.compile(r"(\d{1,10})-(\d{1,20})-([0-9a-f]{8})")
_ENDING = ".unfinished"
_LONGEST_NAME = 100
"""How many bytes of a name are kept: with the mark appended, it must still be a valid name."""
_STALE = 24 * 3600.0
"""Seconds after which an entry counts as abandoned if its owner is on another machine."""
_numbers = itertools.count()
_LONGEST_WAIT = 10.0
"""Seconds to wait for a process between its two renames; after that it must have stopped."""


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


def write_file(path: str | Path, content: bytes) -> None:
    """Write a file so that a crash leaves either the old file or the new one.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_file(folder / "notes.txt", b"hello")
    >>> [(file.name, file.read_bytes()) for file in folder.iterdir()]
    [('notes.txt', b'hello')]
    """
    target = Path(path).resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(target.parent)
    unfinished = unfinished_path(target)
    try:
        with named_problems(path):
            write_synced(unfinished, content)
            os.replace(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)


def write_synced(file: Path, content: bytes) -> None:
    """Write a new file and sync it to the disk."""
    with named_problems(file), file.open("xb") as handle:
        handle.write(content)
        handle.flush()
        os.fsync(handle.fileno())


@contextmanager
def named_problems(path: str | Path) -> Iterator[None]:
    """Add the file name to system errors; the error of a full disk has none.

    The user knows the file that was to be written, not the unfinished one.
    """
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            known = finished_path(os.fsdecode(error.filename), Path(path))
            raise OSError(error.errno, error.strerror, str(known)) from error
        if error.errno is None:  # NumPy and Polars give only a message
            raise OSError(f"{path} cannot be written: {error}") from error
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextmanager
def filling(target: Path) -> Iterator[Path]:
    """Yield a new folder next to `target`, to be filled and then put in its place by `swap`.

    What is left of the folder at the end is removed, and so are leftovers of killed processes.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(target.parent)
    unfinished = unfinished_path(target)
    try:
        with named_problems(target):
            unfinished.mkdir()
            yield unfinished
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def swap(finished: Path, target: Path) -> None:
    """Replace a folder by a complete one; `recover` repairs a crash in between."""
    previous = _previous(target)
    with locked(target.parent):
        _restore_previous(target)
        shutil.rmtree(previous, ignore_errors=True)
        if target.exists():
            os.rename(target, previous)
        os.rename(finished, target)
    shutil.rmtree(previous, ignore_errors=True)


def recover(folder: Path) -> None:
    """Restore the earlier folder after a crash between the two renames of `swap`.

    If a running process is between them, wait until it is done.
    """
    if folder.exists() or not _previous(folder).is_dir():
        return
    with suppress(OSError), locked(folder.parent):
        _restore_previous(folder)


def _restore_previous(folder: Path) -> None:
    if not folder.exists() and _previous(folder).is_dir():
        os.rename(_previous(folder), folder)


def _previous(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.previous")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let only one process at a time swap in a folder, if the system has locks.

    The system releases the lock of a process that dies, so no lock is left behind.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        deadline = time.monotonic() + _LONGEST_WAIT
        while time.monotonic() < deadline:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.01)
            except OSError:  # a file system without locks
                break
        yield
    finally:
        os.close(handle)
