"""Folds items with equal votes into one weighted item: few voters have few vote patterns.

Votes in files are folded as they are read. Most rows of large data have no vote or a single one, so
what remains fits into memory, and a fit with many steps reads the files once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wiesel.labels import ABSTAIN
from wiesel.votes import Statistics, VoteMatrix, VoteSource

__all__ = ["Patterns", "fold", "fold_parts", "gold_classes"]

WORTH_FOLDING = 0.7
"""The share of distinct patterns above which folding costs more than it saves."""

SAMPLE = 4096
MOST_BYTES = 2**27
"""The most memory for the patterns of votes in files; adding two of them takes a few times that."""


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


def fold_parts(votes: VoteSource, gold: Mapping[Any, int]) -> Patterns | None:
    """Return the patterns of votes in files, which are read once; None if there are too many.

    `gold` has known classes by item id.

    >>> fold_parts(votes, {}).weights
    array([1., 1., 1., 1.])
    """
    state = _Folded(*votes.sum(_FoldPart(gold), _joined))
    if len(state.lengths) == 0:
        return None
    state = _merged(state)
    n_items = len(state.lengths)
    found = VoteMatrix(
        np.concatenate([[0], np.cumsum(state.lengths)]),
        state.voters,
        state.classes,
        votes.labels,
        votes.voters,
        np.arange(n_items),
        state.distribution if state.distribution.size else None,
    )
    return Patterns(found, state.weights, state.gold)


def gold_classes(votes: VoteMatrix, gold: Mapping[Any, int]) -> npt.NDArray[np.int64]:
    """Return the known class of every item, -1 if unknown."""
    classes = np.full(votes.n_items, ABSTAIN)
    if gold:
        classes[:] = [gold.get(item, ABSTAIN) for item in votes.ids.tolist()]
    return classes


class _Folded(NamedTuple):
    """Patterns as arrays that can be added up; all are empty if there are too many."""

    fingerprints: npt.NDArray[np.uint64]
    weights: npt.NDArray[np.float64]
    gold: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    """The number of votes of each pattern."""
    voters: npt.NDArray[np.int32]
    classes: npt.NDArray[np.int16]
    distribution: npt.NDArray[np.float32]
    """(n_votes, n_classes); without probabilistic votes, no rows."""
    n_merged: npt.NDArray[np.int64]
    """How many patterns there were when equal ones were last merged."""


@dataclass(frozen=True)
class _FoldPart:
    """The statistic behind `fold_parts`; an object, so that it can be sent."""

    gold: Mapping[Any, int]

    def __call__(self, part: VoteMatrix) -> Statistics:
        known = gold_classes(part, self.gold)
        distribution = np.zeros((0, part.n_classes), np.float32)
        return _bounded(
            _merged(
                _Folded(
                    _fingerprints(part, known),
                    np.ones(part.n_items),
                    known,
                    part.votes_per_item,
                    part.voter_index,
                    part.class_index,
                    distribution if part.distribution is None else part.distribution,
                    np.zeros(1, np.int64),
                )
            )
        )


def _joined(left: Statistics, right: Statistics) -> Statistics:
    """The patterns of both, merged only when their number has doubled."""
    one, other = _Folded(*left), _Folded(*right)
    if not (len(one.lengths) and len(other.lengths)):
        return _bounded(one, too_many=True)
    # With a distribution on one side only, the other side's votes have one, too.
    if bool(one.distribution.size) != bool(other.distribution.size):
        one, other = _with_distribution(one), _with_distribution(other)
    pairs: Any = zip(one, other, strict=True)
    both = _Folded(*map(np.concatenate, pairs))._replace(n_merged=one.n_merged)
    if len(both.lengths) > 2 * one.n_merged[0] or _n_bytes(both) > MOST_BYTES:
        both = _merged(both)
    return _bounded(both)


def _bounded(folded: _Folded, too_many: bool = False) -> Statistics:
    """The patterns, or none if they are too many for memory."""
    if too_many or _n_bytes(folded) > MOST_BYTES:
        return tuple(array[:0] for array in folded)
    return tuple(folded)


def _n_bytes(folded: _Folded) -> int:
    return sum(array.nbytes for array in folded)


def _with_distribution(folded: _Folded) -> _Folded:
    if folded.distribution.size:
        return folded
    certain = np.eye(folded.distribution.shape[1], dtype=np.float32)[folded.classes]
    return folded._replace(distribution=certain)


def _merged(folded: _Folded) -> _Folded:
    """Equal patterns as one, with the sum of their weights."""
    _, first, place = np.unique(folded.fingerprints, return_index=True, return_inverse=True)
    starts = np.concatenate([[0], np.cumsum(folded.lengths)])
    lengths = folded.lengths[first]
    ends = np.cumsum(lengths)
    votes = np.arange(ends[-1] if len(ends) else 0)
    votes += np.repeat(starts[first] - (ends - lengths), lengths)
    return _Folded(
        folded.fingerprints[first],
        np.bincount(place, folded.weights, minlength=len(first)).astype(np.float64),
        folded.gold[first],
        lengths,
        folded.voters[votes],
        folded.classes[votes],
        folded.distribution[votes] if folded.distribution.size else folded.distribution,
        np.array([len(first)]),
    )


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
    if votes.distribution is not None:
        columns = votes.voter_index[:, None] * np.int32(votes.n_classes) + np.arange(
            votes.n_classes
        )
        bits = np.ascontiguousarray(votes.distribution, np.float32).view(np.uint32)
        numbers = _scrambled(bits + of_vote[columns]).sum(axis=1, dtype=np.uint64)
    prints = np.zeros(votes.n_items, dtype=np.uint64)
    if votes.n_votes:
        prints[votes.covered] = np.add.reduceat(numbers, votes.indptr[:-1][votes.covered])
    prints += of_gold[gold]
    return prints


def _scrambled(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Random-looking numbers, so that sums of similar probabilities do not collide (SplitMix64)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))
