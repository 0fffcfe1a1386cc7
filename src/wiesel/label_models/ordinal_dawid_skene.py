"""Ordinal Dawid-Skene: every voter of ordered classes has a bias, a spread and slips."""

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from wiesel.label_models.base import LabelModel
from wiesel.label_models.expectation_maximization import (
    Expectations,
    VoteSums,
    log_of,
    maximize,
    shares,
)
from wiesel.label_models.vote_products import (
    LogJoint,
    item_scores,
    posterior,
    refuse_too_many_numbers,
)
from wiesel.labels import FloatArray
from wiesel.parameters import check_number
from wiesel.votes import VoteMatrix, VoteSource

__all__ = ["OrdinalDawidSkene"]

Array = npt.NDArray[np.float64]

_PSEUDO_ITEMS = 0.01
_SLIPS, _NO_SLIPS, _FIRST_SLIPS = 0.5, 4.5, 0.1
"""Pseudo-votes for the share of slips, and where EM starts."""
_NEWTON_STEPS = 30
_MOST_NUMBERS = 1_500_000
"""Probabilities of all voters; every step of EM computes them several times."""
_PRECISIONS = (1e-3, 50.0)
"""The range of 1 / (2 spread^2): from answers at random to answers that are never wrong."""


@dataclass(eq=False, kw_only=True)
class OrdinalDawidSkene(LabelModel):
    """Dawid-Skene for ratings: each voter has a bias and a spread, in ranks.

    The classes are ranks 0, 1, 2, ... in their order. Voter j votes at random with the share s_j
    of slips; otherwise, with the bias b_j and the spread t_j,

        P(voter j votes k | true class c) ~ exp(-(k - c - b_j)^2 / (2 t_j^2))

    so that a neighbor of the truth is a small mistake. Three numbers for each voter, where
    Dawid-Skene has a matrix, need far fewer votes. EM from the vote shares, over the class and
    whether a vote is a slip; bias and spread are a concave problem. `smoothing` votes of the
    average voter for each true class are added to every voter's; slips have the prior
    Beta(1.5, 5.5). Voters who turn the scale around count as if they voted at random.

    Dawid and Skene 1979, as `DawidSkene`, with the tied confusions of a discretized normal error.

    >>> from wiesel import LabelSpace, VoteMatrix
    >>> ranks = LabelSpace("poor", "fair", "good", "great", ordered=True)
    >>> rows = [[0, 0, 1], [1, 1, 2], [2, 2, 3], [3, 3, 3], [0, 0, 1], [1, 1, 2]]
    >>> model = OrdinalDawidSkene().fit(VoteMatrix.from_dense(rows * 5, ranks, ["a", "b", "high"]))
    >>> bool(model.biases_[2] > 0.5 > model.biases_[0])
    True
    """

    trusts_independence: ClassVar[bool] = True
    reads_order: ClassVar[bool] = True

    max_iter: int = 100
    """The maximum number of EM steps."""
    tol: float = 1e-5
    """Stop when the mean log evidence per item grows by less."""
    smoothing: float = 0.25
    """Pseudo-votes of each voter for each true class; 0 is maximum likelihood."""

    biases_: Array = field(init=False, repr=False)
    """By how many ranks each voter's votes are above the truth, before they end at the last."""
    spreads_: Array = field(init=False, repr=False)
    """The standard deviation of each voter's votes around truth plus bias, in ranks."""
    slips_: Array = field(init=False, repr=False)
    """The share of each voter's votes that are at random."""
    confusions_: Array = field(init=False, repr=False)
    """P(voted | true class), from these three: (n_voters, true, voted)."""
    evidence_: list[float] = field(init=False, repr=False)
    """The log probability of votes and parameters after every step; it never decreases."""

    def check_options(self) -> None:
        """Refuse invalid options."""
        super().check_options()
        check_number(self, "max_iter", self.max_iter, low=1, whole=True)
        check_number(self, "tol", self.tol, low=0)
        check_number(self, "smoothing", self.smoothing, low=0)

    def _fit(self, votes: VoteSource, class_balance: Array | None) -> None:
        refuse_too_many_numbers(self, votes, _MOST_NUMBERS)
        sums, n_voters = VoteSums(votes), len(votes.voters)
        majority = sums.majority()
        pooled = majority.votes.sum(axis=0).T + _PSEUDO_ITEMS
        pseudo_votes = self.smoothing * shares(pooled)
        natural = _Natural(np.full(n_voters, 0.5), np.zeros(n_voters))
        slips = np.full(n_voters, _FIRST_SLIPS)
        self.confusions_ = _with_slips(natural, slips, len(pooled))

        def m_step(expected: Expectations) -> tuple[LogJoint, float]:
            nonlocal natural, slips
            if class_balance is None:
                self.class_balance_ = shares(expected.covered + _PSEUDO_ITEMS)
            counts = expected.votes.transpose(0, 2, 1) + pseudo_votes
            slip = counts * (slips[:, None, None] / len(pooled)) / self.confusions_
            n_slips, n_votes = slip.sum(axis=(1, 2)), counts.sum(axis=(1, 2))
            slips = (n_slips + _SLIPS) / (n_votes + _SLIPS + _NO_SLIPS)
            natural = _best(counts - slip, natural)
            self.confusions_ = _with_slips(natural, slips, len(pooled))
            log_density = float((_SLIPS * log_of(slips) + _NO_SLIPS * log_of(1 - slips)).sum())
            log_density += float((pseudo_votes * log_of(self.confusions_)).sum())
            if class_balance is None:
                log_density += _PSEUDO_ITEMS * float(log_of(self.class_balance_).sum())
            return self._log_joint(), log_density

        self.evidence_ = maximize(sums, majority, m_step, self.max_iter, self.tol)
        self.biases_ = natural.slope / (2 * natural.precision)
        self.spreads_ = 1 / np.sqrt(2 * natural.precision)
        self.slips_ = slips

    def _log_joint(self) -> LogJoint:
        weights = log_of(self.confusions_).transpose(0, 2, 1)
        return LogJoint(weights.reshape(-1, weights.shape[2]), log_of(self.class_balance_))

    def log_evidence(self, votes: VoteMatrix, proba: FloatArray) -> Array:
        """Return log P(class, votes) of every item; the logarithm of `proba` ends at 1e-300."""
        joint = self._log_joint()
        return item_scores(votes, joint.weights) + joint.offset

    def _predict_proba(self, votes: VoteMatrix) -> Array:
        return posterior(votes, self._log_joint(), self.class_balance_)


class _Natural(NamedTuple):
    """The natural parameters of every voter: log P(k | c) = -precision d^2 + slope d - constant.

    With d = k - c, precision = 1 / (2 spread^2) and slope = bias / spread^2, the log likelihood is
    concave in both.
    """

    precision: Array
    slope: Array

    def chances(self, n_classes: int) -> tuple[Array, Array]:
        """Return P(voted | true class), (n_voters, true, voted), and the constants of its log."""
        apart = _apart(n_classes)
        chance = self.slope[:, None, None] * apart
        chance -= self.precision[:, None, None] * apart**2
        top = chance.max(axis=2, keepdims=True)
        chance -= top
        np.exp(chance, out=chance)  # in place: with many classes, new arrays take most of the time
        total = chance.sum(axis=2, keepdims=True)
        chance /= total
        return chance, (np.log(total) + top)[:, :, 0]


def _with_slips(natural: _Natural, slips: Array, n_classes: int) -> Array:
    share = slips[:, None, None]
    return np.asarray(share / n_classes + (1 - share) * natural.chances(n_classes)[0])


def _apart(n_classes: int) -> Array:
    ranks = np.arange(n_classes, dtype=np.float64)
    return ranks[None, :] - ranks[:, None]


def _best(counts: Array, start: _Natural) -> _Natural:
    """The parameters under which the counts (n_voters, true, voted) are most probable.

    Newton's method, with steps that are halved until the likelihood grows.
    """
    apart = _apart(counts.shape[1])
    given = np.stack([-np.tensordot(counts, apart**2), np.tensordot(counts, apart)], axis=1)
    n_true = counts.sum(axis=2)
    found, (value, chance) = start, _likelihood(given, n_true, start)
    for _ in range(_NEWTON_STEPS):
        one, two, three, four = _moments(chance)
        mean = np.stack([-two, one], axis=-1)
        square = np.stack([four, -three, -three, two], axis=-1).reshape(*one.shape, 2, 2)
        spread = square - mean[..., :, None] * mean[..., None, :]
        slope = given - np.einsum("vc,vcf->vf", n_true, mean)
        curvature = np.einsum("vc,vcfg->vfg", n_true, spread) + 1e-9 * np.eye(2)
        step = np.linalg.solve(curvature, slope[..., None])[..., 0]
        size = np.ones(len(counts))
        for _ in range(20):
            moved = _Natural(
                np.clip(found.precision + size * step[:, 0], *_PRECISIONS),
                found.slope + size * step[:, 1],
            )
            reached, chance_there = _likelihood(given, n_true, moved)
            worse = ~(reached >= value)
            if not worse.any():
                break
            size = np.where(worse, size / 2, size)
        kept = ~worse
        grown = np.where(kept, reached - value, 0.0)
        found = _Natural(
            np.where(kept, moved.precision, found.precision),
            np.where(kept, moved.slope, found.slope),
        )
        value = np.where(kept, reached, value)
        if (grown <= 1e-9 * np.maximum(1.0, np.abs(value))).all():
            break
        chance[kept] = chance_there[kept]
    return found


def _moments(chance: Array) -> tuple[Array, Array, Array, Array]:
    """The means of d = k - c and of its powers, (n_voters, true), from those of k: one product."""
    rank = np.arange(chance.shape[1]) - (chance.shape[1] - 1) / 2
    found = chance @ np.stack([rank, rank**2, rank**3, rank**4], axis=1)
    one, two, three, four = np.moveaxis(found, -1, 0)
    return (
        one - rank,
        two - 2 * rank * one + rank**2,
        three - 3 * rank * two + 3 * rank**2 * one - rank**3,
        four - 4 * rank * three + 6 * rank**2 * two - 4 * rank**3 * one + rank**4,
    )


def _likelihood(given: Array, n_true: Array, natural: _Natural) -> tuple[Array, Array]:
    """Return every voter's log likelihood, from the sums of features, and P(voted | true)."""
    chance, constant = natural.chances(n_true.shape[1])
    value = given[:, 0] * natural.precision + given[:, 1] * natural.slope
    return value - (n_true * constant).sum(axis=1), chance
