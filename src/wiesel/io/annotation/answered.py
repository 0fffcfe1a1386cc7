"""What the readers of all annotation tools find, before it becomes votes."""

import dataclasses
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple

from wiesel.errors import DataError, listed

__all__ = ["Answer", "Answered", "Prediction", "Target", "only_label", "pick_question"]


class Answer(NamedTuple):
    """One answer: the position of the item, who answered, and the class."""

    item: int
    voter: str
    label: str


@dataclasses.dataclass
class Answered:
    """Items, the answers to them, and what is known to be right."""

    question: str = "label"
    """The question that was answered, as the tool calls it."""
    field: str = "text"
    """What was shown, as the tool calls it."""
    rows: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    answers: list[Answer] = dataclasses.field(default_factory=list)
    gold: dict[int, str] = dataclasses.field(default_factory=dict)
    """The right class by the position of the item."""
    classes: set[str] = dataclasses.field(default_factory=set)
    """The classes that could be chosen, where the file says so."""
    _position: dict[Hashable, int] = dataclasses.field(default_factory=dict)

    def item(self, key: Hashable, row: Mapping[str, Any]) -> int:
        """Return the position of an item, which is new if its key is."""
        if key not in self._position:
            self._position[key] = len(self.rows)
            self.rows.append(dict(row))
        return self._position[key]

    def answer(self, item: int, voter: Any, label: str | None) -> None:
        """Add an answer; None is none."""
        if label is not None:
            self.answers.append(Answer(item, str(voter), label))


class Prediction(NamedTuple):
    """What is written for one item."""

    row: dict[str, Any]
    label: str
    score: float
    """The probability of the label."""


class Target(NamedTuple):
    """What predictions are answers to, and who makes them."""

    labels: tuple[str, ...]
    question: str
    field: str
    name: str
    """Who predicts: a model version, an agent, an annotator."""


def only_label(chosen: Any, voter: object, item: object) -> str | None:
    """Return the class that was chosen, None if none was; two are refused.

    >>> only_label(["spam"], "ann", 7), only_label([], "ann", 7), only_label(4, "ann", 7)
    ('spam', None, '4')
    """
    if chosen is None or chosen == "":
        return None
    if not isinstance(chosen, (list, tuple)):
        return str(chosen)
    if len(chosen) > 1:
        raise DataError(
            f"{voter} chose {listed(chosen, limit=4)} for item {item!r}; one class for each item "
            "is read here. For several labels of one item see wiesel.multilabel."
        )
    return str(chosen[0]) if chosen else None


def pick_question(found: Iterable[str], wanted: str | None, tool: str) -> str:
    """Return the question to read: the requested one, else the only one."""
    names = list(dict.fromkeys(found))
    if wanted is not None:
        if wanted not in names:
            raise DataError(
                f"Nobody answered the question {wanted!r} in this {tool} file; there are "
                f"answers to {listed(names) or 'none'}."
            )
        return wanted
    if len(names) > 1:
        raise DataError(
            f"This {tool} file has answers to {listed(names)}: say which question to read "
            f"with question={names[0]!r}."
        )
    if not names:
        raise DataError(f"This {tool} file has no answers that name a class.")
    return names[0]
