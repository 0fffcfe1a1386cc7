"""Cross-fitted linear models that predict soft labels from features."""

import functools
import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve

from wiesel.end_to_end.readings.input_vectors import InputVectors
from wiesel.training.inputs import Inputs

__all__ = ["CrossFit", "LinearModel"]

_FOLDS = 5
_MOST_FITTED = 50_000
"""The most items a linear model is fitted on; more would not improve it."""
_MOST_KEPT = 30_000_000
"""So many standardized numbers are kept in memory; more are computed each time."""
_PENALTY = 0.1
"""The ridge penalty, in units of the variance of a feature."""

Rows = npt.NDArray[np.int64]
Array = npt.NDArray[np.float64]


class LinearModel(NamedTuple):
    """A linear model of the features."""

    coefficients: Array
    """(n_features, n_targets)"""
    intercept: Array
    """(n_targets,)"""

    def predict(self, inputs: Inputs) -> Array:
        """Return the predictions for all items: (n_items, n_targets)."""
        vectors = InputVectors(inputs, len(self.coefficients))
        parts = [part @ self.coefficients for _, part in vectors.read(np.arange(len(inputs)))]
        return np.concatenate([np.empty((0, len(self.intercept))), *parts]) + self.intercept


class CrossFit:
    """Ridge regressions of any targets on the same features, in five folds.

    All that does not depend on the targets is computed once, so further targets cost little. Wide
    vectors, such as token sets or images, are projected to their leading directions.
    """

    @classmethod
    def of(cls, inputs: Inputs, rows: Rows) -> "CrossFit | None":
        """Return regressions on some items; None if there are too few, or no vectors."""
        vectors = InputVectors.of(inputs) if len(rows) >= 2 * _FOLDS else None
        return None if vectors is None else cls(vectors, rows)

    def __init__(self, vectors: InputVectors, rows: Rows) -> None:
        # Fixed folds, so that the same votes and features always give the same labels.
        order = np.random.default_rng(0).permutation(rows)
        folds = [order[k::_FOLDS] for k in range(_FOLDS)]
        self._rows = np.concatenate(folds)
        stops = np.cumsum([len(fold) for fold in folds]).tolist()
        self._folds = [slice(*bounds) for bounds in itertools.pairwise([0, *stops])]
        most = _MOST_FITTED // _FOLDS
        self._fitted = [slice(s.start, min(s.stop, s.start + most)) for s in self._folds]
        directions = vectors.directions(rows) if vectors.is_wide else None
        self._directions = directions
        self._vectors = vectors if directions is None else vectors.projected(directions)
        fitted = np.concatenate([self._rows[part] for part in self._fitted])
        self._mean, self._deviation = self._moments(fitted)
        small = len(self._rows) * self._vectors.width <= _MOST_KEPT
        self._standardized = self._standardize(self._rows) if small else None
        squares = [_summed(part.T @ part for _, part in self._read(fold)) for fold in self._fitted]
        total = _summed(squares)
        total += _PENALTY * len(fitted) * np.eye(len(total))
        self._all = cho_factor(total)
        self._without = [cho_factor(total - square) for square in squares]

    def fit(self, targets: Array) -> tuple[Array, LinearModel]:
        """Return out-of-fold predictions for every item, and the model fitted on all folds.

        `targets` has a row for every item. Predictions are 0 for items not in `rows`.
        """
        products = self._products(targets)
        total = _summed(products)
        predicted = np.zeros_like(targets)
        for fold, factor, product in zip(self._folds, self._without, products, strict=True):
            coefficients = cho_solve(factor, total - product)
            for own, part in self._read(fold):
                predicted[own] = part @ coefficients
        of_all = cho_solve(self._all, total) / self._deviation[:, None]
        intercept = -self._mean @ of_all
        if self._directions is not None:
            of_all = self._directions @ of_all
        return predicted, LinearModel(of_all, intercept)

    def _products(self, targets: Array) -> list[Array]:
        """Features times targets, fold by fold."""
        return [
            _summed(part.T @ targets[own] for own, part in self._read(fold))
            for fold in self._fitted
        ]

    def _moments(self, rows: Rows) -> tuple[Array, Array]:
        """The mean and standard deviation of every feature; infinite for a constant feature."""
        mean = _summed(part.sum(axis=0) for _, part in self._vectors.read(rows)) / len(rows)
        squares = _summed(
            np.square(part - mean).sum(axis=0) for _, part in self._vectors.read(rows)
        )
        deviation = np.sqrt(squares / len(rows))
        return mean, np.where(deviation > 1e-6 * np.abs(mean), deviation, np.inf)

    def _read(self, fold: slice) -> Iterator[tuple[Rows, Array]]:
        """Yield rows of a fold and their standardized vectors."""
        if self._standardized is not None:
            yield self._rows[fold], self._standardized[fold]
            return
        for chunk, part in self._vectors.read(self._rows[fold]):
            yield chunk, (part - self._mean) / self._deviation

    def _standardize(self, rows: Rows) -> Array:
        parts = [(part - self._mean) / self._deviation for _, part in self._vectors.read(rows)]
        return np.concatenate(parts)


def _summed(arrays: Iterable[Array]) -> Array:
    return functools.reduce(np.add, arrays)
