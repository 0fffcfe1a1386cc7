"""Reads objects from JSON files of other tools: a list, or one per line."""

import json
from collections.abc import Mapping
from typing import Any

from wiesel.errors import DataError

__all__ = ["json_records"]


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
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"Line {number} is not JSON: {error}.") from error
        if not isinstance(record, Mapping):
            raise DataError(f"Line {number} is not a JSON object: {line!r:.60}.")
        records.append(dict(record))
    return records


def _records_of_list(text: str) -> list[dict[str, Any]]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"This is not valid JSON: {error}.") from error
    for number, record in enumerate(found, start=1):
        if not isinstance(record, Mapping):
            raise DataError(f"Entry {number} of the list is not a JSON object: {record!r:.60}.")
    return [dict(record) for record in found]
