"""Recognizes the columns of a table of crowd answers, by name and content or by elimination."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from wiesel.errors import Argument, DataError, listed, suggest
from wiesel.tables import require_columns

__all__ = ["AnswerColumns", "find_answer_columns", "find_gold_columns", "looks_like_answers"]

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
