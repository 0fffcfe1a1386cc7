"""Reads long tables: crowd answers with one row each, and gold labels by item id."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import Argument, DataError, ParameterError, VoteError, listed
from wiesel.io.answer_columns import (
    AnswerColumns,
    as_times,
    find_answer_columns,
    find_gold_columns,
    find_time_columns,
)
from wiesel.io.files import FilePath, explained
from wiesel.io.rows import read_rows
from wiesel.labels import ABSTAIN, LabelSpace
from wiesel.long_votes import blank_to_null
from wiesel.tables import as_frame, require_columns
from wiesel.votes import VoteMatrix

__all__ = [
    "CrowdAnswers",
    "Repeated",
    "aligned_gold",
    "alike_names",
    "answer_times",
    "crowd_answers",
    "crowd_votes",
    "known_classes",
    "ordered_classes",
    "read_answers",
    "read_gold",
]


Repeated = Literal["refuse", "first", "last", "all"]
"""Which answers of a worker to an item count."""


_NOT_SAID = ("nan", "NaN", "NAN", "<NA>")
"""What pandas writes for a missing answer when it becomes text."""


class CrowdAnswers(NamedTuple):
    """The rows of a table that are answers, and how they were read."""

    rows: pl.DataFrame
    columns: AnswerColumns
    n_rejected: int
    """Rows left out because the requester rejected the assignment on MTurk."""
    n_trimmed: int
    """Rows in which blanks around the item, the worker or the answer were removed."""


def crowd_answers(
    table: pl.DataFrame,
    item: str | None = None,
    voter: str | None = None,
    label: str | None = None,
) -> CrowdAnswers:
    """Return the answers in a table with one row each; columns not given are recognized.

    >>> rows = {"task": [1, 1], "worker": ["ann", " ann"], "label": ["cat", ""]}
    >>> crowd_answers(pl.DataFrame(rows)).rows.rows()
    [(1, 'ann', 'cat'), (1, 'ann', None)]
    """
    accepted = _without_rejected(table)
    columns = find_answer_columns(accepted, item, voter, label)
    rows = blank_to_null(accepted, columns)
    if rows.schema[columns.label] == pl.String:
        said = pl.col(columns.label)
        rows = rows.with_columns(pl.when(~said.str.strip_chars().is_in(_NOT_SAID)).then(said))
    texts = [name for name in dict.fromkeys(columns) if rows.schema[name] == pl.String]
    trimmed = rows.with_columns(pl.col(name).str.strip_chars() for name in texts)
    changed = [rows[name].ne_missing(trimmed[name]) for name in texts]
    n_trimmed = int(pl.DataFrame(changed).select(pl.any_horizontal(pl.all())).sum().item() or 0)
    return CrowdAnswers(trimmed, columns, len(table) - len(accepted), n_trimmed)


def answer_times(
    frame: pl.DataFrame, columns: AnswerColumns, seconds: str | None, time: str | None
) -> pl.DataFrame | None:
    """Return item, worker and label as texts, and times as numbers; None if there are no times."""
    seconds, time = find_time_columns(frame, columns, seconds, time)
    times: dict[str, pl.Series] = {}
    for role, name in (("seconds", seconds), ("when", time)):
        if name is None:
            continue
        numbers = as_times(frame[name])
        if numbers is None:
            raise DataError(f"The column {name!r} holds no times, such as {frame[name][0]!r:.60}.")
        times[role] = numbers
    if not times:
        return None
    roles = zip(("item", "worker", "label"), columns, strict=True)
    names = {role: frame[name].cast(pl.String) for role, name in roles}
    return pl.DataFrame({**names, **times}).drop_nulls(["item", "worker", "label"])


def ordered_classes(answers: pl.Series, labels: LabelSpace | Sequence[str] | None) -> LabelSpace:
    """Return ordered classes: as given, or the numbers in the answers, the lowest first.

    >>> ordered_classes(pl.Series([10, 9, 9]), None)
    LabelSpace('9', '10', ordered=True)
    """
    if labels is None:
        seen = answers.drop_nulls().unique().cast(pl.String)
        numbers = seen.cast(pl.Float64, strict=False)
        if numbers.null_count() or len(seen) < 2:
            raise ParameterError(
                f"Ordered classes that are no numbers, such as {str(seen.sort()[0])!r}, have to be "
                "named from the lowest to the highest: ",
                Argument("labels", [...]),
                ".",
            )
        labels = seen.gather(numbers.arg_sort()).to_list()
    return LabelSpace(*LabelSpace.of(labels), ordered=True)


def _without_rejected(table: pl.DataFrame) -> pl.DataFrame:
    """The rows of MTurk's results without rejected assignments, and without those to reject."""
    if not {"HITId", "AssignmentId"} & set(table.columns):
        return table
    rejected = pl.lit(value=False)
    if "AssignmentStatus" in table.columns:
        status = pl.col("AssignmentStatus").cast(pl.String).str.strip_chars().str.to_lowercase()
        rejected |= (status == "rejected").fill_null(value=False)
    if "Reject" in table.columns:
        reason = pl.col("Reject").cast(pl.String).str.strip_chars()
        rejected |= (reason != "").fill_null(value=False)
    return table.filter(~rejected)


def read_answers(
    path: FilePath,
    *,
    item: str = "task",
    voter: str = "worker",
    label: str = "label",
    labels: LabelSpace | Sequence[str] | None = None,
    items: Any = None,
    duplicates: Repeated = "refuse",
) -> VoteMatrix:
    r"""Return the votes in a file with one row per answer; see `VoteMatrix.from_long`.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "answers.csv"
    >>> _ = path.write_text("task,worker,label\nt1,ann,cat\nt1,bob,dog\nt2,bob,dog\n")
    >>> read_answers(path)
    VoteMatrix(2 items x 2 voters, 2 classes, 3 votes, 100.0 % of the items covered)
    """
    rows = read_rows(path, columns=(item, voter, label))
    with explained(path):
        return VoteMatrix.from_long(
            crowd_answers(rows, item, voter, label).rows,
            item=item,
            voter=voter,
            label=label,
            labels=labels,
            items=items,
            duplicates=duplicates,
        )


def read_gold(
    path: FilePath,
    labels: LabelSpace | Sequence[str],
    ids: Any = None,
    *,
    id_column: str = "id",
    label_column: str = "label",
) -> npt.NDArray[np.int64]:
    r"""Return gold labels as class indices; -1 if unknown.

    The labels are in the order of `ids` if given (an id that is not in the file is unknown),
    otherwise in the order of the file.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "gold.csv"
    >>> _ = path.write_text("id,label\nm2,spam\nm1,ham\n")
    >>> read_gold(path, ["ham", "spam"], ids=["m1", "m2", "m3"])
    array([ 0,  1, -1])
    """
    columns = (label_column,) if ids is None else (id_column, label_column)
    rows = read_rows(path, columns)
    with explained(path):
        space = LabelSpace.of(labels)
        gold = space.indices(rows[label_column], allow_unknown=True)
        return gold if ids is None else space.from_indices(aligned_gold(rows[id_column], gold, ids))


def aligned_gold(
    known_ids: pl.Series, gold: npt.NDArray[np.int64], ids: Any
) -> npt.NDArray[np.int64]:
    """Return the gold labels of `ids`, -1 if unknown; ids are compared as text."""
    known, wanted = known_ids.cast(pl.String), pl.Series(ids).cast(pl.String)
    table = pl.DataFrame({"id": known, "gold": gold}).unique(maintain_order=True)
    repeated = table["id"].filter(table["id"].is_duplicated()).unique(maintain_order=True)
    if len(repeated):
        raise DataError(f"The ids {listed(repeated, limit=3)} have two different gold labels.")
    found = pl.DataFrame({"id": wanted}).join(table, on="id", how="left", maintain_order="left")
    if len(wanted) and found["gold"].null_count() == len(wanted):
        raise DataError(
            f"None of the {len(wanted)} ids has a gold label: they look like {wanted[0]!r}, "
            f"those of the gold labels like {known[0]!r}. If the votes have row numbers as ids, "
            "name the column of ids where they are cast: wiesel apply --id, or apply_lfs(ids=...)."
        )
    return found["gold"].fill_null(ABSTAIN).to_numpy().astype(np.int64)


def crowd_votes(
    frame: pl.DataFrame,
    columns: AnswerColumns,
    labels: LabelSpace | Sequence[str] | None,
    repeated: Repeated,
) -> VoteMatrix:
    """Return complete answers as votes; `repeated` says which of several by one worker count."""
    if repeated not in get_args(Repeated):
        allowed = Argument("repeated", get_args(Repeated))
        raise ParameterError("Say which answers count: ", allowed, f"; got {repeated!r}.")
    complete = frame.drop_nulls(list(columns))
    if complete.is_empty():
        raise DataError(
            f"There are no answers: no row has a value in all of the columns {listed(columns)}."
        )
    seen = complete[columns.label]
    if labels is None and seen.dtype.base_type() not in (pl.List, pl.Array) and seen.n_unique() < 2:
        raise DataError(
            f"All answers in the column {columns.label!r} are {str(seen[0])!r}: name all classes, ",
            Argument("labels", [...]),
            ".",
        )
    try:
        return VoteMatrix.from_long(
            frame,
            item=columns.item,
            voter=columns.voter,
            label=columns.label,
            labels=labels,
            duplicates=repeated,
        )
    except VoteError as error:
        raise error.renamed(duplicates="repeated") from None


def known_classes(gold: Any, votes: VoteMatrix, columns: AnswerColumns) -> npt.NDArray[np.int64]:
    """Return the known class of every item, -1 if unknown, from {item: class} or a table."""
    if isinstance(gold, Mapping) and not {columns.item, "id"} & gold.keys():
        names = {"id": map(str, gold), "label": map(str, gold.values())}
        gold = {column: list(values) for column, values in names.items()}
    frame = as_frame(gold)
    found = find_gold_columns(frame.columns, columns)
    require_columns(frame, found, "of gold")
    known = votes.labels.indices(frame[found[1]], allow_unknown=True)
    return aligned_gold(frame[found[0]], known, votes.ids)


def alike_names(kind: str, names: Iterable[str]) -> list[str]:
    """Return sentences on names that differ in spelling only: 'Cat' for 'cat' counts as wrong."""
    alike: dict[str | float, list[str]] = {}
    for name in names:
        alike.setdefault(_without_spelling(name), []).append(name)
    return [
        f"The {kind} {listed(several)} differ only in their spelling: if they are one, "
        "write them alike and aggregate again"
        for several in alike.values()
        if len(several) > 1
    ]


def _without_spelling(name: str) -> str | float:
    """What `Yes` and `yes `, or `1` and `1.0`, have in common."""
    try:
        return float(name)
    except ValueError:
        return " ".join(name.split()).casefold()
