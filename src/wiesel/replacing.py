"""Files and folders that take the place of earlier ones as a whole, or not at all."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from wiesel.unfinished import remove_abandoned, unfinished_path

__all__ = ["filling", "named_problems", "recover", "swap", "write_file", "write_synced"]

_LONGEST_WAIT = 10.0
"""Seconds to wait for a process that is between two renames; it has stopped, if it takes longer."""


def write_file(path: str | Path, content: bytes) -> None:
    """Write a file so that a crash leaves either the old one or the new one.

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
        write_synced(unfinished, content)
        os.replace(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)


def write_synced(file: Path, content: bytes) -> None:
    """Write a new file down to the disk."""
    with named_problems(file), file.open("xb") as handle:
        handle.write(content)
        handle.flush()
        os.fsync(handle.fileno())


@contextmanager
def named_problems(path: str | Path) -> Iterator[None]:
    """Give errors of the system the name of the file; a full disk by itself names none."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        if error.errno is None:  # NumPy and Polars say in words alone what went wrong
            raise OSError(f"{path} cannot be written: {error}") from error
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextmanager
def filling(target: Path) -> Iterator[Path]:
    """Give a new folder beside `target`, to be filled and put in its place by `swap`.

    What is left of it at the end is removed, and so is what killed processes left there.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(target.parent)
    unfinished = unfinished_path(target)
    unfinished.mkdir()
    try:
        yield unfinished
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def swap(finished: Path, target: Path) -> None:
    """Put a complete folder in the place of another; `recover` repairs a crash in between."""
    previous = _previous(target)
    with _locked(target.parent):
        _bring_back(target)
        shutil.rmtree(previous, ignore_errors=True)
        if target.exists():
            os.rename(target, previous)
        os.rename(finished, target)
    shutil.rmtree(previous, ignore_errors=True)


def recover(folder: Path) -> None:
    """Bring back the earlier folder if a crash fell between the two renames of `swap`.

    Where a living process is between them, wait until it is through.
    """
    if folder.exists() or not _previous(folder).is_dir():
        return
    with suppress(OSError), _locked(folder.parent):
        _bring_back(folder)


def _bring_back(folder: Path) -> None:
    if not folder.exists() and _previous(folder).is_dir():
        os.rename(_previous(folder), folder)


def _previous(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.previous")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Be the only process that swaps in a folder, where the system has locks.

    The system takes the lock from a process that dies; none is left behind.
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
