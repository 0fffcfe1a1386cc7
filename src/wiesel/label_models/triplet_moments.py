"""The second moments of votes, and the solution of triplets of voters from them."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wiesel.label_models.pair_moments import counts_with, pair_counts
from wiesel.labels import FloatArray, IntArray
from wiesel.votes import VoteSource

__all__ = ["PairSums", "find_partners", "pair_sums", "shuffled", "solve_triplets"]

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
