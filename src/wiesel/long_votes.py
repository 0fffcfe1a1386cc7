"""Converts answers in a long table, one row for each, to the sorted entries of a vote matrix."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import Advice, Argument, VoteError, listed, other_spelling
from wiesel.forks import check_polars_threads
from wiesel.labels import LabelSpace
from wiesel.tables import as_frame, require_columns
from wiesel.vote_entries import Entries, make_entries, normalized, voter_list

__all__ = ["answer_table", "blank_to_null", "long_entries", "without_blanks"]


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
