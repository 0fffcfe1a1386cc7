"""What is believed of every row before there are labeling functions for it.

A few gold labels and the present votes say something about some rows; words and features carry it
to the others. Two simple models do that, and what they say is averaged: naive Bayes on the words,
taught by expectation maximization (Nigam et al., Machine Learning 39, 2000), and a ridge
regression on the features.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from wiesel.errors import DataError, listed
from wiesel.guidance.end_preview import preview_end_model, softmax
from wiesel.guidance.terms import TermIndex
from wiesel.labels import ABSTAIN
from wiesel.votes import VoteMatrix

__all__ = ["row_beliefs"]

Floats = npt.NDArray[np.float64]

_ROUNDS = 12
_FREQUENT, _FREQUENT_SHORT, _SHORT = 0.1, 0.3, 30
"""Words in a larger share of the texts say how people write, not what about; in short texts (on
average below so many words) even common ones tell something."""
_EQUAL = 6.0
"""Rows of every class that the class balance starts from: a few labels tell it only roughly."""
_LENGTH = 10.0
"""A text counts as this many independent words at most: its words hang together."""
_GOLD_SHARE = 0.02
"""All gold rows together weigh at least this share of the rows."""


def row_beliefs(
    index: TermIndex, votes: VoteMatrix, gold: npt.NDArray[np.int64], X: Any = None
) -> Floats:
    """Return P(class) of every row, from a few gold labels, the votes, words and features.

    >>> index = TermIndex.of(["hi all", "hi www", "win www", "win ok"], min_count=1)
    >>> row_beliefs(index, votes, np.array([0, -1, 1, -1])).argmax(axis=1)
    array([0, 0, 1, 0])
    """
    counts = votes.counts()
    total = counts.sum(axis=1, keepdims=True)
    given = np.divide(counts, total, out=np.full_like(counts, 1 / votes.n_classes), where=total > 0)
    known = np.flatnonzero(gold != ABSTAIN)
    given[known] = np.eye(votes.n_classes)[gold[known]]
    weights = votes.covered.astype(np.float64)
    weights[known] = max(1.0, _GOLD_SHARE * len(gold) / max(len(known), 1))
    _check_classes(given, weights, votes)
    prior = _prior(given, weights, gold, votes)
    words = _word_beliefs(index, given, weights, prior)
    scores = np.log(words)
    if X is not None and index.terms:
        scores += np.log(_feature_beliefs(_as_votes(words, votes), X, gold, prior))
    elif X is not None:
        scores += np.log(_feature_beliefs(votes, X, gold, prior))
    return balanced(scores, prior)


def balanced(scores: Floats, prior: Floats, rounds: int = 30) -> Floats:
    """Return probabilities whose mean over all rows is the class balance.

    >>> balanced(np.array([[2.0, 0.0], [1.0, 0.0]]), np.array([0.5, 0.5])).mean(axis=0).round(2)
    array([0.5, 0.5])
    """
    shift = np.zeros(scores.shape[1])
    for _ in range(rounds):
        proba = softmax(scores + shift)
        shift += 0.7 * np.log(prior / np.maximum(proba.mean(axis=0), 1e-6))
    return proba


def _check_classes(given: Floats, weights: Floats, votes: VoteMatrix) -> None:
    reached = (weights @ (given > 1 / votes.n_classes)) > 0
    missing = [name for name, there in zip(votes.labels, reached, strict=True) if not there]
    if missing:
        raise DataError(
            f"Nothing is known of {listed(missing)}: label a row of each class, or write one "
            "labeling function for each, before asking for suggestions."
        )


def _prior(
    given: Floats, weights: Floats, gold: npt.NDArray[np.int64], votes: VoteMatrix
) -> Floats:
    """How common the classes are: by gold where there is some, else by the votes."""
    known = gold[gold != ABSTAIN]
    if len(known) >= 2 * votes.n_classes:
        counts = np.bincount(known, minlength=votes.n_classes).astype(np.float64)
    else:
        counts = weights @ given
        counts *= min(1.0, 20 / counts.sum())
    prior: Floats = (counts + _EQUAL) / (counts.sum() + _EQUAL * votes.n_classes)
    return prior


def _word_beliefs(index: TermIndex, given: Floats, weights: Floats, prior: Floats) -> Floats:
    matrix = index.matrix
    single = np.array([" " not in term for term in index.terms], dtype=bool)
    mean_length = index.counts[single].sum() / max(matrix.shape[0], 1) if len(single) else 0.0
    frequent = _FREQUENT_SHORT if mean_length < _SHORT else _FREQUENT
    rare = index.counts < max(frequent * matrix.shape[0], 2)
    words = matrix[:, np.flatnonzero(rare & single)] if len(index.terms) else matrix
    length = np.maximum(np.asarray(words.sum(axis=1)).ravel(), 1e-9)
    scale = (np.minimum(length, _LENGTH) / length)[:, None]
    proba, counted = given, weights
    for _ in range(_ROUNDS):
        cells = np.asarray(words.T @ (proba * counted[:, None]), dtype=np.float64) + 0.5
        log_words = np.log(cells / cells.sum(axis=0))
        log_words -= log_words.mean(axis=1, keepdims=True)
        proba = balanced(np.asarray(words @ log_words) * scale, prior)
        taught = weights > 0
        proba[taught] = given[taught]
        counted = np.maximum(weights, 1.0)
    return np.maximum(proba, 1e-9)


def _as_votes(proba: Floats, votes: VoteMatrix) -> VoteMatrix:
    """What the words say of every row, as the votes of one voter."""
    shares = proba / proba.sum(axis=1, keepdims=True)
    return VoteMatrix.from_proba(shares[:, None, :], votes.labels, ["words"])


def _feature_beliefs(
    votes: VoteMatrix, X: Any, gold: npt.NDArray[np.int64], prior: Floats
) -> Floats:
    """What a ridge regression on the features makes of votes and gold."""
    learned = preview_end_model(X, votes, gold).proba
    return np.maximum(balanced(4 * np.log(learned), prior), 1e-9)
