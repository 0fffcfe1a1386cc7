"""Cached sums over vote files: a sum that is on disk is not computed again."""

import hashlib
import math
import zipfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

from wiesel.io.files import FilePath, replacing
from wiesel.io.vote_files import read_votes
from wiesel.version import __version__
from wiesel.votes import Add, Statistics, VoteMatrix, add_statistics

__all__ = ["KeptSums"]

_SMALL = 2**22
"""Sums up to this size in bytes are written after every file; larger ones after several files."""


class KeptSums:
    """A folder of finished and unfinished sums, each named by the statistic and the files.

    A fit computes one sum after another, and the same ones when it is restarted: finished sums are
    looked up, and an interrupted sum continues with the next file. Models share the sums they have
    in common, such as the pairs of votes. Sums over files that have changed are removed.

    >>> import tempfile
    >>> from wiesel.io import write_votes
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_votes(votes, folder / "part-0.parquet")
    >>> kept = KeptSums(folder / "sums", [folder / "part-0.parquet"])
    >>> def n_votes(part):
    ...     return (np.array([part.n_votes]),)
    >>> kept.sum(n_votes)
    (array([9]),)
    """

    def __init__(self, folder: FilePath, files: Sequence[Path]) -> None:
        self.folder = Path(folder)
        self.files = tuple(files)
        states = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
        self._of_files = _digest(repr((__version__, states)).encode())
        self.n_read = 0
        """The number of files read so far."""

    def sum(
        self, statistic: Callable[[VoteMatrix], Statistics], add: Add = add_statistics
    ) -> Statistics:
        """Return the sum of `statistic(part)` over all files."""
        place = self._place(statistic)
        total, n_done = (None, 0) if place is None else _read(place)
        for number, file in enumerate(self.files[n_done:], start=n_done + 1):
            part = statistic(read_votes(file))
            self.n_read += 1
            total = part if total is None else add(total, part)
            n_bytes = sum(array.nbytes for array in total)
            every = max(1, math.ceil(n_bytes / _SMALL))
            if place is not None and (number % every == 0 or number == len(self.files)):
                _write(place, total, number)
        if total is None:
            raise ValueError("There are no files to sum over.")
        return total

    def _place(self, statistic: Callable[[VoteMatrix], Statistics]) -> Path | None:
        """The file of a sum; None if the function cannot be identified."""
        name = hashlib.sha256()
        try:
            _add_name(name.update, statistic)
        except _NamelessError:
            return None
        self.folder.mkdir(parents=True, exist_ok=True)
        for stale in self.folder.glob("*.npz"):
            if not stale.name.startswith(self._of_files):
                stale.unlink(missing_ok=True)
        return self.folder / f"{self._of_files}-{name.hexdigest()[:16]}.npz"


def _read(place: Path) -> tuple[Statistics | None, int]:
    """A sum and the number of files it covers; an unreadable file counts as missing."""
    try:
        # If NumPy opens a damaged file itself, it leaves the file open.
        with place.open("rb") as content, np.load(content, allow_pickle=False) as found:
            n_done, n_arrays = found["counts"].tolist()
            return tuple(found[f"arr_{k}"] for k in range(n_arrays)), n_done
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None, 0


def _write(place: Path, total: Statistics, n_done: int) -> None:
    with replacing(place) as temporary, temporary.open("wb") as target:
        np.savez(target, *total, counts=np.array([n_done, len(total)]))


class _NamelessError(Exception):
    """A function or a value cannot be identified by name."""


def _add_name(add: Callable[[bytes], None], value: Any) -> None:
    """Add the identity of a function or of one of its arguments to the hash."""
    if isinstance(value, FunctionType):
        if "<" in value.__qualname__:  # a lambda or a nested function
            raise _NamelessError
        add(f"{value.__module__}.{value.__qualname__};".encode())
        return
    add(f"{type(value).__module__}.{type(value).__qualname__}(".encode())
    if isinstance(value, np.ndarray):
        add(f"{value.dtype}{value.shape}".encode() + np.ascontiguousarray(value).tobytes())
    elif value is None or isinstance(value, bool | int | float | str | bytes | np.generic):
        add(repr(value).encode())
    else:
        for part in _parts_of(value):
            _add_name(add, part)
    add(b");")


def _parts_of(value: Any) -> list[Any]:
    if isinstance(value, partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, tuple | list):
        return list(value)
    if isinstance(value, Mapping):
        return [part for item in value.items() for part in item]
    if not hasattr(value, "__dict__"):
        raise _NamelessError
    return [vars(value)]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
