"""Soft labels of votes that were checked against the features."""

import numpy as np

from wiesel.end_to_end.class_balance import aligned_to
from wiesel.end_to_end.cross_fitting import Array, can_be_asked, cross_fitted
from wiesel.label_models.pair_moments import vote_totals
from wiesel.label_models.vote_products import LogJoint, class_shares, posterior
from wiesel.labels import class_prior
from wiesel.training.inputs import Inputs
from wiesel.votes import VoteMatrix

__all__ = ["MOST_PAIRED", "copied_parts", "cross_checked", "own_parts"]

MOST_PAIRED = 3_000
"""Up to how many voters all pairs of them are looked at."""

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
    if not can_be_asked(inputs, covered):
        return None
    weights = own_parts(votes)
    shares = class_shares(votes, class_prior(votes.labels, None), weights)
    surprise = shares - shares[covered].mean(axis=0)
    evidence = _evidence(votes, cross_fitted(inputs, surprise, covered), balance, weights)
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
    if votes.n_voters > MOST_PAIRED:
        return np.ones(votes.n_voters)
    parts: Array = 1 / copied_parts(votes).sum(axis=1)
    return parts


def copied_parts(votes: VoteMatrix) -> Array:
    """Return how far any two voters are copies of each other: (n_voters, n_voters), from 0 to 1.

    >>> copied_parts(VoteMatrix.from_dense([[0, 1, 1]] * 500 + [[1, 0, 0]] * 400, ["no", "yes"]))[1]
    array([0.  , 1.  , 0.97...])
    """
    n_classes = votes.n_classes
    rows = np.random.default_rng(0).permutation(np.flatnonzero(votes.covered))[:_MOST_COMPARED]
    one_hot = votes[np.sort(rows)].one_hot()
    by_class = (one_hot[:, c::n_classes].toarray() for c in range(n_classes))
    alike: Array = sum((own.T @ own).astype(np.float64) for own in by_class)  # type: ignore[assignment]
    most = np.maximum.outer(alike.diagonal(), alike.diagonal())
    copied = np.clip((alike / (most + _FEW) - _AGREEING) / (1 - _AGREEING), 0, 1)
    np.fill_diagonal(copied, 1)
    return copied


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
