"""Columns with mean 0 and standard deviation 1, learned from the training rows only."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from wiesel.errors import FeatureError, NotFittedError, SavedModelError
from wiesel.features.state import FeatureState, StoredFeatures, check_kind, finite_array
from wiesel.labels import FloatArray
from wiesel.parameters import Parameterized

__all__ = ["Standardizer"]

_BLOCK = 8192
"""Rows processed together, so that a memory-mapped array is never copied into memory as a whole."""


@dataclass(eq=False)
class Standardizer(StoredFeatures, Parameterized):
    """Subtracts the mean of every column and divides by its standard deviation.

    A constant column becomes 0. Works on memory-mapped arrays, one small block at a time.

    >>> X = np.array([[1.0, 5.0], [3.0, 5.0]])
    >>> Standardizer().fit(X).transform([[2.0, 5.0], [3.0, 5.0]])
    array([[0., 0.],
           [1., 0.]], dtype=float32)
    """

    mean_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """The mean of each column in the training data."""
    scale_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """The standard deviation of each column; 1 for a constant column."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the mean and standard deviation of each column of (n_items, n_features)."""
        array = _matrix(X)
        total = np.zeros(array.shape[1])
        for start, block in _blocks(array):
            _check_finite(block, start)
            total += block.sum(axis=0)
        self.mean_ = total / len(array)
        squares = sum(((block - self.mean_) ** 2).sum(axis=0) for _, block in _blocks(array))
        self.scale_ = column_scale(self.mean_, np.sqrt(squares / len(array)))
        return self

    def transform(self, X: Any) -> npt.NDArray[np.float32]:
        """Return the standardized features, as float32."""
        self.check_fitted()
        array = _matrix(X)
        if array.shape[1] != len(self.mean_):
            raise FeatureError(
                f"The features have {array.shape[1]} columns; the Standardizer was fitted on "
                f"{len(self.mean_)}."
            )
        result = np.empty(array.shape, np.float32)
        for start, block in _blocks(array):
            _check_finite(block, start)
            result[start : start + len(block)] = (block - self.mean_) / self.scale_
        return result

    def fit_transform(self, X: Any, y: Any = None) -> npt.NDArray[np.float32]:
        """Return `fit(X).transform(X)`."""
        return self.fit(X).transform(X)

    def check_fitted(self) -> None:
        """Raise `NotFittedError` unless `fit` has run."""
        if not hasattr(self, "mean_"):
            raise NotFittedError("This Standardizer is not fitted yet: call fit(...) first.")

    def _column_names(self, input_features: Any) -> list[str]:
        if input_features is None:
            return [f"x{k}" for k in range(len(self.mean_))]
        return [str(name) for name in input_features]

    def to_state(self) -> FeatureState:
        """Return the fitted values as plain data."""
        self.check_fitted()
        return FeatureState({"kind": "standardizer"}, {"mean": self.mean_, "scale": self.scale_})

    @classmethod
    def from_state(cls, state: FeatureState) -> "Standardizer":
        """Return the Standardizer from the result of `to_state`."""
        check_kind(state, "standardizer", arrays=("mean", "scale"))
        standardizer = cls()
        standardizer.mean_ = finite_array(state, "mean", (None,))
        standardizer.scale_ = finite_array(state, "scale", standardizer.mean_.shape)
        if not (standardizer.scale_ > 0).all():
            raise SavedModelError("The saved deviations of the features are not all positive.")
        return standardizer


def column_scale(mean: FloatArray, deviation: FloatArray) -> npt.NDArray[np.float64]:
    """Return the divisor of each column: its standard deviation, or 1 if it is constant."""
    # Rounding gives a constant column a tiny deviation, which must not be inflated.
    constant = deviation <= 1e-9 * np.maximum(1, np.abs(mean))
    return np.where(constant, 1.0, deviation)


def _matrix(X: Any) -> npt.NDArray[Any]:
    array = X if isinstance(X, np.ndarray) else np.asarray(X)
    if array.ndim != 2 or not len(array) or array.dtype.kind not in "fiub":
        raise FeatureError(
            "Features must be numbers, items x columns, with at least one item; "
            f"got the shape {array.shape} of {array.dtype}."
        )
    return array


def _blocks(array: npt.NDArray[Any]) -> Iterator[tuple[int, npt.NDArray[np.float64]]]:
    for start in range(0, len(array), _BLOCK):
        yield start, np.asarray(array[start : start + _BLOCK], dtype=np.float64)


def _check_finite(block: FloatArray, start: int) -> None:
    if not np.isfinite(block).all():
        row, column = np.argwhere(~np.isfinite(block))[0]
        raise FeatureError(
            f"The feature in row {start + row}, column {column} is {block[row, column]}; "
            "features must be finite. Fill or drop missing values first."
        )
