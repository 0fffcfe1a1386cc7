"""Translates between class names, which users see, and class indices."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from wiesel.errors import (
    DataError,
    FeatureError,
    ParameterError,
    listed,
    other_spelling,
    suggest,
)

__all__ = [
    "ABSTAIN",
    "ClassIndices",
    "FloatArray",
    "IntArray",
    "LabelSpace",
    "as_indices",
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

_UNKNOWN_NAME = ABSTAIN - 1
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
_LONGEST = 15
"""The most characters of a name that is a number: longer ones are not exact in a column."""


class ClassIndices(np.ndarray[Any, Any]):
    """An integer array of class indices, which is never read as an array of names.

    If classes are named by numbers, Wiesel's gold labels and dense votes are such arrays. So are
    rows of one, and several that are concatenated; what is computed from one is a plain array.
    `LabelSpace.from_indices` makes one.

    >>> stars = LabelSpace("1", "2", "3")
    >>> stars.indices([1, 2]), stars.indices(stars.from_indices([1, 2]))
    (array([0, 1]), array([1, 2]))
    """

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        """Return the result of a computation, which are no class indices."""
        plain = np.asarray(array)
        return plain[()] if return_scalar else plain

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Keep class indices class indices when they are concatenated."""
        found = super().__array_function__(func, types, args, kwargs)
        if func is not np.concatenate:
            return found
        same = all(isinstance(part, ClassIndices) for part in args[0])
        return found.view(ClassIndices if same else np.ndarray)

    def __repr__(self) -> str:
        return repr(self.view(np.ndarray))


@dataclass(frozen=True, init=False)
class LabelSpace:
    """The classes of a task, in order.

    If all classes are numbers, or True and False, they become names: `LabelSpace(0, 1).names` is
    `('0', '1')`. Classes are `ordered` if they are ranks from the lowest to the highest, such as
    ratings: mistakes of neighbors are then smaller ones. Equality is that of the names.

    >>> labels = LabelSpace("ham", "spam")
    >>> labels.index("spam"), len(labels), "eggs" in labels
    (1, 2, False)
    >>> labels.indices(["spam", "ham", "spam"])
    array([1, 0, 1])
    >>> LabelSpace("poor", "fair", "good", ordered=True).ordered
    True
    """

    names: tuple[str, ...]
    ordered: bool = field(default=False, compare=False)

    def __init__(self, *names: str | int | bool, ordered: bool = False) -> None:
        texts = _all_as_text(names)
        for name in texts:
            if not is_name(name):
                advice = " A list goes to LabelSpace.of(names)." if isinstance(name, list) else ""
                raise ParameterError(
                    f"Class names must be non-empty strings; got {name!r:.80}.{advice}"
                )
        if len(texts) < 2:
            raise ParameterError(
                f"A task needs at least two classes; got {listed(texts) or 'none'}."
            )
        repeated = sorted(name for name, n in Counter(texts).items() if n > 1)
        if repeated:
            raise ParameterError(f"Each class is named once; {listed(repeated)} is repeated.")
        object.__setattr__(self, "names", texts)
        object.__setattr__(self, "ordered", bool(ordered))

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
        return f"LabelSpace({listed(self.names)}{', ordered=True' * self.ordered})"

    def index(self, name: str) -> int:
        """Return the index of a class name."""
        if name not in self.names:
            raise DataError(f"{name!r} is not a class. {suggest(name, self.names)}")
        return self.names.index(name)

    def indices(self, values: Any, *, allow_unknown: bool = False) -> npt.NDArray[np.int64]:
        """Return class indices of gold labels given as names or as indices.

        With `allow_unknown`, `None`, NaN and -1 mean that the label is unknown; the result is -1.
        If all classes are named by numbers, numbers are names; otherwise they are indices. Numbers
        are refused if only some of the classes are named by numbers, so that 1 could be either.

        >>> LabelSpace("1", "2", "3").indices([1, 3])
        array([0, 2])
        """
        array = _as_vector(values)
        found = self.codes(array)
        bad = (found < (ABSTAIN if allow_unknown else 0)) | (found >= len(self))
        if bad.any():
            raise DataError(self._label_problem(array, int(np.flatnonzero(bad)[0]), allow_unknown))
        return self.from_indices(found.astype(np.int64))

    def from_indices(self, indices: Any) -> npt.NDArray[Any]:
        """Return class indices (-1: unknown, or an abstention) as an array that says so.

        This is needed only if the classes are named by numbers, because plain numbers are names
        then. Otherwise the array is returned as it is.

        >>> labels = LabelSpace("1", "0")
        >>> labels.indices([0, 1]), labels.indices(labels.from_indices([0, 1]))
        (array([1, 0]), array([0, 1]))
        """
        array = np.asarray(indices)
        array = array if array.size else array.astype(np.int64)
        low, high = ABSTAIN, len(self) - 1
        if array.dtype.kind not in "iu" or ((array < low) | (array > high)).any():
            raise DataError(
                f"Class indices are whole numbers from {low} to {high}; got {indices!r:.80}."
            )
        return array if self._numbers() == _identity(self) else array.view(ClassIndices)

    def codes(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the class index of every value of an array of any shape, without checking it.

        A missing value, a blank text and -1 become -1, unless a class is named -1. What is no class
        becomes another number that is no index.
        """
        numbers = self._numbers()
        same = array.dtype.kind in "iu" and numbers == _identity(self)
        if same or isinstance(array, ClassIndices):
            return np.asarray(array)
        places: dict[object, int] = {name: index for index, name in enumerate(self.names)}
        truths = self._read_by(_truth)
        if truths is None and not any(_truth(name) is not None for name in self.names):
            truths = numbers

        def code(value: object) -> int:
            value = _plain(value)
            if isinstance(value, str) or value is None:
                is_blank = value is None or not value.strip()
                return places.get(value, ABSTAIN if is_blank else _UNKNOWN_NAME)
            if not isinstance(value, (int, float)):
                return _UNKNOWN_NAME
            known = truths if isinstance(value, bool) else numbers
            if known is None and value != ABSTAIN:
                raise DataError(self._ambiguous(value))
            return (known or {}).get(value, ABSTAIN if value == ABSTAIN else _UNKNOWN_NAME)

        if array.dtype.kind == "O":
            return np.array([code(v) for v in array.ravel()], np.int64).reshape(array.shape)
        distinct, inverse = np.unique(array, return_inverse=True)
        return np.array([code(v) for v in distinct], np.int64)[inverse].reshape(array.shape)

    def _numbers(self) -> dict[float, int] | None:
        """The index of the class that a number stands for; None if numbers are ambiguous."""
        named = self._read_by(_number)
        if named is not None:
            return named
        read = [_truth(name) if self._read_by(_truth) else _number(name) for name in self.names]
        clear = all(value is None or value == index for index, value in enumerate(read))
        return _identity(self) if clear else None

    @property
    def named_values(self) -> dict[float, int]:
        """The index of each class by its number or truth value, if all names are such.

        >>> LabelSpace(True, False).named_values, LabelSpace("ham", "spam").named_values
        ({True: 0, False: 1}, {})
        """
        return self._read_by(_number) or self._read_by(_truth) or {}

    def _read_by(self, read: Callable[[str], float | None]) -> dict[float, int] | None:
        """The classes by what their names mean; None if a name has no meaning of its own."""
        values = [read(name) for name in self.names]
        known = {value: index for index, value in enumerate(values) if value is not None}
        return known if len(known) == len(self) else None

    def _ambiguous(self, number: object) -> str:
        names = "truth values, y.astype(bool)" if self._read_by(_truth) else "text, y.astype(str)"
        return (
            f"The classes are {listed(self.names)}, so the label {number!r} could be a name or an "
            f"index. Give names as {names}, or say that they are indices: "
            "labels.from_indices(y)."
        )

    def _label_problem(self, array: npt.NDArray[Any], row: int, allow_unknown: bool) -> str:
        index = f"or its index 0 to {len(self) - 1}"
        if self.named_values:
            index = "and numbers are names here: give indices as labels.from_indices(y)"
        unknown = ", or None where it is not known" if allow_unknown else ""
        return (
            f"The label of row {row} is {_plain(array[row])!r:.80}; it must be one of "
            f"{listed(self.names)}, {index}{unknown}.{other_spelling(array[row], self.names)}"
        )


def as_indices(numbers: Any) -> npt.NDArray[Any]:
    """Return numbers, which are class indices in some file format, so that they are read as such.

    NaN becomes -1. What is no whole number is returned as it is, to be refused with its place.

    >>> LabelSpace("1", "2").codes(as_indices([1.0, np.nan]))
    array([ 1, -1])
    """
    array = np.asarray(numbers)
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), ABSTAIN, array)
        whole = (np.abs(array) < 2**31).all() and (array == np.floor(array)).all()
        array = array.astype(np.int64) if whole else array
    return array.view(ClassIndices) if array.dtype.kind in "iu" else array


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
    labels: LabelSpace,
    balance: Mapping[str, Any] | Sequence[float] | FloatArray | str | None,
) -> npt.NDArray[np.float64]:
    """Return P(class) as a vector that sums to 1; `None` means uniform.

    A balance may be rough: the shares of some classes, as numbers, ranges, or in words (see
    `rough_balance`). A range counts as its middle, and other classes divide the rest equally.

    >>> class_prior(LabelSpace("ham", "spam"), {"ham": 3, "spam": 1})
    array([0.75, 0.25])
    >>> class_prior(LabelSpace("ham", "spam"), "about 5 % spam")
    array([0.95, 0.05])
    """
    labels = LabelSpace.of(labels)
    n_classes = len(labels)
    if isinstance(balance, str) or _is_rough(balance, labels):
        return _middle(rough_balance(labels, balance))
    if balance is None:
        return np.full(n_classes, 1 / n_classes)
    balance = by_name(balance, labels)
    if isinstance(balance, Mapping):
        shares = dict(zip(_all_as_text(balance), balance.values(), strict=True))
        if set(shares) != set(labels.names):
            raise ParameterError(
                f"The class balance names {listed(balance)}; it must name {listed(labels.names)}.",
                option="class_balance",
            )
        balance = [shares[name] for name in labels]
    try:
        prior = np.asarray(balance, dtype=np.float64)
    except (ValueError, TypeError):
        prior = np.empty(0)  # refused below, like other bad values
    if prior.shape != (n_classes,) or not np.isfinite(prior).all() or (prior <= 0).any():
        raise ParameterError(
            f"The class balance must be {n_classes} positive numbers, one for each of "
            f"{listed(labels.names)}; got {balance!r}.",
            option="class_balance",
        )
    normal: npt.NDArray[np.float64] = prior / prior.sum()
    return normal


def rough_balance(labels: LabelSpace, given: Any) -> npt.NDArray[np.float64]:
    """Return the smallest and the largest share of every class: (n_classes, 2).

    `given` has shares or ranges of some classes by name, or says them in words: "about 5 % spam",
    "3-8 % spam", "spam 5 %, news 20 to 30 %". "I do not know" gives 0 to 1.

    >>> rough_balance(LabelSpace("ham", "spam"), "3-8 % spam")
    array([[0.92, 0.97],
           [0.03, 0.08]])
    """
    known = _in_words(labels, given) if isinstance(given, str) else dict(given or {})
    ranges = np.tile([0.0, 1.0], (len(labels), 1))
    for name, share in known.items():
        ends = share if isinstance(share, (list, tuple)) else (share, share)
        if len(ends) != 2 or not all(_is_share(end) for end in ends) or ends[0] > ends[1]:
            raise ParameterError(
                f"The share of {name!r} is a number between 0 and 1, or a range of two; got "
                f"{share!r}.",
                option="class_balance",
            )
        ranges[labels.index(name)] = ends
    rest = [k for k, name in enumerate(labels) if name not in known]
    least = ranges[[k for k in range(len(labels)) if k not in rest], 0].sum()
    if least > 1 + 1e-6 or (not rest and ranges[:, 1].sum() < 1 - 1e-6):
        raise ParameterError(
            f"The class balance {given!r} cannot sum to 1: the smallest shares sum to {least:.2f}, "
            f"the largest to {ranges[:, 1].sum():.2f}.",
            option="class_balance",
        )
    if len(rest) == 1 and known:
        others = ranges.sum(axis=0) - ranges[rest[0]]
        ranges[rest[0]] = np.clip(1 - others[::-1], 0, 1)
    return ranges.round(12)


def says_nothing(balance: object) -> bool:
    """Return whether a class balance says in words that it is not known.

    >>> says_nothing("I do not know"), says_nothing("5 % spam"), says_nothing("votes")
    (True, False, False)
    """
    return isinstance(balance, str) and balance.strip().strip(".").lower() in _UNKNOWN


def _is_rough(balance: Any, labels: LabelSpace) -> bool:
    """Whether a balance names only some classes, or gives ranges."""
    if not isinstance(balance, Mapping) or not balance:
        return False
    ranges = any(isinstance(share, (list, tuple)) for share in balance.values())
    return ranges or (set(balance) < set(labels.names))


def _is_share(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1


def _middle(ranges: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The shares in the middle of their ranges, in log-odds; unnamed classes divide the rest."""
    free = (ranges[:, 0] <= 0) & (ranges[:, 1] >= 1)
    shares = np.empty(len(ranges))
    odds = np.log(np.clip(ranges[~free], 1e-4, 1 - 1e-4) / np.clip(1 - ranges[~free], 1e-4, 1))
    shares[~free] = 1 / (1 + np.exp(-odds.mean(axis=1)))
    shares[free] = max(1 - shares[~free].sum(), 0.01 * free.sum()) / max(free.sum(), 1)
    shares /= shares.sum()
    return shares.round(12)


_NUMERAL = r"(\d+(?:[.,]\d+)?)\s*(%)?"
_SHARE_IN_WORDS = re.compile(rf"{_NUMERAL}(?:\s*(?:-|\u2013|to)\s*{_NUMERAL})?")
_FILLERS = re.compile(
    r"\b(about|around|roughly|approximately|perhaps|maybe|between|is|are)\b|[~:=≈]"
)
_UNKNOWN = ("", "unknown", "?", "i do not know", "i don't know", "no idea", "do not know")


def _in_words(labels: LabelSpace, text: str) -> dict[str, tuple[float, float]]:
    """The ranges of shares that a text names."""
    if says_nothing(text):
        return {}
    found = {}
    for piece in re.split(r"[,;]\s+|\s+and\s+(?=.*\d)", text.strip().strip(".")):
        numbers = _SHARE_IN_WORDS.search(piece)
        words = _FILLERS.sub(" ", _SHARE_IN_WORDS.sub(" ", piece, count=1))
        said = " ".join(words.split())
        names = [name for name in labels if name.lower() == said.lower()]
        if numbers is None or not names:
            example = f'"about 5 % {labels.names[-1]}" or "3-8 % {labels.names[-1]}"'
            problem = f"no share in {piece!r}" if numbers is None else f"no class {said!r}"
            raise ParameterError(
                f"The class balance {text!r} is not understood: there is {problem}. Say it like "
                f'{example}, with the classes {listed(labels.names)}; or "unknown".',
                option="class_balance",
            )
        low, low_percent, high, high_percent = numbers.groups()
        is_percent = bool(low_percent or high_percent)
        ends = [float(each.replace(",", ".")) for each in (low, high or low)]
        found[names[0]] = tuple(end / 100 if is_percent else end for end in ends)
    return found  # type: ignore[return-value]


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
    names = list(getattr(proba, "columns", ()))
    if names != list(labels) and sorted(map(str, names)) == sorted(labels):
        proba = proba[list(labels)]  # a table with the classes in another order
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


def by_name(values: Any, labels: LabelSpace | None = None) -> Any:
    """Return a pandas Series as a dict by its index, unless it only counts; else the values.

    If `labels` are named by the numbers of the index, the index does not count.

    `value_counts` sorts by frequency: its order is not that of the classes.
    """
    index = getattr(values, "index", None)
    if index is None or callable(index) or not hasattr(values, "to_dict"):
        return values
    named = set(labels.named_values) if labels is not None else set()
    counts = list(index) == list(range(len(values))) and not set(index) <= named
    return values if counts else values.to_dict()


def _all_as_text(names: Iterable[Any]) -> tuple[Any, ...]:
    """Classes given as whole numbers, or as True and False, as names; others unchanged."""
    plain = tuple(map(_plain, names))
    kinds = set(map(type, plain))
    return tuple(map(str, plain)) if kinds in ({int}, {bool}) else plain


def _identity(labels: LabelSpace) -> dict[float, int]:
    return {index: index for index in range(len(labels))}


def _truth(name: str) -> bool | None:
    return {"true": True, "false": False}.get(name.lower())


def _number(name: str) -> float | None:
    if len(name) > _LONGEST or not _NUMBER.fullmatch(name):
        return None
    value = float(name)
    return value if math.isfinite(value) else None


def _as_vector(values: Any) -> npt.NDArray[Any]:
    if hasattr(values, "voters"):
        raise DataError("One gold label for each item is needed; got votes, which have several.")
    if hasattr(values, "to_pylist"):  # Arrow, whose to_numpy refuses text and missing values
        values = values.to_pylist()
    elif hasattr(values, "to_numpy"):
        values = values.to_numpy()
    elif hasattr(values, "numpy"):
        values = values.numpy(force=True)
    array = np.asanyarray(values)
    if array.dtype.kind == "U" and not isinstance(values, np.ndarray):
        array = np.array(values, dtype=object)  # NumPy turned a NaN among names into 'nan'
    if array.ndim != 1:
        raise DataError(f"Labels must be one-dimensional; got the shape {array.shape}.")
    return array


def _plain(value: object) -> object:
    """Convert a NumPy scalar to the Python value that a message should show; NaN to None."""
    plain = value.item() if isinstance(value, np.generic) else value
    return None if is_missing(plain) else plain
