"""Copies of a voter: finding them in the votes, and merging them so that they count once."""

import numpy as np
import numpy.typing as npt

from wiesel.votes import VoteMatrix

__all__ = ["find_copies", "merge_copies"]

_MOST_VOTERS = 3_000
"""The most voters for which all pairs are compared."""
_MOST_ITEMS = 2_000
"""The most items on which voters are compared."""
_ALIKE = 0.9
"""Copies share at least this part of their votes for each class."""
_DOUBT = 2.0
"""Pseudo-votes of each class that count as different, because few votes prove nothing."""


def find_copies(votes: VoteMatrix) -> npt.NDArray[np.int64]:
    """Return for every voter the first voter that it copies, or itself if it is no copy.

    Copies agree on each class that either votes for; two accurate voters need not.

    >>> copied = VoteMatrix.from_dense([[0, 1, 1]] * 500 + [[1, 0, 0]] * 400, ["no", "yes"])
    >>> find_copies(copied)
    array([0, 1, 1])
    """
    original = np.arange(votes.n_voters)
    if votes.n_voters > _MOST_VOTERS:
        return original
    alike = _alikeness(votes) >= _ALIKE
    for voter in range(1, votes.n_voters):
        earlier = np.flatnonzero(alike[voter, :voter] & (original[:voter] == np.arange(voter)))
        if len(earlier):
            original[voter] = earlier[0]
    return original


def merge_copies(votes: VoteMatrix, original: npt.NDArray[np.int64]) -> VoteMatrix:
    """Return the votes with copies merged into one voter; its own vote has priority.

    >>> copied = VoteMatrix.from_dense([[0, 1, -1], [1, -1, 0]], ["no", "yes"], ["a", "b", "c"])
    >>> merged = merge_copies(copied, np.array([0, 1, 1]))
    >>> merged.voters, merged.dense().tolist()
    (('a', 'b'), [[0, 1], [1, 0]])
    """
    kept, position = np.unique(original, return_inverse=True)
    if len(kept) == votes.n_voters:
        return votes
    cell = votes.item_index * len(kept) + position[votes.voter_index]
    cells, first = np.unique(cell, return_index=True)
    return VoteMatrix(
        np.searchsorted(cells, np.arange(votes.n_items + 1) * len(kept)),
        (cells % len(kept)).astype(votes.voter_index.dtype),
        votes.class_index[first],
        votes.labels,
        tuple(votes.voters[voter] for voter in kept),
        votes.ids,
        None if votes.distribution is None else votes.distribution[first],
    )


def _alikeness(votes: VoteMatrix) -> npt.NDArray[np.float64]:
    """The share of equal votes of any two voters, as the minimum over classes."""
    rows = np.random.default_rng(0).permutation(np.flatnonzero(votes.covered))[:_MOST_ITEMS]
    one_hot = votes.one_hot()[np.sort(rows)]
    smallest = np.ones((votes.n_voters, votes.n_voters))
    for c in range(votes.n_classes):
        own = one_hot[:, c :: votes.n_classes]
        both = (own.T @ own).toarray().astype(np.float64)
        most = np.maximum.outer(both.diagonal(), both.diagonal())
        # A class that neither votes for carries no information.
        share = np.where(most > 0, both / (most + _DOUBT), 1.0)
        np.minimum(smallest, share, out=smallest)
    return smallest
