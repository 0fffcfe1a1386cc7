"""The labels of a multi-label task: every item has any number of them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from wiesel.errors import DataError, ParameterError, listed, suggest
from wiesel.labels import ABSTAIN, LabelSpace, is_missing

__all__ = ["MultiLabelSpace", "Presence"]

Presence = npt.NDArray[np.int64]
"""(n_items, n_labels): 1 if an item has a label, 0 if it does not, -1 if unknown."""


class MultiLabelSpace(LabelSpace):
    """The labels of a task in which an item may have several of them, or none.

    >>> labels = MultiLabelSpace("sports", "politics", "money")
    >>> labels
    MultiLabelSpace('sports', 'politics', 'money')
    >>> labels.presence([{"sports", "money"}, set(), None])
    array([[ 1,  0,  1],
           [ 0,  0,  0],
           [-1, -1, -1]])
    >>> labels.binary("sports")
    LabelSpace('not sports', 'sports')
    """

    @classmethod
    def of(cls, labels: "LabelSpace | Sequence[str]") -> "MultiLabelSpace":
        """Return `labels` itself, or the multi-label space of a sequence of names."""
        if isinstance(labels, MultiLabelSpace):
            return labels
        if isinstance(labels, str) or not isinstance(labels, Iterable):
            raise ParameterError(f"Labels are given as a list of names; got {labels!r}.")
        return cls(*labels)

    def __repr__(self) -> str:
        return f"MultiLabelSpace({listed(self.names)})"

    @property
    def classes(self) -> LabelSpace:
        """The same names as the classes of a task with one label for each item."""
        return LabelSpace(*self.names)

    def binary(self, label: str) -> LabelSpace:
        """Return the two classes of one label: `not sports` and `sports`."""
        self.index(label)
        return LabelSpace(f"not {label}", label)

    def presence(self, gold: Any) -> Presence:
        """Return gold labels as numbers: 1 present, 0 absent, -1 unknown.

        `gold` contains one set (or list) of names for each item, None if unknown. Or it is a table
        of 0 and 1 with one column for each label; NaN, None or -1 mean unknown.
        """
        if isinstance(gold, Mapping) or hasattr(gold, "columns"):
            return self._from_table(gold)
        if hasattr(gold, "to_list"):
            gold = gold.to_list()
        array = gold if isinstance(gold, np.ndarray) else None
        if array is not None and array.ndim == 2:
            return self._from_numbers(array)
        if isinstance(gold, str) or not isinstance(gold, Iterable):
            raise DataError(f"Gold labels are one set of names for each item; got {gold!r:.60}.")
        items = list(gold)
        found = np.zeros((len(items), len(self)), dtype=np.int64)
        for row, names in enumerate(items):
            if is_missing(names):
                found[row] = ABSTAIN
                continue
            for name in self.checked_names(names, f"The gold labels of row {row}"):
                found[row, self.names.index(name)] = 1
        return found

    def checked_names(self, names: Any, who: str) -> tuple[str, ...]:
        """Return label names in order, or raise an error whose message begins with `who`."""
        if isinstance(names, str):
            # As in files, where a cell holds all labels of an item.
            parts = ", ".join(map(repr, names.split("|")))
            raise DataError(
                f"{who}: got the text {names!r}, where a set of labels is needed. "
                f"Write {{{parts}}}."
            )
        nested = getattr(names, "ndim", 1) != 1
        if nested or isinstance(names, Mapping) or not isinstance(names, Iterable):
            raise DataError(f"{who}: got {names!r:.60}, where a set of labels is needed.")
        given = [getattr(name, "item", lambda own=name: own)() for name in names]
        for name in given:
            if name not in self.names:
                raise DataError(f"{who}: {name!r} is not a label. {suggest(name, self.names)}")
        return tuple(name for name in self.names if name in given)

    def sets(self, present: npt.NDArray[np.bool_]) -> list[tuple[str, ...]]:
        """Return the names of the labels of every item, in the order of the labels.

        >>> MultiLabelSpace("a", "b").sets(np.array([[True, True], [False, True]]))
        [('a', 'b'), ('b',)]
        """
        return [
            tuple(name for name, there in zip(self.names, row, strict=True) if there)
            for row in present.tolist()
        ]

    def _from_table(self, table: Any) -> Presence:
        columns = list(table) if isinstance(table, Mapping) else list(table.columns)
        missing = [name for name in self.names if name not in columns]
        if missing:
            raise DataError(
                f"The gold labels have no column for {listed(missing)}; there are "
                f"{listed(columns)}."
            )
        parts = [np.asarray(_plain_list(table[name]), dtype=object) for name in self.names]
        return self._from_numbers(np.stack(parts, axis=1))

    def _from_numbers(self, array: npt.NDArray[Any]) -> Presence:
        if array.shape[1] != len(self):
            raise DataError(
                f"Gold labels as numbers are items x {len(self)} labels; got the shape "
                f"{array.shape}."
            )
        numbers = np.array([_number(value) for value in array.ravel()]).reshape(array.shape)
        numbers = np.where(np.isnan(numbers), ABSTAIN, numbers)
        bad = ~np.isin(numbers, (ABSTAIN, 0, 1))
        if bad.any():
            row, column = (int(place[0]) for place in np.nonzero(bad))
            raise DataError(
                f"The gold value of row {row} for {self.names[column]!r} is "
                f"{array[row, column]!r:.60}; it must be 0, 1, or missing if unknown."
            )
        return numbers.astype(np.int64)


def _number(value: Any) -> float:
    """A value as a number: NaN if it is missing, and a number that is not allowed if it is text."""
    try:
        return math.nan if value is None else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.inf


def _plain_list(column: Any) -> list[Any]:
    return list(column.to_list() if hasattr(column, "to_list") else column)
