"""Translates between class names, which users see, and class indices."""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wiesel.errors import (
    DataError,
    FeatureError,
    ParameterError,
    WieselWarning,
    listed,
    suggest,
    warn_user,
)

__all__ = [
    "ABSTAIN",
    "FloatArray",
    "IntArray",
    "LabelSpace",
    "by_name",
    "checked_proba",
    "class_prior",
    "is_missing",
    "is_name",
]

ABSTAIN = -1
"""The class index that stands for *did not vote* in dense integer arrays."""

FloatArray = npt.NDArray[np.floating[Any]]
IntArray = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, init=False)
class LabelSpace:
    """The classes of a task, in order.

    >>> labels = LabelSpace("ham", "spam")
    >>> labels.index("spam"), len(labels), "eggs" in labels
    (1, 2, False)
    >>> labels.indices(["spam", "ham", "spam"])
    array([1, 0, 1])
    """

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        for name in names:
            if not is_name(name):
                advice = " A list goes to LabelSpace.of(names)." if isinstance(name, list) else ""
                raise ParameterError(
                    f"Class names must be non-empty strings; got {name!r:.80}.{advice}"
                )
        if len(names) < 2:
            raise ParameterError(
                f"A task needs at least two classes; got {listed(names) or 'none'}."
            )
        repeated = sorted(name for name, n in Counter(names).items() if n > 1)
        if repeated:
            raise ParameterError(f"Each class is named once; {listed(repeated)} is repeated.")
        object.__setattr__(self, "names", names)

    @classmethod
    def of(cls, labels: "LabelSpace | Sequence[str]") -> "LabelSpace":
        """Return `labels` itself, or the label space of a sequence of names."""
        if isinstance(labels, LabelSpace):
            return labels
        if isinstance(labels, str) or not isinstance(labels, Iterable):
            raise ParameterError(f"Classes are given as a list of names; got {labels!r}.")
        return cls(*labels)

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __repr__(self) -> str:
        return f"LabelSpace({listed(self.names)})"

    def index(self, name: str) -> int:
        """Return the index of a class name."""
        if name not in self.names:
            raise DataError(f"{name!r} is not a class. {suggest(name, self.names)}")
        return self.names.index(name)

    def indices(self, values: Any, *, allow_unknown: bool = False) -> npt.NDArray[np.int64]:
        """Return class indices of gold labels given as names or as indices.

        With `allow_unknown`, `None`, NaN and -1 mean that the label is unknown; the result is -1.
        Numbers are indices. If the classes are named by other numbers and one of the labels is
        no index but all are names, they are names.
        """
        array = _as_vector(values)
        lowest = ABSTAIN if allow_unknown else 0
        if array.dtype.kind in "iub":
            found = self._indices_of_numbers(array.astype(np.int64), lowest)
        elif array.dtype.kind == "f":
            found = self._indices_of_numbers(_whole_numbers(array), lowest)
        else:
            found = self._indices_of_names(array)
        bad = (found < lowest) | (found >= len(self))
        if bad.any():
            raise DataError(self._label_problem(array, int(np.flatnonzero(bad)[0]), allow_unknown))
        return found

    def _indices_of_names(self, array: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        known: dict[object, int] = {name: index for index, name in enumerate(self.names)}
        # A list of indices that contains None also gets here: NumPy makes it an object array.
        known.update({index: index for index in range(ABSTAIN, len(self))})
        known.update({None: ABSTAIN})
        unknown_name = ABSTAIN - 1
        found = (_plain(value) for value in array)
        # A list in a cell is no name, and cannot be looked up.
        names = (value if isinstance(value, Hashable) else unknown_name for value in found)
        return np.array([known.get(name, unknown_name) for name in names], dtype=np.int64)

    def _indices_of_numbers(
        self, numbers: npt.NDArray[np.int64], lowest: int
    ) -> npt.NDArray[np.int64]:
        """Return numbers unchanged, or the indices of the classes that they can only name."""
        named = {int(name): index for index, name in enumerate(self.names) if _is_whole(name)}
        if len(named) < len(self) or list(named) == list(range(len(self))):
            return numbers
        unknown = {ABSTAIN} - set(named)
        used = set(np.unique(numbers).tolist()) - unknown
        if not used or not used <= set(named):
            return numbers
        if min(used) >= lowest and max(used) < len(self):
            self._warn_of_indices(next(number for number in used if named[number] != number))
            return numbers
        return np.array([named.get(number, ABSTAIN) for number in numbers.tolist()], dtype=np.int64)

    def _warn_of_indices(self, number: int) -> None:
        meaning = "unknown" if number == ABSTAIN else f"the class {self.names[number]!r}"
        warn_user(
            f"The classes have numbers as names ({listed(self.names)}), and the labels are "
            f"numbers, too. They are read as indices: {number} is {meaning}. If they are names, "
            "give them as text: y.astype(str).",
            WieselWarning,
        )

    def _label_problem(self, array: npt.NDArray[Any], row: int, allow_unknown: bool) -> str:
        value = _plain(array[row])
        unknown = ", or None where it is not known" if allow_unknown else ""
        return (
            f"The label of row {row} is {value!r:.80}; it must be one of {listed(self.names)}, "
            f"or its index 0 to {len(self) - 1}{unknown}."
        )


def is_name(value: object) -> bool:
    r"""Return whether a value is a text that can be stored and printed.

    A Python string, or one in a JSON file, may hold half of a character.

    >>> is_name("caf\xe9"), is_name(""), is_name("\ud83d")
    (True, False, False)
    """
    try:
        return isinstance(value, str) and bool(value.encode())
    except UnicodeEncodeError:
        return False


def is_missing(value: object) -> bool:
    """Return whether a value stands for none: None, NaN, or a missing value of pandas.

    >>> is_missing(float("nan")), is_missing(""), is_missing({"a"})
    (True, False, False)
    """
    if isinstance(value, (float, np.floating)):
        return bool(np.isnan(value))
    return value is None or type(value).__name__ in ("NAType", "NaTType")  # of pandas


def class_prior(
    labels: LabelSpace, balance: Mapping[str, float] | Sequence[float] | FloatArray | None
) -> npt.NDArray[np.float64]:
    """Return P(class) as a vector that sums to 1; `None` means uniform.

    >>> class_prior(LabelSpace("ham", "spam"), {"ham": 3, "spam": 1})
    array([0.75, 0.25])
    """
    n_classes = len(labels)
    if balance is None:
        return np.full(n_classes, 1 / n_classes)
    balance = by_name(balance)
    if isinstance(balance, Mapping):
        if set(balance) != set(labels.names):
            raise ParameterError(
                f"The class balance names {listed(balance)}; it must name {listed(labels.names)}."
            )
        balance = [balance[name] for name in labels]
    try:
        prior = np.asarray(balance, dtype=np.float64)
    except (ValueError, TypeError):
        prior = np.empty(0)  # refused below, like other bad values
    if prior.shape != (n_classes,) or not np.isfinite(prior).all() or (prior <= 0).any():
        raise ParameterError(
            f"The class balance must be {n_classes} positive numbers, one for each of "
            f"{listed(labels.names)}; got {balance!r}."
        )
    normal: npt.NDArray[np.float64] = prior / prior.sum()
    return normal


def checked_proba(
    proba: Any,
    labels: Sequence[str] | LabelSpace,
    source: str,
    n_items: int | None = None,
    *,
    zeros: bool = False,
) -> npt.NDArray[np.float64]:
    """Return probabilities of classes as a float64 array, or raise an error that names the source.

    `zeros` allows rows of zeros, which say nothing about their item.

    >>> checked_proba([[0.5, 0.6]], ["ham", "spam"], "The soft labels by PeerVote")
    Traceback (most recent call last):
    wiesel.errors.FeatureError: The soft labels by PeerVote of row 0 are [0.5, 0.6]; ...
    """
    try:
        array = np.asarray(proba, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    n_rows = len(array) if n_items is None and array.ndim else n_items
    if array.shape != (n_rows, len(labels)):
        raise FeatureError(
            f"{source} must be items x {len(labels)} classes, numbers of the shape "
            f"({n_rows}, {len(labels)}); got {type(proba).__name__} of the shape {array.shape}."
        )
    bad = ~(np.isfinite(array) & (array >= 0)).all(axis=1) | (np.abs(array.sum(axis=1) - 1) > 1e-3)
    if zeros:
        bad &= (array != 0).any(axis=1)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise FeatureError(
            f"{source} of row {row} are {array[row].tolist()}; they must be finite, non-negative "
            f"and sum to 1, in the order {listed(labels)}. Logits need a softmax first."
        )
    return array


def by_name(values: Any) -> Any:
    """Return a pandas Series as a dict by its index, unless it only counts; else the values.

    `value_counts` sorts by frequency: its order is not that of the classes.
    """
    index = getattr(values, "index", None)
    if index is None or callable(index) or not hasattr(values, "to_dict"):
        return values
    return values if list(index) == list(range(len(values))) else values.to_dict()


def _is_whole(name: str) -> bool:
    """Whether a class name is a whole number as Python writes it, such as '-1' or '5'."""
    digits = name.removeprefix("-")
    return digits.isdecimal() and len(digits) < 10 and str(int(name)) == name


def _as_vector(values: Any) -> npt.NDArray[Any]:
    if hasattr(values, "voters"):
        raise DataError("One gold label for each item is needed; got votes, which have several.")
    if hasattr(values, "to_pylist"):  # Arrow, whose to_numpy refuses text and missing values
        values = values.to_pylist()
    elif hasattr(values, "to_numpy"):
        values = values.to_numpy()
    elif hasattr(values, "numpy"):
        values = values.numpy(force=True)
    array = np.asarray(values)
    if array.dtype.kind == "U" and not isinstance(values, np.ndarray):
        array = np.array(values, dtype=object)  # NumPy turned a NaN among names into 'nan'
    if array.dtype.kind == "O":
        array = _without_gaps(array)
    if array.ndim != 1:
        raise DataError(f"Labels must be one-dimensional; got the shape {array.shape}.")
    return array


def _without_gaps(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an object array of numbers and missing values as numbers, with NaN for missing."""
    plain = [_plain(value) for value in array.ravel()]
    if plain and all(value is None or isinstance(value, (int, float)) for value in plain):
        return np.array(plain, dtype=np.float64).reshape(array.shape)  # None becomes NaN
    return array


def _whole_numbers(array: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Convert float indices to integers: NaN is unknown, a fraction is not a class."""
    numbers = np.where(np.isnan(array), ABSTAIN, array)
    whole = (np.abs(numbers) < 2**31) & (np.floor(numbers) == numbers)
    return np.where(whole, numbers, ABSTAIN - 1).astype(np.int64)


def _plain(value: object) -> object:
    """Convert a NumPy scalar to the Python value that a message should show; NaN to None."""
    plain = value.item() if isinstance(value, np.generic) else value
    return None if is_missing(plain) else plain
