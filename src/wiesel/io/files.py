"""Shared by readers and writers: find a file, explain what is wrong with it, replace it."""

import json
import re
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl

from wiesel.errors import DataError, as_path, listed, suggest
from wiesel.io.dialects import diagnose
from wiesel.unfinished import filling, named_problems, remove_abandoned, unfinished_path

__all__ = [
    "FORMATS",
    "FilePath",
    "appearing_folder",
    "code_block",
    "code_span",
    "content_of",
    "existing_file",
    "existing_folder",
    "explained",
    "parse_toml",
    "read_array",
    "read_text",
    "read_unchanged",
    "replacing",
    "table_format",
    "write_text",
]

FilePath = str | PathLike[str]
"""A path as text or as a `pathlib.Path`."""

Found = TypeVar("Found")
_READINGS = 50
"""How many times a file is read if other processes keep replacing it."""

FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
"""The table format of each file extension."""

_WORKBOOKS = (".xlsx", ".xls", ".xlsm", ".xlsb", ".ods", ".numbers")


def table_format(path: FilePath, *, writing: bool = False) -> str:
    """Return `parquet`, `csv`, `tsv` or `jsonl`, based on the file extension.

    >>> table_format("reviews.ndjson")
    'jsonl'
    """
    extension = as_path(path).suffix.lower()
    if extension not in FORMATS:
        what = f"the extension {extension!r}" if extension else "no extension"
        if extension in _WORKBOOKS and writing:
            raise DataError(
                f"{path} would be a spreadsheet ({extension}), which Wiesel does not write. "
                f"Write {Path(path).with_suffix('.csv')}, which spreadsheet programs open."
            )
        if extension in _WORKBOOKS:
            raise DataError(
                f"{path} is a spreadsheet ({extension}), which Wiesel does not read. "
                "Save the sheet as 'CSV UTF-8' (File, Save as)."
            )
        raise DataError(
            f"{path} has {what}, and the extension decides how a table is read and written. "
            f"{suggest(extension, FORMATS)}"
        )
    return FORMATS[extension]


def check_table_target(*paths: FilePath | None) -> None:
    """Refuse paths to which no table can be written, before time is spent on it.

    >>> check_table_target("predictions.xlsx")
    Traceback (most recent call last):
    wiesel.errors.DataError: predictions.xlsx would be a spreadsheet (.xlsx), which Wiesel does...
    """
    for path in paths:
        if path is None:
            continue
        table_format(path, writing=True)
        if not Path(path).parent.is_dir():
            raise DataError(f"{path} cannot be written: there is no folder {Path(path).parent}.")


def existing_file(path: FilePath) -> Path:
    """Return the path of a file that exists and is not empty; the error says what is wrong.

    >>> existing_file("no/such/folder/votes.parquet")
    Traceback (most recent call last):
    wiesel.errors.DataError: There is no file no/such/folder/votes.parquet: the folder no/such/...
    """
    found = as_path(path)
    if found.is_dir():
        raise DataError(f"{found} is a folder, not a file. {_folder_listing(found)}")
    if found.is_symlink() and not found.exists():
        raise DataError(f"{found} is a link to a file that does not exist.")
    if not found.exists():
        raise DataError(f"There is no file {found}{_near_names(found)}")
    if not found.is_file():
        raise DataError(f"{found} is a pipe or a device, not a file: save its content to a file.")
    if found.stat().st_size == 0:
        raise DataError(f"{found} is empty (0 bytes).")
    return found


def existing_folder(path: FilePath) -> Path:
    """Return the path of a folder that exists."""
    found = as_path(path)
    if found.is_file():
        raise DataError(f"{found} is a file, not a folder.")
    if not found.is_dir():
        raise DataError(f"There is no folder {found}{_near_names(found)}")
    return found


def content_of(path: FilePath) -> bytes:
    """Return the bytes of a file; empty if the file does not exist."""
    found = Path(path)
    return found.read_bytes() if found.is_file() else b""


def read_text(path: FilePath) -> str:
    """Return the text of a file; raise an error if it is not text."""
    found = existing_file(path)
    with explained(found):
        content = found.read_bytes()
    try:
        return content.decode("utf-8-sig")  # Windows editors put a mark before the text
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{found}, line {line}: this is not UTF-8 text. Save it as UTF-8."
        ) from None


def write_text(path: FilePath, text: str) -> None:
    """Write a text file in UTF-8, which appears when it is complete."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_array(path: FilePath) -> Any:
    """Return an array from a .npy file, memory-mapped."""
    file = existing_file(path)
    if file.suffix != ".npy":
        raise DataError(f"{path} is not a .npy file: write the array with numpy.save('X.npy', X).")
    try:
        return np.load(file, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError):
        # NumPy's own message recommends pickles, which can execute arbitrary code.
        raise DataError(
            f"{path} cannot be read as an array of numbers: it is truncated, not a .npy file, "
            "or holds Python objects. Write it with numpy.save('X.npy', X)."
        ) from None


def parse_toml(text: str) -> dict[str, Any]:
    """Return the content of a TOML text that may be hostile; a `ValueError` says what is wrong.

    >>> parse_toml("classes = ['ham', 'spam']")
    {'classes': ['ham', 'spam']}
    """
    try:
        content = tomllib.loads(text)
        json.dumps(content, default=str)  # refuses numbers of thousands of digits
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return content


@contextmanager
def explained(path: FilePath) -> Iterator[None]:
    """Turn errors about the content of a file into errors that name the file."""
    try:
        yield
    except DataError as error:
        if str(path) in str(error):
            raise
        raise type(error)(f"{path}: ", *error.args, option=error.option) from error
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise DataError(_reading_problem(Path(path), str(error))) from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}.") from error
    except MemoryError as error:
        raise DataError(f"{path} cannot be read: there is not enough memory.") from error


def read_unchanged(path: FilePath, read: Callable[[], Found]) -> Found:
    """Return what `read` reads from a file, again if another process replaced it in between.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "notes.txt"
    >>> write_text(path, "hello")
    >>> read_unchanged(path, path.read_text)
    'hello'
    """
    for _ in range(_READINGS):
        before = _state(path)
        try:
            found = read()
        except (DataError, OSError):
            if _state(path) == before:
                raise
        else:
            if _state(path) == before:
                return found
        time.sleep(0.01)
    raise DataError(
        f"{path} was changed each of the {_READINGS} times that it was read. Wait until the "
        "program that writes it is done."
    )


def _state(path: FilePath) -> tuple[int, ...] | None:
    """Values that differ between a file and its replacement."""
    try:
        state = as_path(path).stat()
    except OSError:
        return None
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns


@contextmanager
def replacing(path: FilePath) -> Iterator[Path]:
    """Yield a temporary path in the same folder, which replaces `path` at the end.

    Until then, and after a crash, readers of `path` see the old file, never half of the new one.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise DataError(f"{target} cannot be written: there is no folder {target.parent}.")
    remove_abandoned(target.parent)
    temporary = unfinished_path(target)
    try:
        with named_problems(target):
            yield temporary
            temporary.replace(target)
    except pl.exceptions.PolarsError as error:
        problem = str(error).strip().partition("\n")[0]
        raise DataError(f"{target} cannot be written: {problem}.") from error
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def appearing_folder(path: FilePath) -> Iterator[Path]:
    """Yield a folder to fill, which appears as `path` once it is complete, or not at all."""
    target = as_path(path)
    if target.exists():
        raise DataError(f"{target} exists already: give a new folder.")
    with filling(target) as unfinished:
        yield unfinished
        unfinished.rename(target)


def _near_names(path: Path) -> str:
    """The end of the sentence *There is no file X*: the files in its folder."""
    folder = path.parent
    if not folder.is_dir():
        return f": the folder {folder} does not exist."
    close = suggest(path.name, sorted(entry.name for entry in folder.iterdir()))
    return f". {close}" if close.startswith("Did") else f". {_folder_listing(folder)}"


def _folder_listing(folder: Path) -> str:
    names = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    return f"{folder} has {listed(names)}." if names else f"{folder} is empty."


def _reading_problem(path: Path, message: str) -> str:
    """The error message for a file that Polars could not read."""
    kind = FORMATS.get(path.suffix.lower(), "table")
    if kind in ("csv", "tsv", "jsonl") and path.is_file():
        cause = diagnose(path, kind)
        if cause is not None:
            return f"{path} {cause}"
    first_line = message.strip().partition("\n")[0]
    hint = "; is it complete?" if kind == "parquet" else ""
    return f"{path} cannot be read as {kind}: {first_line}{hint}"


def code_span(text: str) -> str:
    """Return a name as inline code, whatever is in it.

    >>> print(code_span("ham"), code_span("a`<b>"))
    `ham` `` a`<b> ``
    """
    line = " ".join(text.split())
    fence = "`" * (_longest_run(line) + 1)
    gap = " " if "`" in line else ""
    return f"{fence}{gap}{line}{gap}{fence}"


def code_block(text: str) -> str:
    """Return lines as a code block, whatever is in them.

    >>> print(code_block("a = 1"))
    ```
    a = 1
    ```
    """
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}\n{text}\n{fence}"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
