"""Reads the good rows of damaged CSV and JSONL files, and says what is wrong with the others."""

import csv
import json
import re
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from wiesel.errors import DataError, WieselError
from wiesel.io.dialects import dialect_of
from wiesel.io.files import FilePath, table_format
from wiesel.io.rows import matching_files, refuse_compressed, refuse_long_lines

__all__ = [
    "LONGEST_LINE",
    "LenientRow",
    "as_written_by",
    "json_records",
    "json_row",
    "lenient_rows",
]

LONGEST_LINE = 64 * 2**20
_LONGEST_RECORD = 1_000
"""The number of lines after which an open quotation mark counts as a mistake."""
_SURROGATES = "surrogateescape"
_LINE_END = re.compile(r"\r\n|\r|\n")


class LenientRow(NamedTuple):
    """A row of a file; or, if `problem` is given, a line that is none."""

    row: dict[str, Any]
    problem: str = ""


def lenient_rows(path: FilePath) -> Iterator[LenientRow]:
    r"""Yield the rows of CSV, TSV or JSONL files one by one; a bad line is one bad row.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "mails.csv"
    >>> _ = file.write_text('id,text\n1,free prize\n2,"open,quote\n3,see you\n')
    >>> for found in lenient_rows(file):
    ...     print(found.row or found.problem)
    {'id': '1', 'text': 'free prize'}
    Line 3: a quotation mark is not closed
    {'id': '3', 'text': 'see you'}
    """
    files = matching_files(path)
    refuse_compressed(files)
    refuse_long_lines(files)
    for file in files:
        kind = table_format(file)
        yield from _json_rows(file) if kind == "jsonl" else _csv_rows(file, kind)


def json_row(line: bytes, number: int) -> dict[str, Any]:
    """Return the object in a JSON line; the error names the line."""
    if len(line) > LONGEST_LINE:
        limit = f"{LONGEST_LINE // 2**20} MB"
        raise DataError(f"Line {number} of the input is longer than {limit}; rows are JSON lines.")
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        problem = f"Line {number} of the input is not UTF-8 text, from its byte {error.start} on."
        raise DataError(problem) from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"Line {number} of the input is not JSON: {error}.") from error
    if not isinstance(row, dict):
        raise DataError(
            f"Line {number} of the input is a {type(row).__name__}; each line is one object, such "
            'as {"text": "..."}.'
        )
    return row


def _json_rows(file: Path) -> Iterator[LenientRow]:
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                yield LenientRow(json_row(line, number))
            except DataError as error:
                yield LenientRow({}, str(error))


def _csv_rows(file: Path, kind: str) -> Iterator[LenientRow]:
    dialect = dialect_of(file, kind)
    with file.open(encoding=dialect.encoding, errors=_SURROGATES, newline="") as opened:
        lines = _Lines(opened)
        header = next(_records(lines, dialect.separator, None), None)
        if header is None or header[1] is None:
            return
        names = [name.removeprefix("\ufeff") for name in header[1]]
        for number, cells in _records(lines, dialect.separator, len(names)):
            problem = _problem(cells, len(names))
            row = {} if problem or cells is None else dict(zip(names, cells, strict=True))
            yield LenientRow(row, f"Line {number}: {problem}" if problem else "")


def _problem(cells: list[str] | None, width: int) -> str:
    """What is wrong with the cells of a line; empty if they are a row."""
    if cells is None:
        return "a quotation mark is not closed"
    if any("\udc80" <= character <= "\udcff" for cell in cells for character in cell):
        return "there are bytes that are not in the encoding of the file"
    if len(cells) == width:
        return ""
    return f"it has {len(cells)} cells, and the header has {width}"


class _Lines:
    """Lines with their numbers; lines that were read ahead can be given back."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines, self._given_back, self.number = lines, deque[str](), 0

    def next(self) -> str:
        """Return the next line; an empty text at the end."""
        self.number += 1
        return self._given_back.popleft() if self._given_back else next(self._lines, "")

    def give_back(self, lines: list[str]) -> None:
        """Let these lines be the next ones."""
        self._given_back.extendleft(reversed(lines))
        self.number -= len(lines)


def _records(
    lines: _Lines, separator: str, width: int | None
) -> Iterator[tuple[int, list[str] | None]]:
    """Yield the number of the first line of every record, and its cells."""
    while line := lines.next():
        number = lines.number
        if not line.strip("\r\n"):
            continue
        record, following = [line], []
        while sum(part.count('"') for part in record) % 2 and len(record) < _LONGEST_RECORD:
            more = lines.next()
            if not more:
                lines.number -= 1
                break
            record.append(more)
            following.append(more)
        cells = _cells("".join(record), separator)
        if following and width is not None and (cells is None or len(cells) != width):
            # The quotation mark was a mistake: only the line that has it is lost.
            lines.give_back(following)
            cells = _cells(line, separator)
        yield number, cells


def _cells(record: str, separator: str) -> list[str] | None:
    """The cells of a record; None if a quotation mark is not closed."""
    try:
        return next(csv.reader([record], delimiter=separator, strict=True), [])
    except csv.Error:
        return None


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
