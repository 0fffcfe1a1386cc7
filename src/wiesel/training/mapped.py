"""Memory-mapped files: sent to other processes by file name, with read pages released."""

import mmap
import socket
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from wiesel.errors import FeatureError

__all__ = ["MappedFile", "portable", "release_pages", "reopen"]

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


def release_pages(values: Array) -> None:
    """Release the pages of a read-only memory map; the system reads them again when needed.

    Otherwise they would count as this process's memory until the machine has none left. (A
    writable map is left alone: its pages may contain changes that are not in the file.)

    >>> release_pages(np.arange(3))
    """
    pages = getattr(values, "_mmap", None)
    if pages is not None and getattr(values, "mode", "") == "r" and hasattr(mmap, "MADV_DONTNEED"):
        pages.madvise(mmap.MADV_DONTNEED)
