"""Gold: rows with labels that people gave, and how each row came to be labeled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from wiesel.errors import ParameterError

__all__ = ["RANDOM", "Gold"]

RANDOM = "random"
"""How a row was chosen that belongs to a random sample."""


@dataclass(frozen=True, eq=False)
class Gold:
    """Labels of some rows, and how these rows were chosen to be labeled.

    A model learns from all of them. What needs a random sample (class balance, threshold, figures)
    uses the rows drawn at random only: rows chosen because voters disagree on them, for example,
    have other classes and other mistakes than the rest.

    >>> gold = Gold(["spam", "ham", None, "ham"], chosen=["random", "random", "random", "unsure"])
    >>> gold.random
    array([ True,  True,  True, False])
    >>> len(gold), Gold.of(gold) is gold
    (4, True)
    """

    y: Any
    """The labels: names, indices, or sets of labels; None or -1 is unknown."""
    X: Any = None
    """The inputs of these rows; None if they are the rows of `fit`, in the same order."""
    votes: Any = None
    """The votes on these rows, where there are any; of the rows of `fit`, they are known."""
    chosen: str | Sequence[str] = RANDOM
    """How rows were chosen: `random`, or the name of an order; one word, or one for each row."""
    probability: Sequence[float] | None = None
    """The probability with which each row was chosen, if it is known; NaN where it is not."""

    def __post_init__(self) -> None:
        if self.votes is not None and self.X is None:
            raise ParameterError("Gold with votes of its own needs X, the inputs of its rows.")
        for name in ("chosen", "probability"):
            given = getattr(self, name)
            if given is not None and not isinstance(given, str) and len(given) != len(self):
                raise ParameterError(
                    f"{name} needs a value for each of the {len(self)} labels; got {len(given)}."
                )

    @classmethod
    def of(cls, gold: Any) -> Self:
        """Return gold in one form.

        It is given as `Gold`, as (X, y) or (X, y, votes), or as the labels of the rows of `fit`.
        """
        if isinstance(gold, cls):
            return gold
        if isinstance(gold, tuple) and len(gold) in (2, 3) and _is_inputs(gold[0]):
            return cls(gold[1], gold[0], *gold[2:])
        return cls(gold)

    def __len__(self) -> int:
        columns = self.y
        if isinstance(columns, Mapping):
            columns = next(iter(columns.values()), ())
        return len(columns)

    @property
    def random(self) -> npt.NDArray[np.bool_]:
        """Whether each row belongs to a random sample: what figures and shares count."""
        if isinstance(self.chosen, str):
            return np.full(len(self), self.chosen == RANDOM)
        return np.array([str(way) == RANDOM for way in self.chosen], dtype=np.bool_)


def _is_inputs(value: Any) -> bool:
    """Whether this is a table of inputs, not a label, a set of labels, or None."""
    return hasattr(value, "__len__") and not isinstance(value, (str, set, frozenset))
