"""In-memory files through which processes on this machine exchange rows and votes."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Self

import polars as pl

from wiesel.replacing import named_problems
from wiesel.unfinished import owner_mark, remove_abandoned

__all__ = ["Exchange", "read_exchanged", "write_exchanged"]

_PREFIX, _ENDING = "wiesel-", ".rows"


class Exchange:
    """A temporary folder, in memory if the system supports it, that is removed on closing.

    >>> with Exchange(room=1000) as exchange:
    ...     write_exchanged(pl.DataFrame({"n": [1, 2]}), exchange.file("rows"))
    ...     read_exchanged(exchange.file("rows"))["n"].to_list()
    [1, 2]
    """

    def __init__(self, room: float) -> None:
        place = _memory_folder(room)
        # A killed process could not clean up after itself.
        remove_abandoned(Path(place or tempfile.gettempdir()), _PREFIX, _ENDING)
        self._folder = tempfile.TemporaryDirectory(
            prefix=f"{_PREFIX}{owner_mark()}-", suffix=_ENDING, dir=place
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def file(self, name: str) -> Path:
        """Return the path of a file in the folder."""
        return Path(self._folder.name) / name

    def close(self) -> None:
        """Remove the folder."""
        self._folder.cleanup()


def write_exchanged(content: pl.DataFrame | bytes, file: Path) -> None:
    """Write rows or bytes, overwriting the previous content.

    Memory that is already allocated is faster to fill than a new file.
    """
    with named_problems(file), file.open("r+b" if file.exists() else "w+b") as stream:
        if isinstance(content, bytes):
            stream.write(content)
        else:
            newest = pl.CompatLevel.newest()
            content.write_ipc(stream, compression="uncompressed", compat_level=newest)
        stream.truncate()


def read_exchanged(file: Path) -> pl.DataFrame:
    """Return the rows that another process wrote."""
    return pl.scan_ipc(file).collect(engine="in-memory")


def _memory_folder(room: float) -> Path | None:
    folder = Path("/dev/shm")
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        return None
    return folder if shutil.disk_usage(folder).free > room + 2**24 else None
