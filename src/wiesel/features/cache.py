"""A cache of computed arrays: memory-mapped files named by a hash of the inputs."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wiesel.io import replacing

__all__ = ["cached_array", "fingerprint"]


def fingerprint(
    settings: Mapping[str, Any], arrays: Iterable[npt.NDArray[Any]] = (), texts: Iterable[str] = ()
) -> str:
    """Return a name for inputs: equal inputs have equal names on every machine.

    >>> fingerprint({"seed": 0}, texts=["a", "bc"]) == fingerprint({"seed": 0}, texts=["ab", "c"])
    False
    """
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    for text in texts:
        encoded = text.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    return digest.hexdigest()[:32]


def cached_array(
    folder: str | PathLike[str] | None,
    name: Callable[[], str],
    compute: Callable[[], npt.NDArray[np.float32]],
) -> npt.NDArray[np.float32]:
    """Return `compute()`, cached in a file in `folder` and memory-mapped on later calls.

    Without a folder, nothing is cached. A damaged file is computed again.
    """
    if folder is None:
        return compute()
    file = Path(folder) / f"{name()}.npy"
    stored = _stored(file)
    if stored is None:
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as temporary, temporary.open("wb") as handle:
            np.save(handle, compute())
        stored = np.load(file, mmap_mode="r", allow_pickle=False)
    return stored


def _stored(file: Path) -> npt.NDArray[np.float32] | None:
    if not file.exists():
        return None
    try:
        found: npt.NDArray[np.float32] = np.load(file, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError):
        return None
    return found
