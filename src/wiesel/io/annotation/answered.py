"""The common result of all annotation readers, before it is converted to votes."""

import dataclasses
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple

from wiesel.errors import Argument, DataError, listed

__all__ = [
    "OUR_NAME",
    "Answer",
    "Answered",
    "Prediction",
    "Target",
    "is_ours",
    "only_label",
    "pick_question",
]

OUR_NAME = "wiesel"
"""The predictor of the predictions that we write, unless the user names another one."""


def is_ours(voter: object) -> bool:
    """Whether predictions are our own: they come from the answers, so they are no further ones.

    >>> is_ours("wiesel"), is_ours("Wiesel 7"), is_ours("bert v2")
    (True, True, False)
    """
    return str(voter).lower().split()[:1] == [OUR_NAME]


class Answer(NamedTuple):
    """One answer: the position of the item, the annotator, and the class."""

    item: int
    voter: str
    label: str


@dataclasses.dataclass
class Answered:
    """Items, their answers, and the known correct classes."""

    question: str = "label"
    """The tool's name of the question."""
    field: str = "text"
    """The tool's name of the field that was shown."""
    rows: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    answers: list[Answer] = dataclasses.field(default_factory=list)
    gold: dict[int, str] = dataclasses.field(default_factory=dict)
    """The correct class, by the position of the item."""
    classes: set[str] = dataclasses.field(default_factory=set)
    """The classes that could be chosen, if the file lists them."""
    rating: bool = False
    """Whether the answers are ratings: the classes are numbers in order."""
    _position: dict[Hashable, int] = dataclasses.field(default_factory=dict)

    def item(self, key: Hashable, row: Mapping[str, Any]) -> int:
        """Return the position of an item; an item with a new key is added."""
        if key not in self._position:
            self._position[key] = len(self.rows)
            self.rows.append(dict(row))
        return self._position[key]

    def answer(self, item: int, voter: Any, label: str | None) -> None:
        """Add an answer; None adds nothing."""
        if label is not None:
            self.answers.append(Answer(item, str(voter), label))


class Prediction(NamedTuple):
    """The prediction that is written for one item."""

    row: dict[str, Any]
    label: str | tuple[str, ...]
    """A class; of several labels, those that are there."""
    score: float | None
    """The probability of the label, if it is one."""

    @property
    def chosen(self) -> list[str]:
        """The label, or the labels, as a list."""
        return [self.label] if isinstance(self.label, str) else list(self.label)


class Target(NamedTuple):
    """The question that predictions answer, and the name of the predictor."""

    labels: tuple[str, ...]
    question: str
    field: str
    name: str
    """The predictor: a model version, an agent or an annotator."""
    rating: bool = False
    """Whether the answers are ratings, which Label Studio stores differently from choices."""


def only_label(chosen: Any, voter: object, item: object) -> str | None:
    """Return the chosen class; None if none was chosen. Two classes raise an error.

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
    """Return the question to read: the requested one, or the only one."""
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
            f"This {tool} file has answers to {listed(names)}: say which question to read, ",
            Argument("question", names[0]),
            ".",
        )
    if not names:
        raise DataError(f"This {tool} file has no answers that name a class.")
    return names[0]
