"""Tables of all common kinds as data frames, rows by id or of mapped files, gold of rows."""

import mmap
import os
import socket
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import DataError, FeatureError, ParameterError, listed, suggest
from wiesel.threads import check_polars_threads

__all__ = [
    "RANDOM",
    "Gold",
    "MappedFile",
    "as_frame",
    "in_order_of",
    "index_ids",
    "mapped_file",
    "of_type",
    "read_rows",
    "release_pages",
    "require_columns",
]

_MIXED = (str, int, float, Decimal, date)
"""The types that a column of Python objects may mix; a bool is an int, a datetime a date."""
Ids = npt.NDArray[Any]

_ID_COLUMN = "id"
_EXAMPLES = 2
_BY_POSITION = "If rows belong together by position, give them without ids, such as .to_numpy()."
RANDOM = "random"
"""How a row was chosen that belongs to a random sample."""


def as_frame(table: Any) -> pl.DataFrame:
    """Return a Polars frame from a Polars, pandas or Arrow table, a dict of columns or dict rows.

    >>> as_frame([{"task": 1, "label": "cat"}, {"task": 2, "label": "dog"}]).shape
    (2, 2)
    """
    if isinstance(table, pl.DataFrame):
        return table
    if isinstance(table, pl.LazyFrame):
        check_polars_threads("A lazy frame")
        return table.collect()
    try:
        return _converted(table)
    except UnicodeEncodeError as error:
        raise DataError(
            f"A text in the rows has half of a character, {error.object[error.start]!r}, which "
            "cannot be stored: text.encode('utf-8', 'replace').decode() removes it."
        ) from None


def _converted(table: Any) -> pl.DataFrame:
    kind = type(table).__module__.partition(".")[0]
    if kind == "pandas" and hasattr(table, "columns"):
        return _frame_of_pandas(table)
    if isinstance(table, Mapping):
        return _frame_of_columns(table)
    if hasattr(table, "__arrow_c_stream__") or kind == "pyarrow":
        frame = pl.from_arrow(table)
        if isinstance(frame, pl.DataFrame):
            return frame
    elif isinstance(table, Iterable) and not isinstance(table, (str, bytes)):
        return _frame_of_rows(list(table))
    raise DataError(
        "Rows must be a Polars, pandas or Arrow table, a dict of columns or a list of dicts; "
        f"got {type(table).__name__}."
    )


def require_columns(frame: pl.DataFrame, columns: Iterable[str], purpose: str) -> None:
    """Refuse a frame that lacks one of the columns, and name the most similar column it has."""
    names = frame.columns  # a new list at every look
    known = set(names)
    for column in columns:
        if not isinstance(column, str):
            raise DataError(
                f"A column is named by a string ({purpose}); got {type(column).__name__}."
            )
        if column not in known:
            close = suggest(column, names)
            close = f"{close} " if close.startswith("Did") else ""
            raise DataError(
                f"There is no column {column!r} ({purpose}). "
                f"{close}The table has {listed(names) or 'no columns'}."
            )


def _frame_of_pandas(table: Any) -> pl.DataFrame:
    names = [str(name) for name in table.columns]
    repeated = sorted(name for name, n in Counter(names).items() if n > 1)
    if repeated:
        raise DataError(f"The columns {listed(repeated)} appear more than once in the table.")
    # Column by column through lists of Python objects would be slow; Arrow is not required.
    return pl.DataFrame(
        [_pandas_column(name, table[key]) for name, key in zip(names, table, strict=True)]
    )


def _pandas_column(name: str, column: Any) -> pl.Series:
    """A pandas column, whose NaN, NaT and NA all mean missing."""
    missing = column.isna().to_numpy()
    plain = type(column.dtype).__module__.startswith("numpy") and column.dtype != object
    if plain or not missing.any():
        values = column.to_numpy()
        if values.dtype == object:
            return _series(name, values.tolist())
        return pl.Series(name, values, nan_to_null=True)
    pairs = zip(missing, column.tolist(), strict=True)
    return _series(name, [None if gone else value for gone, value in pairs])


def _frame_of_columns(table: Mapping[str, Any]) -> pl.DataFrame:
    try:
        return pl.DataFrame(dict(table))
    except TypeError:  # a list mixes types
        series = {n: _series(n, column) for n, column in table.items() if _is_list(column)}
        if not series:
            raise
        return _frame_of_columns({**table, **series})
    except pl.exceptions.ShapeError as error:
        lengths = {
            name: len(column) for name, column in table.items() if hasattr(column, "__len__")
        }
        raise DataError(f"The columns of a table must have one length; got {lengths}.") from error


def _frame_of_rows(rows: list[Any]) -> pl.DataFrame:
    for position, row in enumerate(rows):
        if not isinstance(row, Mapping):
            is_array = isinstance(row, np.ndarray)
            advice = " Name the columns: {'width': array[:, 0], ...}." if is_array else ""
            raise DataError(
                f"Rows must be dicts; row {position} is a {type(row).__name__}: {row!r:.80}."
                f"{advice}"
            )
    try:
        return pl.from_dicts(rows, infer_schema_length=None) if rows else pl.DataFrame()
    except (pl.exceptions.ComputeError, TypeError):
        names = dict.fromkeys(name for row in rows for name in row)
        return pl.DataFrame([_series(name, [row.get(name) for row in rows]) for name in names])


def _is_list(column: Any) -> bool:
    return isinstance(column, (list, tuple))


def _series(name: str, values: Sequence[Any]) -> pl.Series:
    """A column of Python objects; numbers of several types become the widest, among texts text."""
    try:
        return pl.Series(name, values, nan_to_null=True)
    except TypeError:
        values = [value.item() if isinstance(value, np.generic) else value for value in values]
        types = {type(value) for value in values if value is not None}
        if not all(issubclass(each, _MIXED) for each in types):
            names = listed(sorted(each.__name__ for each in types))
            raise DataError(
                f"The column {name!r} mixes values of the types {names}. Give them one type, for "
                "example text."
            ) from None
        return pl.Series(name, values, strict=False, nan_to_null=True)


def of_type(names: pl.Series, dtype: Any) -> pl.Series:
    """Return texts in their original type: numbers become numbers again.

    >>> of_type(pl.Series(["1", "2"]), pl.Int64).to_list()
    [1, 2]
    """
    if not dtype.is_numeric():
        return names
    numbers = names.cast(pl.Float64, strict=False)
    return names if numbers.null_count() else numbers.cast(dtype)


def in_order_of(
    reference: Any, values: Any, name: str, reference_name: str = "votes", *, drop_ids: bool = False
) -> Any:
    """Return `values` with its rows in the order of `reference`; unchanged if either has no ids.

    `drop_ids` leaves out the id column of a table, which is no feature.

    >>> reference = pl.DataFrame({"id": ["m1", "m2"]}).to_pandas().set_index("id")
    >>> gold = pl.DataFrame({"id": ["m2", "m1"], "label": ["spam", "ham"]}).to_pandas()
    >>> in_order_of(reference, gold.set_index("id")["label"], "gold").tolist()
    ['ham', 'spam']
    """
    index, is_votes = _pandas_index(values), hasattr(values, "voters")
    is_table = isinstance(values, pl.DataFrame) or hasattr(values, "column_names")
    wanted = _ids_of(reference) if is_table or is_votes or index is not None else None
    if wanted is None:
        return values
    found = np.asarray(values.ids) if is_votes else None if index is None else np.asarray(index)
    if not is_votes and not _same_ids(found, wanted):
        column = _id_column(values, wanted)
        if column is not None:
            values, found = _with_column(values, column, drop_ids)
    rows = None if found is None else _matching_rows(wanted, found, name, reference_name)
    if index is None:
        return values if rows is None else values[rows]
    if found is not None and not _same_ids(np.asarray(index), found):
        values = values.set_axis(found)  # matched by a column; another time, by the index
    return values if rows is None else values.iloc[rows]


def index_ids(table: Any) -> Ids | None:
    """Return the index of a pandas table or series if it names the rows, else None.

    An index names no rows if it only counts, repeats itself or has gaps.

    >>> frame = pl.DataFrame({"text": ["hi", "ho"]}).to_pandas()
    >>> index_ids(frame) is None, index_ids(frame[::-1])
    (True, array([1, 0]))
    """
    index = _pandas_index(table)
    if index is None or index.nlevels > 1 or not index.is_unique or index.hasnans:
        return None
    ids = np.asarray(index)
    return None if _counts(ids) else ids


def _pandas_index(values: Any) -> Any:
    index = getattr(values, "index", None) if hasattr(values, "iloc") else None
    return index if hasattr(index, "nlevels") else None


def _ids_of(reference: Any) -> Ids | None:
    """The ids of votes or documents, or the index of a table or series of pandas."""
    index = _pandas_index(reference)
    if index is not None:
        return np.asarray(index)
    if hasattr(reference, "parts") and not hasattr(reference, "ids"):  # votes in many files
        return np.concatenate([part.ids for part in reference.parts()])
    return np.asarray(reference.ids) if hasattr(reference, "ids") else None


def _id_column(table: Any, wanted: Ids) -> str | None:
    """The column of a table that has the wanted ids, in any order; or else the one called `id`."""
    if _counts(wanted) or not hasattr(table, "columns"):
        return None
    names = getattr(table, "column_names", None) or list(table.columns)
    for name in names:
        if _same_ids(_column(table, name), wanted):
            return str(name)
    if _ID_COLUMN not in names:
        return None
    ids = _column(table, _ID_COLUMN).tolist()
    # A column of this name that repeats itself may name something else, such as people.
    names_rows = len(set(ids)) == len(ids) or not set(ids).isdisjoint(wanted.tolist())
    return _ID_COLUMN if names_rows else None


def _column(table: Any, name: Any) -> Ids:
    column = table[name]
    return np.asarray(column.to_pylist() if hasattr(column, "to_pylist") else column)


def _with_column(table: Any, column: str, drop_ids: bool) -> tuple[Any, Ids]:
    """The table, as one of Polars if it is of Arrow, and the ids in one of its columns."""
    ids = _column(table, column)
    if not hasattr(table, "iloc"):
        table = as_frame(table)
        return (table.drop(column) if drop_ids else table), ids
    return (table.drop(columns=column) if drop_ids else table), ids


def _matching_rows(
    wanted: Ids, found: Ids, name: str, reference_name: str
) -> npt.NDArray[np.int64] | None:
    """The position of every wanted id; None if rows are matched by position."""
    targets, ids = wanted.tolist(), found.tolist()
    if targets == ids:
        return None
    if _counts(wanted) or _counts(found):
        if _same_ids(found, wanted):
            raise DataError(
                f"{name} has the numbers of {reference_name} (0 to {len(ids) - 1}) in another "
                "order, and one of the two only counts its rows, so it is open what belongs "
                f"together. If it is equal numbers, give {name} in the order of "
                f"{reference_name}, such as .loc[votes.ids]. {_BY_POSITION}"
            )
        return None
    place_of = {each: place for place, each in enumerate(ids)}
    if len(place_of) < len(ids):
        repeated = [each for each, count in Counter(ids).items() if count > 1]
        raise DataError(
            f"Rows are matched by id, and {name} repeats the ids {listed(repeated, _EXAMPLES)}. "
            f"{_BY_POSITION}"
        )
    known = set(targets)
    missing = [each for each in targets if each not in place_of]
    extra = [each for each in ids if each not in known]
    if missing or extra:
        raise DataError(
            f"Rows are matched by id, and {name} has other ids than {reference_name}: "
            f"{len(missing):,} of {reference_name} are missing in {name}{_examples(missing)}, and "
            f"{len(extra):,} of {name} are missing in {reference_name}{_examples(extra)}. Give "
            f"both for the same rows, such as .loc[votes.ids] or votes[rows]. {_BY_POSITION}"
        )
    return np.array([place_of[each] for each in targets], dtype=np.int64)


def _examples(ids: list[Any]) -> str:
    return f" ({listed(ids, _EXAMPLES)})" if ids else ""


def _counts(ids: Ids) -> bool:
    """Whether ids are 0, 1, 2, ..., which anything gets that has no ids."""
    return ids.dtype.kind in "iu" and np.array_equal(ids, np.arange(len(ids)))


def _same_ids(found: Ids | None, wanted: Ids) -> bool:
    """Whether the same ids are in both, in any order."""
    if found is None or found.shape != wanted.shape or not len(wanted):
        return False
    if found.dtype.kind in "iu" and wanted.dtype.kind in "iu":
        return np.array_equal(np.sort(found), np.sort(wanted))
    if not isinstance(found[0], Hashable) or found[:1].tolist()[0] not in set(wanted.tolist()):
        return False
    values = found.tolist()
    return all(isinstance(each, Hashable) for each in values) and set(values) == set(
        wanted.tolist()
    )


@dataclass(frozen=True, eq=False)
class Gold:
    """Labels of some rows, and how these rows were chosen to be labeled.

    A model learns from all of them. What needs a random sample (class balance, threshold, figures)
    uses the rows drawn at random only: rows chosen because voters disagree on them, for example,
    have other classes and other mistakes than the rest.

    >>> gold = Gold(["spam", "ham", None, "ham"], chosen=["random", "random", "random", "unsure"])
    >>> gold.random
    array([ True,  True,  True, False])
    >>> len(gold), Gold.of(gold) is gold
    (4, True)
    """

    y: Any
    """The labels: names, indices, or sets of labels; None or -1 is unknown."""
    X: Any = None
    """The inputs of these rows; None if they are the rows of `fit`, in the same order."""
    votes: Any = None
    """The votes on these rows, where there are any; of the rows of `fit`, they are known."""
    chosen: str | Sequence[str] = RANDOM
    """How rows were chosen: `random`, or the name of an order; one word, or one for each row."""
    probability: Sequence[float] | None = None
    """The probability with which each row was chosen, if it is known; NaN where it is not."""

    def __post_init__(self) -> None:
        if self.votes is not None and self.X is None:
            raise ParameterError("Gold with votes of its own needs X, the inputs of its rows.")
        for name in ("chosen", "probability"):
            given = getattr(self, name)
            if given is not None and not isinstance(given, str) and len(given) != len(self):
                raise ParameterError(
                    f"{name} needs a value for each of the {len(self)} labels; got {len(given)}."
                )

    @classmethod
    def of(cls, gold: Any) -> Self:
        """Return gold in one form.

        It is given as `Gold`, as (X, y) or (X, y, votes), or as the labels of the rows of `fit`.
        """
        if isinstance(gold, cls):
            return gold
        if isinstance(gold, tuple) and len(gold) in (2, 3) and _is_inputs(gold[0]):
            return cls(gold[1], gold[0], *gold[2:])
        return cls(gold)

    def __len__(self) -> int:
        columns = self.y
        if isinstance(columns, Mapping):
            columns = next(iter(columns.values()), ())
        return len(columns)

    @property
    def random(self) -> npt.NDArray[np.bool_]:
        """Whether each row belongs to a random sample: what figures and shares count."""
        if isinstance(self.chosen, str):
            return np.full(len(self), self.chosen == RANDOM)
        return np.array([str(way) == RANDOM for way in self.chosen], dtype=np.bool_)


def _is_inputs(value: Any) -> bool:
    """Whether this is a table of inputs, not a label, a set of labels, or None."""
    return hasattr(value, "__len__") and not isinstance(value, (str, set, frozenset))


@dataclass(frozen=True)
class MappedFile:
    """An array that is a part of a file."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    offset: int

    def open(self) -> npt.NDArray[Any]:
        """Return the array, mapped again."""
        try:
            return np.memmap(self.path, self.dtype, "r", self.offset, self.shape)
        except (OSError, ValueError) as error:
            raise FeatureError(
                f"X is the memory-mapped file {self.path}, which {socket.gethostname()} cannot "
                f"open ({error}). Put it on storage that all machines share."
            ) from error


def mapped_file(values: Any) -> MappedFile | None:
    """Return the part of a file that an array maps; None if it maps none.

    >>> mapped_file(np.arange(3)) is None
    True
    """
    if isinstance(values, np.memmap) and values.flags.c_contiguous and values.size:
        whole = values
        while isinstance(whole.base, np.memmap):
            whole = whole.base
        place = values.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
        if values.filename is not None and place >= 0:
            return MappedFile(
                str(values.filename), values.dtype.str, values.shape, whole.offset + place
            )
    return None


def read_rows(values: npt.NDArray[Any], rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Return rows of a memory map, read from its file if it is only read.

    The system maps far more than a row when it is touched: two thousand random rows of 1,200 bytes
    made a gigabyte of a file count as this process's memory. Reading takes as long.

    >>> read_rows(np.arange(6).reshape(3, 2), np.array([2, 0]))
    array([[4, 5],
           [0, 1]])
    """
    file = mapped_file(values) if getattr(values, "mode", "") == "r" else None
    if file is None or not hasattr(os, "preadv"):
        found: npt.NDArray[Any] = values[rows]
        release_pages(values)
        return found
    taken = np.empty((len(rows), *values.shape[1:]), values.dtype)
    size = taken.nbytes // max(1, len(rows))
    # Runs of consecutive rows are read at once.
    starts = np.flatnonzero(np.diff(rows, prepend=-2) != 1)
    stops = np.append(starts, len(rows))[1:]
    content = memoryview(taken.reshape(-1).view(np.uint8).data)
    handle = os.open(file.path, os.O_RDONLY)
    try:
        for start, stop, row in zip(
            starts.tolist(), stops.tolist(), rows[starts].tolist(), strict=True
        ):
            place, left = file.offset + row * size, content[start * size : stop * size]
            while left:
                n_read = os.preadv(handle, [left], place)
                if n_read == 0:
                    raise FeatureError(
                        f"X is the memory-mapped file {file.path}, which ends early."
                    )
                place, left = place + n_read, left[n_read:]
    finally:
        os.close(handle)
    return taken


def release_pages(values: npt.NDArray[Any]) -> None:
    """Release the pages of a read-only memory map; the system reads them again when needed.

    Otherwise they would count as this process's memory until the machine has none left. (A
    writable map is left alone: its pages may contain changes that are not in the file.)

    >>> release_pages(np.arange(3))
    """
    pages = getattr(values, "_mmap", None)
    if pages is not None and getattr(values, "mode", "") == "r" and hasattr(mmap, "MADV_DONTNEED"):
        pages.madvise(mmap.MADV_DONTNEED)
