"""Reads long tables: crowd answers with one row each, and gold labels by item id."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import Argument, DataError, ParameterError, VoteError, listed, suggest
from wiesel.io.files import FilePath, explained
from wiesel.io.rows import read_rows
from wiesel.labels import ABSTAIN, LabelSpace
from wiesel.tables import as_frame, require_columns
from wiesel.vote_entries import blank_to_null
from wiesel.votes import VoteMatrix

__all__ = [
    "AnswerColumns",
    "CrowdAnswers",
    "Repeated",
    "aligned_gold",
    "alike_names",
    "answer_times",
    "crowd_answers",
    "crowd_votes",
    "find_answer_columns",
    "find_gold_columns",
    "known_classes",
    "looks_like_answers",
    "ordered_classes",
    "read_answers",
    "read_gold",
]

Repeated = Literal["refuse", "first", "last", "all"]
"""Which answers of a worker to an item count."""


_NOT_SAID = ("nan", "NaN", "NAN", "<NA>")
"""What pandas writes for a missing answer when it becomes text."""
_TEXTS = ("text", "sentence", "message", "tweet", "review", "post", "passage", "content", "body")
_ROLES = {
    "item": (
        "task", "item", "hit", "question", "example", "unit", "document", "doc", "row", "object",
        "image", "instance", "sample", "id", *_TEXTS,
    ),
    "voter": (
        "worker", "annotator", "voter", "rater", "labeler", "labeller", "user", "coder", "judge",
        "performer", "person", "contributor", "participant", "expert", "by",
    ),
    "label": (
        "label", "answer", "response", "vote", "annotation", "class", "category", "judgment",
        "judgement", "choice", "rating", "output", "value", "result",
    ),
}  # fmt: skip

_ABOUT_THE_ANSWER = {
    "at", "comment", "confidence", "created", "date", "duration", "lead", "score", "second",
    "status", "time", "timestamp", "updated",
}  # fmt: skip
"""Words of columns that tools write beside the answer."""

_DURATIONS = {"duration", "elapsed", "lead", "second"}
_TIMES = {"created", "date", "submit", "submitted", "time", "timestamp"}

_OTHER_IDS = {"assignment", "batch", "group", "project", "session", "type"}
"""Words of ids that are neither of items nor of workers, as MTurk's AssignmentId."""

_WORDS_OF_A_TEXT = 3
"""From this mean number of words on, the values of a column are texts, not names."""


class AnswerColumns(NamedTuple):
    """The columns of a table with one row per answer."""

    item: str
    voter: str
    label: str


def find_answer_columns(
    rows: pl.DataFrame,
    item: str | None = None,
    voter: str | None = None,
    label: str | None = None,
) -> AnswerColumns:
    """Return the item, voter and label columns: as given, or recognized.

    An item is recognized by an id rather than by another name, and by its text only if there is
    nothing else. An id that contradicts the text is an error.

    >>> rows = pl.DataFrame(schema=["workerId", "text", "HITId", "answer", "seconds"])
    >>> find_answer_columns(rows)
    AnswerColumns(item='HITId', voter='workerId', label='answer')
    """
    columns, given = rows.columns, {"item": item, "voter": voter, "label": label}
    for name in given.values():
        if name is not None and name not in columns:
            close = suggest(name, columns)
            raise DataError(
                f"There is no column {name!r} in the answers. "
                f"{close if close.startswith('Did') else ''} The table has {listed(columns)}."
            )
    found = {role: name or _named(role, rows, given) for role, name in given.items()}
    missing = [role for role, name in found.items() if name is None]
    left = [name for name in columns if name not in found.values()]
    if len(missing) == 1:
        # A score may be the answer, but a time or a comment is no item and no worker.
        alone = len(left) == 1 and (missing == ["label"] or not _words(left[0]) & _ABOUT_THE_ANSWER)
        left = left if alone else _nameless(left)
        if len(left) == 1:
            found[missing[0]] = left[0]
            missing = []
    if missing:
        words = {"item": "the task", "voter": "the worker", "label": "the answer"}
        options = {"item": "item", "voter": "worker", "label": "label"}
        named = [part for role in missing for part in (", ", Argument(options[role]))][1:]
        raise DataError(
            f"Cannot tell which column holds {' or '.join(words[role] for role in missing)}: the "
            f"table has {listed(columns)}. Name it by ",
            *named,
            " (one row for each answer is needed).",
        )
    chosen = AnswerColumns(**{role: str(name) for role, name in found.items()})
    if item is None:
        _check_texts(rows, chosen)
    return chosen


def find_time_columns(
    rows: pl.DataFrame, answers: AnswerColumns, seconds: str | None = None, time: str | None = None
) -> tuple[str | None, str | None]:
    """Return the columns with the seconds an answer took and with its time, as given or recognized.

    >>> columns = ("task", "worker", "label", "WorkTimeInSeconds", "created_at")
    >>> rows = pl.DataFrame([(1, "ann", "cat", 3.5, "2026-11-19 08:00:00")], columns, orient="row")
    >>> find_time_columns(rows, AnswerColumns("task", "worker", "label"))
    ('WorkTimeInSeconds', 'created_at')
    """
    require_columns(rows, [name for name in (seconds, time) if name is not None], "of times")
    free = [name for name in rows.columns if name not in answers]
    numeric = [name for name in free if rows[name].dtype.is_numeric()]
    took = [name for name in numeric if _words(name) & _DURATIONS]
    said = [name for name in free if name not in took and _words(name) & _TIMES]
    said = [name for name in said if as_times(rows[name]) is not None]
    return seconds or next(iter(took), None), time or next(iter(said), None)


def as_times(column: pl.Series) -> pl.Series | None:
    """Return a column of times or dates, or their text, as numbers; None if it is none.

    >>> as_times(pl.Series(["2026-11-19T08:00:00", "2026-11-19T08:00:01"])).diff()[1]
    1000000.0
    """
    if column.dtype == pl.String:
        parsed = column.str.to_datetime(strict=False, time_zone="UTC", time_unit="us")
        column = parsed if parsed.null_count() <= 0.1 * len(parsed) else column
    if column.dtype.is_temporal() or column.dtype.is_numeric():
        return column.cast(pl.Int64 if column.dtype.is_temporal() else pl.Float64).cast(pl.Float64)
    return None


def looks_like_answers(columns: Sequence[str]) -> AnswerColumns | None:
    """Return the columns if they can be recognized by their names, else None.

    The answers may also be the only column with a name that says nothing.

    >>> looks_like_answers(["task", "worker", "label"]).item
    'task'
    >>> looks_like_answers(["id", "lf_link", "lf_free"]) is None
    True
    """
    nothing: dict[str, str | None] = {}
    names = pl.DataFrame(schema=list(columns))
    found = {role: _named(role, names, nothing) for role in _ROLES}
    left = _nameless(columns)
    if found["label"] is None and len(left) == 1:
        found["label"] = left[0]
    if None in found.values() or len(set(found.values())) < 3:
        return None
    return AnswerColumns(**{role: str(name) for role, name in found.items()})


def find_gold_columns(
    columns: Sequence[str], answers: AnswerColumns | None = None
) -> tuple[str, str]:
    """Return the columns of ids and gold labels, which may have the names of those of the answers.

    >>> find_gold_columns(["HITId", "truth"], AnswerColumns("HITId", "WorkerId", "Answer.label"))
    ('HITId', 'truth')
    """
    ids, labels = ["id"], ["label", "gold", "truth"]
    if answers is not None:
        names = pl.DataFrame(schema=list(columns))
        ids = [answers.item, "id", _named("item", names, {}) or "id"]
        labels = [*labels, answers.label, _named("label", names, {}) or "label"]
    return (
        next((name for name in ids if name in columns), "id"),
        next((name for name in labels if name in columns), "label"),
    )


def _named(role: str, rows: pl.DataFrame, given: dict[str, str | None]) -> str | None:
    """The column whose name matches the role best; the first one in case of a tie."""
    taken = {name for name in given.values() if name is not None}
    free = [name for name in rows.columns if name not in taken and _fits(role, name)]
    if role == "item":
        free = _without_row_numbers(rows, free)

    def order(name: str) -> tuple[bool, bool, int]:
        # `answer_time` is a time if there is also an `answer`.
        is_about = bool(_words(name) & _ABOUT_THE_ANSWER)
        own = _item_order(name, rows[name]) if role == "item" else (False, _rank(role, name))
        return is_about, *own

    return min(free, key=order, default=None)


def _fits(role: str, name: str) -> bool:
    """Whether no other role fits the name better: `worker_id` is not the id of an item."""
    words = _words(name)
    if "id" in words and (words & _OTHER_IDS or role == "label"):
        return False  # `annotation_id` numbers the answers
    place = {other: _rank(other, name) for other in _ROLES}
    return place[role] < 99 and min(place, key=lambda other: place[other]) == role


def _item_order(name: str, column: pl.Series) -> tuple[bool, int]:
    """The smaller, the better: id, item_id, HITId, task, tweet_id, and texts last."""
    words, rank = _words(name) - {"input"}, _rank("item", name)
    is_text = ("id" not in words and bool(words & {*_TEXTS})) or _has_texts(column)
    if words == {"id"}:
        return is_text, -3
    if "id" in words and all({word, word.removesuffix("s")} & {*_ROLES["item"]} for word in words):
        return is_text, -1 if "hit" in words else -2
    return is_text, rank


def _has_texts(column: pl.Series) -> bool:
    if column.dtype != pl.String:
        return False
    known = column.drop_nulls().head(1000).unique()
    mean = known.str.split(" ").list.len().mean()
    return isinstance(mean, float) and mean >= _WORDS_OF_A_TEXT


def _without_row_numbers(rows: pl.DataFrame, names: list[str]) -> list[str]:
    """The columns without ids that differ in every row, if another one repeats its values."""
    shorter = [name for name in names if not _item_order(name, rows[name])[0]]
    if len(shorter) < 2 or len(rows) < 2:
        return names
    different = {name: rows[name].n_unique() for name in shorter}
    if not any(1 < n < len(rows) for n in different.values()):
        return names
    return [name for name in names if different.get(name, 0) < len(rows)]


def _check_texts(rows: pl.DataFrame, columns: AnswerColumns) -> None:
    """Refuse an item with several texts, and a text of several items: either may be the item."""
    item = columns.item
    for name in rows.columns:
        words = _words(name)
        if name in columns or not words & set(_TEXTS) or "id" in words:
            continue
        pairs = rows.select(item=item, text=name).drop_nulls().unique(maintain_order=True)
        if pairs["text"].dtype != pl.String or pairs["text"].n_unique() < 2:
            continue
        for one, other in (("item", "text"), ("text", "item")):
            several = pairs.filter(pl.col(one).is_duplicated())
            if several.is_empty():
                continue
            value = several[one][0]
            values = several.filter(pl.col(one) == value)[other].to_list()
            shown = listed([f"{each!s:.40}" for each in values], limit=3)
            of, column = (item, name) if one == "item" else (name, item)
            raise DataError(
                f"What is an item? The {of} {value!r:.60} has {len(values):,} different values of "
                f"{column!r}: {shown}. Say which column names the items: ",
                Argument("item", item),
                " or ",
                Argument("item", name),
                ".",
            )


def _nameless(columns: Sequence[str]) -> list[str]:
    """The columns whose names fit no role, nor what tools write beside the answer."""
    every = _ABOUT_THE_ANSWER.union(_OTHER_IDS, *_ROLES.values())
    return [name for name in columns if not _words(name) & every]


def _rank(role: str, name: str) -> int:
    words = _words(name)
    return min((k for k, word in enumerate(_ROLES[role]) if word in words), default=99)


def _words(name: str) -> set[str]:
    """The words in a name such as workerId, HITId or INPUT:image; plurals become singular."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    words = {word for word in re.split(r"[\W_]+", spaced.lower()) if word}
    return words | {word.removesuffix("s") for word in words if len(word) > 3}


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
