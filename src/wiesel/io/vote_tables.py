"""Reads votes from other tables: a row per item, a column per voter."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import Advice, Argument, DataError, VoteError, listed
from wiesel.labels import ABSTAIN, LabelSpace
from wiesel.tables import require_columns
from wiesel.votes import VoteMatrix

__all__ = ["id_array", "matching_names", "votes_of_table"]


def id_array(column: pl.Series) -> npt.NDArray[Any]:
    """Return a column of ids in the form that `VoteMatrix` uses; none may be missing."""
    if column.null_count():
        raise VoteError(f"Item ids must not be missing; {column.null_count()} are.")
    ids = column.to_numpy()
    return ids.astype(object) if column.dtype == pl.String else ids


def votes_of_table(
    frame: pl.DataFrame,
    labels: LabelSpace | Sequence[str] | None,
    id_column: str | None,
    voters: str | Sequence[str] | None,
) -> VoteMatrix:
    """Return the votes in the cells: class names or indices, missing or -1 for an abstention.

    >>> table = pl.DataFrame({"mail": ["m1", "m2"], "link": ["spam", None], "free": [None, "ham"]})
    >>> votes_of_table(table, ["ham", "spam"], "mail", None).dense().tolist()
    [[1, -1], [-1, 0]]
    """
    if id_column is not None:
        require_columns(frame, (id_column,), "the ids")
    others = [name for name in frame.columns if name != id_column]
    chosen = others if voters is None else matching_names(voters, others)
    require_columns(frame, chosen, "a voter")
    if labels is None:
        seen = sorted({str(value) for name in chosen for value in frame[name].unique()})
        raise DataError(
            "This table does not say what the classes are: give their names in order, ",
            Argument("labels", [...]),
            Advice(", and ", Argument("voters", [...])),
            f". The cells hold {listed(seen)}.",
        )
    labels = LabelSpace.of(labels)
    ids = None if id_column is None else id_array(frame[id_column])
    # Do not use `select`, which reads a voter named "*" as all columns.
    voted = pl.DataFrame([frame.get_column(name) for name in chosen])
    dense = _cells(voted, labels) if chosen else np.empty((len(frame), 0), np.int16)
    return VoteMatrix.from_dense(dense, labels, chosen, ids)


def matching_names(voters: str | Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the given voters, or the names that match a pattern such as `lf_*`."""
    if not isinstance(voters, str):
        return list(voters)
    found = [name for name in names if fnmatchcase(name, voters)]
    if not found:
        raise DataError(f"No column matches the pattern {voters!r}. There are {listed(names)}.")
    return found


def _cells(frame: pl.DataFrame, labels: LabelSpace) -> npt.NDArray[Any]:
    """Indices if all cells are class names, otherwise the unchanged cells."""
    kinds = set(frame.schema.dtypes())
    whole = all(kind.is_integer() or kind == pl.Null for kind in kinds)
    if whole and ABSTAIN not in labels.named_values:
        return frame.cast(pl.Int64).fill_null(ABSTAIN).to_numpy()
    if kinds == {pl.Enum(labels.names)}:  # written by `write_votes`: the codes are the indices
        return _codes(frame, labels)
    named = frame.with_columns(pl.col(pl.Enum, pl.Categorical).cast(pl.String))
    if set(named.schema.dtypes()) <= {pl.String(), pl.Null()}:
        coded = named.cast(pl.Enum(labels.names), strict=False)
        if coded.null_count().row(0) == named.null_count().row(0):
            return _codes(coded, labels)
    return named.to_numpy()  # `from_dense` reads numbers, and reports the wrong voter and row


def _codes(frame: pl.DataFrame, labels: LabelSpace) -> npt.NDArray[Any]:
    codes = frame.select(pl.all().to_physical().cast(pl.Int16)).fill_null(ABSTAIN)
    return labels.from_indices(codes.to_numpy())
