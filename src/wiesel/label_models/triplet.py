"""Triplet methods: accuracies in closed form from three voters at a time."""

import hashlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from wiesel.errors import WieselWarning, listed
from wiesel.label_models.base import LabelModel
from wiesel.label_models.pair_statistics import counts_with, pair_counts
from wiesel.label_models.vote_products import normalize_rows, one_hot_chunks, vote_totals
from wiesel.labels import FloatArray, IntArray
from wiesel.parameters import check_choice
from wiesel.votes import VoteMatrix, VoteSource

__all__ = ["PairSums", "Triplet", "find_partners", "pair_sums", "shuffled", "solve_triplets"]

READINGS = ("flyingsquid", "chen", "class_conditional")

FALLBACK = 0.2
"""The value for a voter without a usable triplet, as E[vote * class | it votes]: 60 % right."""

_HAIR = 1e-6
"""The smallest weight of a trusted vote, so that a tie goes to the class that was voted for."""
MOST_PARTNERS = 128
"""With more voters, each is solved with those it shares most items with: 8,128 triplets each."""

MOST_PAIRS = 2**25
"""The most pairs of voters, times classes, in memory: 4,096 voters and two classes. With more
voters, all are solved with a panel of those that vote most, so that the cost stays linear."""

PANEL_CELLS, LEAST_PANEL = 2**25, 16

Aggregate = Callable[[FloatArray, IntArray, IntArray], float]
"""Maps the roots of a voter's triplets, and the other two voters of each, to one number."""


class PairSums(NamedTuple):
    """Sums over items of products of two voters' votes, one matrix for every class.

    The second voter is one of the partners: all voters, or the panel if there are too many.
    """

    signed: npt.NDArray[np.float64]
    """A vote for the class is +1, for another -1, none 0: (n_classes, n_voters, n_partners)."""
    both: npt.NDArray[np.float64]
    """A vote for the class is 1, everything else 0: the same shape."""
    together: npt.NDArray[np.float64]
    """Any vote is 1, none 0: (n_voters, n_partners)."""


@dataclass(eq=False, kw_only=True)
class Triplet(LabelModel):
    """Estimates accuracies in closed form from triples of voters.

    For one class against the rest, with votes and the true class coded as -1, 0, +1 and
    a_i = E[vote_i * class], voters that are independent given the class have

        E[vote_i vote_j] = a_i a_j, hence |a_i| = sqrt(|M_ij M_ik / M_jk|)

    for every pair (j, k) of other voters. From a_i, the votes cast and the class balance follow
    P(vote_i, class), and from these the posterior. With more than two classes every class is
    solved against the rest, and the probabilities are divided by their sum. Without a given class
    balance it is uniform; for skewed classes use `estimate_class_balance`. With more than a few
    thousand voters, triples use a panel of those with the most votes.

    Fu, Chen, Sala, Hooper, Fatahalian and Ré 2020, "Fast and three-rious", ICML (`flyingsquid`);
    Chen, Cohen-Wang, Mussmann, Sala and Ré 2021, "Comparing the value of labeled and unlabeled
    data in method-of-moments latent variable estimation", AISTATS (`chen`).

    >>> Triplet(aggregate="median", reading="chen").fit(votes).predict(votes)[:3]
    array(['ham', 'ham', 'spam'], dtype=object)
    """

    counts_repeats: ClassVar[bool] = False

    aggregate: Literal["mean", "median", "random"] = "mean"
    """Over all pairs of other voters, or one random triplet for each voter."""
    reading: Literal["flyingsquid", "chen", "class_conditional"] = "flyingsquid"
    """`flyingsquid`: moments over all items, abstains are 0, absolute values; negative joint
    probabilities change their sign. `chen`: moments over the items on which both vote, zero
    moments become 1/n_items, triplets with a negative ratio are dropped, roots are cut below 1.
    Both assume that a voter is as good on the class as on the rest. `class_conditional`: Chen's
    variant without that assumption, from covariances: a_i = P(vote_i | class) - P(vote_i | rest)
    times sqrt(p (1 - p))."""
    seed: int = 0
    """For `aggregate="random"`; the draw depends on the names of voters, not on their order."""

    accuracies_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """P(right | votes) of each voter; NaN for one that never votes."""
    weights_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """What a vote adds to the score of each class: (n_voters, voted, class)."""

    def check_options(self) -> None:
        """Refuse invalid options."""
        super().check_options()
        check_choice(self, "aggregate", self.aggregate, ("mean", "median", "random"))
        check_choice(self, "reading", self.reading, READINGS)

    def _fit(self, votes: VoteSource, class_balance: npt.NDArray[np.float64] | None) -> None:
        singles = vote_totals(votes) / votes.n_items
        solved = self._solve(singles, votes)
        silent = singles.sum(axis=1) == 0
        unsolved = np.isnan(solved) & ~silent[:, None]
        if unsolved.any():
            _warn_of_unsolved([votes.voters[j] for j in np.flatnonzero(unsolved.any(axis=1))])
        if self.reading == "class_conditional":
            joint = _joint_of_differences(solved, singles, self.class_balance_)
        else:
            joint = _joint_of_agreements(solved, singles, self.class_balance_)
        least = 1 / (10 * votes.n_items)
        joint = _repaired(joint, flip=self.reading == "flyingsquid", least=least)
        right = joint[0].sum(axis=1) / np.where(silent, 1, singles.sum(axis=1))
        self.accuracies_ = np.where(silent, np.nan, np.clip(right, 0, 1))
        # The difference P(vote | class) - P(vote | rest) is a square root, so never negative.
        chance = 0 if self.reading == "class_conditional" else 1 / len(votes.labels)
        trusted = ~silent & (self.accuracies_ >= chance)
        self.weights_ = self._vote_weights(joint, trusted)
        self.weights_[silent] = 0  # nothing is known about votes that they may cast later

    def _solve(self, singles: FloatArray, votes: VoteSource) -> npt.NDArray[np.float64]:
        """a_i of every voter and class (n_voters, n_classes); NaN without a usable triplet."""
        n_items, n_classes = votes.n_items, len(votes.labels)
        pick = _Aggregate(self.aggregate, shuffled(votes.voters, self.seed))
        partners = find_partners(singles, pick.rank)
        sums = pair_sums(votes, partners)
        # Ties in the number of shared items are broken by name, so order does not matter.
        overlap = sums.together - 1e-6 * pick.rank[partners] / len(pick.rank)
        positive, most = self.reading != "flyingsquid", 1 - 1 / n_items
        solved = np.empty(singles.shape)
        for c in range(n_classes):
            if c == 1 and n_classes == 2 and self.reading != "class_conditional":
                solved[:, 1] = solved[:, 0]  # one class against the other, from either side
                continue
            moments = _moments(
                self.reading, sums, (singles[:, c], singles[partners, c]), c, n_items
            )
            if self.reading == "class_conditional":
                p = self.class_balance_[c]
                moments, most = moments / (p * (1 - p)), 1.0
            elif self.reading == "flyingsquid":
                most = 1.0
            solved[:, c] = solve_triplets(moments, overlap, pick, positive, most, partners)
        if self.reading == "chen":
            solved *= singles.sum(axis=1, keepdims=True)  # from items with a vote to all items
        return solved

    def _vote_weights(
        self, joint: FloatArray, trusted: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.float64]:
        """What each vote adds to the score of each class: (n_voters, voted, class).

        A class balance that contradicts the votes makes some joint probabilities absurd; a vote
        of a voter that is better than chance is never evidence against its own class.
        """
        n_classes = joint.shape[2]
        p = self.class_balance_
        vote_on_class, vote_on_rest = np.log(joint[0] / p), np.log(joint[1] / (1 - p))
        other_on_class, other_on_rest = np.log(joint[2] / p), np.log(joint[3] / (1 - p))
        same = np.eye(n_classes, dtype=bool)
        if self.reading == "class_conditional":
            # The voter's row for `voted` holds log P(voted | class) of the class and of the rest.
            vote_on_class = np.maximum(vote_on_class, vote_on_rest + _HAIR)
            return np.where(same, vote_on_class[:, :, None], vote_on_rest[:, :, None])
        for_class, against = vote_on_class - vote_on_rest, other_on_class - other_on_rest
        for_class = np.where(trusted[:, None], np.maximum(for_class, _HAIR), for_class)
        against = np.where(trusted[:, None], np.minimum(against, 0), against)
        return np.where(same, for_class[:, None, :], against[:, None, :])

    def _predict_proba(self, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        prior = self.class_balance_
        proba = np.empty((votes.n_items, len(prior)))
        weights = self.weights_.reshape(-1, len(prior))
        for rows, one_hot in one_hot_chunks(votes):
            scores = one_hot @ weights
            if self.reading == "class_conditional":
                scores += np.log(prior)
            else:
                # Each column is a log-odds against the rest: log P(class) = -log(1 + exp(-odds)).
                scores += np.log(prior) - np.log1p(-prior)
                scores = -np.logaddexp(0, -scores)
            normalize_rows(scores)
            scores[~votes.covered[rows]] = prior
            proba[rows] = scores
        return proba


class _Aggregate:
    """One number for each voter from the roots of its triplets."""

    def __init__(self, how: str, order: list[int]) -> None:
        self.how = how
        self.rank = np.empty(len(order), dtype=np.int64)
        self.rank[order] = np.arange(len(order))

    def __call__(self, roots: FloatArray, j: IntArray, k: IntArray) -> float:
        """Return the aggregate of the roots with partners j and k; NaN if there are none."""
        if not len(roots):
            return np.nan
        if self.how == "median":
            return float(np.median(roots))
        if self.how == "mean":
            return float(np.mean(roots))
        # The partners that come first in the random order of voters. With a single triplet per
        # voter, a root of zero would mean that the voter knows nothing.
        low, high = np.minimum(self.rank[j], self.rank[k]), np.maximum(self.rank[j], self.rank[k])
        place = np.where(roots > 0, high * len(self.rank) + low, np.inf)
        first = int(np.argmin(place))
        return float(roots[first]) if np.isfinite(place[first]) else np.nan


def _moments(
    reading: str, sums: PairSums, singles: tuple[FloatArray, FloatArray], c: int, n_items: int
) -> npt.NDArray[np.float64]:
    """M_ij of all pairs of voters and partners for one class against the rest.

    `singles` are how often either votes for the class.
    """
    if reading == "flyingsquid":
        return sums.signed[c] / n_items
    if reading == "class_conditional":
        return sums.both[c] / n_items - np.outer(*singles)
    never = np.full(sums.together.shape, np.nan)
    moments = np.divide(sums.signed[c], sums.together, out=never, where=sums.together > 0)
    return np.where(moments == 0, 1 / n_items, moments)


def _joint_of_agreements(
    agreement: FloatArray, singles: FloatArray, prior: FloatArray
) -> npt.NDArray[np.float64]:
    """P(vote, class) from a = E[vote * class]: (4, n_voters, n_classes).

    The four are: votes for the class and it is true; votes for it and it is not; votes for
    another and it is true; votes for another and it is not. Abstaining is independent of the
    class, which closes the system of equations.
    """
    coverage = singles.sum(axis=1, keepdims=True)
    agreement = np.where(np.isnan(agreement), FALLBACK * coverage, agreement)
    right = (coverage + agreement) / 2
    vote_class = (right + singles - (1 - prior) * coverage) / 2
    return np.stack(
        [vote_class, singles - vote_class, prior * coverage - vote_class, right - vote_class]
    )


def _joint_of_differences(
    difference: FloatArray, singles: FloatArray, prior: FloatArray
) -> npt.NDArray[np.float64]:
    """The same from d = P(vote | class) - P(vote | rest), each vote by itself."""
    difference = np.where(np.isnan(difference), 2 * FALLBACK * singles, difference)
    vote_class = prior * (singles + (1 - prior) * difference)
    vote_rest = (1 - prior) * (singles - prior * difference)
    others = singles.sum(axis=1, keepdims=True) - singles
    return np.stack([vote_class, vote_rest, prior * others, (1 - prior) * others])


def _repaired(joint: FloatArray, flip: bool, least: float) -> npt.NDArray[np.float64]:
    """Replace joint probabilities that sampling noise made negative by positive ones."""
    total = np.maximum(joint.sum(axis=0), 4 * least)
    joint = np.maximum(np.abs(joint) if flip else joint, least)
    return joint * (total / joint.sum(axis=0))


def _warn_of_unsolved(voters: Sequence[str]) -> None:
    warnings.warn(
        f"Triplet: {listed(voters, limit=5)} have no usable triplet: no two other voters share "
        f"items with them and with each other in a way that gives a ratio. They are assumed to be "
        f"right in {100 * ((1 + FALLBACK) / 2):.0f} % of their votes.",
        WieselWarning,
        stacklevel=4,
    )


def find_partners(totals: FloatArray, rank: IntArray) -> npt.NDArray[np.int64]:
    """Return the partners that all voters are solved with, from the vote counts by class.

    `rank` decides between voters with equally many votes.

    >>> find_partners(np.ones((3, 2)), np.arange(3))
    array([0, 1, 2])
    """
    n_voters, n_classes = totals.shape
    if n_voters**2 * n_classes <= MOST_PAIRS:
        return np.arange(n_voters)
    size = max(LEAST_PANEL, min(2 * MOST_PARTNERS, PANEL_CELLS // (n_voters * n_classes**2)))
    return np.sort(np.lexsort((rank, -totals.sum(axis=1)))[:size])


def pair_sums(votes: VoteSource, partners: IntArray | None = None) -> PairSums:
    """Return the products of all pairs of voters and partners, summed over the items."""
    n_voters, n_classes = len(votes.voters), len(votes.labels)
    n_partners = n_voters if partners is None else len(partners)
    shape = (n_classes, n_voters, n_partners)
    sums = PairSums(np.empty(shape), np.empty(shape), np.empty(shape[1:]))
    for block, counts in _blocks(votes, partners):
        by_class = counts.reshape(-1, n_classes, n_voters, n_classes)
        together = by_class.sum(axis=(1, 3))
        sums.together[:, block] = together.T
        for c in range(n_classes):
            both = by_class[:, c, :, c]
            one = by_class[:, c].sum(axis=2) + by_class[:, :, :, c].sum(axis=1)
            sums.both[c, :, block] = both.T
            # (2x - 1)(2y - 1) = 4xy - 2x - 2y + 1, summed over the items with both votes.
            sums.signed[c, :, block] = (4 * both - 2 * one + together).T
    return sums


def _blocks(
    votes: VoteSource, partners: IntArray | None
) -> Iterator[tuple[slice, npt.NDArray[np.float64]]]:
    if partners is None or len(partners) == len(votes.voters):
        yield from pair_counts(votes)
    else:
        yield slice(0, len(partners)), counts_with(votes, np.asarray(partners, dtype=np.int64))


def solve_triplets(
    moments: FloatArray,
    overlap: FloatArray,
    aggregate: Aggregate,
    only_positive: bool,
    most: float,
    partners: IntArray | None = None,
) -> npt.NDArray[np.float64]:
    """Return a_i where M_ij = a_i a_j: sqrt(M_ij M_ik / M_jk), aggregated over pairs j < k.

    A triplet is usable if each pair of its voters shares items and M_jk is not zero. If M_ij is
    zero, so is the root: dropping such triplets would make voters with little overlap look
    better than they are. With `only_positive`, ratios must be positive; otherwise their absolute
    value is used. Roots are cut at `most`. Columns of `moments` and `overlap` are the `partners`,
    by position; all voters if none are given.
    """
    partners = np.arange(len(moments)) if partners is None else partners
    roots = _Roots(moments, overlap, only_positive, most, partners)
    return np.array([aggregate(*roots.of(i)) for i in range(len(moments))])


def shuffled(names: Sequence[str], seed: int) -> list[int]:
    """Return positions in a random order that depends on the names, not on their order."""

    def rank(position: int) -> bytes:
        return hashlib.blake2b(f"{seed}:{names[position]}".encode(), digest_size=16).digest()

    return sorted(range(len(names)), key=rank)


class _Roots(NamedTuple):
    """The roots of all triplets of a voter with two partners."""

    moments: FloatArray
    overlap: FloatArray
    only_positive: bool
    most: float
    partners: IntArray

    def of(self, i: int) -> tuple[FloatArray, IntArray, IntArray]:
        """Return the usable roots of voter i, and the other two voters of each."""
        moments, overlap = self.moments, self.overlap
        others = np.flatnonzero(self.partners != i)
        if len(others) > MOST_PARTNERS:
            others = others[np.argsort(-overlap[i, others], kind="stable")[:MOST_PARTNERS]]
        (pairs, first, second), voters = _pairs(len(others)), self.partners[others]
        # Small matrices of all partners, of which the pairs j < k are taken.
        own, between = moments[i, others], np.ix_(voters, others)
        numerator = np.multiply.outer(own, own).take(pairs)
        denominator = moments[between].take(pairs)
        if self.only_positive:
            usable = numerator * denominator > 0
        else:
            shares = overlap[i, others] > 0
            shared = np.logical_and.outer(shares, shares) & (overlap[between] > 0)
            usable = shared.take(pairs) & (denominator != 0)
        if not usable.all():
            numerator, denominator = numerator[usable], denominator[usable]
            first, second = first[usable], second[usable]
        numerator /= denominator
        roots = np.sqrt(np.abs(numerator, out=numerator), out=numerator)
        return np.minimum(roots, self.most, out=roots), voters[first], voters[second]


@lru_cache(maxsize=4)
def _pairs(n: int) -> tuple[IntArray, IntArray, IntArray]:
    """The positions of the pairs j < k in a flat n x n matrix, and the two of each."""
    first, second = np.triu_indices(n, k=1)
    return first * n + second, first, second
