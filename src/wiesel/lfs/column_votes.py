"""The votes of one labeling function on a batch of rows, and their assembly into a vote matrix."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wiesel.labels import LabelSpace
from wiesel.lfs.failures import Failure
from wiesel.votes import VoteMatrix

__all__ = ["ColumnVotes", "assemble", "join_columns"]


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
