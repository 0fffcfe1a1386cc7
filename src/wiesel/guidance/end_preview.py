"""A preview of the end model: a linear model on the features, in a fraction of a second.

Vote shares serve as soft labels, and a ridge regression learns them from the features. Classes have
equal weight, because votes for one class are often far more common than the class. Voters are
evaluated on items that the model was not trained on.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wiesel.analysis.summary import gold_indices
from wiesel.errors import FeatureError
from wiesel.labels import ABSTAIN, LabelSpace
from wiesel.tables import in_order_of, read_rows
from wiesel.threads import one_thread
from wiesel.votes import VoteMatrix, require_votes

__all__ = ["EndPreview", "features_of", "preview_end_model"]

Floats = npt.NDArray[np.float64]

_RIDGE = 0.02
"""The penalty, as a share of the number of training items."""
_GOLD_WEIGHT = 3.0
"""How many soft labels one gold label outweighs."""
_LEAST, _MOST = 0.02, 0.98
"""Limits on trust and probabilities: no voter and no linear model is certain."""
_MOST_BALANCE = 50.0
"""The maximum weight of a class, because a handful of votes does not represent it."""
_DOUBT = 5.0
"""Pseudo-count of votes that shrinks a voter's trust toward the mean over all voters."""


@dataclass(frozen=True, eq=False)
class EndPreview:
    """The predictions of a linear model trained on features and votes, and its inputs.

    >>> X = np.array([[-1.0], [0.5], [1.0], [0.8]])
    >>> preview_end_model(X, votes).proba.argmax(axis=1)
    array([0, 1, 1, 1])
    """

    labels: LabelSpace
    proba: Floats
    """P(class) of every item: (n_items, n_classes)."""
    soft_labels: Floats
    """The share of votes for each class; gold if known, equal shares without votes."""
    trust: Floats
    """How often each voter is right, as far as the features can tell; NaN if it never voted."""
    weights: Floats
    """The training weight of each item: 0 without a vote or gold, larger for classes with few
    votes."""
    inputs: npt.NDArray[np.float32]
    """The features with a column of ones."""
    coefficients: Floats
    """(n_features + 1, n_classes)."""
    inverse: Floats
    """The inverse of the penalized second moments, from which nearness is computed."""

    def predict_proba(self, X: Any) -> Floats:
        """Return P(class) of other items with the same features."""
        return _probabilities(with_ones(X) @ self.coefficients)

    def nearness(self, inputs: Any) -> Floats:
        """Return the effect of every training item on the score of another item: (n_items,)."""
        row = with_ones(np.atleast_2d(inputs))[0].astype(np.float64)
        near: Floats = self.weights * (self.inputs @ (self.inverse @ row))
        return near


@one_thread()
def preview_end_model(X: Any, votes: VoteMatrix, gold: Any = None) -> EndPreview:
    """Fit a linear model on the features to the votes (and some gold).

    `gold` contains the known labels of some items: names or indices, None or -1 if unknown. The
    fit takes well under a second for 25,000 items with 300 features.

    >>> X = np.array([[-1.0], [0.5], [1.0], [0.8]])
    >>> preview_end_model(X, votes, gold=["ham", None, None, None]).soft_labels[0]
    array([1., 0.])
    """
    require_votes(votes)
    inputs = with_ones(features_of(X, votes))
    known = gold_indices(votes, gold)
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


def features_of(
    X: Any, votes: VoteMatrix, name: str = "X", rows: npt.NDArray[np.int64] | None = None
) -> npt.NDArray[np.float32]:
    """Return features as a matrix, with a row for each item of the votes, matched by id.

    With `rows`, it is these rows: of a memory-mapped array, the others are not read.

    >>> features_of([[0.5], ["cash"], [1.0], [2.0]], votes)
    Traceback (most recent call last):
    wiesel.errors.FeatureError: X must be a matrix of finite numbers, a row for each item; got a \
list of the shape (4, 1): could not convert string to float: 'cash'.
    """
    ordered = in_order_of(votes, X, name, drop_ids=True)
    is_array = isinstance(ordered, np.ndarray) and ordered.ndim == 2
    array = ordered if is_array and rows is not None else _matrix(ordered, name)
    if len(array) != votes.n_items:
        raise FeatureError(
            f"There are features of {len(array):,} items, votes on {votes.n_items:,}: {name} needs "
            "a row for each item."
        )
    if rows is None:
        return array
    return _matrix(read_rows(array, rows), name) if is_array else array[rows]


def _matrix(X: Any, name: str = "X") -> npt.NDArray[np.float32]:
    reason = ""
    try:
        array: npt.NDArray[np.float32] = np.asarray(X, dtype=np.float32)
    except (TypeError, ValueError) as error:
        array, reason = np.empty(0, np.float32), f": {error}"
    if array.ndim != 2 or not np.isfinite(array).all():
        raise FeatureError(
            f"{name} must be a matrix of finite numbers, a row for each item; got a "
            f"{type(X).__name__} of the shape {np.shape(X)}{reason}."
        )
    return array


def with_ones(X: Any) -> npt.NDArray[np.float32]:
    """Return features as a matrix with a column of ones appended."""
    array = _matrix(X)
    return np.hstack([array, np.ones((len(array), 1), np.float32)])


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
    """Return weights that give the same mass to every class with a vote."""
    mass = weights @ soft
    named = mass > 0
    share = np.divide(mass.sum(), mass * named.sum(), out=np.zeros_like(mass), where=named)
    balanced: Floats = weights * (soft @ np.minimum(share, _MOST_BALANCE))
    return balanced


def _halves(n_items: int) -> list[npt.NDArray[np.int64]]:
    """Return two fixed random halves; taking every other item could split by class."""
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
    """Multiply in single precision, to avoid copying all inputs to double precision."""
    product: Floats = (inputs @ others.astype(np.float32)).astype(np.float64)
    return product


def _inverse(moments: Floats) -> Floats:
    # A half without items has no penalty, so a small amount is always added.
    inverse: Floats = np.linalg.inv(moments + 1e-6 * np.eye(len(moments))).astype(np.float64)
    return inverse


def _trust(
    inputs: npt.NDArray[np.float32],
    votes: VoteMatrix,
    soft: Floats,
    weights: Floats,
    halves: list[Floats],
) -> Floats:
    """Return the probability of each voter's votes under a model trained on the other half."""
    proba = np.empty_like(soft)
    for here, there, moments in zip(
        _halves(votes.n_items), reversed(_halves(votes.n_items)), reversed(halves), strict=True
    ):
        targets = _product(inputs[there].T, weights[there, None] * soft[there])
        proba[here] = _probabilities(_product(inputs[here], _inverse(moments) @ targets))
    proba_of_vote = proba[votes.item_index, votes.class_index]
    count = np.bincount(votes.voter_index, minlength=votes.n_voters)
    total = np.bincount(votes.voter_index, proba_of_vote, minlength=votes.n_voters)
    mean = total.sum() / max(count.sum(), 1)
    trust = np.clip((total + _DOUBT * mean) / (count + _DOUBT), _LEAST, _MOST)
    return np.where(count > 0, trust, np.nan)


def _probabilities(scores: npt.NDArray[Any]) -> Floats:
    """Clip the scores: a regression on soft labels already estimates their mean."""
    cut = np.clip(scores.astype(np.float64), 1 - _MOST, _MOST)
    proba: Floats = cut / cut.sum(axis=1, keepdims=True)
    return proba
