"""Models on disk: a folder with a manifest and data files. Nothing in it is ever executed.

`manifest.json` lists every file with its SHA-256, so a truncated or edited folder is detected
before anything is built from it.
"""

import hashlib
import json
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from wiesel.errors import SavedModelError, as_path, listed
from wiesel.labels import LabelSpace
from wiesel.threads import memory_size
from wiesel.unfinished import filling, recover, swap, write_file, write_synced

__all__ = [
    "decoded",
    "encoded",
    "other_files",
    "plain_data",
    "read_folder",
    "read_json",
    "read_manifest",
    "write_file",
    "write_folder",
    "write_json",
]

FORMAT = 1
_MANIFEST = "manifest.json"
_NUMBERS = "biuf"
_DEEPEST = 50
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_LEFT_BY_DESKTOPS = (".DS_Store", "Thumbs.db", "desktop.ini")
_LARGEST_MANIFEST = 2**28
_ATTEMPTS = 50
"""How many times a folder is read if other processes keep replacing it."""

Found = TypeVar("Found")


def write_folder(path: str | Path, manifest: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
    """Write a manifest and its files as the folder `path`, all or nothing.

    An earlier model at `path` is replaced in one step; anything else there is left alone.
    """
    # A link to a model is followed: its target is replaced, the link stays.
    target = as_path(path).resolve()
    # Another process may replace the folder while it is looked at.
    _read_consistently(target, _refuse_to_overwrite)
    with filling(target) as unfinished:
        for name, content in files.items():
            write_synced(unfinished / _allowed_name(name, target), content)
        complete = {
            "format": FORMAT,
            **manifest,
            "files": {name: _digest(content) for name, content in files.items()},
            "bytes": {name: len(content) for name, content in files.items()},
        }
        complete["sha256"] = _manifest_digest(complete)
        text = json.dumps(complete, indent=1, ensure_ascii=False)
        write_synced(unfinished / _MANIFEST, text.encode())
        swap(unfinished, target)


def read_folder(path: str | Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the manifest and the content of every file, after checking everything.

    A folder with files that its manifest does not list is refused: they are not part of the model.
    """
    return _read_consistently(as_path(path), _checked_folder)


def read_manifest(path: str | Path) -> dict[str, Any]:
    """Return the checked manifest of a saved model, without reading its weights."""
    return _read_consistently(Path(path), _checked_manifest)


def other_files(path: str | Path, manifest: Mapping[str, Any]) -> list[str]:
    """Return the entries in a model's folder that are not part of the model."""
    ours = {_MANIFEST, *manifest["files"], *_LEFT_BY_DESKTOPS}
    return sorted({entry.name for entry in Path(path).iterdir()} - ours)


def read_json(content: bytes, file: str | Path) -> Any:
    """Return the value of a JSON text from a file that may be hostile."""
    try:
        value = json.loads(content)
        # Our files never nest deeply; deep nesting is refused before any code recurses into it.
        _refuse_nesting(value)
        # Half of a character, as JSON may name it, could be neither printed nor written again.
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise SavedModelError(f"{file} is not readable JSON: {error}") from error
    return value


def write_json(value: Mapping[str, Any] | Sequence[Any], path: Path) -> None:
    """Write plain data as JSON, all or nothing; NaN, which is unknown, becomes null."""
    text = json.dumps(plain_data(value), indent=1, ensure_ascii=False, allow_nan=False)
    write_file(path, text.encode())


def plain_data(value: Any) -> Any:
    """Return a value as JSON data: NaN and infinities become null, arrays become lists.

    >>> plain_data({"share": float("nan"), "folder": Path("out")})
    {'share': None, 'folder': 'out'}
    """
    if isinstance(value, Mapping):
        return {str(key): plain_data(part) for key, part in value.items()}
    if hasattr(value, "tolist"):
        return plain_data(value.tolist())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain_data(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return str(value.as_posix() if isinstance(value, Path) else value)


def encoded(value: Any) -> Any:
    """Return a value as JSON-compatible data; `decoded` is the inverse.

    >>> decoded(encoded({"balance": np.array([0.25, 0.75]), "hidden": (70, 70)}))
    {'balance': array([0.25, 0.75]), 'hidden': (70, 70)}
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return encoded(value.item())
    if isinstance(value, np.ndarray) and value.dtype.kind in _NUMBERS:
        return {"$array": value.tolist(), "dtype": value.dtype.str}
    if isinstance(value, LabelSpace):
        return {"$labels": list(value.names)} | ({"ordered": True} if value.ordered else {})
    if isinstance(value, (tuple, list)):
        parts = [encoded(part) for part in value]
        return {"$tuple": parts} if isinstance(value, tuple) else parts
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: encoded(part) for key, part in value.items()}
    raise SavedModelError(
        f"A {type(value).__name__} cannot be saved as data: {value!r:.80}. "
        "Options of a saved model are numbers, strings, lists, dicts and arrays."
    )


def decoded(value: Any) -> Any:
    """Return the value that `encoded` wrote."""
    if isinstance(value, list):
        return [decoded(part) for part in value]
    if not isinstance(value, dict):
        return value
    try:
        if "$array" in value:
            return np.array(value["$array"], dtype=_plain_dtype(value["dtype"]))
        if "$labels" in value:
            if not all(isinstance(name, str) for name in value["$labels"]):
                raise TypeError("class names are stored as text")
            return LabelSpace(*value["$labels"], ordered=value.get("ordered", False))
        if "$tuple" in value:
            return tuple(decoded(part) for part in value["$tuple"])
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise SavedModelError(f"A stored value cannot be read: {value!r:.80}") from error
    return {key: decoded(part) for key, part in value.items()}


def _plain_dtype(name: str) -> np.dtype[Any]:
    """A numeric dtype, never one of Python objects."""
    dtype = np.dtype(name)
    if dtype.kind not in _NUMBERS:
        raise ValueError(f"arrays of {dtype} are not stored")
    return dtype


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _manifest_digest(manifest: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in manifest.items() if key != "sha256"}
    return _digest(json.dumps(rest, sort_keys=True).encode())


def _allowed_name(name: str, folder: str | Path) -> str:
    if not _FILE_NAME.fullmatch(name) or name == _MANIFEST:
        raise SavedModelError(f"{folder}: a file of a model cannot be named {name!r:.80}.")
    return name


def _read_consistently(folder: Path, read: Callable[[Path], Found]) -> Found:
    """The result of reading a folder, which is read again if it was replaced in the meantime."""
    for _ in range(_ATTEMPTS):
        recover(folder.resolve())
        before = _identity(folder)
        try:
            return read(folder)
        except FileNotFoundError:  # missing for a moment: it is being replaced
            pass
        except SavedModelError:
            if _identity(folder) == before:
                raise
        time.sleep(0.01)
    return read(folder)


def _identity(folder: Path) -> tuple[int, ...] | None:
    """Values that differ between a folder and its replacement."""
    try:
        state = folder.stat()
    except OSError:
        return None
    return state.st_dev, state.st_ino, state.st_mtime_ns


def _checked_folder(folder: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    manifest = _checked_manifest(folder)
    files = {}
    for name, digest in manifest["files"].items():
        file = folder / _allowed_name(name, folder)
        if not file.is_file() or file.is_symlink():
            raise SavedModelError(
                f"{folder} is incomplete: {name} is missing. Save the model again."
            )
        files[name] = _content(file, _noted_size(manifest, name), memory_size())
        if _digest(files[name]) != digest:
            raise _changed(file)
    others = other_files(folder, manifest)
    if others:
        raise SavedModelError(
            f"{folder} also holds {listed(others, limit=3)}, which is not part of the model. "
            "Move it away, if it is yours; do not trust a model that came with it."
        )
    return manifest, files


def _checked_manifest(folder: Path) -> dict[str, Any]:
    file = folder / _MANIFEST
    if not file.is_file() or file.is_symlink():
        reason = "there is no such folder" if not folder.exists() else f"it has no {_MANIFEST}"
        raise SavedModelError(f"{folder} is not a saved model: {reason}.")
    manifest = read_json(_content(file, None, _LARGEST_MANIFEST), file)
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), dict):
        raise SavedModelError(f"{file} is not the manifest of a saved model.")
    if manifest.get("format") != FORMAT:
        raise SavedModelError(
            f"{file} has the format {manifest.get('format')!r}; this version of Wiesel reads "
            f"format {FORMAT}. Load it with the version that wrote it "
            f"({manifest.get('wiesel', 'unknown')})."
        )
    if manifest.get("sha256") != _manifest_digest(manifest):
        raise SavedModelError(
            f"{file} was changed after the model was saved. Restore the original file."
        )
    return manifest


def _noted_size(manifest: Mapping[str, Any], name: str) -> Any:
    sizes = manifest.get("bytes")
    return sizes.get(name) if isinstance(sizes, dict) else None


def _content(file: Path, noted: Any, largest: int) -> bytes:
    """The bytes of a file, after a check of its size."""
    try:
        size = file.stat().st_size
        if noted is not None and size != noted:
            raise _changed(file)
        if size > largest:
            raise SavedModelError(
                f"{file} has {size:,} bytes, more than can be read here ({largest:,})."
            )
        return file.read_bytes()
    except (OSError, MemoryError) as error:
        reason = "there is not enough memory" if isinstance(error, MemoryError) else error
        raise SavedModelError(f"{file} cannot be read: {reason}.") from error


def _changed(file: Path) -> SavedModelError:
    return SavedModelError(
        f"{file} is not what was saved (it is truncated, damaged or edited). "
        "Restore it from a copy, or save the model again."
    )


def _refuse_nesting(value: Any, depth: int = 0) -> None:
    if depth > _DEEPEST:
        raise ValueError(f"it is nested more than {_DEEPEST} levels deep")
    if isinstance(value, (dict, list)):
        for part in value.values() if isinstance(value, dict) else value:
            _refuse_nesting(part, depth + 1)


def _refuse_to_overwrite(target: Path) -> None:
    """Allow only replacing a model without other files, or filling an empty folder."""
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    try:
        others = other_files(target, _checked_manifest(target))
    except SavedModelError as error:
        raise SavedModelError(
            f"{target} exists and is not a saved model ({error}). "
            "Choose another place, or delete it first."
        ) from error
    if others:
        raise SavedModelError(
            f"{target} also holds {listed(others, limit=3)}, which saving would delete. "
            "Choose another place, or move it away first."
        )
