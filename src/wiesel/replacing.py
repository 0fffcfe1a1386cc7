"""Replaces files and folders as a whole, or not at all."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from wiesel.unfinished import finished_path, remove_abandoned, unfinished_path

__all__ = ["filling", "locked", "named_problems", "recover", "swap", "write_file", "write_synced"]

_LONGEST_WAIT = 10.0
"""Seconds to wait for a process between its two renames; after that it must have stopped."""


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
