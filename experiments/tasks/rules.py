"""How voters produce votes: words, thresholds, small classifiers, crowd workers.

Rules are found on a small gold sample, so they err where their words or columns mislead. Then their
precision and coverage are moved to the targets: votes are dropped, corrected or made wrong at
random, which is the noise of the task.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import sparse

from wiesel.labels import ABSTAIN

Votes = npt.NDArray[np.int8]
Mask = npt.NDArray[np.bool_]

N_CANDIDATES = 150
MOST_WORDS = 40
OVERSHOOT = 1.3
"""A rule fires on more items than needed, so that some of its votes can be dropped."""
STRAY_SHARE = 0.5
"""The maximum share of a rule's right votes on items where it does not fire."""


@dataclass(frozen=True, eq=False)
class Material:
    """The data for rules: all items of a task, and the rows of the gold sample."""

    y: npt.NDArray[np.int64]
    n_classes: int
    X: npt.NDArray[np.float32]
    """Standardized features."""
    words: sparse.csr_matrix | None
    sample: npt.NDArray[np.int64]
    """Rows of the gold sample."""
    is_table: bool = False

    @cached_property
    def candidates(self) -> list[npt.NDArray[np.bool_]]:
        """For each class, (n_items, n_candidates): the words that indicate it on the sample."""
        present = self.words[self.sample].astype(np.float64)
        one_hot = np.eye(self.n_classes)[self.y[self.sample]]
        counts = np.asarray(present.T @ one_hot)  # (n_words, n_classes)
        share = one_hot.mean(axis=0)
        smoothed = (counts + share) / (counts.sum(axis=1, keepdims=True) + 1)
        strength = np.where(counts > 0, counts * np.log(smoothed / share), 0.0)
        columns = self.words.tocsc()
        return [
            columns[:, np.argsort(-strength[:, c], kind="stable")[:N_CANDIDATES]].toarray() > 0
            for c in range(self.n_classes)
        ]

    @cached_property
    def hard(self) -> Mask:
        """Items that the nearest class mean of the sample gets wrong; crowds err more on them."""
        return nearest_class(self, np.arange(self.X.shape[1]), self.sample)[0] != self.y


def keyword_rule(of: Material, named: int, coverage: float, generator: np.random.Generator) -> Mask:
    """Return the items with words that indicate a class; stronger words are preferred."""
    candidates = of.candidates[named]
    places = np.arange(candidates.shape[1]) * generator.random(candidates.shape[1])
    fires = np.zeros(len(of.y), bool)
    for word in np.argsort(places)[:MOST_WORDS]:
        fires |= candidates[:, word]
        if fires.mean() >= OVERSHOOT * coverage:
            break
    return fires


def threshold_rule(
    of: Material, named: int, coverage: float, generator: np.random.Generator
) -> Mask:
    """Return the items where a column, or a mixture of columns, indicates a class."""
    columns = _some_columns(of, generator)
    own = of.y[of.sample] == named
    seen = of.X[np.ix_(of.sample, columns)]
    if own.all() or not own.any():
        direction = generator.standard_normal(len(columns))
    else:
        direction = seen[own].mean(axis=0) - seen[~own].mean(axis=0)
    scores = of.X[:, columns] @ direction
    return scores >= np.quantile(scores, max(0.0, 1 - OVERSHOOT * coverage))


def one_sided_votes(
    of: Material,
    fires: Mask,
    named: int,
    aim: tuple[float, float],
    generator: np.random.Generator,
) -> Votes:
    """Return votes for one class, with the target precision and coverage where possible."""
    precision, coverage = aim
    n_votes = max(4, round(coverage * len(of.y)))
    n_right = round(precision * n_votes)
    right = _chosen(fires, of.y == named, n_right, round(STRAY_SHARE * n_right), generator)
    n_wrong = round(len(right) * (1 - precision) / precision)
    wrong = _chosen(fires, of.y != named, n_wrong, n_wrong, generator)
    votes = np.full(len(of.y), ABSTAIN, np.int8)
    votes[right] = votes[wrong] = named
    return votes


def classifier_votes(
    of: Material, aim: tuple[float, float], generator: np.random.Generator
) -> Votes:
    """Return the votes of a small classifier on its most confident items."""
    precision, coverage = aim
    columns = _some_columns(of, generator, at_least=3)
    own_sample = generator.choice(of.sample, len(of.sample))
    nearest, second, margin = nearest_class(of, columns, own_sample)
    votes = np.full(len(of.y), ABSTAIN, np.int8)
    sure = np.flatnonzero(margin >= np.quantile(margin, 1 - coverage))
    votes[sure] = nearest[sure]
    for c in range(of.n_classes):
        # The precision is the same for every class. If all votes were right on a frequent class
        # and none on a rare one, votes for the rare class would be evidence against it.
        _set_right_share(votes, of.y, second, sure[of.y[sure] == c], precision, generator)
    return votes


def _set_right_share(
    votes: Votes,
    y: npt.NDArray[np.int64],
    second: npt.NDArray[np.int64],
    items: npt.NDArray[np.int64],
    precision: float,
    generator: np.random.Generator,
) -> None:
    """Make some right votes on the items wrong, or some wrong ones right, in place."""
    right, wrong = items[votes[items] == y[items]], items[votes[items] != y[items]]
    surplus = len(right) - round(precision * len(items))
    if surplus > 0:
        misled = generator.choice(right, surplus, replace=False)
        votes[misled] = second[misled]
    elif surplus < 0:
        corrected = generator.choice(wrong, -surplus, replace=False)
        votes[corrected] = y[corrected]


def worker_votes(of: Material, aim: tuple[float, float], generator: np.random.Generator) -> Votes:
    """Return the answers of a worker: errors follow a pattern, with more of them on hard items."""
    precision, coverage = aim
    n_items, k = len(of.y), of.n_classes
    gap = min(0.25, 0.98 - precision, precision - 0.02)
    share_hard = of.hard.mean()
    ability = precision + gap * np.where(of.hard, -(1 - share_hard), share_hard)
    habit = generator.dirichlet(np.full(k, 0.5), size=k) + 0.02
    np.fill_diagonal(habit, 0)
    limits = np.cumsum(habit / habit.sum(axis=1, keepdims=True), axis=1)
    confused = (generator.random((n_items, 1)) > limits[of.y]).sum(axis=1).clip(max=k - 1)
    answers = np.where(generator.random(n_items) < ability, of.y, confused).astype(np.int8)
    return np.where(generator.random(n_items) < coverage, answers, np.int8(ABSTAIN))


def nearest_class(
    of: Material, columns: npt.NDArray[np.int64], sample: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the nearest and second class by the sample's class means, and their distance."""
    X = of.X[:, columns].astype(np.float64)
    one_hot = np.eye(of.n_classes)[of.y[sample]]
    sizes = one_hot.sum(axis=0)[:, None]
    # The mean of a class with few sample items is shrunk toward the overall mean.
    means = one_hot.T @ X[sample] / (sizes + 1)
    distance = (means**2).sum(axis=1) - 2 * X @ means.T
    order = np.argsort(distance, axis=1, kind="stable")
    first, second = order[:, 0], order[:, 1]
    rows = np.arange(len(X))
    return first, second, distance[rows, second] - distance[rows, first]


def _some_columns(
    of: Material, generator: np.random.Generator, at_least: int = 1
) -> npt.NDArray[np.int64]:
    low, high = (at_least, 4) if of.is_table else (4 * at_least, 24)
    n_columns = min(int(generator.integers(low, high + 1)), of.X.shape[1])
    return np.sort(generator.choice(of.X.shape[1], n_columns, replace=False))


def _chosen(
    fires: Mask, kind: Mask, n_wanted: int, most_stray: int, generator: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Return a number of items of a kind, preferably items on which the rule fires."""
    inside, outside = np.flatnonzero(fires & kind), np.flatnonzero(~fires & kind)
    chosen = generator.permutation(inside)[:n_wanted]
    n_stray = min(n_wanted - len(chosen), most_stray)
    return np.concatenate([chosen, generator.permutation(outside)[:n_stray]])
