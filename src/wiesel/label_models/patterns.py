"""Folds items with equal votes into one weighted item: few voters have few vote patterns."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wiesel.labels import ABSTAIN
from wiesel.votes import VoteMatrix

__all__ = ["Patterns", "fold"]

WORTH_FOLDING = 0.7
"""The share of distinct patterns above which folding costs more than it saves."""


SAMPLE = 4096


class Patterns(NamedTuple):
    """Distinct items and how many times each occurs."""

    votes: VoteMatrix
    weights: npt.NDArray[np.float64]
    gold: npt.NDArray[np.int64]
    """The known class of each item, -1 if unknown."""


def fold(votes: VoteMatrix, gold: npt.NDArray[np.int64]) -> Patterns:
    """Return one item for every distinct combination of votes and gold, with its frequency.

    If folding would hardly help, the items are returned unchanged, each with weight 1.

    >>> twice = VoteMatrix.concatenate([votes, votes])
    >>> patterns = fold(twice, np.full(8, -1))
    >>> len(patterns.votes), patterns.weights
    (4, array([2., 2., 2., 2.]))
    """
    if votes.distribution is None and _looks_repetitive(votes):
        _, first, times = np.unique(
            _fingerprints(votes, gold), return_index=True, return_counts=True
        )
        if len(first) <= WORTH_FOLDING * votes.n_items:
            return Patterns(votes[first], times.astype(np.float64), gold[first])
    return Patterns(votes, np.ones(votes.n_items), gold)


def _looks_repetitive(votes: VoteMatrix) -> bool:
    """Whether the repeats in a sample suggest far fewer patterns than items."""
    if votes.n_items <= SAMPLE:
        return True
    sample = votes[:: votes.n_items // SAMPLE]
    known = np.full(sample.n_items, ABSTAIN)
    n_distinct = len(np.unique(_fingerprints(sample, known)))
    # The birthday problem: with p equally frequent patterns, k draws have about k^2 / 2p repeats.
    repeats = sample.n_items - n_distinct
    return repeats > 0 and sample.n_items**2 / (2 * repeats) < votes.n_items


def _fingerprints(votes: VoteMatrix, gold: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """A hash of every item, equal for equal votes and gold.

    Each possible vote has a random 64-bit number and an item has the sum of its votes' numbers:
    among a million distinct items, two collide once in thirty million fits.
    """
    rng = np.random.default_rng(0)
    width = votes.n_voters * votes.n_classes
    of_vote = rng.integers(0, 2**64, size=width, dtype=np.uint64)
    of_gold = rng.integers(0, 2**64, size=votes.n_classes + 1, dtype=np.uint64)
    numbers = of_vote[votes.voter_index * np.int32(votes.n_classes) + votes.class_index]
    prints = np.zeros(votes.n_items, dtype=np.uint64)
    if votes.n_votes:
        prints[votes.covered] = np.add.reduceat(numbers, votes.indptr[:-1][votes.covered])
    prints += of_gold[gold]
    return prints
