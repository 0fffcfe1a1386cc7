"""Linear models that predict items they have not seen: what features say of soft labels."""

import functools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve
from torch import Tensor

from wiesel.training.inputs import Inputs, is_matrix

__all__ = ["CrossFit", "LinearModel", "supports_linear_model"]

_FOLDS = 5
_WIDEST = 2_000
"""Up to how many features: the cost of a linear model grows with their square."""
_MOST_FITTED = 50_000
"""Items that a linear model is fitted to; more of them would not make it better."""
_AT_ONCE = 4_000_000
"""How many numbers are read at once."""
_PENALTY = 0.1
"""Of the linear model, in units of the variance of a feature."""

Rows = npt.NDArray[np.int64]
Array = npt.NDArray[np.float64]


def supports_linear_model(inputs: Inputs, rows: Rows) -> bool:
    """Return whether there are vectors, not too long, of enough items."""
    return is_matrix(inputs) and 0 < inputs.item_bytes // 4 <= _WIDEST and len(rows) >= 2 * _FOLDS


class LinearModel(NamedTuple):
    """Predictions that are linear in the features."""

    coefficients: Array
    """(n_features, n_targets)"""
    intercept: Array
    """(n_targets,)"""

    def predict(self, inputs: Inputs) -> Array:
        """Return the predictions for all items: (n_items, n_targets)."""
        parts = [part @ self.coefficients for _, part in _read(inputs, np.arange(len(inputs)))]
        return np.concatenate([np.empty((0, len(self.intercept))), *parts]) + self.intercept


class CrossFit:
    """Ridge regressions of any targets on the same features, in five folds.

    What does not depend on the targets is computed once, so that several of them cost little.
    """

    def __init__(self, inputs: Inputs, rows: Rows) -> None:
        # Always the same folds: the same votes and features give the same labels.
        order = np.random.default_rng(0).permutation(rows)
        self._inputs = inputs
        self._folds = [order[k::_FOLDS] for k in range(_FOLDS)]
        self._fitted = [fold[: _MOST_FITTED // _FOLDS] for fold in self._folds]
        self._mean, self._deviation = _moments(inputs, np.concatenate(self._fitted))
        squares = [
            _summed(part.T @ part for _, part in self._standardized(fold)) for fold in self._fitted
        ]
        total = _summed(squares)
        total += _PENALTY * sum(map(len, self._fitted)) * np.eye(len(total))
        self._all = cho_factor(total)
        self._without = [cho_factor(total - square) for square in squares]

    def fit(self, targets: Array) -> tuple[Array, LinearModel]:
        """Return what is predicted of every item without having seen it, and the model of all.

        `targets` has a line for every item; that of the predictions is 0 for items not in `rows`.
        """
        products = self._products(targets)
        total = _summed(products)
        predicted = np.zeros_like(targets)
        for fold, factor, product in zip(self._folds, self._without, products, strict=True):
            coefficients = cho_solve(factor, total - product)
            for own, part in self._standardized(fold):
                predicted[own] = part @ coefficients
        of_all = cho_solve(self._all, total) / self._deviation[:, None]
        return predicted, LinearModel(of_all, -self._mean @ of_all)

    def _products(self, targets: Array) -> list[Array]:
        """Features times targets, fold by fold."""
        return [
            _summed(part.T @ targets[own] for own, part in self._standardized(fold))
            for fold in self._fitted
        ]

    def _standardized(self, rows: Rows) -> Iterator[tuple[Rows, Array]]:
        for chunk, part in _read(self._inputs, rows):
            yield chunk, (part - self._mean) / self._deviation


def _moments(inputs: Inputs, rows: Rows) -> tuple[Array, Array]:
    """The mean and the standard deviation of every feature; infinite where it never changes."""
    mean = _summed(part.sum(axis=0) for _, part in _read(inputs, rows)) / len(rows)
    squares = _summed(np.square(part - mean).sum(axis=0) for _, part in _read(inputs, rows))
    deviation = np.sqrt(squares / len(rows))
    return mean, np.where(deviation > 1e-6 * np.abs(mean), deviation, np.inf)


def _summed(arrays: Iterable[Array]) -> Array:
    return functools.reduce(np.add, arrays)


def _read(inputs: Inputs, rows: Rows) -> Iterator[tuple[Rows, Array]]:
    """The features of some items, so many at once as memory allows."""
    at_once = max(1, _AT_ONCE // max(1, inputs.item_bytes // 4))
    for start in range(0, len(rows), at_once):
        chunk = rows[start : start + at_once]
        features: Tensor = inputs.take(chunk)  # type: ignore[assignment]
        yield chunk, features.double().numpy()
