"""Detects the dialect of a CSV file: its column separator and its encoding."""

import codecs
import csv
import io
import json
import re
import warnings
from pathlib import Path
from typing import NamedTuple

from wiesel.errors import DataError, WieselWarning

__all__ = [
    "LONGEST_LINE",
    "Dialect",
    "decoded_file",
    "diagnose",
    "dialect_of",
    "first_long_line",
    "separator_of",
]

_SAMPLE = 2**16
_WHOLE = 2**26
"""Files up to this size are searched for bytes that are not UTF-8; of larger files, only
the beginning."""
_SEPARATORS = (",", ";", "\t", "|")
_ROWS = 50
_ALIKE = 0.9
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    # Before UTF-16, whose mark is the beginning of this one.
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_ZIP = b"PK\x03\x04"
"""The beginning of .xlsx and .ods files, which are zip files."""
_WINDOWS = "cp1252"
"""The encoding of Excel and Windows in Western countries: latin-1 with a few more characters."""

_OF_NAMES = ("idna", "punycode", "undefined")
"""Python's codecs that are for names of hosts, or for none."""
_OF_UTF8 = re.compile(rb"[\xc2-\xf4][\x80-\xbf]")
_HIGH = re.compile(rb"[\x80-\xff]")
_LETTERS = re.compile(rb"[\xc0-\xff\x80\x91-\x94\x96\x97\xa3\xa7\xb0]")
LONGEST_LINE = 64 * 2**20
"""The maximum line length in bytes; a longer line means a missing quote or line end."""


_QUOTED = re.compile(r'"(?:[^"]|"")*"')


class Dialect(NamedTuple):
    """The column separator, and Python's name of the encoding."""

    separator: str
    encoding: str

    @property
    def is_utf8(self) -> bool:
        """Whether the file can be read without conversion."""
        return self.encoding in ("utf-8", "utf-8-sig")


def dialect_of(
    path: Path, kind: str = "csv", separator: str | None = None, encoding: str | None = None
) -> Dialect:
    r"""Return the separator and encoding of a CSV or TSV file; given values are used as they are.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "mails.csv"
    >>> _ = path.write_bytes(b"id;text\n1;free, now\n2;hi\n")
    >>> dialect_of(path)
    Dialect(separator=';', encoding='utf-8')
    """
    found = _checked_encoding(encoding) if encoding is not None else _encoding_of(path)
    if separator is not None:
        return Dialect(_checked_separator(separator), found)
    with path.open("rb") as file:
        sample = file.read(_SAMPLE)
    text = sample.decode(found, errors="replace")
    return Dialect(separator_of(text, "\t" if kind == "tsv" else ","), found)


def separator_of(text: str, usual: str = ",") -> str:
    r"""Return the column separator, judged by the beginning of a table; `usual` if in doubt.

    Among the separators that give (nearly) all rows as many columns as the header, it is the one
    that gives the most columns.

    >>> separator_of("id\ttext\n1\tfree; now\n"), separator_of("text\nfree; now\n")
    ('\t', ',')
    """
    # Not `splitlines`: a cell may contain a vertical tab, or another line end of Unicode.
    lines = list(io.StringIO(text.lstrip("\ufeff"), newline=""))
    # The last line of a sample may be incomplete.
    complete = lines if text.endswith(("\n", "\r")) or len(lines) < 2 else lines[:-1]
    best, most = usual, 1
    for candidate in (usual, *(other for other in _SEPARATORS if other != usual)):
        width, alike = _shape(complete, candidate)
        if width > most and alike >= _ALIKE:
            best, most = candidate, width
    return best


def decoded_file(path: Path, encoding: str) -> bytes:
    """Return the content of a file as UTF-8. The error shows where the encoding does not fit."""
    content = path.read_bytes()
    try:
        return content.decode(encoding).lstrip("\ufeff").encode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path} is not encoded as {encoding}: the first wrong byte is in line {line}. Set "
            'its encoding with encoding = "..." in [data], or save the file as UTF-8.'
        ) from None


def _shape(lines: list[str], separator: str) -> tuple[int, float]:
    """The number of columns in the header, and the share of rows with the same number."""
    try:
        rows = []
        for row in csv.reader(iter(lines), delimiter=separator):
            if row:
                rows.append(len(row))
            if len(rows) > _ROWS:
                break
    except csv.Error:
        return 1, 0.0
    if not rows:
        return 1, 0.0
    header, *others = rows
    return header, sum(n == header for n in others) / len(others) if others else 1.0


def _encoding_of(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(_WHOLE if path.stat().st_size <= _WHOLE else _SAMPLE)
    for mark, name in _MARKS:
        if content.startswith(mark):
            return name
    if content.startswith(_ZIP):
        raise DataError(
            f"{path} is a spreadsheet or a zip file, not text. Save the sheet as 'CSV UTF-8' "
            "(File, Save as)."
        )
    whole = len(content) == path.stat().st_size
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        decoder.decode(content, final=whole)
    except UnicodeDecodeError:
        if not _is_windows(content):
            return "utf-8"  # damaged; the reader reports where
        warnings.warn(
            f"{path} is not UTF-8; it was read as {_WINDOWS}, which Excel and Windows write. If "
            'letters look wrong, set its encoding: encoding = "..." in [data].',
            WieselWarning,
            stacklevel=2,
        )
        return _WINDOWS
    return "utf-8"


def _is_windows(content: bytes) -> bool:
    """Whether the bytes are Windows-1252 text, rather than damaged UTF-8 or binary data."""
    if b"\x00" in content or content[-1:] >= b"\x80":
        return False  # binary, or truncated inside a character
    try:
        content.decode(_WINDOWS)
    except UnicodeDecodeError:
        return False
    # A UTF-8 character is a lead byte with continuation bytes: the text used to be UTF-8.
    if _OF_UTF8.search(content):
        return False
    return len(_LETTERS.findall(content)) >= _ALIKE * len(_HIGH.findall(content))


def _checked_encoding(name: str) -> str:
    try:
        found = codecs.lookup(name).name
        if found in _OF_NAMES:
            raise LookupError
        b"a, b".decode(found, "replace")  # refuses compression and other codecs that give no text
        return found
    except (LookupError, ValueError):
        raise DataError(
            f"There is no encoding {name!r:.80}; common ones are utf-8, latin-1, cp1252 and utf-16."
        ) from None


def _checked_separator(separator: str) -> str:
    given = {"tab": "\t", "\\t": "\t"}.get(separator, separator)
    if len(given.encode()) != 1:
        raise DataError(f"A separator is one character, such as ';' or 'tab'; got {separator!r}.")
    return given


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
