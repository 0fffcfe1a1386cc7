"""Converts the return values of labeling functions into checked votes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import VoteError, listed, other_spelling
from wiesel.labels import ABSTAIN, LabelSpace
from wiesel.lfs.batch import Batch
from wiesel.lfs.failures import Failure
from wiesel.votes import VoteMatrix

__all__ = [
    "ColumnVotes",
    "assemble",
    "join_columns",
    "read_ballots",
    "read_column",
    "read_proba",
    "scalar",
]

_TRUTH = frozenset({bool, np.bool_})
_TOLERANCE = 1e-3
"""The tolerance for the sum of the probabilities of a vote."""


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
