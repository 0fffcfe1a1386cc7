"""Counts per voter and per item, computed in one pass over the votes."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wiesel.errors import DataError
from wiesel.labels import ABSTAIN, FloatArray, IntArray
from wiesel.row_ids import in_order_of
from wiesel.votes import Statistics, VoteMatrix, VoteSource

__all__ = [
    "GoldCounts",
    "ItemCounts",
    "VoterCounts",
    "class_counts",
    "conflicted",
    "gold_counts",
    "gold_indices",
    "item_counts",
    "ratio",
    "voter_counts",
    "wilson_interval",
]

Counts = npt.NDArray[np.int64]


class VoterCounts(NamedTuple):
    """Numbers of votes, one entry per voter."""

    votes: Counts
    overlap: Counts
    """Votes on items that another voter votes on too."""
    conflict: Counts
    """Votes on items for which another voter votes for a different class."""


class ItemCounts(NamedTuple):
    """Numbers of items."""

    covered: int
    """Items with at least one vote."""
    shared: int
    """Items with at least two votes."""
    disputed: int
    """Items with votes for different classes."""


class GoldCounts(NamedTuple):
    """Votes compared with gold labels: (n_voters, n_classes), by the class voted for."""

    support: Counts
    """Votes on items with a gold label."""
    correct: Counts
    """Correct votes on these items."""
    items: Counts
    """The number of items of each class, (n_classes,)."""


def voter_counts(votes: VoteSource) -> VoterCounts:
    """Return per voter: all votes, votes with another voter, and votes in conflict with one."""
    return VoterCounts(*votes.sum(_sum_of_voters))


def item_counts(votes: VoteSource) -> ItemCounts:
    """Return the number of items with a vote, with several votes, and with conflicting votes."""
    (counts,) = votes.sum(_sum_of_items)
    return ItemCounts(*counts.astype(int).tolist())


def class_counts(votes: VoteSource) -> Counts:
    """Return how often each voter votes for each class: (n_voters, n_classes).

    A probabilistic vote counts for its most probable class.
    """
    (counts,) = votes.sum(_sum_of_classes)
    return counts.astype(np.int64)


def conflicted(votes: VoteMatrix) -> npt.NDArray[np.bool_]:
    """Return for each item whether two voters vote for different classes."""
    covered, lengths = votes.covered, votes.votes_per_item
    first = votes.class_index[votes.indptr[:-1][covered]]
    differs = votes.class_index != np.repeat(first, lengths[covered])
    disputed = np.zeros(votes.n_items, dtype=np.bool_)
    disputed[votes.item_index[differs]] = True
    return disputed


def gold_indices(votes: VoteSource, gold: Any) -> npt.NDArray[np.int64]:
    """Return gold labels (names or indices) as indices, in the order of the votes.

    -1 is unknown; without gold, every label is.
    """
    if gold is None:
        return np.full(votes.n_items, ABSTAIN, dtype=np.int64)
    known = votes.labels.indices(in_order_of(votes, gold, "gold"), allow_unknown=True)
    if len(known) != votes.n_items:
        raise DataError(
            f"There are {len(known):,} gold labels for {votes.n_items:,} items; give one for each "
            "item, None where it is not known."
        )
    return known


def gold_counts(votes: VoteSource, gold: IntArray) -> GoldCounts:
    """Return how often each voter is correct on items with a gold label."""
    shape = (len(votes.voters), len(votes.labels))
    support, correct = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    start = 0
    for part in votes.parts():
        truth = np.repeat(gold[start : start + part.n_items], part.votes_per_item)
        support += _by_voter_and_class(part, truth != ABSTAIN)
        correct += _by_voter_and_class(part, truth == part.class_index)
        start += part.n_items
    known = gold[gold != ABSTAIN]
    return GoldCounts(support, correct, np.bincount(known, minlength=shape[1]))


def ratio(part: IntArray, whole: IntArray | int) -> npt.NDArray[np.float64]:
    """Return part / whole; NaN (unknown) where `whole` is 0."""
    whole = np.broadcast_to(np.asarray(whole), part.shape)
    return np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0)


def wilson_interval(
    successes: FloatArray | IntArray, trials: FloatArray | IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return the 95 % Wilson score interval of a share; NaN if there are no trials.

    >>> low, high = wilson_interval(np.array([8, 0]), np.array([10, 0]))
    >>> low.round(3), high.round(3)
    (array([0.49,  nan]), array([0.943,   nan]))
    """
    z = 1.959964
    n = np.where(np.asarray(trials) > 0, trials, np.nan)
    share = np.asarray(successes) / n
    center = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    spread = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return np.clip(center - spread, 0, 1), np.clip(center + spread, 0, 1)


def _sum_of_voters(part: VoteMatrix) -> Statistics:
    lengths = part.votes_per_item
    shared = np.repeat(lengths > 1, lengths)
    disputed = np.repeat(conflicted(part), lengths)
    return (
        np.bincount(part.voter_index, minlength=part.n_voters),
        np.bincount(part.voter_index[shared], minlength=part.n_voters),
        np.bincount(part.voter_index[disputed], minlength=part.n_voters),
    )


def _sum_of_items(part: VoteMatrix) -> Statistics:
    shared = np.count_nonzero(part.votes_per_item > 1)
    counts = (part.covered.sum(), shared, conflicted(part).sum())
    return (np.array(counts, dtype=np.float64),)


def _sum_of_classes(part: VoteMatrix) -> Statistics:
    return (_by_voter_and_class(part, np.ones(part.n_votes, dtype=np.bool_)),)


def _by_voter_and_class(votes: VoteMatrix, chosen: npt.NDArray[np.bool_]) -> Counts:
    voter = votes.voter_index[chosen].astype(np.int64)
    cells = voter * votes.n_classes + votes.class_index[chosen]
    size = votes.n_voters * votes.n_classes
    return np.bincount(cells, minlength=size).reshape(votes.n_voters, votes.n_classes)
