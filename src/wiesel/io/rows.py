"""Reads and writes tables: Parquet, CSV, TSV and JSON lines, whole or in batches."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from glob import escape
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl

from wiesel.errors import DataError, as_path, listed
from wiesel.io.dialects import LONGEST_LINE, Dialect, decoded_file, dialect_of, first_long_line
from wiesel.io.files import (
    FORMATS,
    FilePath,
    existing_file,
    explained,
    read_unchanged,
    replacing,
    table_format,
)
from wiesel.tables import as_frame, require_columns
from wiesel.threads import check_polars_threads, free_memory

__all__ = [
    "NoRowsError",
    "is_pattern",
    "matching_files",
    "read_batches",
    "read_rows",
    "refuse_compressed",
    "refuse_long_lines",
    "refuse_oversized",
    "refuse_overwriting",
    "scan_rows",
    "write_lazy_rows",
    "write_rows",
]


_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"x\x01", b"x\x9c", b"x\xda")
"""How gzip, Zstandard and zlib files begin."""


class NoRowsError(DataError):
    """The files have columns, but no rows."""


def read_rows(
    path: FilePath,
    columns: Sequence[str] | None = None,
    *,
    separator: str | None = None,
    encoding: str | None = None,
) -> pl.DataFrame:
    r"""Return the rows of a Parquet, CSV, TSV or JSONL file, or of many: a folder or a pattern.

    The separator of a CSV file (comma, semicolon, tab or bar) and its encoding (UTF-8, UTF-16 or
    Windows-1252) are detected, unless `separator` and `encoding` are given.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "mails.csv"
    >>> _ = path.write_text("id,text\nm1,free prize\nm2,see you at eight\n")
    >>> read_rows(path)["text"].to_list()
    ['free prize', 'see you at eight']
    """
    return read_unchanged(path, partial(_read_rows, path, columns, separator, encoding))


def _read_rows(
    path: FilePath, columns: Sequence[str] | None, separator: str | None, encoding: str | None
) -> pl.DataFrame:
    lazy = scan_rows(path, columns, separator=separator, encoding=encoding)
    with _explained_rows(path, matching_files(path)) as files:
        if table_format(files[0]) == "parquet":
            refuse_oversized(files, columns=columns)
        frame = lazy.collect()
        if frame.is_empty():
            raise NoRowsError(f"{path} has columns but no rows.")
    return frame


def scan_rows(
    path: FilePath,
    columns: Sequence[str] | None = None,
    *,
    separator: str | None = None,
    encoding: str | None = None,
) -> pl.LazyFrame:
    """Return the rows of a file, or of all files in a folder or of a pattern, as a lazy frame.

    Column types are inferred from all rows, not just the first hundred, so a name late in a column
    of numbers causes no error.
    """
    check_polars_threads(f"Reading {path}")
    with _explained_rows(path, matching_files(path)) as files:
        kind = table_format(files[0])
        if kind != "parquet":
            refuse_compressed(files)
            refuse_long_lines(files)
        lazy = _scan(files, kind, separator, encoding)
        _check_header(lazy)
        if columns is None:
            return lazy
        require_columns(
            pl.DataFrame(schema=lazy.collect_schema()), columns, f"requested from {path}"
        )
        return _selected(lazy, list(columns), kind)


def read_batches(
    path: FilePath, columns: Sequence[str] | None = None, batch_size: int = 50_000
) -> Iterator[pl.DataFrame]:
    """Yield the rows in order, `batch_size` at a time, so that a file may be larger than memory.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "mails.jsonl"
    >>> write_rows({"id": [1, 2, 3]}, path)
    >>> [batch["id"].to_list() for batch in read_batches(path, batch_size=2)]
    [[1, 2], [3]]
    """
    if batch_size < 1:
        raise DataError(f"A batch needs at least one row; got batch_size={batch_size!r}.")
    lazy = scan_rows(path, columns)
    with _explained_rows(path, matching_files(path)):
        empty = True
        for batch in lazy.collect_batches(chunk_size=batch_size, maintain_order=True):
            empty = empty and batch.is_empty()
            if not batch.is_empty():
                yield batch
        if empty:
            raise NoRowsError(f"{path} has columns but no rows.")


def write_rows(rows: Any, path: FilePath) -> None:
    """Write a table of any common type in the format of the file extension, all or nothing.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "mails.parquet"
    >>> write_rows([{"id": 1, "label": "spam"}], path)
    >>> read_rows(path).rows()
    [(1, 'spam')]
    """
    check_polars_threads(f"Writing {path}")
    frame, kind = as_frame(rows), table_format(path, writing=True)
    if kind in ("csv", "tsv"):
        nested = [name for name, dtype in frame.schema.items() if dtype.is_nested()]
        if nested:
            raise DataError(
                f"{path} cannot be written: the columns {listed(nested)} hold lists, which "
                f"{kind.upper()} cannot. Write Parquet or JSONL instead."
            )
    with replacing(path) as temporary:
        _write(frame, temporary, kind)


def write_lazy_rows(lazy: pl.LazyFrame, path: FilePath) -> None:
    """Write the rows of a lazy frame like `write_rows`, without having all of them in memory."""
    kind = table_format(path, writing=True)
    with replacing(path) as temporary:
        if kind == "parquet":
            lazy.sink_parquet(temporary)
        elif kind == "jsonl":
            lazy.sink_ndjson(temporary)
        else:
            lazy.sink_csv(temporary, separator="\t" if kind == "tsv" else ",")


def matching_files(path: FilePath) -> list[Path]:
    """Return the file, the tables in a folder, or the files that match a pattern, sorted by name.

    All have the same format.
    """
    found = as_path(path)
    files = _tables_in(found) if found.is_dir() else [found]
    if is_pattern(path):
        files = sorted(Path(found.anchor).glob(str(found.relative_to(found.anchor))))
        if not files:
            raise DataError(f"No file matches the pattern {path}.")
    kinds = sorted({table_format(file) for file in files}) if len(files) > 1 else []
    if len(kinds) > 1:
        raise DataError(
            f"{path} matches files of several formats: {listed(kinds)}. Select one of them, for "
            f"example with {found if found.is_dir() else found.parent}/*.{kinds[0]}."
        )
    return [existing_file(file) for file in files]


def refuse_overwriting(read: Iterable[FilePath | None], *outputs: FilePath | None) -> None:
    """Reject an output that is one of the files that are read, or a folder that has them.

    None stands for an option that is not given.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "mails.csv"
    >>> write_rows({"id": [1, 2, 3]}, path)
    >>> refuse_overwriting([path], path)
    Traceback (most recent call last):
    wiesel.errors.DataError: ...mails.csv is read here, and would be lost: choose another output.
    """
    files = [file for path in read if path is not None for file in _files_at(path)]
    targets = [Path(output) for output in outputs if output is not None]
    for target, file in itertools.product(targets, files):
        if target.exists() and (target.samefile(file) or target.samefile(file.parent)):
            raise DataError(f"{file} is read here, and would be lost: choose another output.")


def _files_at(path: FilePath) -> list[Path]:
    """The files that exist there: in a folder, by a pattern, or the one with this name."""
    place = Path(path)
    if is_pattern(path):
        return matching_files(path)
    found = list(place.iterdir()) if place.is_dir() else [place]
    return [file for file in found if file.exists()]


def _tables_in(folder: Path) -> list[Path]:
    """The tables in a folder, without hidden files; the folder itself if it has none."""
    tables = [file for file in folder.iterdir() if file.suffix.lower() in FORMATS]
    return sorted(file for file in tables if not file.name.startswith(".")) or [folder]


def is_pattern(path: FilePath) -> bool:
    """Return whether a path stands for all files that match it; a name may have brackets, too.

    >>> is_pattern("votes-*.parquet"), is_pattern("votes.parquet")
    (True, False)
    """
    return any(sign in str(path) for sign in "*?[") and not Path(path).exists()


def refuse_oversized(
    files: Sequence[Path],
    value_bytes: int | None = None,
    *,
    columns: Sequence[str] | None = None,
) -> None:
    """Reject Parquet files that do not fit into memory, according to their metadata.

    A few bytes can encode a trillion equal values, or a text of gigabytes. `value_bytes` is what a
    value needs while it is read and converted, at least; the default depends on its type.
    """
    n_rows, n_values, n_bytes = 0, 0, 0
    for file in files:
        try:
            metadata = _parquet_metadata(file)
            n_rows += metadata[3]
            for chunk in itertools.chain.from_iterable(group[1] for group in metadata[4]):
                about = chunk[3]
                if columns is not None and about[3][0].decode() not in columns:
                    continue
                is_text = about[1] == _TEXT
                n_values += about[5]
                n_bytes += about[5] * (value_bytes or (_TEXT_BYTES if is_text else _NUMBER_BYTES))
                n_bytes += about[6] if is_text else 0
        except (LookupError, OSError, RecursionError, TypeError, ValueError):
            return  # it is damaged, which reading it will tell
    free = free_memory()
    if n_bytes > free:
        raise DataError(
            f"This table has {n_rows:,} rows and {n_values:,} values, which do not fit into "
            f"memory: they need {n_bytes / 2**30:,.1f} GB at least, of {free / 2**30:,.1f} "
            "that are free. Check who wrote it, or split the rows into several files, as for votes "
            "in a folder."
        )


_TEXT = 6
"""The number of texts and bytes among the types of Parquet."""
_TEXT_BYTES, _NUMBER_BYTES = 40, 8
"""What a value needs, without the text itself: 16 bytes to read a text, and as much again, and
more, for what is made of it (39 to 45 bytes at most at a time, measured on `wiesel aggregate`,
`inspect` and `monitor` with 60 million cells)."""


def _parquet_metadata(file: Path) -> dict[int, Any]:
    """Return the metadata at the end of a Parquet file, by the numbers of its fields.

    3 is the number of rows, 4 the row groups; of these, 1 are the columns, and of these, 3 tells
    the type (1), the name (3), the number of values (5) and their uncompressed bytes (6). Polars
    does not show them. https://parquet.apache.org/docs/file-format/metadata/
    """
    with file.open("rb") as opened:
        opened.seek(-8, 2)
        size = int.from_bytes(opened.read(4), "little")
        opened.seek(-8 - size, 2)
        return _CompactThrift(opened.read(size)).struct()


class _CompactThrift:
    """Reads bytes in the compact protocol of Apache Thrift."""

    def __init__(self, content: bytes) -> None:
        self.content, self.place = content, 0

    def struct(self) -> dict[int, Any]:
        """Return the fields by number."""
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._whole()
            kind = head & 15
            fields[number] = kind == 1 if kind in (1, 2) else self._value(kind)
        return fields

    def _value(self, kind: int) -> Any:
        if kind in (4, 5, 6):
            return self._whole()
        if kind == 8:
            return self._bytes(self._varint())
        if kind == 12:
            return self.struct()
        if kind in (9, 10):
            head = self._byte()
            size = self._varint() if head >> 4 == 15 else head >> 4
            return [self._value(head & 15) for _ in range(size)]
        if kind in (1, 2, 3):
            return self._byte()
        if kind == 7:
            return self._bytes(8)
        raise ValueError(f"unknown type {kind}")

    def _whole(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)

    def _varint(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 127) << shift
            if byte < 128:
                return number
            shift += 7
            if shift > 63:
                raise ValueError("a number of more than 64 bits")

    def _byte(self) -> int:
        self.place += 1
        return self.content[self.place - 1]

    def _bytes(self, size: int) -> bytes:
        self.place += size
        if self.place > len(self.content):
            raise ValueError("it is cut off")
        return self.content[self.place - size : self.place]


@contextmanager
def _explained_rows(path: FilePath, files: list[Path]) -> Iterator[list[Path]]:
    """Like `explained`, but if one of several files cannot be read, the error names it."""
    try:
        with explained(path):
            yield files
    except DataError as error:
        if len(files) > 1 and isinstance(error.__cause__, pl.exceptions.PolarsError):
            _refuse_odd_file(files)
        raise


def _refuse_odd_file(files: list[Path]) -> None:
    """Raise an error for the first file that is damaged or has other columns than the first."""
    kind = table_format(files[0])
    first: dict[str, Any] = {}
    for file in files:
        with explained(file):
            lazy = _scan([file], kind, None, None)
            schema = lazy.collect_schema()
            first = first or dict(schema)
            _refuse_other_columns(files[0], first, dict(schema), typed=kind == "parquet")
            for _ in lazy.collect_batches():  # a damaged page is only found by reading it
                pass


def _refuse_other_columns(
    file: Path, expected: Mapping[str, Any], found: Mapping[str, Any], typed: bool
) -> None:
    advice = "Files that are read as one table must have the same columns."
    missing = [name for name in expected if name not in found]
    if missing:
        raise DataError(f"It lacks the column {listed(missing)} of {file}. {advice}")
    extra = [name for name in found if name not in expected]
    if extra:
        raise DataError(f"It has the column {listed(extra)}, which {file} lacks. {advice}")
    other = [name for name in expected if typed and expected[name] != found[name]]
    if other:
        kinds = f"is {found[other[0]]}, and that of {file} is {expected[other[0]]}"
        raise DataError(f"Its column {other[0]!r} {kinds}. {advice}")


def _selected(lazy: pl.LazyFrame, columns: list[str], kind: str) -> pl.LazyFrame:
    """The rows with only some of their columns."""
    if kind in ("parquet", "jsonl"):
        return lazy.select(columns)
    # If Polars knew that only these columns are needed, it would not notice an unquoted separator,
    # which moves the rest of its line into the wrong columns.
    schema = lazy.collect_schema()
    return lazy.map_batches(
        lambda rows: rows.select(columns),
        projection_pushdown=False,
        streamable=True,
        schema={name: schema[name] for name in columns},
    )


def refuse_compressed(files: list[Path]) -> None:
    """Reject compressed text, which Polars would unpack whatever its size."""
    for file in files:
        with file.open("rb") as opened:
            if opened.read(4).startswith(_COMPRESSED):
                raise DataError(
                    f"{file} is compressed. Unpack it first, or store the rows as Parquet, which "
                    "is compressed, too."
                )


def refuse_long_lines(files: list[Path]) -> None:
    """Reject very long lines, which would take many times their size in memory before failing."""
    for file in files:
        number = first_long_line(file)
        if number is not None:
            raise DataError(
                f"{file} has more than {LONGEST_LINE // 2**20} MB in line {number}: is the end of "
                "a line or a quote missing? Store texts as long as that in Parquet."
            )


def _scan(
    files: list[Path], kind: str, separator: str | None, encoding: str | None
) -> pl.LazyFrame:
    # From here on, names are literal: a bracket is not a pattern, and `file:x.csv` no address.
    files = [file.absolute() for file in files]
    if kind == "parquet":
        return pl.scan_parquet(files, glob=False)
    if kind == "jsonl":
        return pl.scan_ndjson([escape(str(file)) for file in files], infer_schema_length=None)
    written = [dialect_of(file, kind, separator, encoding) for file in files]
    if len(set(written)) == 1 and written[0].is_utf8:
        return _csv(files, written[0])
    return pl.concat(
        [_csv([file], dialect) for file, dialect in zip(files, written, strict=True)],
        how="vertical_relaxed",
    )


def _csv(files: list[Path], dialect: Dialect) -> pl.LazyFrame:
    """The rows of files in one dialect; files that are not UTF-8 are read whole."""
    source: Any = files
    if not dialect.is_utf8:
        source = BytesIO(decoded_file(files[0], dialect.encoding))
    return pl.scan_csv(
        source,
        separator=dialect.separator,
        infer_schema_length=None,
        glob=False,
        with_column_names=_unquoted,
    )


def _unquoted(names: list[str]) -> list[str]:
    """The names of a header with single quotes: Polars leaves those that CSV doubles."""
    return [name.replace('""', '"') for name in names]


def _check_header(lazy: pl.LazyFrame) -> None:
    """Reject CSV headers that Polars would silently repair: bad bytes or duplicate names."""
    names = lazy.collect_schema().names()
    for name in names:
        if "\N{REPLACEMENT CHARACTER}" in name:
            raise pl.exceptions.ComputeError("the header has bytes that are not UTF-8")
        original = name.removesuffix("_duplicated_0")
        if original != name and original in names:
            raise DataError(f"The column {original!r} appears twice in the header.")


def _write(frame: pl.DataFrame, path: Path, kind: str) -> None:
    if kind == "parquet":
        frame.write_parquet(path)
    elif kind == "jsonl":
        frame.write_ndjson(path)
    else:
        frame.write_csv(path, separator="\t" if kind == "tsv" else ",")
