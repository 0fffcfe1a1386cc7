"""Finds dependent voters: pairs that agree more often than the classes explain."""

import numpy as np
import numpy.typing as npt

from wiesel.label_models.pair_statistics import pair_counts
from wiesel.label_models.vote_products import vote_totals
from wiesel.labels import FloatArray
from wiesel.votes import VoteMatrix, require_votes

__all__ = ["find_dependencies"]

_MOST_VOTERS = 3_000
"""The most voters for which all pairs are compared."""
_ROUNDS = 3
"""The number of rounds that estimate the classes with the dependencies found so far."""
_BULK = 4.0
"""The required excess over the median pair, in robust standard deviations."""
_LEAST = 4.0
"""The required excess over independence, in standard deviations."""

Pairs = npt.NDArray[np.int64]


def find_dependencies(votes: VoteMatrix, neighbors: int = 3) -> Pairs:
    """Return pairs of voters (n_pairs, 2) that agree more often than their classes explain.

    With q the estimated class of every item and P_j(u | y) how often voter j votes u if the class
    is y, independent voters j and k cast the same vote on

        E_jk = sum over y, u of N_y P_j(u | y) P_k(u | y)

    items. A pair stands out if it agrees on many more: more than four times sqrt(E_jk), and more
    than nearly all other pairs. A pair is kept if it is among the `neighbors` strongest of either
    voter. The classes q are weighted votes in which voters that vote alike share one weight, so
    that a block of copies does not explain itself. They are estimated again with the pairs found.
    For more than 3,000 voters, no pairs are searched.

    >>> rng = np.random.default_rng(0)
    >>> columns = [rng.integers(2, size=900)] + [rng.integers(2, size=900) for _ in range(4)]
    >>> copy = np.where(rng.random(900) < 0.9, columns[1], 1 - columns[1])
    >>> find_dependencies(VoteMatrix.from_dense(np.stack([*columns, copy], axis=1), ["no", "yes"]))
    array([[1, 5]])
    """
    require_votes(votes)
    if not 3 <= votes.n_voters <= _MOST_VOTERS or not votes.n_votes or neighbors < 1:
        return np.empty((0, 2), dtype=np.int64)
    together = _agreements(votes)
    alike = _alike(votes, together)
    pairs = np.empty((0, 2), dtype=np.int64)
    for _ in range(_ROUNDS):
        excess = _excess(votes, together, _weights(pairs, alike))
        found = _strongest(excess, neighbors)
        if np.array_equal(found, pairs):
            break
        pairs = found
    return pairs


def _agreements(votes: VoteMatrix) -> npt.NDArray[np.float64]:
    """The number of items on which two voters cast the same vote: (n_voters, n_voters)."""
    n_voters, n_classes = votes.n_voters, votes.n_classes
    together = np.zeros((n_voters, n_voters))
    for block, counts in pair_counts(votes):
        by_class = counts.reshape(-1, n_classes, n_voters, n_classes)
        together[block] = np.trace(by_class, axis1=1, axis2=3)
    return together


def _alike(votes: VoteMatrix, together: FloatArray) -> npt.NDArray[np.float64]:
    """The effective number of voters like each one: the sum of its squared correlations."""
    shares = vote_totals(votes) / np.sqrt(votes.n_items)
    covariance = together - shares @ shares.T
    scale = np.sqrt(np.maximum(covariance.diagonal(), 1e-12))
    correlation = covariance / np.outer(scale, scale)
    np.fill_diagonal(correlation, 1)
    return np.square(correlation).sum(axis=1)


def _weights(pairs: Pairs, alike: FloatArray) -> npt.NDArray[np.float64]:
    """The weights of voters: one is shared among voters that are alike or dependent."""
    return 1 / np.maximum(alike, 1 + np.bincount(pairs.ravel(), minlength=len(alike)))


def _excess(
    votes: VoteMatrix, together: FloatArray, weights: FloatArray
) -> npt.NDArray[np.float64]:
    """The excess of the agreement of two voters over its expectation, in standard deviations."""
    q = _probable_classes(votes, weights)
    n_classes, per_class = votes.n_classes, q.sum(axis=0)
    counts = np.asarray(votes.one_hot().T @ q).reshape(votes.n_voters, n_classes, n_classes)
    rates = counts / np.maximum(per_class, 1e-12)
    flat = (rates * np.sqrt(per_class)).reshape(votes.n_voters, -1)
    expected = flat @ flat.T
    excess: npt.NDArray[np.float64] = (together - expected) / np.sqrt(expected + 1)
    np.fill_diagonal(excess, 0)
    return excess


def _probable_classes(votes: VoteMatrix, weights: FloatArray) -> npt.NDArray[np.float64]:
    """P(class) of every item: weighted vote shares, refined once by the voters' confusions."""
    n_classes, one_hot = votes.n_classes, votes.one_hot().astype(np.float64)
    say = np.kron(weights[:, None], np.eye(n_classes))
    shares = one_hot @ say
    total = shares.sum(axis=1, keepdims=True)
    start = np.where(total > 0, shares / np.maximum(total, 1e-12), 1 / n_classes)
    counts = (one_hot.T @ start).reshape(votes.n_voters, n_classes, n_classes) + 1 / n_classes
    # Rows of `counts` are votes; the frequency of a class among votes is no evidence by itself.
    confusion = counts / counts.sum(axis=1, keepdims=True)
    evidence = np.log(confusion) * weights[:, None, None]
    scores = one_hot @ evidence.reshape(-1, n_classes) + np.log(start.mean(axis=0) + 1e-12)
    proba = np.exp(scores - scores.max(axis=1, keepdims=True))
    sharpened: npt.NDArray[np.float64] = proba / proba.sum(axis=1, keepdims=True)
    return sharpened


def _strongest(excess: FloatArray, neighbors: int) -> Pairs:
    """The pairs that stand out, first voter before second, at most `neighbors` from each."""
    upper = excess[np.triu_indices(len(excess), k=1)]
    middle = float(np.median(upper))
    spread = 1.4826 * float(np.median(np.abs(upper - middle)))
    least = max(_LEAST, middle + _BULK * spread)
    nearest = np.argsort(-excess, axis=1, kind="stable")[:, :neighbors]
    voters = np.repeat(np.arange(len(excess)), nearest.shape[1])
    pairs = np.stack([voters, nearest.ravel()], axis=1)
    pairs = pairs[excess[pairs[:, 0], pairs[:, 1]] > least]
    return np.unique(np.sort(pairs, axis=1), axis=0).reshape(-1, 2)
