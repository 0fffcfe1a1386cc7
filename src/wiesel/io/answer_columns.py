"""Recognizes the columns of a table of crowd answers, by name or by elimination."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from wiesel.errors import DataError, listed, suggest

__all__ = ["AnswerColumns", "find_answer_columns", "looks_like_answers"]

_ROLES = {
    "item": (
        "task", "item", "question", "example", "unit", "document", "doc", "row", "object", "image",
        "instance", "sample", "sentence", "text", "id",
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


class AnswerColumns(NamedTuple):
    """The columns of a table with one row per answer."""

    item: str
    voter: str
    label: str


def find_answer_columns(
    columns: Sequence[str],
    item: str | None = None,
    voter: str | None = None,
    label: str | None = None,
) -> AnswerColumns:
    """Return the item, voter and label columns: as given, or recognized by their names.

    >>> find_answer_columns(["workerId", "question", "answer", "seconds"])
    AnswerColumns(item='question', voter='workerId', label='answer')
    """
    given = {"item": item, "voter": voter, "label": label}
    for name in given.values():
        if name is not None and name not in columns:
            close = suggest(name, columns)
            raise DataError(
                f"There is no column {name!r} in the answers. "
                f"{close if close.startswith('Did') else ''} The table has {listed(columns)}."
            )
    found = {role: name or _named(role, columns, given) for role, name in given.items()}
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
        options = {"item": "item=", "voter": "worker=", "label": "label="}
        raise DataError(
            f"Cannot tell which column holds {' or '.join(words[role] for role in missing)}: the "
            f"table has {listed(columns)}. Name it by "
            f"{', '.join(options[role] for role in missing)} (one row for each answer is needed)."
        )
    return AnswerColumns(**{role: str(name) for role, name in found.items()})


def looks_like_answers(columns: Sequence[str]) -> AnswerColumns | None:
    """Return the columns if they can be recognized by their names, else None.

    The answers may also be the only column with a name that says nothing.

    >>> looks_like_answers(["task", "worker", "label"]).item
    'task'
    >>> looks_like_answers(["id", "lf_link", "lf_free"]) is None
    True
    """
    nothing: dict[str, str | None] = {}
    found = {role: _named(role, columns, nothing) for role in _ROLES}
    left = _nameless(columns)
    if found["label"] is None and len(left) == 1:
        found["label"] = left[0]
    if None in found.values() or len(set(found.values())) < 3:
        return None
    return AnswerColumns(**{role: str(name) for role, name in found.items()})


def _named(role: str, columns: Sequence[str], given: dict[str, str | None]) -> str | None:
    """The column whose name matches the role best; the first one in case of a tie."""
    taken = {name for name in given.values() if name is not None}
    free = [name for name in columns if name not in taken]
    for word in _ROLES[role]:
        for name in free:
            if word in _words(name) and not _fits_another_role(role, name):
                return name
    return None


def _nameless(columns: Sequence[str]) -> list[str]:
    """The columns whose names fit no role, nor what tools write beside the answer."""
    every = _ABOUT_THE_ANSWER.union(*_ROLES.values())
    return [name for name in columns if not _words(name) & every]


def _fits_another_role(role: str, name: str) -> bool:
    """Whether the name fits another role better: `worker_id` is not the id of an item."""
    if role == "label" and "id" in _words(name):
        return True  # `annotation_id` numbers the answers
    place = {other: _rank(other, name) for other in _ROLES}
    return min(place, key=lambda other: place[other]) != role


def _rank(role: str, name: str) -> int:
    words = _words(name)
    return min((k for k, word in enumerate(_ROLES[role]) if word in words), default=99)


def _words(name: str) -> set[str]:
    """The words in a name such as workerId, task_id or INPUT:image; plurals become singular."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    words = re.split(r"[\W_]+", spaced.lower())
    return {word.removesuffix("s") if len(word) > 3 else word for word in words if word} | set(
        words
    )
