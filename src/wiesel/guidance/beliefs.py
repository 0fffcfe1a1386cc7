"""Estimates of the class of every row before labeling functions exist for it.

A few gold labels and the present votes say something about some rows; words and features carry it
to the others. Two simple models do that and teach each other (co-training with soft labels: Nigam
and Ghani, CIKM 2000): naive Bayes on the words, and a linear model on the features. The features
begin, because a few rows tell more about dense vectors than about thousands of words.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from wiesel.errors import DataError, listed
from wiesel.guidance.end_preview import with_ones
from wiesel.guidance.terms import TermIndex
from wiesel.labels import ABSTAIN
from wiesel.votes import VoteMatrix

__all__ = ["draw_weights", "row_beliefs"]

Floats = npt.NDArray[np.float64]

_DRAWS = 6
"""Draws of the gold rows' weights."""
_ROUNDS = 6
"""Rounds in which words and features teach each other."""
_ALONE = 12
"""Rounds of words that have no features beside them."""
_CONTRAST = 2.0
"""The spread of the scores, in units of log-odds, that a model's beliefs start from."""
_PENALTY = 0.05
"""Of the linear model on all rows, as a share of the features' mean second moment."""
_FREQUENT, _FREQUENT_SHORT, _SHORT = 0.1, 0.3, 30
"""Words in a larger share of the texts say how people write, not what about; in short texts (on
average below so many words) even common ones tell something."""
_EQUAL = 6.0
"""Rows of every class that the class balance starts from: a few labels tell it only roughly."""
_LENGTH = 10.0
"""A text counts as this many independent words at most: its words hang together."""
_UNLIKELY = 1e-3
"""No gold row counts as less likely: one odd row does not decide between draws."""
_GOLD_SHARE = 0.02
"""All gold rows together weigh at least this share of the rows."""


def row_beliefs(
    index: TermIndex, votes: VoteMatrix, gold: npt.NDArray[np.int64], X: Any = None
) -> Floats:
    """Return P(class) of every row for several draws: (n_draws, n_rows, n_classes).

    They come from a few gold labels, the votes, words and features. A draw weighs the gold rows
    anew (Bayesian bootstrap: Rubin, Annals of Statistics 9, 1981), so that beliefs which rest on
    one or two of them differ between draws. Without gold there is one draw.

    >>> index = TermIndex.of(["hi all", "hi www", "win www", "win ok"], min_count=1)
    >>> row_beliefs(index, votes, np.array([0, -1, 1, -1])).mean(axis=0).argmax(axis=1)
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
    words = _WordModel(index) if index.terms else None
    features = None if X is None else _FeatureModel(X)
    drawn = []
    for shares in _draws(len(known)):
        part = weights.copy()
        part[known] *= shares
        prior = _prior(given, part, gold[known], shares)
        if features is None:
            drawn.append(_from_words(words, given, part, prior))
        else:
            drawn.append(_from_both(words, features, given, part, prior))
    return np.stack(drawn)


def draw_weights(beliefs: Floats, gold: npt.NDArray[np.int64]) -> Floats:
    """Return how much each draw counts: as much as it makes the gold labels likely.

    A draw in which words and features agreed on something else than the classes counts little.

    >>> beliefs = np.array([[[0.9, 0.1], [0.5, 0.5]], [[0.1, 0.9], [0.5, 0.5]]])
    >>> draw_weights(beliefs, np.array([0, -1])).round(2)
    array([0.9, 0.1])
    """
    known = np.flatnonzero(gold != ABSTAIN)
    likely = np.log(np.maximum(beliefs[:, known, gold[known]], _UNLIKELY)).sum(axis=1)
    weights: Floats = np.exp(likely - likely.max())
    return weights / weights.sum()


def _draws(n_gold: int) -> Iterator[Floats]:
    """Weights of the gold rows, with mean one; every row keeps a part of its own."""
    if not n_gold:
        yield np.ones(0)
        return
    rng = np.random.default_rng(0)
    for _ in range(_DRAWS):
        shares = rng.exponential(size=n_gold) + 0.1
        yield shares / shares.mean()


def balanced(scores: Floats, prior: Floats, rounds: int = 30) -> Floats:
    """Return probabilities whose mean over all rows is the class balance.

    >>> balanced(np.array([[2.0, 0.0], [1.0, 0.0]]), np.array([0.5, 0.5])).mean(axis=0).round(2)
    array([0.5, 0.5])
    """
    # Classes by rows, so that sums over the few classes are sums of long vectors.
    by_class = np.exp(scores - scores.max(axis=1, keepdims=True)).T.copy()
    shift = np.zeros((scores.shape[1], 1))
    for _ in range(rounds):
        proba = by_class * np.exp(shift)
        proba /= np.maximum(proba.sum(axis=0), 1e-300)
        shift += 0.7 * np.log(prior / np.maximum(proba.mean(axis=1), 1e-6))[:, None]
    return proba.T.copy()


def _check_classes(given: Floats, weights: Floats, votes: VoteMatrix) -> None:
    reached = (weights @ (given > 1 / votes.n_classes)) > 0
    missing = [name for name, there in zip(votes.labels, reached, strict=True) if not there]
    if missing:
        raise DataError(
            f"There is no evidence for {listed(missing)}: label a row of each class, or write one "
            "labeling function for each, before asking for suggestions."
        )


def _prior(given: Floats, weights: Floats, gold: npt.NDArray[np.int64], shares: Floats) -> Floats:
    """How common the classes are: by gold where there is some, else by the votes."""
    n_classes = given.shape[1]
    if len(gold) >= 2 * n_classes:
        counts = np.bincount(gold, shares, minlength=n_classes).astype(np.float64)
    else:
        counts = weights @ given
        counts *= min(1.0, 20 / counts.sum())
    prior: Floats = (counts + _EQUAL) / (counts.sum() + _EQUAL * n_classes)
    return prior


def _from_both(
    words: "_WordModel | None",
    features: "_FeatureModel",
    given: Floats,
    weights: Floats,
    prior: Floats,
) -> Floats:
    """Co-training: words and features learn from their combined estimates."""
    taught = np.flatnonzero(weights > 0)
    proba = balanced(_CONTRAST * features.first_scores(given, weights, taught), prior)
    for _ in range(_ROUNDS):
        proba[taught] = given[taught]
        if words is None:
            proba = balanced(_CONTRAST * features.scores(proba), prior)
            continue
        by_words = words.scores(proba, np.maximum(weights, 1.0))
        lesson = balanced(_CONTRAST * _unit_spread(by_words), prior)
        lesson[taught] = given[taught]
        # Words repeat each other, so that their evidence, which naive Bayes adds up, counts half.
        proba = balanced(by_words / 2 + features.scores(lesson), prior)
    return proba


def _from_words(
    words: "_WordModel | None", given: Floats, weights: Floats, prior: Floats
) -> Floats:
    """Expectation maximization on the words alone (Nigam et al., Machine Learning 39, 2000)."""
    proba, counted = given, weights
    taught = np.flatnonzero(weights > 0)
    for _ in range(_ALONE if words is not None else 0):
        proba = balanced(words.scores(proba, counted), prior)  # type: ignore[union-attr]
        proba[taught] = given[taught]
        counted = np.maximum(weights, 1.0)
    return proba


class _WordModel:
    """Naive Bayes on the words that are not too frequent."""

    def __init__(self, index: TermIndex) -> None:
        n_texts = index.matrix.shape[0]
        single = np.array([" " not in term for term in index.terms], dtype=bool)
        mean_length = index.counts[single].sum() / max(n_texts, 1)
        frequent = _FREQUENT_SHORT if mean_length < _SHORT else _FREQUENT
        rare = index.counts < max(frequent * n_texts, 2)
        self.words = index.matrix[:, np.flatnonzero(rare & single)]
        self.columns = self.words.T.tocsr()
        length = np.maximum(np.asarray(self.words.sum(axis=1)).ravel(), 1e-9)
        self.scale = (np.minimum(length, _LENGTH) / length)[:, None]

    def scores(self, proba: Floats, weights: Floats) -> Floats:
        """Return the log-odds of every row's words, learned from soft labels of all rows."""
        cells = np.asarray(self.columns @ (proba * weights[:, None]), dtype=np.float64) + 0.5
        log_words = np.log(cells / cells.sum(axis=0))
        log_words -= log_words.mean(axis=1, keepdims=True)
        scores: Floats = np.asarray(self.words @ log_words) * self.scale
        return scores


class _FeatureModel:
    """A linear model on the features, whose rows have length one."""

    def __init__(self, X: Any) -> None:
        centered = X - X.mean(axis=0)
        length = np.linalg.norm(centered, axis=1, keepdims=True)
        self.inputs = with_ones(centered / np.maximum(length, 1e-12)).astype(np.float64)
        moments = self.inputs.T @ self.inputs / len(self.inputs)
        self.inverse = _inverse(moments, _PENALTY * np.trace(moments) / len(moments))

    def first_scores(self, given: Floats, weights: Floats, taught: npt.NDArray[np.int64]) -> Floats:
        """Return what the taught rows say of all, every class weighing the same.

        The penalty is that of rows whose features all differ: a few rows cannot tell which
        features go together, so this is near to asking for the nearest mean of a class.
        """
        mass = weights @ given
        shares = weights[taught] * (given[taught] / mass).sum(axis=1)
        shares /= shares.sum()
        part = self.inputs[taught]
        moments = part.T @ (shares[:, None] * part)
        centered = given[taught] - shares @ given[taught]
        weight = _inverse(moments, float(np.trace(moments))) @ (
            part.T @ (shares[:, None] * centered)
        )
        return _unit_spread(self.inputs @ weight)

    def scores(self, proba: Floats) -> Floats:
        """Return what a linear model learns from soft labels of all rows."""
        targets = (proba - proba.mean(axis=0)) / len(proba)
        return _unit_spread(self.inputs @ (self.inverse @ (self.inputs.T @ targets)))


def _inverse(moments: Floats, penalty: float) -> Floats:
    return np.asarray(
        np.linalg.inv(moments + max(penalty, 1e-12) * np.eye(len(moments))), np.float64
    )


def _unit_spread(scores: Floats) -> Floats:
    spread: Floats = scores / max(float(scores.std()), 1e-12)
    return spread
