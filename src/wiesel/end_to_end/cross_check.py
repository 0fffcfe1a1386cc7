"""Soft labels of votes that were checked against the features."""

import functools
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
from torch import Tensor

from wiesel.end_to_end.class_balance import aligned_to
from wiesel.label_models.pair_moments import vote_totals
from wiesel.label_models.vote_products import LogJoint, class_shares, posterior
from wiesel.labels import class_prior
from wiesel.training.inputs import Inputs, is_matrix
from wiesel.votes import VoteMatrix

__all__ = ["MOST_PAIRED", "cross_checked", "own_parts"]

MOST_PAIRED = 3_000
"""Up to how many voters all pairs of them are looked at."""

_FOLDS = 5
_WIDEST = 2_000
"""Up to how many features: the cost of a linear model grows with their square."""
_MOST_FITTED = 50_000
"""Items that a linear model is fitted to; more of them would not make it better."""
_AT_ONCE = 4_000_000
"""How many numbers are read at once."""
_PENALTY = 0.1
"""Of the linear model, in units of the variance of a feature."""
_DOUBT = 10.0
"""Every voter counts as having cast so many more votes, about which the features say nothing."""
_GAIN = 0.5
"""How far an average vote takes the probability of its class from the class balance to one."""
_SMALLEST = 0.03
"""No vote rules a class out."""

_MOST_COMPARED = 2_000
"""On how many items voters are compared."""
_AGREEING = 0.8
"""From which share of equal votes on two voters count as copies, in part."""
_FEW = 5.0
"""So many votes of two voters are taken to differ."""

Rows = npt.NDArray[np.int64]
Array = npt.NDArray[np.float64]


def cross_checked(votes: VoteMatrix, inputs: Inputs, balance: Array) -> Array | None:
    """Return soft labels in which a vote counts as much as the features confirm it.

    A linear model learns the shares of the votes from the features of some items, and predicts the
    others. What it predicts, on average, where a voter chose a class is what that vote says: if
    the features know nothing of it, nothing; if they contradict it, the opposite. The evidence of
    an item's votes is added up. Voters need not overlap for that; those that are copies of each
    other count as one.

    None where the features cannot be asked (they are no vectors, or too long), or do not even
    confirm the votes on average.

    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> from wiesel.training.inputs import as_inputs
    >>> votes, gold = make_votes(500, n_voters=4)
    >>> X = as_inputs(make_features(gold, n_features=4))
    >>> cross_checked(votes, X, np.array([0.5, 0.5])).shape
    (500, 2)
    """
    covered = np.flatnonzero(votes.covered)
    width = inputs.item_bytes // 4
    if not is_matrix(inputs) or not 0 < width <= _WIDEST or len(covered) < 2 * _FOLDS:
        return None
    weights = own_parts(votes)
    shares = class_shares(votes, class_prior(votes.labels, None), weights)
    surprise = shares - shares[covered].mean(axis=0)
    evidence = _evidence(votes, _predicted(inputs, surprise, covered), balance, weights)
    if evidence is None:
        return None
    proba = posterior(votes, LogJoint(evidence, np.log(balance)), balance)
    proba[covered] = aligned_to(balance, proba[covered])
    return proba


def own_parts(votes: VoteMatrix) -> Array:
    """Return, for every voter, how much of it is not said by others: 1, or 1/5 for five copies.

    Voters whose votes are the same on nine tenths of the items count as half a copy of each other,
    and below eight tenths as none: good voters agree often, too. Few votes prove nothing.

    >>> copied = VoteMatrix.from_dense([[0, 1, 1]] * 500 + [[1, 0, 0]] * 400, ["no", "yes"])
    >>> own_parts(copied).round(2)
    array([1.  , 0.51, 0.51])
    """
    n_classes = votes.n_classes
    if votes.n_voters > MOST_PAIRED:
        return np.ones(votes.n_voters)
    rows = np.random.default_rng(0).permutation(np.flatnonzero(votes.covered))[:_MOST_COMPARED]
    one_hot = votes[np.sort(rows)].one_hot()
    by_class = (one_hot[:, c::n_classes].toarray() for c in range(n_classes))
    alike = _summed((own.T @ own).astype(np.float64) for own in by_class)
    most = np.maximum.outer(alike.diagonal(), alike.diagonal())
    copied = np.clip((alike / (most + _FEW) - _AGREEING) / (1 - _AGREEING), 0, 1)
    np.fill_diagonal(copied, 1)
    parts: Array = 1 / copied.sum(axis=1)
    return parts


def _evidence(votes: VoteMatrix, predicted: Array, balance: Array, weights: Array) -> Array | None:
    """What every vote says of every class, as a logarithm: (n_voters * n_classes, n_classes)."""
    counts = vote_totals(votes).ravel()
    own = np.repeat(weights, votes.n_classes)
    told = predicted[votes.covered]
    lift = votes.one_hot().T @ predicted - np.outer(counts, told.mean(axis=0))
    lift /= (counts + _DOUBT)[:, None]
    chosen = np.tile(np.arange(votes.n_classes), votes.n_voters)
    confirmed = np.average(lift[np.arange(len(lift)), chosen], weights=counts * own)
    # Features that know nothing confirm votes by chance.
    if confirmed <= 2 * told.std() / np.sqrt(len(told)):
        return None
    scale = _GAIN * (1 - np.average(balance[chosen], weights=counts * own)) / confirmed
    proba = np.maximum(balance + scale * lift, _SMALLEST)
    evidence: Array = np.log(proba / proba.sum(axis=1, keepdims=True) / balance)
    return evidence * own[:, None]


def _predicted(inputs: Inputs, targets: Array, covered: Rows) -> Array:
    """What linear models say of the covered items, each fitted without those that it predicts."""
    # Always the same folds: the same votes and features give the same labels.
    order = np.random.default_rng(0).permutation(covered)
    folds = [order[k::_FOLDS] for k in range(_FOLDS)]
    fitted = [fold[: _MOST_FITTED // _FOLDS] for fold in folds]
    standardized = functools.partial(
        _standardized, inputs, *_moments(inputs, np.concatenate(fitted))
    )
    # Features times features, and times targets, beside each other: one pass over the items.
    products = [
        _summed(part.T @ np.hstack([part, targets[rows]]) for rows, part in standardized(fold))
        for fold in fitted
    ]
    total, n_features = _summed(products), len(products[0])
    penalty = _PENALTY * len(order[:_MOST_FITTED]) * np.eye(n_features)
    predicted = np.zeros_like(targets)
    for fold, own in zip(folds, products, strict=True):
        square, product = np.hsplit(total - own, [n_features])
        coefficients = np.linalg.solve(square + penalty, product)
        for rows, part in standardized(fold):
            predicted[rows] = part @ coefficients
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
