"""Reads objects from JSON files of other tools: a list, or one per line."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from wiesel.errors import DataError, WieselError

__all__ = ["as_written_by", "json_records"]

_LINE_END = re.compile(r"\r\n|\r|\n")


def json_records(text: str) -> list[dict[str, Any]]:
    r"""Return the objects in a JSON list or in JSON lines.

    >>> json_records('[{"id": 1}, {"id": 2}]') == json_records('{"id": 1}\n\n{"id": 2}\n')
    True
    >>> json_records('{"id": 1}\n{"id": ')
    Traceback (most recent call last):
    wiesel.errors.DataError: Line 2 is not JSON: Expecting value: line 1 column 8 (char 7).
    """
    if text.lstrip().startswith("["):
        return _records_of_list(text)
    records = []
    # Not `splitlines`: a JSON text may contain U+2028 and other line ends of Unicode.
    for number, line in enumerate(_LINE_END.split(text), start=1):
        if not line.strip():
            continue
        try:
            record = _parsed(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"Line {number} is not JSON: {error}.") from error
        if not isinstance(record, Mapping):
            raise DataError(f"Line {number} is not a JSON object: {line!r:.60}.")
        records.append(dict(record))
    return records


@contextmanager
def as_written_by(what: str) -> Iterator[None]:
    """Turn errors about values that a tool never writes into errors that name the part of a file.

    >>> with as_written_by("Task 1 of this file"):
    ...     {"text": "Ada"}["label"]
    Traceback (most recent call last):
    wiesel.errors.DataError: Task 1 of this file is not as that tool writes it: KeyError('label').
    """
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, WieselError):
            raise
        raise DataError(f"{what} is not as that tool writes it: {error!r:.100}.") from error


def _parsed(text: str) -> Any:
    """The value of a JSON text, all of whose strings can be written to a file again."""
    found = json.loads(text)
    if "\\ud" in text or "\\uD" in text:  # escapes of half characters
        json.dumps(found, ensure_ascii=False).encode()
    return found


def _records_of_list(text: str) -> list[dict[str, Any]]:
    try:
        found = _parsed(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"This is not valid JSON: {error}.") from error
    for number, record in enumerate(found, start=1):
        if not isinstance(record, Mapping):
            raise DataError(f"Entry {number} of the list is not a JSON object: {record!r:.60}.")
    return [dict(record) for record in found]
