"""Models on disk: a folder with a manifest and data files. Nothing in it is ever executed.

`manifest.json` names every file with its SHA-256, so a truncated or edited folder is noticed
before anything is built from it.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wiesel.errors import SavedModelError, listed
from wiesel.labels import LabelSpace

__all__ = [
    "decoded",
    "encoded",
    "read_folder",
    "read_json",
    "read_manifest",
    "write_file",
    "write_folder",
]

FORMAT = 1
_MANIFEST = "manifest.json"
_NUMBERS = "biuf"
_DEEPEST = 50
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


def write_folder(path: str | Path, manifest: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
    """Write a manifest and its files as the folder `path`, all or nothing.

    An earlier model at `path` is replaced in one step; anything else there is left alone.
    """
    # A link to a model is followed: the model it points at is replaced, the link stays.
    target = Path(path).resolve()
    _recover(target)
    _refuse_to_overwrite(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    try:
        for name, content in files.items():
            _write_synced(unfinished / _allowed_name(name, target), content)
        complete = {
            "format": FORMAT,
            **manifest,
            "files": {name: _digest(content) for name, content in files.items()},
        }
        complete["sha256"] = _manifest_digest(complete)
        text = json.dumps(complete, indent=1, ensure_ascii=False)
        _write_synced(unfinished / _MANIFEST, text.encode())
        _swap(unfinished, target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def read_folder(path: str | Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the manifest and the content of every file, after checking all of it."""
    manifest = read_manifest(path)
    files = {}
    for name, digest in manifest["files"].items():
        file = Path(path) / _allowed_name(name, path)
        if not file.is_file() or file.is_symlink():
            raise SavedModelError(f"{path} is incomplete: {name} is missing. Save the model again.")
        files[name] = _content(file)
        if _digest(files[name]) != digest:
            raise SavedModelError(
                f"{file} is not what was saved (it is truncated, damaged or edited). "
                "Restore it from a copy, or save the model again."
            )
    return manifest, files


def read_manifest(path: str | Path) -> dict[str, Any]:
    """Return the checked manifest of a saved model, without reading its weights."""
    folder = Path(path)
    _recover(folder.resolve())
    file = folder / _MANIFEST
    if not file.is_file() or file.is_symlink():
        reason = "there is no such folder" if not folder.exists() else f"it has no {_MANIFEST}"
        raise SavedModelError(f"{folder} is not a saved model: {reason}.")
    manifest = read_json(_content(file), file)
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), dict):
        raise SavedModelError(f"{file} is not the manifest of a saved model.")
    if manifest.get("format") != FORMAT:
        raise SavedModelError(
            f"{file} has the format {manifest.get('format')!r}; this version of Wiesel reads "
            f"format {FORMAT}. Load it with the version that wrote it "
            f"({manifest.get('wiesel', 'unknown')})."
        )
    if manifest.get("sha256") != _manifest_digest(manifest):
        raise SavedModelError(f"{file} was changed after the model was saved. Restore it.")
    return manifest


def write_file(path: str | Path, content: bytes) -> None:
    """Write a file so that a crash leaves either the old one or the new one."""
    target = Path(path).resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.unfinished")
    try:
        _write_synced(unfinished, content)
        os.replace(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)


def read_json(content: bytes, file: str | Path) -> Any:
    """Return the value of a JSON text from a file that may be hostile."""
    try:
        value = json.loads(content)
        # Nothing of ours nests deeply; what does is refused before anybody recurses into it.
        _refuse_nesting(value)
    except (ValueError, RecursionError) as error:
        raise SavedModelError(f"{file} is not readable JSON: {error}") from error
    return value


def encoded(value: Any) -> Any:
    """Return a value as JSON can hold it; `decoded` is the way back.

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
        return {"$labels": list(value.names)}
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
            return LabelSpace(*value["$labels"])
        if "$tuple" in value:
            return tuple(decoded(part) for part in value["$tuple"])
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise SavedModelError(f"A stored value cannot be read: {value!r:.80}") from error
    return {key: decoded(part) for key, part in value.items()}


def _plain_dtype(name: str) -> np.dtype[Any]:
    """A dtype of numbers; never one of Python objects."""
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


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise SavedModelError(f"{file} cannot be read: {error}") from error


def _refuse_nesting(value: Any, depth: int = 0) -> None:
    if depth > _DEEPEST:
        raise ValueError(f"it is nested more than {_DEEPEST} levels deep")
    if isinstance(value, (dict, list)):
        for part in value.values() if isinstance(value, dict) else value:
            _refuse_nesting(part, depth + 1)


def _refuse_to_overwrite(target: Path) -> None:
    """Only a model, and nothing beside it, may be replaced; an empty folder may be filled."""
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    try:
        ours = {_MANIFEST, *read_manifest(target)["files"]}
    except SavedModelError as error:
        raise SavedModelError(
            f"{target} exists and is not a saved model ({error}). "
            "Choose another place, or delete it first."
        ) from error
    others = sorted({entry.name for entry in target.iterdir()} - ours)
    if others:
        raise SavedModelError(
            f"{target} also holds {listed(others, limit=3)}, which saving would delete. "
            "Choose another place, or move it away first."
        )


def _write_synced(file: Path, content: bytes) -> None:
    with file.open("wb") as handle:
        handle.write(content)
        handle.flush()
        os.fsync(handle.fileno())


def _previous(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.previous")


def _swap(finished: Path, target: Path) -> None:
    """Put a complete folder in the place of another; `_recover` mends a crash in between."""
    previous = _previous(target)
    shutil.rmtree(previous, ignore_errors=True)
    if target.exists():
        os.rename(target, previous)
    os.rename(finished, target)
    shutil.rmtree(previous, ignore_errors=True)


def _recover(folder: Path) -> None:
    """Bring back the earlier model if a crash fell between the two renames of `_swap`."""
    if not folder.exists() and (_previous(folder) / _MANIFEST).is_file():
        os.rename(_previous(folder), folder)
