"""Messages between this process and its workers: JSON in pipes, arrays in files, no pickles."""

import json
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np

from wiesel.lfs.column_votes import ColumnVotes
from wiesel.lfs.failures import Failure

__all__ = ["read_message", "read_votes", "write_message", "write_votes"]

_SIZE = 8
"""The size in bytes of the length prefix."""


def write_message(stream: BinaryIO, message: dict[str, Any]) -> None:
    """Write a message as JSON."""
    encoded = json.dumps(message).encode()
    stream.write(len(encoded).to_bytes(_SIZE, "little") + encoded)
    stream.flush()


def read_message(stream: BinaryIO) -> dict[str, Any]:
    """Return the next message; raise `EOFError` if the other side has closed the pipe."""
    size = int.from_bytes(_read(stream, _SIZE), "little")
    message: dict[str, Any] = json.loads(_read(stream, size))
    return message


def write_votes(columns: Sequence[ColumnVotes]) -> tuple[dict[str, Any], bytes]:
    """Return votes as a message and its binary content.

    >>> head, body = write_votes([ColumnVotes.of_class(np.array([1, 4]), 0)])
    >>> read_votes(head, body)[0].rows
    array([1, 4])
    """
    parts: list[bytes] = []
    entries = []
    for column in columns:
        rows = column.distribution
        parts += [column.rows.tobytes(), column.classes.tobytes()]
        parts += [] if rows is None else [rows.tobytes()]
        entries.append(
            {
                "n_votes": len(column.rows),
                "n_classes": None if rows is None else rows.shape[1],
                "failures": [failure.to_dict() for failure in column.failures],
            }
        )
    return {"votes": entries}, b"".join(parts)


def read_votes(head: dict[str, Any], body: bytes) -> list[ColumnVotes]:
    """Return the votes in a message and its binary content."""
    columns, place = [], 0

    def take(dtype: type[np.generic], count: int) -> Any:
        nonlocal place
        array = np.frombuffer(body, dtype, count, place)
        place += array.nbytes
        return array

    for entry in head["votes"]:
        count, n_classes = entry["n_votes"], entry["n_classes"]
        rows, classes = take(np.int64, count), take(np.int16, count)
        distribution = None
        if n_classes is not None:
            distribution = take(np.float32, count * n_classes).reshape(count, n_classes)
        failures = tuple(Failure(**failure) for failure in entry["failures"])
        columns.append(ColumnVotes(rows, classes, distribution, failures))
    return columns


def _read(stream: BinaryIO, size: int) -> bytes:
    content = stream.read(size)
    if len(content) < size:
        raise EOFError
    return content
