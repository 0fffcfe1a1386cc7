"""Expectation maximization over votes, shared by Dawid-Skene, one-coin and data programming.

A model of independent voters scores an item's class by a constant plus one number for each vote.
The E-step turns scores into P(class | votes) and sums the statistics for the M-step.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wiesel.errors import CollapseWarning, DataError, listed
from wiesel.label_models.patterns import Patterns, fold, fold_parts, gold_classes
from wiesel.label_models.vote_products import (
    LogJoint,
    OneHot,
    Widen,
    normalize_rows,
    one_hot_chunks,
)
from wiesel.labels import ABSTAIN, FloatArray, LabelSpace
from wiesel.votes import Statistics, VoteMatrix, VoteSource

__all__ = [
    "Expectations",
    "GoldItems",
    "VoteSums",
    "balance_certainty",
    "log_of",
    "maximize",
    "shares",
    "warn_of_one_class",
]

_ONE_CLASS, _NEARLY_ONE_CLASS = 0.99, 0.95
"""EM collapsed if a class ends with the first share of items, and started with less than the
second."""

GoldItems = Mapping[Any, Any]
"""Known classes by item id, as names or indices."""


class Expectations(NamedTuple):
    """The results of one E-step, summed over the items."""

    votes: FloatArray
    """Votes of each voter for each class, by true class: (n_voters, voted, true)."""
    patterns: FloatArray
    """Items with each pattern of connected voters, by true class: (n_patterns, true)."""
    items: FloatArray
    """Items of each true class: (n_classes,)."""
    covered: FloatArray
    """The same, over the items with votes only."""
    evidence: float
    """The log probability of the votes."""


class VoteSums:
    """The training votes, prepared for repeated summation.

    Votes are folded once and kept as chunks of one-hot votes; those in files are folded as they are
    read. If they have too many patterns for memory, every sum reads the files again, or other
    machines do.
    """

    def __init__(
        self, votes: VoteSource, gold: GoldItems | None = None, widen: Widen | None = None
    ) -> None:
        self._votes = votes
        self._gold = _gold_indices(gold, votes)
        self._widen = widen
        self._shape = (len(votes.voters), len(votes.labels), len(votes.labels))
        self._prepared: _Prepared | None
        if isinstance(votes, VoteMatrix):
            self._prepared = _prepare(votes, self._gold, widen)
        else:
            patterns = fold_parts(votes, self._gold)
            self._prepared = None if patterns is None else _one_hots(patterns, widen)

    @property
    def labels(self) -> LabelSpace:
        """The classes of the votes."""
        return self._votes.labels

    def majority(self) -> Expectations:
        """Return the expectations if P(class) of every item is its vote shares."""
        return self._expect(None)

    def expect(self, joint: LogJoint) -> Expectations:
        """Return the expectations under a model."""
        return self._expect(joint)

    def _expect(self, joint: LogJoint | None) -> Expectations:
        if self._prepared is not None:
            sums = _sum_chunks(self._prepared, joint)
        else:
            sums = self._votes.sum(_PartSums(self._gold, self._widen, joint))
        counts, items, covered, evidence = sums
        width = self._shape[0] * self._shape[1]
        by_vote = counts[:width].reshape(self._shape)
        return Expectations(by_vote, counts[width:], items, covered, float(evidence[0]))


def maximize(
    sums: VoteSums,
    expected: Expectations,
    m_step: Callable[[Expectations], tuple[LogJoint, float]],
    max_iter: int,
    tol: float,
    watched: Callable[[Expectations], float] | None = None,
) -> list[float]:
    """Run EM from the first expectations, and return the evidence of every step.

    `m_step` stores the parameters it finds, and returns their model and their log prior density,
    which is part of the evidence: with it, smoothing never makes the evidence decrease.
    EM stops when the evidence of an average item grows by less than `tol`, or when the sum of
    evidence and `watched` falls.
    """
    first, n_covered = expected, max(1.0, float(expected.covered.sum()))
    history: list[float] = []
    sums_watched: list[float] = []
    for _ in range(max_iter):
        joint, log_density = m_step(expected)
        expected = sums.expect(joint)
        history.append(expected.evidence + log_density)
        if len(history) > 1 and history[-1] - history[-2] < tol * n_covered:
            break
        if watched is not None:
            sums_watched.append(history[-1] + watched(expected))
            if len(history) > 1 and sums_watched[-1] < sums_watched[-2]:
                break
    warn_of_one_class(shares(first.covered), shares(expected.covered), sums.labels)
    return history


def warn_of_one_class(first: FloatArray, last: FloatArray, labels: LabelSpace) -> None:
    """Warn if EM moved all items with votes into one class."""
    largest = int(last.argmax())
    if last[largest] < _ONE_CLASS or first[largest] > _NEARLY_ONE_CLASS:
        return
    warnings.warn(
        f"EM collapsed: {100 * last[largest]:.0f} % of the items with votes ended up as "
        f"{labels.names[largest]!r}; by majority vote it is {100 * first[largest]:.0f} %. This "
        "happens among voters that only vote for one class. DawidSkene(abstain_as_vote=True) also "
        "learns from abstentions; MajorityVote cannot fail this way.",
        CollapseWarning,
        stacklevel=5,
    )


def balance_certainty(expected: Expectations, class_balance: FloatArray) -> float:
    """Return the gain in evidence if the class balance counts once per vote, not per item.

    It falls as the classes become more equal in size. As `watched` of `maximize` it stops EM when
    the class balance drifts faster than the evidence grows.
    """
    n_votes = expected.votes.sum(axis=(0, 1))
    return float((n_votes - expected.covered) @ log_of(class_balance))


def shares(counts: FloatArray) -> npt.NDArray[np.float64]:
    """Return counts as probabilities along the last axis; uniform if all counts are zero."""
    total = counts.sum(axis=-1, keepdims=True)
    uniform = np.full(counts.shape, 1 / counts.shape[-1])
    return np.divide(counts, total, out=uniform, where=total > 0)


def log_of(proba: FloatArray) -> npt.NDArray[np.float64]:
    """Return the logarithm, with a floor that keeps impossible votes finite."""
    return np.log(np.maximum(proba, 1e-300))


class _Prepared(NamedTuple):
    one_hots: list[OneHot]
    patterns: Patterns


@dataclass(frozen=True, eq=False)
class _PartSums:
    """The statistic behind `VoteSums` for remote votes; an object, so that it can be sent."""

    gold: Mapping[Any, int]
    widen: Widen | None
    joint: LogJoint | None

    def __call__(self, part: VoteMatrix) -> Statistics:
        return _sum_chunks(_prepare(part, self.gold, self.widen, once=True), self.joint)


def _prepare(
    votes: VoteMatrix, gold: Mapping[Any, int], widen: Widen | None, once: bool = False
) -> _Prepared:
    """Votes as chunks; not folded for a single sum, where folding costs more than it saves."""
    classes = gold_classes(votes, gold)
    if widen is not None and votes.distribution is not None:
        votes = replace(votes, distribution=None)
    patterns = Patterns(votes, np.ones(votes.n_items), classes) if once else fold(votes, classes)
    return _one_hots(patterns, widen)


def _one_hots(patterns: Patterns, widen: Widen | None) -> _Prepared:
    votes = patterns.votes
    if widen is not None and votes.distribution is not None:
        patterns = patterns._replace(votes=replace(votes, distribution=None))
    one_hots = [chunk.one_hot for chunk in one_hot_chunks(patterns.votes)]
    return _Prepared(one_hots if widen is None else list(map(widen, one_hots)), patterns)


def _sum_chunks(prepared: _Prepared, joint: LogJoint | None) -> Statistics:
    votes, weights, gold = prepared.patterns
    counts = np.zeros((prepared.one_hots[0].shape[1], votes.n_classes))
    items, covered, evidence = np.zeros(votes.n_classes), np.zeros(votes.n_classes), np.zeros(1)
    start = 0
    for one_hot in prepared.one_hots:
        rows = slice(start, start := start + one_hot.shape[0])
        if joint is None:
            votes_only = one_hot[:, : votes.n_voters * votes.n_classes]
            proba = _vote_shares(votes_only, gold[rows], votes.n_classes)
        else:
            proba, log_evidence = _responsibilities(one_hot, joint, gold[rows])
            evidence += log_evidence @ weights[rows]
        items += weights[rows] @ proba
        covered += (weights[rows] * votes.covered[rows]) @ proba
        proba *= weights[rows, None]
        counts += np.asarray(one_hot.T @ proba)
    return counts, items, covered, evidence


def _responsibilities(
    one_hot: OneHot, joint: LogJoint, gold: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """P(class | votes) and log P(votes) of every item; a gold item has its class for certain."""
    log_joint = one_hot @ joint.weights
    log_joint += joint.offset
    known = np.flatnonzero(gold != ABSTAIN)
    if len(known):
        of_gold = log_joint[known, gold[known]]
        log_joint[known] = -np.inf
        log_joint[known, gold[known]] = of_gold
    log_evidence = normalize_rows(log_joint)
    return log_joint, log_evidence


def _vote_shares(
    one_hot: OneHot, gold: npt.NDArray[np.int64], n_classes: int
) -> npt.NDArray[np.float64]:
    shares = one_hot @ np.tile(np.eye(n_classes), (one_hot.shape[1] // n_classes, 1))
    total = shares @ np.ones(n_classes)
    shares[total == 0] = 1 / n_classes
    shares /= np.where(total == 0, 1.0, total)[:, None]
    known = gold != ABSTAIN
    shares[known] = np.eye(n_classes)[gold[known]]
    return shares


def _gold_indices(gold: GoldItems | None, votes: VoteSource) -> dict[Any, int]:
    if gold is None:
        return {}
    if not isinstance(gold, Mapping):
        raise DataError(
            f"Gold items are given by id, as {{id: class}}; got {type(gold).__name__}. "
            "With an array: gold=dict(zip(votes.ids, array)). With a Series by id: gold.to_dict()."
        )
    if not gold:
        return {}
    classes = votes.labels.indices(list(gold.values()))
    known = dict(zip(gold, classes.tolist(), strict=True))
    if isinstance(votes, VoteMatrix):
        missing = known.keys() - set(votes.ids.tolist())
        if missing:
            raise DataError(
                f"There are no items {listed(sorted(missing, key=str), limit=3)}: "
                "gold items are named by the ids of the votes."
            )
    return known
