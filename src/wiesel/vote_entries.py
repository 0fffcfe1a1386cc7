"""The sorted sparse entries of a vote matrix: from arrays of votes, and the checks of them."""

import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import Advice, Argument, VoteError, as_list, listed, other_spelling
from wiesel.labels import ABSTAIN, LabelSpace, is_missing, is_name
from wiesel.tables import as_frame, require_columns
from wiesel.threads import check_polars_threads

__all__ = [
    "Entries",
    "Rows",
    "answer_table",
    "blank_to_null",
    "check_array_request",
    "check_entries",
    "check_voters",
    "dense_array",
    "dense_entries",
    "id_series",
    "item_ids",
    "long_entries",
    "make_entries",
    "normalized",
    "proba_entries",
    "row_indices",
    "voter_list",
    "voter_names",
    "without_blanks",
]

_BLOCK_CELLS = 2**18
"""The number of cells of dense votes that are read at a time."""

Rows = int | slice | Sequence[int] | npt.NDArray[Any]
"""A selection of items: an index, a slice, indices or a boolean mask."""


class Entries(NamedTuple):
    """Votes ordered by item, then voter, as `VoteMatrix` stores them."""

    indptr: npt.NDArray[np.int64]
    voter_index: npt.NDArray[np.int32]
    class_index: npt.NDArray[np.int16]
    distribution: npt.NDArray[np.float32] | None


def dense_array(array: Any) -> npt.NDArray[Any]:
    """Return an items x voters array, from an array, nested lists or a table."""
    try:
        dense = np.asanyarray(array)
        if dense.dtype.kind == "U" and not isinstance(array, np.ndarray):
            dense = np.array(array, dtype=object)  # NumPy turned a NaN among names into 'nan'
    except ValueError as error:
        raise VoteError(f"Dense votes are items x voters: rows of one length ({error}).") from error
    if dense.ndim != 2:
        raise VoteError(f"Dense votes are items x voters; got the shape {dense.shape}.")
    return dense


def dense_entries(dense: npt.NDArray[Any], labels: LabelSpace, voters: tuple[str, ...]) -> Entries:
    """Return the votes of an items x voters array of class indices or names.

    A block of items is read at a time, so that memory grows with the votes, not with the cells. An
    array of indices is read twice: to count its votes, which then need no second copy.
    """
    n_items, n_voters = dense.shape
    step = max(1, _BLOCK_CELLS // max(1, n_voters))
    indptr = np.zeros(n_items + 1, dtype=np.int64)
    blocks = _voted_blocks(dense, labels, voters, step, indptr)
    if np.may_share_memory(labels.codes(dense[:1]), dense):
        n_votes = sum(
            int(np.count_nonzero(dense[start : start + step] != ABSTAIN))
            for start in range(0, n_items, step)
        )
        every_voter, voted = np.empty(n_votes, np.int32), np.empty(n_votes, np.int16)
        end = 0
        for own_voter, own_voted in blocks:
            place = slice(end, end := end + len(own_voter))
            every_voter[place], voted[place] = own_voter, own_voted
    else:
        parts = [(np.empty(0, np.int32), np.empty(0, np.int16)), *blocks]
        every_voter, voted = (np.concatenate(own) for own in zip(*parts, strict=True))
    return Entries(np.cumsum(indptr, out=indptr), every_voter, voted, None)


def _voted_blocks(
    dense: npt.NDArray[Any],
    labels: LabelSpace,
    voters: tuple[str, ...],
    step: int,
    n_votes: npt.NDArray[np.int64],
) -> Iterator[tuple[npt.NDArray[np.int32], npt.NDArray[np.int16]]]:
    """Yield voters and classes of the votes on each block; note each item's number after it."""
    n_items, n_voters = dense.shape
    for start in range(0, n_items, step):
        block = _block_indices(dense[start : start + step], labels, voters, start)
        cast = block != ABSTAIN
        cells = np.flatnonzero(cast)
        n_votes[start + 1 : start + 1 + step] = np.count_nonzero(cast, axis=1)
        voter = (cells % max(1, n_voters)).astype(np.int32)
        yield voter, block.ravel()[cells].astype(np.int16)


def _block_indices(
    block: npt.NDArray[Any], labels: LabelSpace, voters: tuple[str, ...], start: int
) -> npt.NDArray[Any]:
    """The class indices of a block of items that starts at an item, -1 if a voter abstains."""
    cells = block.flat if block.dtype.kind == "O" else ()
    for cell in cells:
        if isinstance(cell, (list, dict, set, np.ndarray)):
            raise VoteError(
                f"A vote is the name or the index of a class, or missing; got {cell!r:.80}."
            )
    classes = labels.codes(block)
    bad = (classes < ABSTAIN) | (classes >= len(labels))
    if bad.any():
        hint = f"index 0 to {len(labels) - 1}"
        if labels.named_values:
            hint = "numbers are names here; give indices as labels.from_indices(array)"
        item, voter = np.argwhere(bad)[0]
        value = getattr(block[item, voter], "item", lambda: block[item, voter])()
        raise VoteError(
            f"{voters[voter]!r:.80} voted {value!r:.80} on row {start + item}; allowed are the "
            f"classes {listed(labels)} ({hint}), or -1 to abstain."
            f"{other_spelling(value, labels)}"
        )
    return classes


def proba_entries(proba: npt.NDArray[np.float32], voters: tuple[str, ...]) -> Entries:
    """Return the votes of an items x voters x classes array; a zero or NaN row abstains."""
    cast = ~(np.isnan(proba).all(axis=2) | (proba == 0).all(axis=2))
    item, voter = np.nonzero(cast)
    rows = normalized(proba[item, voter], lambda k: f"{voters[voter[k]]!r} on row {item[k]}")
    return make_entries(item, voter, rows.argmax(axis=1), len(proba), rows)


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
    return as_list(voters, "Voters", "['ann', 'bob']", VoteError)


def item_ids(ids: Any, n_items: int) -> npt.NDArray[Any]:
    """Return ids as a new array (strings as Python objects, so that they print well)."""
    if ids is None:
        return np.arange(n_items)
    array = _id_values(ids)
    if array.dtype.kind == "U":
        array = array.astype(object)
    if array.shape != (n_items,):
        raise VoteError(f"There are {n_items} items but ids of the shape {array.shape}.")
    if array.dtype.kind in "iu" and ((array[1:] > array[:-1]).all() or _differ(array)):
        return array
    values = array.tolist()
    # Millions of texts are checked together, which is many times as fast as one after another.
    if set(map(type, values)) != {str} or not is_name("-".join(values) or "-"):
        _check_id_values(values)
    if len(set(values)) < n_items:
        repeated = [value for value, count in Counter(values).items() if count > 1]
        raise VoteError(f"Item ids must be unique; repeated: {listed(repeated, limit=3)}.")
    return array


def _differ(numbers: npt.NDArray[Any]) -> bool:
    ordered = np.sort(numbers)
    return bool((ordered[1:] != ordered[:-1]).all())


def _check_id_values(values: list[Any]) -> None:
    missing = [row for row, value in enumerate(values) if is_missing(value)]
    if missing:
        raise VoteError(f"Every item needs an id; that of row {missing[0]} is missing.")
    other = [row for row, value in enumerate(values) if not _can_be_id(value)]
    if other:
        raise VoteError(
            f"Item ids are numbers or text that can be stored; that of row {other[0]} is "
            f"{values[other[0]]!r:.80}."
        )


def _can_be_id(value: Any) -> bool:
    """Whether it is hashable, and no text with half of a character."""
    return value == "" or is_name(value) if isinstance(value, str) else isinstance(value, Hashable)


def _id_values(ids: Any) -> npt.NDArray[Any]:
    """Ids as a new array."""
    if not isinstance(ids, pl.Series):
        array = np.array(ids)
        given = ids if isinstance(ids, (list, tuple)) else ()
        if array.ndim != 1 or not given or array.dtype.kind == "O" or array.tolist() == [*given]:
            return array
        return np.array(given, dtype=object)  # 1 beside "2" became "1"
    # NumPy has no integers of 128 bits.
    narrow = ids.dtype.is_integer() and ids.dtype not in (pl.Int128, pl.UInt128)
    whole = narrow and not ids.null_count()
    return np.array(ids.to_numpy() if whole else ids.to_list())


def id_series(ids: npt.NDArray[Any]) -> pl.Series:
    """Return ids as a column; text ids are a text column even if there are no items."""
    if ids.dtype.kind != "O":
        return pl.Series("item", ids)
    values = ids.tolist()
    is_text = all(isinstance(value, str) for value in values)
    return pl.Series("item", values, dtype=pl.String if is_text else pl.Object)


def check_array_request(copy: bool | None) -> None:
    """Refuse votes as an array without a copy, or for a stratified splitter of scikit-learn.

    The splitter's own error speaks of targets. Only the stack tells who asks for the array.
    """
    if copy is False:
        raise ValueError("Votes are sparse: a dense array of them is always a copy.")
    if "sklearn.model_selection" not in sys.modules:
        return
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        splitter = frame.f_locals.get("self") if frame.f_code.co_name == "split" else None
        name = type(splitter).__name__
        if splitter is not None and name.startswith(("Stratified", "RepeatedStratified")):
            raise VoteError(
                f"{name} needs one class for each item, but got votes. Split by the majority: "
                f"cv=list({name}(...).split(X, MajorityVote().fit(votes).predict(votes)))."
            )
        frame = frame.f_back


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
    for start in range(0, len(voter_index), _BLOCK_CELLS):
        block = voter_index[start : start + _BLOCK_CELLS + 1]
        grows = block[1:] > block[:-1]
        # The first vote of an item may be by an earlier voter than the last one of another.
        ends = indptr[slice(*np.searchsorted(indptr, [start + 1, start + len(block)]))]
        grows[ends - start - 1] = True
        if not grows.all():
            raise VoteError("The voters of an item are not in order, or one appears twice.")


def make_entries(
    item: npt.NDArray[Any],
    voter: npt.NDArray[Any],
    classes: npt.NDArray[Any],
    n_items: int,
    distribution: npt.NDArray[np.float32] | None = None,
) -> Entries:
    """Return the entries of votes that are ordered by item, then voter."""
    indptr = np.searchsorted(item, np.arange(n_items + 1)).astype(np.int64)
    return Entries(indptr, voter.astype(np.int32), classes.astype(np.int16), distribution)


def normalized(
    rows: npt.NDArray[np.float32], where: Callable[[int], str]
) -> npt.NDArray[np.float32]:
    """Return distributions that sum to 1, or raise an error that names the first invalid one."""
    total = rows.sum(axis=1, keepdims=True)
    bad = ~np.isfinite(rows).all(axis=1) | (rows < 0).any(axis=1) | (np.abs(total[:, 0] - 1) > 1e-3)
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        raise VoteError(
            f"The probabilistic vote of {where(first)} is {rows[first].tolist()}; it must be "
            "non-negative numbers that sum to 1, or all zeros or NaN to abstain."
        )
    normal: npt.NDArray[np.float32] = rows / total
    return normal


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


def answer_table(table: Any, item: str, voter: str, label: str) -> pl.DataFrame:
    """Return the columns `item`, `voter` (text) and `label` of a table; blank cells are null."""
    check_polars_threads("VoteMatrix.from_long")
    frame = as_frame(table)
    require_columns(frame, (item, voter, label), "named in from_long")
    answers = frame.select(item=item, voter=pl.col(voter).cast(pl.String), label=label)
    return blank_to_null(answers, answers.columns)


def blank_to_null(table: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """Return the table with null for NaN, and for texts of white space only, in these columns.

    >>> blank_to_null(pl.DataFrame({"label": ["cat", " ", ""]}), ["label"])["label"].to_list()
    ['cat', None, None]
    """
    check_polars_threads("A long table of votes")
    kinds = (pl.String, pl.Categorical, pl.Enum)
    texts = [pl.col(name).cast(pl.String) for name in columns if table.schema[name] in kinds]
    numbers = [pl.col(name) for name in columns if table.schema[name].is_float()]
    return table.with_columns(
        *(pl.when(text.str.strip_chars() != "").then(text) for text in texts),
        *(number.fill_nan(None) for number in numbers),
    )


def without_blanks(column: pl.Series) -> pl.Series:
    """Return a column with null for texts of white space only, and for NaN.

    >>> without_blanks(pl.Series(["cat", " ", ""])).to_list()
    ['cat', None, None]
    """
    return blank_to_null(pl.DataFrame({"values": column}), ["values"])["values"].alias(column.name)


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
        # As in a dense array of probabilities, zeros and NaN mean abstain.
        shares = answers["label"].cast(pl.List(pl.Float64))
        zeros = shares.list.eval(pl.element() == 0).list.all()
        unknown = shares.list.eval(pl.element().is_null() | pl.element().is_nan()).list.all()
        answers = answers.filter(~(zeros | unknown))
    names = sorted(answers["voter"].unique()) if voters is None else voter_list(voters)
    item = _codes(answers["item"], items, "item").to_numpy()
    voter = _codes(answers["voter"], pl.Series(names, dtype=pl.String), "voter").to_numpy()
    # Only the numbers are sorted: sorting the texts with them takes most of the time and memory.
    order = np.argsort(item * np.int64(max(1, len(names))) + voter, kind="stable")
    item, voter = item[order], voter[order]
    kept = _without_duplicates(answers, order, item, voter, duplicates)
    order, item, voter = order[kept], item[kept], voter[kept]
    rows = _distributions(answers[order], space) if probabilistic else None
    classes = _class_codes(answers, space)[order] if rows is None else rows.argmax(axis=1)
    if duplicates == "all":
        item, voter, classes, rows = _added_up(item, voter, classes, rows, len(space))
    return make_entries(item, voter, classes, len(items), rows), space, tuple(names)


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
        classes = Argument("labels", [...])
        raise VoteError("Answers that are distributions need ", classes, ", the class names.")
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


def _class_codes(answers: pl.DataFrame, labels: LabelSpace) -> npt.NDArray[Any]:
    """Class indices of labels, which are names or, as in `LabelSpace.indices`, numbers."""
    column = answers["label"]
    if not (column.dtype.is_integer() or column.dtype == pl.Boolean):
        column = column.cast(pl.String)
    distinct = column.unique()
    found = labels.codes(distinct.to_numpy())
    codes = column.replace_strict(distinct, found.tolist(), return_dtype=pl.Int64)
    bad = (codes < 0) | (codes >= len(labels))
    if bad.any():
        row = answers.row(int(bad.arg_true()[0]), named=True)
        raise VoteError(
            f"{row['voter']!r:.80} voted {row['label']!r:.80} on item {row['item']!r:.80}; "
            f"it must be one of {listed(labels)}, or missing to abstain."
            f"{other_spelling(row['label'], labels)}"
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
    return normalized(array, lambda k: f"{coded['voter'][k]!r} on item {coded['item'][k]!r}")


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


def _without_duplicates(
    answers: pl.DataFrame,
    order: npt.NDArray[np.int64],
    item: npt.NDArray[Any],
    voter: npt.NDArray[Any],
    duplicates: str,
) -> slice | npt.NDArray[np.bool_]:
    """Which answers count, one for each item and voter, unless `all`; sorted by both."""
    if duplicates not in ("refuse", "first", "last", "all"):
        raise VoteError(
            f"duplicates must be 'refuse', 'first', 'last' or 'all'; got {duplicates!r}."
        )
    same = (item[1:] == item[:-1]) & (voter[1:] == voter[:-1])
    if duplicates == "all" or not same.any():
        return slice(None)
    if duplicates == "refuse":
        row = answers.row(int(order[1:][same][0]), named=True)
        raise VoteError(
            f"{row['voter']!r} answered item {row['item']!r} more than once "
            f"({np.count_nonzero(same)} such answers in all). Keep one of them",
            Advice(", or say which to keep: ", Argument("duplicates", ("first", "last", "all"))),
            ".",
        )
    ends = [same, [False]] if duplicates == "last" else [[False], same]
    return ~np.concatenate(ends)
