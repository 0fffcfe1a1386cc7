"""Finds what killed runs left in an output folder, and removes it where that is safe."""

import time
from pathlib import Path

from wiesel.unfinished import remove_abandoned, remove_entry

__all__ = ["remove_leftovers"]

_STALE = 24 * 3600.0
"""Seconds after which an unused checkpoint is removed."""


def remove_leftovers(folder: Path) -> list[Path]:
    """Remove half-written files and folders of dead runs, and return what was removed.

    Their names begin with a dot and contain the id of the writing process; they are removed once
    that process has ended. A checkpoint is removed once its model is finished, or after a day.
    Links and all other files are left alone.
    """
    places = [folder, folder / ".cache", *sorted((folder / ".cache").glob("*/"))]
    removed = [entry for place in places for entry in remove_abandoned(place)]
    return removed + [
        file
        for file in sorted((folder / ".cache" / "models").glob("*.checkpoint*"))
        if not file.is_symlink() and _is_over(file) and remove_entry(file)
    ]


def _is_over(checkpoint: Path) -> bool:
    """Whether the model of a checkpoint is finished, or the checkpoint is too old."""
    name = checkpoint.name.partition(".checkpoint")[0]
    # The note is written last: if it exists, the model is complete.
    if checkpoint.with_name(f"{name}.json").is_file():
        return True
    try:
        return time.time() - checkpoint.stat().st_mtime > _STALE
    except FileNotFoundError:  # its writer has just finished
        return False
