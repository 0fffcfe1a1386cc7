"""Estimates of the class of every row before labeling functions exist for it.

A few gold labels and the current votes are evidence about some rows; words and features extend it
to the others. Two simple models do this and teach each other (co-training with soft labels: Nigam
and Ghani, CIKM 2000): naive Bayes on the words, and a linear model on the features. The feature
model starts, because a few rows tell more about dense vectors than about thousands of words.
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
"""The number of draws of the gold rows' weights."""
_ROUNDS = 6
"""Rounds of co-training between words and features."""
_ALONE = 12
"""Rounds of training on words alone, without features."""
_CONTRAST = 2.0
"""The initial spread of a model's scores, in log-odds."""
_PENALTY = 0.05
"""The penalty of the linear model on all rows, relative to the features' mean second moment."""
_FREQUENT, _FREQUENT_SHORT, _SHORT = 0.1, 0.3, 30
"""Words in a larger share of the texts reflect style, not topic. In short texts (fewer words than
this on average) even common words are informative."""
_EQUAL = 6.0
"""Pseudo-count of rows per class for the class balance, which few labels estimate only roughly."""
_LENGTH = 10.0
"""A text counts as at most this many independent words, because its words are correlated."""
_UNLIKELY = 1e-3
"""Lower limit on a gold row's likelihood, so that one odd row does not decide between draws."""
_GOLD_SHARE = 0.02
"""The minimum total weight of the gold rows, as a share of all rows."""


def row_beliefs(
    index: TermIndex, votes: VoteMatrix, gold: npt.NDArray[np.int64], X: Any = None
) -> Floats:
    """Return P(class) for every row and several draws: (n_draws, n_rows, n_classes).

    The estimates use a few gold labels, the votes, words and features. Each draw reweights the gold
    rows (Bayesian bootstrap: Rubin, Annals of Statistics 9, 1981), so beliefs that depend on one or
    two gold rows differ between draws. Without gold there is one draw.

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
    """Return the weight of each draw, which follows the likelihood of the gold labels.

    A draw in which words and features agreed on something other than the classes counts little.

    >>> beliefs = np.array([[[0.9, 0.1], [0.5, 0.5]], [[0.1, 0.9], [0.5, 0.5]]])
    >>> draw_weights(beliefs, np.array([0, -1])).round(2)
    array([0.9, 0.1])
    """
    known = np.flatnonzero(gold != ABSTAIN)
    likely = np.log(np.maximum(beliefs[:, known, gold[known]], _UNLIKELY)).sum(axis=1)
    weights: Floats = np.exp(likely - likely.max())
    return weights / weights.sum()


def _draws(n_gold: int) -> Iterator[Floats]:
    """Yield weights of the gold rows with mean one; no row's weight gets close to zero."""
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
    """Return the class balance: from gold if there is any, else from the votes."""
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
    """Co-train: words and features learn from their combined estimates."""
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
        # Words are redundant, so their evidence, which naive Bayes adds up, counts half.
        proba = balanced(by_words / 2 + features.scores(lesson), prior)
    return proba


def _from_words(
    words: "_WordModel | None", given: Floats, weights: Floats, prior: Floats
) -> Floats:
    """Run expectation maximization on the words (Nigam et al., Machine Learning 39, 2000)."""
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
    """A linear model on the features, with rows scaled to length one."""

    def __init__(self, X: Any) -> None:
        centered = X - X.mean(axis=0)
        length = np.linalg.norm(centered, axis=1, keepdims=True)
        self.inputs = with_ones(centered / np.maximum(length, 1e-12)).astype(np.float64)
        moments = self.inputs.T @ self.inputs / len(self.inputs)
        self.inverse = _inverse(moments, _PENALTY * np.trace(moments) / len(moments))

    def first_scores(self, given: Floats, weights: Floats, taught: npt.NDArray[np.int64]) -> Floats:
        """Return the scores of all rows, learned from the taught rows with equal class weights.

        The penalty is as large as all second moments together, because a few rows cannot show
        which features go together. The result is close to a nearest-class-mean classifier.
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
        """Return the scores of a linear model trained on soft labels of all rows."""
        targets = (proba - proba.mean(axis=0)) / len(proba)
        return _unit_spread(self.inputs @ (self.inverse @ (self.inputs.T @ targets)))


def _inverse(moments: Floats, penalty: float) -> Floats:
    return np.asarray(
        np.linalg.inv(moments + max(penalty, 1e-12) * np.eye(len(moments))), np.float64
    )


def _unit_spread(scores: Floats) -> Floats:
    spread: Floats = scores / max(float(scores.std()), 1e-12)
    return spread
