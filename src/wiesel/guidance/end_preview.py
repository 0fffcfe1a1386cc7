"""The end model before it is trained: a linear model on the features, in a fraction of a second.

The shares of the votes are soft labels, and a ridge regression learns them from the features, every
class weighing the same: votes for one class are often far more common than the class. Voters are
judged by what it says of items that it did not learn from.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wiesel.errors import FeatureError
from wiesel.labels import ABSTAIN, LabelSpace
from wiesel.threads import one_thread
from wiesel.votes import VoteMatrix

__all__ = ["EndPreview", "preview_end_model"]

Floats = npt.NDArray[np.float64]

_RIDGE = 0.02
"""The penalty, as a share of the number of items that are learned from."""
_GOLD_WEIGHT = 3.0
"""How many soft labels one gold label outweighs."""
_LEAST, _MOST = 0.02, 0.98
"""Trust and probabilities stay between these: no voter and no linear model is certain."""
_MOST_BALANCE = 50.0
"""A class is weighed up by this much at most: a handful of votes do not stand for it all."""
_DOUBT = 5.0
"""Votes that a voter's trust starts from, at the mean over all voters."""


@dataclass(frozen=True, eq=False)
class EndPreview:
    """What a linear model on the features makes of the votes, and what it rests on.

    >>> X = np.array([[-1.0], [0.5], [1.0], [0.8]])
    >>> preview_end_model(X, votes).proba.argmax(axis=1)
    array([0, 1, 1, 1])
    """

    labels: LabelSpace
    proba: Floats
    """P(class) of every item: (n_items, n_classes)."""
    soft_labels: Floats
    """The share of the votes for each class; gold where it is known, equal shares without votes."""
    trust: Floats
    """How often each voter is right, as far as the features can tell; NaN if it never voted."""
    weights: Floats
    """How much each item counts in learning: 0 without a vote and without gold, more for classes
    that few votes are for."""
    inputs: npt.NDArray[np.float32]
    """The features with a column of ones."""
    coefficients: Floats
    """(n_features + 1, n_classes)."""
    inverse: Floats
    """The inverse of the penalized second moments: it says which items are near to which."""

    def predict_proba(self, X: Any) -> Floats:
        """Return P(class) of other items with the same features."""
        return _probabilities(with_ones(X) @ self.coefficients)

    def nearness(self, inputs: Any) -> Floats:
        """Return how far every item learned from moves the score of one other: (n_items,)."""
        row = with_ones(np.atleast_2d(inputs))[0].astype(np.float64)
        near: Floats = self.weights * (self.inputs @ (self.inverse @ row))
        return near


@one_thread()
def preview_end_model(X: Any, votes: VoteMatrix, gold: Any = None) -> EndPreview:
    """Return what a linear model on the features would learn from the votes (and some gold).

    `gold` are the known labels of some items: names or indices, None or -1 where unknown. It
    takes well under a second for 25,000 items with 300 features.

    >>> X = np.array([[-1.0], [0.5], [1.0], [0.8]])
    >>> preview_end_model(X, votes, gold=["ham", None, None, None]).soft_labels[0]
    array([1., 0.])
    """
    inputs = with_ones(X)
    if len(inputs) != votes.n_items:
        raise FeatureError(f"There are features of {len(inputs):,} items, votes on {len(votes):,}.")
    known = _gold(gold, votes)
    counted = np.where(known != ABSTAIN, _GOLD_WEIGHT, votes.covered.astype(np.float64))
    if not counted.any():
        raise FeatureError(
            "A preview needs one vote or one gold label: write a labeling function, or label a row."
        )
    soft = _with_gold(_counted(votes), known)
    weights = _by_class(counted, soft)
    halves = [_moments(inputs, weights, part) for part in _halves(votes.n_items)]
    trust = _trust(inputs, votes, soft, weights, halves)
    inverse = _inverse(halves[0] + halves[1])
    coefficients = inverse @ _product(inputs.T, weights[:, None] * soft)
    return EndPreview(
        votes.labels,
        _probabilities(_product(inputs, coefficients)),
        soft,
        trust,
        weights,
        inputs,
        coefficients,
        inverse,
    )


def with_ones(X: Any) -> npt.NDArray[np.float32]:
    """Return features as a matrix with a column of ones behind them."""
    array = np.asarray(X, dtype=np.float32)
    if array.ndim != 2 or not np.isfinite(array).all():
        raise FeatureError(
            f"A preview needs a matrix of finite numbers, a row for each item; got {array.shape}."
        )
    return np.hstack([array, np.ones((len(array), 1), np.float32)])


def _gold(gold: Any, votes: VoteMatrix) -> npt.NDArray[np.int64]:
    if gold is None:
        return np.full(votes.n_items, ABSTAIN, dtype=np.int64)
    known = votes.labels.indices(gold, allow_unknown=True)
    if len(known) != votes.n_items:
        raise FeatureError(f"There are {len(known):,} gold labels for {votes.n_items:,} items.")
    return known


def _with_gold(soft: Floats, known: npt.NDArray[np.int64]) -> Floats:
    rows = np.flatnonzero(known != ABSTAIN)
    soft = soft.copy()
    soft[rows] = np.eye(soft.shape[1])[known[rows]]
    return soft


def _counted(votes: VoteMatrix) -> Floats:
    counts = votes.counts() + 1e-9
    shares: Floats = counts / counts.sum(axis=1, keepdims=True)
    return shares


def _by_class(weights: Floats, soft: Floats) -> Floats:
    """Weights under which every class that is named at all has the same mass."""
    mass = weights @ soft
    named = mass > 0
    share = np.divide(mass.sum(), mass * named.sum(), out=np.zeros_like(mass), where=named)
    balanced: Floats = weights * (soft @ np.minimum(share, _MOST_BALANCE))
    return balanced


def _halves(n_items: int) -> list[npt.NDArray[np.int64]]:
    """Two random halves, the same each time; every other item might be of one class."""
    order = np.random.default_rng(0).permutation(n_items)
    return [np.sort(order[start::2]) for start in (0, 1)]


def _moments(
    inputs: npt.NDArray[np.float32], weights: Floats, rows: npt.NDArray[np.int64]
) -> Floats:
    used = rows[weights[rows] > 0]
    part = inputs[used]
    moments = (part * weights[used, None].astype(np.float32)).T @ part
    return moments.astype(np.float64) + _RIDGE * weights[used].sum() * np.eye(inputs.shape[1])


def _product(inputs: npt.NDArray[np.float32], others: Floats) -> Floats:
    """The product in single precision: else all inputs would be copied to double first."""
    product: Floats = (inputs @ others.astype(np.float32)).astype(np.float64)
    return product


def _inverse(moments: Floats) -> Floats:
    # A half without any item has no penalty either, so a little is always added.
    inverse: Floats = np.linalg.inv(moments + 1e-6 * np.eye(len(moments))).astype(np.float64)
    return inverse


def _trust(
    inputs: npt.NDArray[np.float32],
    votes: VoteMatrix,
    soft: Floats,
    weights: Floats,
    halves: list[Floats],
) -> Floats:
    """How probable each voter's votes are to a model that learned from the other half."""
    proba = np.empty_like(soft)
    for here, there, moments in zip(
        _halves(votes.n_items), reversed(_halves(votes.n_items)), reversed(halves), strict=True
    ):
        targets = _product(inputs[there].T, weights[there, None] * soft[there])
        proba[here] = _probabilities(_product(inputs[here], _inverse(moments) @ targets))
    said = proba[votes.item_index, votes.class_index]
    count = np.bincount(votes.voter_index, minlength=votes.n_voters)
    total = np.bincount(votes.voter_index, said, minlength=votes.n_voters)
    mean = total.sum() / max(count.sum(), 1)
    trust = np.clip((total + _DOUBT * mean) / (count + _DOUBT), _LEAST, _MOST)
    return np.where(count > 0, trust, np.nan)


def _probabilities(scores: npt.NDArray[Any]) -> Floats:
    """A regression on soft labels estimates their mean: only its ends must be cut."""
    cut = np.clip(scores.astype(np.float64), 1 - _MOST, _MOST)
    proba: Floats = cut / cut.sum(axis=1, keepdims=True)
    return proba
