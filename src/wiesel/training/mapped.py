"""Memory-mapped files: sent to other processes by file name, and read without filling memory."""

import mmap
import os
import socket
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from wiesel.errors import FeatureError

__all__ = ["MappedFile", "portable", "read_rows", "release_pages", "reopen"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class MappedFile:
    """An array that is a part of a file."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    offset: int

    def open(self) -> Array:
        """Return the array, mapped again."""
        try:
            return np.memmap(self.path, self.dtype, "r", self.offset, self.shape)
        except (OSError, ValueError) as error:
            raise FeatureError(
                f"X is the memory-mapped file {self.path}, which {socket.gethostname()} cannot "
                f"open ({error}). Put it on storage that all machines share."
            ) from error


def portable(values: Array | Tensor) -> Any:
    """Return values in a form that is easy to send: a map as its file, a tensor as an array.

    >>> portable(np.arange(3))
    array([0, 1, 2])
    """
    if isinstance(values, np.memmap) and values.flags.c_contiguous and values.size:
        whole = values
        while isinstance(whole.base, np.memmap):
            whole = whole.base
        place = values.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
        if values.filename is not None and place >= 0:
            return MappedFile(
                str(values.filename), values.dtype.str, values.shape, whole.offset + place
            )
    if isinstance(values, Tensor):
        try:
            return values.numpy(force=True)
        except TypeError:  # a dtype that NumPy lacks
            return values
    return np.asarray(values)


def reopen(values: Any) -> Array | Tensor:
    """Return the values from the result of `portable`."""
    return values.open() if isinstance(values, MappedFile) else values


def read_rows(values: Array, rows: npt.NDArray[np.int64]) -> Array:
    """Return rows of a memory map, read from its file if it is only read.

    The system maps far more than a row when it is touched: two thousand random rows of 1,200 bytes
    made a gigabyte of a file count as this process's memory. Reading takes as long.

    >>> read_rows(np.arange(6).reshape(3, 2), np.array([2, 0]))
    array([[4, 5],
           [0, 1]])
    """
    file = portable(values) if getattr(values, "mode", "") == "r" else None
    if not isinstance(file, MappedFile) or not hasattr(os, "preadv"):
        found: Array = values[rows]
        release_pages(values)
        return found
    taken = np.empty((len(rows), *values.shape[1:]), values.dtype)
    size = taken.nbytes // max(1, len(rows))
    # Runs of consecutive rows are read at once.
    starts = np.flatnonzero(np.diff(rows, prepend=-2) != 1)
    stops = np.append(starts, len(rows))[1:]
    content = memoryview(taken.reshape(-1).view(np.uint8).data)
    handle = os.open(file.path, os.O_RDONLY)
    try:
        for start, stop, row in zip(
            starts.tolist(), stops.tolist(), rows[starts].tolist(), strict=True
        ):
            place, left = file.offset + row * size, content[start * size : stop * size]
            while left:
                n_read = os.preadv(handle, [left], place)
                if n_read == 0:
                    raise FeatureError(
                        f"X is the memory-mapped file {file.path}, which ends early."
                    )
                place, left = place + n_read, left[n_read:]
    finally:
        os.close(handle)
    return taken


def release_pages(values: Array) -> None:
    """Release the pages of a read-only memory map; the system reads them again when needed.

    Otherwise they would count as this process's memory until the machine has none left. (A
    writable map is left alone: its pages may contain changes that are not in the file.)

    >>> release_pages(np.arange(3))
    """
    pages = getattr(values, "_mmap", None)
    if pages is not None and getattr(values, "mode", "") == "r" and hasattr(mmap, "MADV_DONTNEED"):
        pages.madvise(mmap.MADV_DONTNEED)
