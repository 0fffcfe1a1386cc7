"""A batch of rows: where it comes from, its names and values, and the votes on it."""

import gc
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import Argument, ParameterError, VoteError, listed, other_spelling, suggest
from wiesel.io import read_batches
from wiesel.labels import ABSTAIN, LabelSpace
from wiesel.lfs.failures import Failure, shortened_row
from wiesel.tables import as_frame, require_columns
from wiesel.vote_entries import item_ids
from wiesel.votes import VoteMatrix

__all__ = [
    "BATCH_ROWS",
    "SLOW_BATCH_ROWS",
    "Batch",
    "ColumnVotes",
    "Row",
    "RowSource",
    "as_row",
    "assemble",
    "join_columns",
    "read_ballots",
    "read_column",
    "read_proba",
    "rows_of",
    "scalar",
]

_TRUTH = frozenset({bool, np.bool_})
_TOLERANCE = 1e-3
"""The tolerance for the sum of the probabilities of a vote."""
BATCH_ROWS = 50_000
"""The number of rows in memory at once; a row of text is a few kilobytes."""
SLOW_BATCH_ROWS = 10_000
"""The same for functions that may be slow: a failure loses at most one batch."""


class Row(dict[str, Any]):
    """A dict whose keys can be read as attributes, too.

    A column that has the name of a dict method (`items`, `keys`, `get`, ...) or is not a valid
    Python name is read as `row["items"]`.

    >>> row = Row(text="see you", words=2)
    >>> row.text, row["words"]
    ('see you', 2)
    >>> row.txt
    Traceback (most recent call last):
    AttributeError: The row has no column 'txt'. Did you mean 'text'?

    All labeling functions read the same row, so none can change it.

    >>> row["text"] = "other"
    Traceback (most recent call last):
    TypeError: A row cannot be changed: all labeling functions read it. Change dict(row), a copy.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            # Special attributes (for copying, pickling, printing) are not columns.
            problem = f"The row has no column {name!r}. {suggest(name, self)}"
            raise AttributeError(name if name.startswith("__") else problem) from None

    def _refuse_change(self, *arguments: Any, **named: Any) -> Any:
        raise TypeError(
            "A row cannot be changed: all labeling functions read it. Change dict(row), a copy."
        )

    __setitem__ = __delitem__ = __ior__ = _refuse_change
    clear = pop = popitem = setdefault = update = _refuse_change

    def __reduce__(self) -> tuple[type["Row"], tuple[dict[str, Any]]]:
        return Row, (dict(self),)

    def __or__(self, other: Mapping[str, Any]) -> "Row":  # type: ignore[override]
        return Row({**self, **other})


@dataclass(eq=False)
class Batch:
    """Consecutive rows, with their position in the whole table.

    >>> batch = Batch(pl.DataFrame({"id": ["m1"], "text": ["hi"]}), start=5, id_column="id")
    >>> batch.item(0), batch.rows
    ("row 5 (id 'm1')", [{'id': 'm1', 'text': 'hi'}])
    """

    frame: pl.DataFrame
    start: int = 0
    """The number of rows before this batch."""
    id_column: str | None = None
    stop_at_failure: bool = False
    """Whether a labeling function may stop at the first row on which it fails."""
    ahead: int = 0
    """The number of rows known to follow this batch."""
    shared: dict[object, list[Any]] = field(default_factory=dict, repr=False)
    """Columns computed by preprocessors, one value per row."""

    def __len__(self) -> int:
        return len(self.frame)

    @cached_property
    def ids(self) -> npt.NDArray[Any]:
        """The ids of the items: the id column, or the row numbers."""
        if self.id_column is None:
            return np.arange(self.start, self.start + len(self))
        return item_ids(self.frame[self.id_column], len(self))

    @cached_property
    def rows(self) -> list[Row]:
        """Every row as a dict, made once for all row-wise labeling functions."""
        return rows_of(self.frame)

    def item(self, position: int) -> str:
        """Return the name of the row at a position, for messages."""
        name = f"row {self.start + position}"
        if self.id_column is None:
            return name
        (own,) = self.ids[position : position + 1].tolist()  # 7, not np.int64(7)
        return f"{name} (id {own!r})"

    def failure(self, lf: str, position: int, error: BaseException | str) -> Failure:
        """Return the record of a labeling function that failed on a row."""
        reason = error if isinstance(error, str) else _error_text(error)
        row = shortened_row(self.frame.row(position, named=True))
        return Failure(lf, self.item(position), reason, row)

    def share(self, key: object, compute: Callable[[], list[Any]]) -> list[Any]:
        """Return the column of a preprocessor, computed on first use."""
        if key not in self.shared:
            self.shared[key] = compute()
        return self.shared[key]

    def piece(self, first: int, count: int) -> "Batch":
        """Return some of the rows as a new batch."""
        frame = self.frame.slice(first, count)
        return replace(self, frame=frame, start=self.start + first, shared={})


@dataclass(frozen=True, eq=False)
class RowSource:
    """A source of rows, and the columns that are needed.

    >>> source = RowSource([{"id": 1, "text": "a"}, {"id": 2, "text": "b"}], id_column="id")
    >>> [batch.ids.tolist() for batch in source.batches(size=1)]
    [[1], [2]]
    """

    rows: Any
    id_column: str | None = None
    columns: tuple[str, ...] | None = None
    """The columns that labeling functions read; None for all."""

    def __post_init__(self) -> None:
        if self.id_column is not None and not isinstance(self.id_column, str):
            problem = f" is the name of a column; got {self.id_column!r:.60}."
            raise ParameterError(Argument("ids"), problem)

    @property
    def path(self) -> Path | None:
        """The file or pattern, if the rows are in files."""
        return Path(self.rows) if isinstance(self.rows, (str, os.PathLike)) else None

    @property
    def needed(self) -> list[str] | None:
        """The columns to read, with the id column; None for all."""
        if self.columns is None:
            return None
        ids = [] if self.id_column is None else [self.id_column]
        return list(dict.fromkeys([*ids, *self.columns]))

    def batches(self, size: int = BATCH_ROWS) -> Iterator[Batch]:
        """Yield all rows in order, at most `size` at a time; always at least one batch."""
        start = 0
        for frame, ahead in self._frames(size):
            if self.id_column is not None:
                require_columns(frame, [self.id_column], "of the item ids")
            yield Batch(frame, start, self.id_column, ahead=ahead)
            start += len(frame)

    def _frames(self, size: int) -> Iterator[tuple[pl.DataFrame, int]]:
        """Frames, each with the number of rows that are known to follow."""
        if self.path is not None:
            for frame in read_batches(self.path, self._readable(), batch_size=size):
                yield frame, 0
        elif isinstance(self.rows, pl.LazyFrame):
            for frame in self.rows.collect_batches(chunk_size=size, maintain_order=True):
                yield frame, 0
        else:
            frame = as_frame(self.rows)
            for first in range(0, max(len(frame), 1), size):
                yield frame.slice(first, size), max(len(frame) - first - size, 0)

    def _readable(self) -> Sequence[str] | None:
        # If no rule reads a column, one is still needed to count the rows.
        return self.needed or None


def as_row(row: Any) -> Any:
    """Return a dict as a row; anything else, such as a row of pandas, as it is."""
    return Row(row) if type(row) is dict else row


def rows_of(frame: pl.DataFrame) -> list[Row]:
    """Return every row of a frame.

    >>> rows_of(pl.DataFrame({"text": ["hi"]}))[0].text
    'hi'
    """
    values = frame.rows()
    # Unlike plain dicts of text and numbers, these are objects that the garbage collector looks
    # at, again and again while thousands are made: half of the time went into that.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return [Row(pairs) for pairs in map(zip, repeat(frame.columns), values)]
    finally:
        if collecting:
            gc.enable()


def _error_text(error: BaseException) -> str:
    """The text of an exception, with its notes."""
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    return f"{type(error).__name__}: {error}{notes}"


@dataclass(frozen=True, eq=False)
class ColumnVotes:
    """The votes of one labeling function, with their positions."""

    rows: npt.NDArray[np.int64]
    """Positions in the batch, ascending."""
    classes: npt.NDArray[np.int16]
    """The class index of every vote."""
    distribution: npt.NDArray[np.float32] | None = None
    """(n_votes, n_classes) for a probabilistic labeling function."""
    failures: tuple[Failure, ...] = ()
    """The rows on which it failed and so abstains."""

    @classmethod
    def of_class(cls, rows: npt.NDArray[Any], class_index: int) -> "ColumnVotes":
        """Return votes for one class on these rows."""
        classes = np.full(len(rows), class_index, dtype=np.int16)
        return cls(rows.astype(np.int64, copy=False), classes)

    @classmethod
    def of_codes(cls, codes: npt.NDArray[Any]) -> "ColumnVotes":
        """Return the votes of one class index per row, negative where it abstains."""
        rows = np.flatnonzero(codes >= 0)
        return cls(rows, codes[rows].astype(np.int16))

    @classmethod
    def of_proba(cls, proba: npt.NDArray[Any]) -> "ColumnVotes":
        """Return the votes of one distribution per row, all zeros or NaN where it abstains."""
        rows = np.flatnonzero(np.nan_to_num(proba).sum(axis=1) > 0)
        cast = proba[rows]
        cast = (cast / cast.sum(axis=1, keepdims=True)).astype(np.float32)
        return cls(rows, cast.argmax(axis=1).astype(np.int16), cast)

    @classmethod
    def none(cls, failures: Sequence[Failure] = ()) -> "ColumnVotes":
        """Return no votes at all."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int16), None, tuple(failures))


def read_ballots(
    ballots: Sequence[Any], labels: LabelSpace, lf: str, batch: Batch, by_index: bool = False
) -> ColumnVotes:
    """Return the votes of one answer per row: a class name, a distribution, or None.

    With `by_index` a class is a whole number. None, -1 and NaN abstain.

    >>> labels, batch = LabelSpace("ham", "spam"), Batch(pl.DataFrame({"text": ["a", "b"]}))
    >>> read_ballots([None, {"spam": 0.9, "ham": 0.1}], labels, "lf", batch).distribution
    array([[0.1, 0.9]], dtype=float32)
    """
    codes = _codes(ballots, labels, by_index)
    if codes is None:
        # Convert missing values and numbers of pandas and NumPy to those of Python.
        ballots = [scalar(ballot) for ballot in ballots]
        codes = _codes(ballots, labels, by_index)
    if codes is not None:
        return ColumnVotes.of_codes(codes)
    return _read_mixed(ballots, labels, lf, batch, by_index)


def _codes(
    ballots: Sequence[Any], labels: LabelSpace, by_index: bool
) -> npt.NDArray[np.int16] | None:
    """Votes as class indices; None if one of them is not a plain vote."""
    codes_of = _codes_of(labels, by_index)
    try:
        codes = np.fromiter(map(codes_of.__getitem__, ballots), np.int16, len(ballots))
    except (KeyError, TypeError):
        return None
    # True and False equal 1 and 0, but are not meant as class indices.
    return None if by_index and not _TRUTH.isdisjoint(map(type, ballots)) else codes


def read_column(
    column: Any, labels: LabelSpace, lf: str, batch: Batch, by_index: bool = False
) -> ColumnVotes:
    """Return the votes of a column of class names, or of distributions (one row for each row)."""
    if isinstance(column, pl.DataFrame):
        column = column.to_series() if column.width == 1 else column.to_numpy()
    if not hasattr(column, "__len__") or isinstance(column, str) or len(column) != len(batch):
        given = f"{len(column)} values" if hasattr(column, "__len__") else f"{column!r:.60}"
        raise VoteError(
            f"{lf!r} is vectorized and got {len(batch)} rows, but returned {given}; "
            "it must return one vote for each row, None to abstain."
        )
    if isinstance(column, np.ndarray) and column.ndim == 2:
        return read_proba(column, labels, lf, batch)
    if isinstance(column, pl.Series) and column.dtype in (pl.String, pl.Categorical, pl.Enum):
        return _read_names(column, labels, lf, batch)
    values = column.to_list() if hasattr(column, "to_list") else list(column)
    return read_ballots([scalar(value) for value in values], labels, lf, batch, by_index)


def read_proba(proba: npt.NDArray[Any], labels: LabelSpace, lf: str, batch: Batch) -> ColumnVotes:
    """Return probabilistic votes, one row for each row; all zeros or NaN abstains."""
    if proba.shape[1] != len(labels):
        raise VoteError(
            f"{lf!r} gave {proba.shape[1]} probabilities per row; there are {len(labels)} classes: "
            f"{listed(labels)}."
        )
    numbers = proba.astype(np.float64)
    silent = np.isnan(numbers).all(axis=1) | (numbers == 0).all(axis=1)
    wrong = (np.abs(numbers.sum(axis=1) - 1) > _TOLERANCE) | ~(numbers >= 0).all(axis=1)
    if (wrong & ~silent).any():
        position = int(np.flatnonzero(wrong & ~silent)[0])
        raise _problem(lf, batch, position, numbers[position].tolist(), labels)
    return ColumnVotes.of_proba(np.where(silent[:, None], 0, numbers))


def _codes_of(labels: LabelSpace, by_index: bool = False) -> dict[object, int]:
    classes = range(len(labels)) if by_index else labels
    values = {} if by_index else labels.named_values
    named = {name: k for k, name in enumerate(classes)}
    return {None: ABSTAIN, ABSTAIN: ABSTAIN} | named | values


def _read_mixed(
    ballots: Sequence[Any], labels: LabelSpace, lf: str, batch: Batch, by_index: bool = False
) -> ColumnVotes:
    """Votes some of which are distributions; a class name counts as certain."""
    proba = np.zeros((len(ballots), len(labels)))
    codes_of = _codes_of(labels, by_index)
    for position, ballot in enumerate(ballots):
        plain = isinstance(ballot, (str, int, float)) or ballot is None
        is_index = plain and not (by_index and isinstance(ballot, bool))
        code = codes_of.get(ballot) if is_index else None
        if code is None:
            proba[position] = _distribution(ballot, labels, lf, batch, position, by_index)
        elif code != ABSTAIN:
            proba[position, code] = 1
    return read_proba(proba, labels, lf, batch)


def _distribution(
    ballot: Any, labels: LabelSpace, lf: str, batch: Batch, position: int, by_index: bool
) -> npt.NDArray[np.float64]:
    if isinstance(ballot, Mapping) and set(ballot) <= set(labels):
        ballot = [ballot.get(name, 0) for name in labels]
    if not isinstance(ballot, (str, bytes, Mapping)) and hasattr(ballot, "__len__"):
        try:
            numbers = np.asarray(ballot, dtype=np.float64)
        except (TypeError, ValueError):
            numbers = np.empty(0)
        if numbers.shape == (len(labels),):
            return numbers
    raise _problem(lf, batch, position, ballot, labels, by_index)


def _problem(
    lf: str,
    batch: Batch,
    position: int,
    ballot: object,
    labels: LabelSpace,
    by_index: bool = False,
) -> VoteError:
    given = f"{lf!r} voted {scalar(ballot)!r:.80} on {batch.item(position)}; it must return"
    if by_index:
        return VoteError(
            f"{given} the index of a class, 0 to {len(labels) - 1} ({listed(labels)}), a "
            "distribution over them that sums to 1, or -1 to abstain."
        )
    other = "" if isinstance(ballot, str) else " a distribution over them that sums to 1,"
    is_number = isinstance(scalar(ballot), int) and not isinstance(scalar(ballot), bool)
    cure = " If numbers are class indices, declare it: votes_by_index(lfs)." if is_number else ""
    cure += other_spelling(ballot, labels)
    shares = ballot if isinstance(ballot, Sequence) else ()
    if any(isinstance(share, float) and share != share for share in shares):
        cure = " NaN is no probability: write 0 for it, or None for the whole vote."
    return VoteError(f"{given} one of {listed(labels)},{other} or None to abstain.{cure}")


def _read_names(column: pl.Series, labels: LabelSpace, lf: str, batch: Batch) -> ColumnVotes:
    names = column.cast(pl.String)
    codes = names.replace_strict(
        list(labels), list(range(len(labels))), default=ABSTAIN - 1, return_dtype=pl.Int16
    )
    codes = codes.set(names.is_null(), ABSTAIN)
    bad = (codes < ABSTAIN).arg_true()
    if len(bad):
        raise _problem(lf, batch, int(bad[0]), names[int(bad[0])], labels)
    return ColumnVotes.of_codes(codes.to_numpy())


def scalar(value: Any) -> Any:
    """Return a NumPy scalar as a Python value; NaN, which pandas uses for missing, as None."""
    plain = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(plain, float) and np.isnan(plain) else plain


def join_columns(parts: Sequence[ColumnVotes], sizes: Sequence[int]) -> ColumnVotes:
    """Return the votes of one labeling function on batches of these sizes, one after another."""
    starts = np.cumsum([0, *sizes[:-1]])
    rows = [part.rows + start for part, start in zip(parts, starts, strict=True)]
    return ColumnVotes(
        np.concatenate(rows),
        np.concatenate([part.classes for part in parts]),
        _stacked(parts),
        tuple(failure for part in parts for failure in part.failures),
    )


def assemble(
    columns: Sequence[ColumnVotes], labels: LabelSpace, voters: Sequence[str], ids: npt.NDArray[Any]
) -> VoteMatrix:
    """Return the vote matrix of one batch from the votes of every labeling function on it.

    >>> spam = ColumnVotes.of_class(np.array([0, 2]), 1)
    >>> assemble([spam], LabelSpace("ham", "spam"), ["free"], np.arange(3)).dense().ravel()
    array([ 1, -1,  1], dtype=int16)
    """
    import scipy.sparse as sp  # only here: workers vote without it, and start sooner

    sizes = [len(column.rows) for column in columns]
    # Short integers, if they suffice, halve the memory traffic.
    index: type[np.signedinteger[Any]] = np.int32 if max(sum(sizes), len(ids)) < 2**31 else np.int64
    ends = np.cumsum([0, *sizes], dtype=index)
    rows = np.concatenate([column.rows for column in columns], dtype=index, casting="unsafe")
    entries = np.arange(len(rows), dtype=index)
    # Votes arrive by column and are stored by row. SciPy converts between the two in linear
    # time, and carries the number of every entry along.
    shape = (len(ids), len(columns))
    by_row = sp.csc_array((entries, rows, ends), shape=shape).tocsr()
    order = by_row.data
    rows_of_classes = _stacked(columns, len(labels))
    return VoteMatrix(
        by_row.indptr.astype(np.int64),
        by_row.indices.astype(np.int32),
        np.concatenate([column.classes for column in columns])[order],
        labels,
        tuple(voters),
        ids,
        None if rows_of_classes is None else rows_of_classes[order],
    )


def _stacked(
    columns: Sequence[ColumnVotes], n_classes: int | None = None
) -> npt.NDArray[np.float32] | None:
    """All votes as distributions, hard votes as one-hot; None if every vote is hard."""
    known = [column.distribution for column in columns if column.distribution is not None]
    if not known:
        return None
    certain = np.eye(n_classes or known[0].shape[1], dtype=np.float32)
    return np.concatenate(
        [
            certain[column.classes] if column.distribution is None else column.distribution
            for column in columns
        ]
    )
