"""Converts votes from their input forms (dense, probabilistic, long) to sorted sparse entries."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import VoteError, listed
from wiesel.labels import ABSTAIN, LabelSpace, is_name

__all__ = [
    "Entries",
    "Rows",
    "check_entries",
    "check_voters",
    "dense_entries",
    "id_series",
    "item_ids",
    "long_entries",
    "proba_entries",
    "row_indices",
    "voter_list",
    "voter_names",
]

Rows = int | slice | Sequence[int] | npt.NDArray[Any]
"""A selection of items: an index, a slice, indices or a boolean mask."""


class Entries(NamedTuple):
    """Votes ordered by item, then voter, as `VoteMatrix` stores them."""

    indptr: npt.NDArray[np.int64]
    voter_index: npt.NDArray[np.int32]
    class_index: npt.NDArray[np.int16]
    distribution: npt.NDArray[np.float32] | None


def dense_entries(dense: npt.NDArray[Any], labels: LabelSpace, voters: tuple[str, ...]) -> Entries:
    """Return the votes of an items x voters array of class indices or names."""
    classes = _dense_class_indices(dense, labels)
    bad = (classes < ABSTAIN) | (classes >= len(labels))
    if bad.any():
        item, voter = np.argwhere(bad)[0]
        value = dense[item, voter]
        raise VoteError(
            f"{voters[voter]!r:.80} voted {getattr(value, 'item', lambda: value)()!r:.80} on row "
            f"{item}; allowed are the classes {listed(labels)} (index 0 to {len(labels) - 1}), "
            "or -1 to abstain."
        )
    item, voter = np.nonzero(classes != ABSTAIN)
    return _entries(item, voter, classes[item, voter], len(dense))


def proba_entries(proba: npt.NDArray[np.float32], voters: tuple[str, ...]) -> Entries:
    """Return the votes of an items x voters x classes array; a zero or NaN row abstains."""
    cast = ~(np.isnan(proba).all(axis=2) | (proba == 0).all(axis=2))
    item, voter = np.nonzero(cast)
    rows = _normalized(proba[item, voter], lambda k: f"{voters[voter[k]]!r} on row {item[k]}")
    return _entries(item, voter, rows.argmax(axis=1), len(proba), rows)


def long_entries(
    answers: pl.DataFrame,
    labels: LabelSpace | Sequence[str] | None,
    items: pl.Series,
    voters: Sequence[str] | None,
    duplicates: str,
) -> tuple[Entries, LabelSpace, tuple[str, ...]]:
    """Return the votes of a frame with the columns `item`, `voter` (text) and `label`."""
    answers = _whole_labels(answers).drop_nulls(["item", "voter", "label"])
    probabilistic = answers["label"].dtype.base_type() in (pl.List, pl.Array)
    space = _label_space(answers["label"], labels, probabilistic)
    if probabilistic:
        # As in a dense array of probabilities, zeros mean abstain.
        answers = answers.filter(
            ~answers["label"].cast(pl.List(pl.Float64)).list.eval(pl.element() == 0).list.all()
        )
    names = sorted(answers["voter"].unique()) if voters is None else voter_list(voters)
    coded = answers.with_columns(
        item_code=_codes(answers["item"], items, "item"),
        voter_code=_codes(answers["voter"], pl.Series(names, dtype=pl.String), "voter"),
    ).sort("item_code", "voter_code", maintain_order=True)
    coded = _without_duplicates(coded, duplicates)
    rows = _distributions(coded, space) if probabilistic else None
    classes = _class_codes(coded, space) if rows is None else rows.argmax(axis=1)
    item, voter = coded["item_code"].to_numpy(), coded["voter_code"].to_numpy()
    if duplicates == "all":
        item, voter, classes, rows = _added_up(item, voter, classes, rows, len(space))
    return _entries(item, voter, classes, len(items), rows), space, tuple(names)


def check_entries(
    entries: Entries, labels: LabelSpace, voters: tuple[str, ...], ids: npt.NDArray[Any]
) -> None:
    """Refuse arrays that break the invariants of a vote matrix."""
    indptr, voter_index, class_index, distribution = entries
    _check_voters(voters)
    if len(ids) != len(indptr) - 1 or indptr[0] != 0 or (np.diff(indptr) < 0).any():
        raise VoteError("The row pointers do not fit the items: indptr must start at 0 and grow.")
    if not len(class_index) == len(voter_index) == indptr[-1]:
        raise VoteError("indptr, voter_index and class_index disagree on the number of votes.")
    bounds = ((voter_index, len(voters), "voter"), (class_index, len(labels), "class"))
    for index, bound, what in bounds:
        if len(index) and (index.min() < 0 or index.max() >= bound):
            raise VoteError(f"A {what} index is outside 0 to {bound - 1}.")
    _check_order(voter_index, indptr)
    expected = (len(voter_index), len(labels))
    if distribution is not None and distribution.shape != expected:
        raise VoteError(
            f"The distributions have the shape {distribution.shape}; expected {expected}: "
            "votes x classes."
        )


def voter_names(voters: Sequence[str] | None, n_voters: int) -> tuple[str, ...]:
    """Return the given names, or voter_0, voter_1, ..."""
    if voters is None:
        return tuple(f"voter_{j}" for j in range(n_voters))
    names = tuple(voter_list(voters))
    if len(names) != n_voters:
        raise VoteError(f"There are {n_voters} columns of votes but {len(names)} voter names.")
    return names


def voter_list(voters: Sequence[Any]) -> list[Any]:
    """Return voters as a list; refuse a single string, which is a sequence of letters."""
    if isinstance(voters, str):
        raise VoteError(f"Voters are given as a list of names; got the string {voters!r}.")
    return list(voters)


def item_ids(ids: Any, n_items: int) -> npt.NDArray[Any]:
    """Return ids as a new array (strings as Python objects, so that they print well)."""
    if ids is None:
        return np.arange(n_items)
    array = _id_values(ids)
    if array.dtype.kind == "U":
        array = array.astype(object)
    if array.shape != (n_items,):
        raise VoteError(f"There are {n_items} items but ids of the shape {array.shape}.")
    if array.dtype.kind in "iu" and (array[1:] > array[:-1]).all():
        return array  # increasing integers, such as the millions of row numbers of a table
    values = array.tolist()
    missing = [row for row, value in enumerate(values) if _is_missing(value)]
    if missing:
        raise VoteError(f"Every item needs an id; that of row {missing[0]} is missing.")
    if len(set(values)) < n_items:
        repeated = [value for value, count in Counter(values).items() if count > 1]
        raise VoteError(f"Item ids must be unique; repeated: {listed(repeated, limit=3)}.")
    return array


def _id_values(ids: Any) -> npt.NDArray[Any]:
    """Ids as a new array."""
    if not isinstance(ids, pl.Series):
        return np.array(ids)
    whole = ids.dtype.is_integer() and not ids.null_count()
    return np.array(ids.to_numpy() if whole else ids.to_list())


def id_series(ids: npt.NDArray[Any]) -> pl.Series:
    """Return ids as a column; text ids are a text column even if there are no items."""
    if ids.dtype.kind != "O":
        return pl.Series("item", ids)
    values = ids.tolist()
    is_text = all(isinstance(value, str) for value in values)
    return pl.Series("item", values, dtype=pl.String if is_text else pl.Object)


def row_indices(rows: Rows, n_items: int) -> npt.NDArray[np.int64]:
    """Return the positions that an index, a slice, indices or a mask select."""
    if isinstance(rows, (int, np.integer)) and not isinstance(rows, bool):
        if not -n_items <= rows < n_items:
            raise IndexError(f"There is no item {rows}; there are {n_items}.")
        rows = [int(rows)]
    if isinstance(rows, slice):
        return np.arange(n_items)[rows]
    array = np.asarray(rows)
    if array.dtype == bool:
        if array.shape != (n_items,):
            raise IndexError(f"A mask of {array.shape} does not fit {n_items} items.")
        return np.flatnonzero(array)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise IndexError(f"Items are selected by position or mask; got {rows!r:.80}.")
    chosen = array.astype(np.int64)
    if chosen.size and (chosen.min() < -n_items or chosen.max() >= n_items):
        raise IndexError(f"An index is out of range; there are {n_items} items.")
    return np.where(chosen < 0, chosen + n_items, chosen)


def _check_voters(voters: tuple[str, ...]) -> None:
    for name in voters:
        if not is_name(name):
            raise VoteError(f"Voter names must be non-empty strings; got {name!r:.80}.")
    if len(set(voters)) < len(voters):
        repeated = sorted(name for name, count in Counter(voters).items() if count > 1)
        raise VoteError(f"Voter names must be unique; {listed(repeated)} appear more than once.")


def _check_order(voter_index: npt.NDArray[np.int32], indptr: npt.NDArray[np.int64]) -> None:
    """Refuse an item whose voters are not in order or repeat."""
    grows = np.diff(voter_index) > 0
    ends = indptr[1:-1]
    grows[ends[(ends > 0) & (ends < len(voter_index))] - 1] = True
    if not grows.all():
        raise VoteError("The voters of an item are not in order, or one appears twice.")


def _entries(
    item: npt.NDArray[Any],
    voter: npt.NDArray[Any],
    classes: npt.NDArray[Any],
    n_items: int,
    distribution: npt.NDArray[np.float32] | None = None,
) -> Entries:
    indptr = np.searchsorted(item, np.arange(n_items + 1)).astype(np.int64)
    return Entries(indptr, voter.astype(np.int32), classes.astype(np.int16), distribution)


def _dense_class_indices(dense: npt.NDArray[Any], labels: LabelSpace) -> npt.NDArray[Any]:
    """Class indices; values that are neither a class nor an abstention become -2."""
    unknown = ABSTAIN - 1
    if dense.dtype == np.int16:
        return dense  # as in files of votes: no wider copy of millions of items
    if dense.dtype.kind in "iu":
        return dense.astype(np.int64)
    known: dict[object, int] = {name: index for index, name in enumerate(labels)}
    known.update({index: index for index in range(ABSTAIN, len(labels))})
    cells = dense.ravel().tolist()
    try:
        flat = [ABSTAIN if _is_missing(v) else known.get(v, unknown) for v in cells]
    except (TypeError, ValueError):
        strange = next(v for v in cells if isinstance(v, (list, dict, set, np.ndarray)))
        raise VoteError(
            f"A vote is the name or the index of a class, or missing; got {strange!r:.80}."
        ) from None
    return np.array(flat, dtype=np.int64).reshape(dense.shape)


def _is_missing(value: object) -> bool:
    return value is None or value != value  # NaN is the only value unequal to itself


def _normalized(
    rows: npt.NDArray[np.float32], where: Callable[[int], str]
) -> npt.NDArray[np.float32]:
    """Normalize distributions to sum to 1, or raise an error that names the first invalid one."""
    total = rows.sum(axis=1, keepdims=True)
    bad = ~np.isfinite(rows).all(axis=1) | (rows < 0).any(axis=1) | (np.abs(total[:, 0] - 1) > 1e-3)
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        raise VoteError(
            f"The probabilistic vote of {where(first)} is {rows[first].tolist()}; it must be "
            "non-negative numbers that sum to 1, or all zeros to abstain."
        )
    normal: npt.NDArray[np.float32] = rows / total
    return normal


def _whole_labels(answers: pl.DataFrame) -> pl.DataFrame:
    """Convert labels that pandas stores as floats because one is missing back to integers."""
    column = answers["label"]
    if not column.dtype.is_float():
        return answers
    column = column.fill_nan(None)
    whole = column.cast(pl.Int64, strict=False)
    broken = answers.filter(
        (whole.cast(column.dtype) != column) | (whole.is_null() & column.is_not_null())
    )
    if len(broken):
        row = broken.row(0, named=True)
        raise VoteError(
            f"{row['voter']!r:.80} voted {row['label']!r:.80} on item {row['item']!r:.80}; a class "
            "is given by its name or its index."
        )
    return answers.with_columns(label=whole)


def _label_space(
    column: pl.Series, labels: LabelSpace | Sequence[str] | None, probabilistic: bool
) -> LabelSpace:
    if labels is not None:
        return LabelSpace.of(labels)
    if probabilistic:
        raise VoteError("Answers that are distributions need labels=[...], the class names.")
    return LabelSpace(*column.unique().sort().cast(pl.String).to_list())


def _codes(values: pl.Series, allowed: pl.Series, what: str) -> pl.Series:
    """The position of every value in `allowed`."""
    known = allowed if allowed.dtype == values.dtype else allowed.cast(values.dtype)
    if known.n_unique() < len(known):
        repeated = known.filter(known.is_duplicated()).unique(maintain_order=True)
        raise VoteError(f"The {what}s given must be unique; repeated: {listed(repeated, limit=3)}.")
    table = pl.DataFrame({"value": known}).with_row_index("code")
    codes = pl.DataFrame({"value": values}).join(
        table, on="value", how="left", maintain_order="left"
    )["code"]
    if codes.null_count():
        first = values.filter(codes.is_null())[0]
        raise VoteError(f"The {what} {first!r} is not among the {what}s given.")
    return codes


def _class_codes(coded: pl.DataFrame, labels: LabelSpace) -> npt.NDArray[Any]:
    """Class indices of labels; integers are names if all are class names, else indices."""
    column = coded["label"]
    as_text = column.cast(pl.String)
    if column.dtype.is_integer() and not set(as_text.unique()) <= set(labels):
        codes = column.cast(pl.Int64)
        bad = (codes < 0) | (codes >= len(labels))
    else:
        codes = as_text.replace_strict(list(labels), list(range(len(labels))), default=ABSTAIN)
        bad = codes == ABSTAIN
    if bad.any():
        row = coded.row(int(bad.arg_true()[0]), named=True)
        raise VoteError(
            f"{row['voter']!r:.80} voted {row['label']!r:.80} on item {row['item']!r:.80}; "
            f"it must be one of {listed(labels)}, or missing to abstain."
        )
    return codes.to_numpy()


def _distributions(coded: pl.DataFrame, labels: LabelSpace) -> npt.NDArray[np.float32]:
    rows = coded["label"].to_list()
    for k, row in enumerate(rows):
        if len(row) != len(labels):
            raise VoteError(
                f"{coded['voter'][k]!r} gave {len(row)} probabilities on item "
                f"{coded['item'][k]!r}; there are {len(labels)} classes: {listed(labels)}."
            )
    array = np.array(rows, dtype=np.float32).reshape(len(rows), len(labels))
    return _normalized(array, lambda k: f"{coded['voter'][k]!r} on item {coded['item'][k]!r}")


def _added_up(
    item: npt.NDArray[Any],
    voter: npt.NDArray[Any],
    classes: npt.NDArray[Any],
    rows: npt.NDArray[np.float32] | None,
    n_classes: int,
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[np.float32] | None]:
    """The sorted answers with those of one voter to one item added up as one vote."""
    is_new = np.ones(len(item), dtype=bool)
    is_new[1:] = (item[1:] != item[:-1]) | (voter[1:] != voter[:-1])
    if is_new.all():
        return item, voter, classes, rows
    answers = np.eye(n_classes, dtype=np.float32)[classes] if rows is None else rows
    sums: npt.NDArray[np.float32] = np.add.reduceat(answers, np.flatnonzero(is_new), axis=0)
    return item[is_new], voter[is_new], sums.argmax(axis=1), sums


def _without_duplicates(coded: pl.DataFrame, duplicates: str) -> pl.DataFrame:
    """Keep one answer for each item and voter, unless `all`; `coded` is sorted by both."""
    if duplicates not in ("refuse", "first", "last", "all"):
        raise VoteError(
            f"duplicates must be 'refuse', 'first', 'last' or 'all'; got {duplicates!r}."
        )
    if duplicates == "all":
        return coded
    step = -1 if duplicates == "last" else 1
    repeats = (pl.col("item_code") == pl.col("item_code").shift(step)) & (
        pl.col("voter_code") == pl.col("voter_code").shift(step)
    )
    repeated = coded.filter(repeats)
    if duplicates == "refuse" and len(repeated):
        row = repeated.row(0, named=True)
        raise VoteError(
            f"{row['voter']!r} answered item {row['item']!r} more than once ({len(repeated)} such "
            "answers in all). Say which to keep: duplicates='first', 'last' or 'all'."
        )
    return coded.filter(~repeats.fill_null(False)) if len(repeated) else coded


Voting = tuple[tuple[str, ...], LabelSpace]
"""The voters, and the classes."""


def check_voters(found: Voting, expected: Voting) -> None:
    """Refuse votes of voters or classes other than those a model was fitted on."""
    if found[1] != expected[1]:
        raise VoteError(f"These votes have {found[1]!r}; expected {expected[1]!r}.")
    if found[0] != expected[0]:
        known, wanted = set(found[0]), set(expected[0])
        missing = [name for name in expected[0] if name not in known]
        extra = [name for name in found[0] if name not in wanted]
        problem = [f"missing: {listed(missing)}"] if missing else []
        problem += [f"unknown: {listed(extra)}"] if extra else []
        raise VoteError(
            "These votes are not of the voters the model was fitted on "
            f"({'; '.join(problem) or 'the order differs'}). "
            "Use votes.select(voters=model.voters_) to bring them into order."
        )
