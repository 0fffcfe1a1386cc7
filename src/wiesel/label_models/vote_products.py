"""Products of the sparse one-hot votes with small dense matrices, in cache-sized chunks of items.

With Psi the one-hot votes (items x voter-class columns), `Psi @ weights` scores items and
`Psi.T @ proba` counts votes. Chunks keep the intermediate arrays small, so memory grows only with
the votes themselves and with the result.
"""

import math
from collections.abc import Callable, Iterator
from functools import reduce
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from wiesel.errors import ParameterError
from wiesel.labels import FloatArray
from wiesel.votes import Statistics, VoteMatrix, VoteSource

__all__ = [
    "Chunk",
    "LogJoint",
    "OneHot",
    "Widen",
    "alignment_offsets",
    "class_shares",
    "item_scores",
    "normalize_rows",
    "one_hot_chunks",
    "posterior",
    "refuse_too_many_numbers",
    "vote_totals",
    "weighted_counts",
]

OneHot = sp.csr_array[np.float64, tuple[int, int]]
"""One-hot votes of some items: column `voter * n_classes + class`."""

Widen = Callable[[OneHot], OneHot]
"""Adds columns to one-hot votes."""

CHUNK_VOTES = 2**17

_ALIGNING_ROUNDS, _ALIGNING_STEP = 30, 0.7
_SMALLEST_SHARE = 1e-4


class Chunk(NamedTuple):
    """Consecutive items and their one-hot votes."""

    rows: slice
    one_hot: OneHot


class LogJoint(NamedTuple):
    """log P(class, votes) of an item: `offset` plus the `weights` rows of its votes.

    Both are defined up to a constant per item, so a likelihood ratio can be a weight, too.
    """

    weights: FloatArray
    """(n_voters * n_classes, n_classes): row `voter * n_classes + class` is that vote's."""
    offset: FloatArray
    """(n_classes,)"""


def one_hot_chunks(
    votes: VoteMatrix, chunk_votes: int = CHUNK_VOTES, every: int = 1
) -> Iterator[Chunk]:
    """Yield the one-hot votes of all items, a few thousand items at a time.

    A probabilistic vote puts its distribution into its voter's columns. `every=3` yields every
    third chunk, as a sample.

    >>> [(chunk.rows.stop, chunk.one_hot.shape) for chunk in one_hot_chunks(votes)]
    [(4, (4, 6))]
    """
    ones = np.ones(0)
    for rows in islice(_row_slices(votes, chunk_votes), 0, None, every):
        first, last = votes.indptr[rows.start], votes.indptr[rows.stop]
        if last - first > len(ones):
            ones = np.ones(last - first)
        yield Chunk(rows, _one_hot(votes, rows, ones))


def item_scores(votes: VoteMatrix, weights: FloatArray) -> npt.NDArray[np.float64]:
    """Return the sum of the weights of each item's votes: (n_items, weights.shape[1]).

    Row `voter * n_classes + class` of `weights` belongs to that voter's vote for that class.

    >>> item_scores(votes, np.tile(np.eye(2), (3, 1)))[:2]
    array([[2., 0.],
           [1., 1.]])
    """
    scores = np.empty((votes.n_items, weights.shape[1]))
    for chunk in one_hot_chunks(votes):
        scores[chunk.rows] = chunk.one_hot @ weights
    return scores


def weighted_counts(votes: VoteMatrix, voter_weights: FloatArray) -> npt.NDArray[np.float64]:
    """Return the sum of the weights of those who voted for each class: (n_items, n_classes).

    >>> weighted_counts(votes, np.array([1.0, 0.5, 0.25]))[:2]
    array([[1.5, 0. ],
           [1. , 0.5]])
    """
    return item_scores(votes, np.kron(voter_weights[:, None], np.eye(votes.n_classes)))


def class_shares(
    votes: VoteMatrix, prior: FloatArray, voter_weights: FloatArray
) -> npt.NDArray[np.float64]:
    """Return each class's share of the weighted votes; items without weight get the prior."""
    shares = weighted_counts(votes, voter_weights)
    for start in range(0, len(shares), CHUNK_VOTES):
        part = shares[start : start + CHUNK_VOTES]
        total = part.sum(axis=1)
        part[total <= 0] = prior
        part /= np.where(total > 0, total, 1.0)[:, None]
    return shares


def vote_totals(votes: VoteSource) -> npt.NDArray[np.float64]:
    """Return how often each voter voted for each class: (n_voters, n_classes).

    >>> vote_totals(votes)
    array([[2., 1.],
           [1., 3.],
           [1., 1.]])
    """
    (totals,) = votes.sum(_count_votes)
    return totals


def posterior(
    votes: VoteMatrix, joint: LogJoint, prior: FloatArray, widen: Widen | None = None
) -> npt.NDArray[np.float64]:
    """Return P(class | votes) of independent voters; an item without votes gets the prior.

    `widen` adds columns to the one-hot votes if `joint` has weights for more than votes.
    """
    proba = np.empty((votes.n_items, votes.n_classes))
    for chunk in one_hot_chunks(votes):
        one_hot = chunk.one_hot if widen is None else widen(chunk.one_hot)
        part = one_hot @ joint.weights
        part += joint.offset
        normalize_rows(part)
        part[~votes.covered[chunk.rows]] = prior
        proba[chunk.rows] = part
    return proba


def normalize_rows(log_joint: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Turn log P(class, votes) into P(class | votes) in place; return log P(votes) of each row.

    Column by column, because NumPy is slow at reducing many short rows.

    >>> log_joint = np.log([[0.1, 0.3], [0.2, 0.2]])
    >>> np.exp(normalize_rows(log_joint)), log_joint
    (array([0.4, 0.4]), array([[0.25, 0.75],
                               [0.5 , 0.5 ]]))
    """
    top = reduce(np.maximum, log_joint.T)
    log_joint -= top[:, None]
    np.exp(log_joint, out=log_joint)
    total = log_joint @ np.ones(log_joint.shape[1])
    log_joint /= total[:, None]
    return top + np.log(total)


def alignment_offsets(balance: FloatArray, logits: FloatArray) -> npt.NDArray[np.float64]:
    """Return offsets for the logits of items that make the class shares match the balance.

    The match is approximate, by iterative proportional fitting.

    >>> logits = np.log([[0.9, 0.1], [0.6, 0.4]])
    >>> moved = logits + alignment_offsets(np.array([0.5, 0.5]), logits)
    >>> normalize_rows(moved), moved.mean(axis=0).round(3)
    (array([...]), array([0.5, 0.5]))
    """
    # Offsets are factors of the probabilities, so the rounds need no further exponentials.
    proba, offsets = np.array(logits, dtype=np.float64), np.zeros(len(balance))
    normalize_rows(proba)
    for _ in range(_ALIGNING_ROUNDS):
        factors = np.exp(offsets)
        shares = factors * ((1 / (proba @ factors)) @ proba) / len(proba)
        offsets += _ALIGNING_STEP * np.log(balance / np.maximum(shares, _SMALLEST_SHARE))
    return offsets


def _row_slices(votes: VoteMatrix, chunk_votes: int) -> Iterator[slice]:
    mean_votes = max(1.0, votes.n_votes / max(1, votes.n_items))
    step = int(max(1, chunk_votes // mean_votes))
    # With no items, yield one empty chunk, so that sums keep their shape.
    for start in range(0, max(1, votes.n_items), step):
        yield slice(start, min(start + step, votes.n_items))


def _one_hot(votes: VoteMatrix, rows: slice, ones: npt.NDArray[np.float64]) -> OneHot:
    first, last = votes.indptr[rows.start], votes.indptr[rows.stop]
    n_classes = votes.n_classes
    indptr = (votes.indptr[rows.start : rows.stop + 1] - first).astype(np.int32)
    columns = votes.voter_index[first:last] * np.int32(n_classes)
    shape = (rows.stop - rows.start, votes.n_voters * n_classes)
    if votes.distribution is None:
        columns += votes.class_index[first:last]
        return sp.csr_array((ones[: last - first], columns, indptr), shape=shape)
    every_class = (columns[:, None] + np.arange(n_classes, dtype=np.int32)).ravel()
    mass = votes.distribution[first:last].astype(np.float64).ravel()
    return sp.csr_array((mass, every_class, indptr * n_classes), shape=shape)


def _count_votes(part: VoteMatrix) -> Statistics:
    totals = np.zeros(part.n_voters * part.n_classes)
    for _, one_hot in one_hot_chunks(part):
        totals += np.bincount(one_hot.indices, one_hot.data, minlength=len(totals))
    return (totals.reshape(part.n_voters, part.n_classes),)


def refuse_too_many_numbers(model: object, votes: VoteSource, most: int) -> None:
    """Refuse at once what would take half a minute or more: a number for each pair of classes."""
    n_voters, n_classes = len(votes.voters), len(votes.labels)
    numbers = n_voters * n_classes**2
    if numbers > most:
        works = math.isqrt(most // n_voters)
        raise ParameterError(
            f"{type(model).__name__} learns {numbers:,} numbers, one for each of {n_voters:,} "
            f"voters and pair of {n_classes:,} classes, which takes minutes. With {n_voters:,} "
            f"voters, up to {works:,} classes work; DawidSkene() and MajorityVote() have no such "
            f"limit."
        )
