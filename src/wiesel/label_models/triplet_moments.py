"""The second moments that triplets of voters are solved from, and the solving."""

import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wiesel.label_models.pair_moments import pair_counts
from wiesel.labels import FloatArray, IntArray
from wiesel.votes import VoteSource

__all__ = ["PairSums", "pair_sums", "shuffled", "solve_triplets"]

MOST_PARTNERS = 128
"""With more voters, each is solved with those it shares most items with: 8,128 triplets each."""

Aggregate = Callable[[FloatArray, IntArray, IntArray], float]
"""From the roots of a voter's triplets and the other two voters of each to one number."""


class PairSums(NamedTuple):
    """Sums over items of products of two voters' votes, one matrix for every class."""

    signed: npt.NDArray[np.float64]
    """A vote for the class is +1, for another -1, none 0: (n_classes, n_voters, n_voters)."""
    both: npt.NDArray[np.float64]
    """A vote for the class is 1, everything else 0: the same shape."""
    together: npt.NDArray[np.float64]
    """Any vote is 1, none 0: (n_voters, n_voters)."""


def pair_sums(votes: VoteSource) -> PairSums:
    """Return the products of all pairs of voters, summed over the items."""
    n_voters, n_classes = len(votes.voters), len(votes.labels)
    shape = (n_classes, n_voters, n_voters)
    sums = PairSums(np.empty(shape), np.empty(shape), np.empty(shape[1:]))
    for block, counts in pair_counts(votes):
        by_class = counts.reshape(-1, n_classes, n_voters, n_classes)
        together = by_class.sum(axis=(1, 3))
        sums.together[block] = together
        for c in range(n_classes):
            both = by_class[:, c, :, c]
            one = by_class[:, c].sum(axis=2) + by_class[:, :, :, c].sum(axis=1)
            sums.both[c, block] = both
            # (2x - 1)(2y - 1) = 4xy - 2x - 2y + 1, summed over the items with both votes.
            sums.signed[c, block] = 4 * both - 2 * one + together
    return sums


def solve_triplets(
    moments: FloatArray, overlap: FloatArray, aggregate: Aggregate, only_positive: bool, most: float
) -> npt.NDArray[np.float64]:
    """Return a_i where M_ij = a_i a_j: sqrt(M_ij M_ik / M_jk), aggregated over pairs j < k.

    A triplet is usable if its voters share items, two by two, and M_jk is not zero; where M_ij is
    zero, so is the root: to leave such triplets out would make voters with little overlap look
    better than they are. With `only_positive`, ratios must be positive; otherwise their absolute
    value is used. Roots are cut at `most`.
    """
    return np.array(
        [aggregate(*_roots(i, moments, overlap, only_positive, most)) for i in range(len(moments))]
    )


def shuffled(names: Sequence[str], seed: int) -> list[int]:
    """Return positions in a random order that depends on the names, not on their order."""

    def rank(position: int) -> bytes:
        return hashlib.blake2b(f"{seed}:{names[position]}".encode(), digest_size=16).digest()

    return sorted(range(len(names)), key=rank)


def _roots(
    i: int, moments: FloatArray, overlap: FloatArray, only_positive: bool, most: float
) -> tuple[FloatArray, IntArray, IntArray]:
    """The usable roots of voter i, and the other two voters of each."""
    others = np.flatnonzero(np.arange(len(moments)) != i)
    if len(others) > MOST_PARTNERS:
        others = others[np.argsort(-overlap[i, others], kind="stable")[:MOST_PARTNERS]]
    first, second = np.triu_indices(len(others), k=1)
    j, k = others[first], others[second]
    numerator, denominator = moments[i, j] * moments[i, k], moments[j, k]
    if only_positive:
        usable = numerator * denominator > 0
    else:
        shared = (overlap[i, j] > 0) & (overlap[i, k] > 0) & (overlap[j, k] > 0)
        usable = shared & (denominator != 0)
    roots = np.sqrt(np.abs(numerator[usable] / denominator[usable]))
    return np.minimum(roots, most), j[usable], k[usable]
