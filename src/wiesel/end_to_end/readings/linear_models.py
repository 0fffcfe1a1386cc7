"""Linear models that predict items they have not seen: what features say of unseen answers."""

import functools
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
from torch import Tensor

from wiesel.training.inputs import Inputs, is_matrix

__all__ = ["cross_fitted", "supports_linear_model"]

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


def cross_fitted(inputs: Inputs, targets: Array, rows: Rows) -> Array:
    """Return what linear models predict of these items, each fitted without those it predicts.

    `targets` has a line for every item; that of the result is 0 for items not in `rows`.
    """
    # Always the same folds: the same votes and features give the same labels.
    order = np.random.default_rng(0).permutation(rows)
    folds = [order[k::_FOLDS] for k in range(_FOLDS)]
    fitted = [fold[: _MOST_FITTED // _FOLDS] for fold in folds]
    standardized = functools.partial(
        _standardized, inputs, *_moments(inputs, np.concatenate(fitted))
    )
    # Features times features, and times targets, beside each other: one pass over the items.
    products = [
        _summed(part.T @ np.hstack([part, targets[own]]) for own, part in standardized(fold))
        for fold in fitted
    ]
    total, n_features = _summed(products), len(products[0])
    penalty = _PENALTY * len(order[:_MOST_FITTED]) * np.eye(n_features)
    predicted = np.zeros_like(targets)
    for fold, product in zip(folds, products, strict=True):
        square, times_targets = np.hsplit(total - product, [n_features])
        coefficients = np.linalg.solve(square + penalty, times_targets)
        for own, part in standardized(fold):
            predicted[own] = part @ coefficients
    return predicted


def _moments(inputs: Inputs, rows: Rows) -> tuple[Array, Array]:
    """The mean and the standard deviation of every feature; infinite where it never changes."""
    mean = _summed(part.sum(axis=0) for _, part in _read(inputs, rows)) / len(rows)
    squares = _summed(np.square(part - mean).sum(axis=0) for _, part in _read(inputs, rows))
    deviation = np.sqrt(squares / len(rows))
    return mean, np.where(deviation > 1e-6 * np.abs(mean), deviation, np.inf)


def _standardized(
    inputs: Inputs, mean: Array, deviation: Array, rows: Rows
) -> Iterator[tuple[Rows, Array]]:
    for chunk, part in _read(inputs, rows):
        yield chunk, (part - mean) / deviation


def _summed(arrays: Iterable[Array]) -> Array:
    return functools.reduce(np.add, arrays)


def _read(inputs: Inputs, rows: Rows) -> Iterator[tuple[Rows, Array]]:
    """The features of some items, so many at once as memory allows."""
    at_once = max(1, _AT_ONCE // max(1, inputs.item_bytes // 4))
    for start in range(0, len(rows), at_once):
        chunk = rows[start : start + at_once]
        features: Tensor = inputs.take(chunk)  # type: ignore[assignment]
        yield chunk, features.double().numpy()
