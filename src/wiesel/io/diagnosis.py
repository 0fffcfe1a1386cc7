"""Finds out why a text table could not be read, in a second, slower pass."""

import codecs
import csv
import json
import re
from pathlib import Path

from wiesel.io.dialects import dialect_of

__all__ = ["LONGEST_LINE", "diagnose", "first_long_line"]

LONGEST_LINE = 64 * 2**20
"""The maximum line length in bytes; a longer line means a missing quote or line end."""


_QUOTED = re.compile(r'"(?:[^"]|"")*"')


def diagnose(path: Path, kind: str) -> str | None:
    r"""Return what is wrong with a CSV, TSV or JSONL file and where; None if nothing is found.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "mails.csv"
    >>> _ = path.write_bytes(b"id,text\n1,caf\xe9\n")
    >>> diagnose(path, "csv")
    'is not UTF-8 text: the first wrong byte is at position 13, in line 2. Save it as UTF-8.'
    """
    place = _first_bad_byte(path)
    if place is not None:
        return (
            f"is not UTF-8 text: the first wrong byte is at position {place[0]}, in line "
            f"{place[1]}. Save it as UTF-8."
        )
    if kind == "jsonl":
        return _first_bad_json(path)
    separator = dialect_of(path, kind).separator
    return _first_long_row(path, separator) or _first_stray_quote(path, separator)


def first_long_line(path: Path, longest: int = LONGEST_LINE) -> int | None:
    r"""Return the number (from 1) of the first line with more than `longest` bytes, if any.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "mails.csv"
    >>> _ = path.write_bytes(b"id,text\n1,free prize\n")
    >>> first_long_line(path, 9)
    2
    """
    if path.stat().st_size <= longest:
        return None
    number, length = 1, 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            *ends, rest = block.split(b"\n")
            for end in ends:
                if length + len(end) > longest:
                    return number
                number, length = number + 1, 0
            length += len(rest)
            if length > longest:
                return number
    return None


def _first_bad_byte(path: Path) -> tuple[int, int] | None:
    """The position and the line (from 1) of the first byte that is not UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    offset, line = 0, 1
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            try:
                decoder.decode(block)
            except UnicodeDecodeError as error:
                # The decoder keeps the start of a character that the last block split.
                start = error.start - (len(error.object) - len(block))
                return offset + start, line + block[: max(start, 0)].count(b"\n")
            offset += len(block)
            line += block.count(b"\n")
    # A file that was truncated inside a character ends with the start of one.
    cut = len(decoder.getstate()[0])
    return (offset - cut, line) if cut else None


def _first_bad_json(path: Path) -> str | None:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                value = json.loads(line, parse_constant=_refuse_constant)
            except json.JSONDecodeError as error:
                if line.startswith("\ufeff"):
                    return "starts with a byte order mark. Save it as UTF-8 without the mark."
                return f"has no valid JSON in line {number}: {error.msg} at character {error.pos}."
            except (ValueError, RecursionError) as error:  # a number with thousands of digits
                return f"has no valid JSON in line {number}: {error}."
            if not isinstance(value, dict):
                return f"has a {type(value).__name__} in line {number}; each line is one object."
    return None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON; write null where a value is missing")


def _first_stray_quote(path: Path, separator: str) -> str | None:
    """The first line with a quote that does not begin a field, such as `5" disk`."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        for number, line in enumerate(file, start=1):
            rest = _QUOTED.sub("", line)
            place = rest.find('"')
            if place > 0 and rest[place - 1] != separator:
                return (
                    f"has a quote within a text in line {number}. Put such texts into quotes, and "
                    'double the quotes in them: "5"" disk".'
                )
    return None


def _first_long_row(path: Path, separator: str) -> str | None:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=separator)
        try:
            width = len(next(reader))
            for row in reader:
                if len(row) > width:
                    return (
                        f"has {len(row)} fields in line {reader.line_num} but {width} in the "
                        "header. Quote text that contains the separator."
                    )
        except (csv.Error, StopIteration):
            return None
    return None
