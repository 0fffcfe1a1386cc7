"""How often two voters cast two votes together: all that the moment methods ask of the items.

With Psi the one-hot votes, the pair counts are Psi.T @ Psi. Two ways lead there, and which is
faster depends on how dense the votes are: dense float32 blocks through BLAS cost
n_items * width^2, the sparse product costs the sum over items of the squared number of votes.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from wiesel.label_models.vote_products import one_hot_chunks
from wiesel.votes import Statistics, VoteMatrix, VoteSource

__all__ = ["pair_counts", "vote_totals"]

BLOCK_CELLS = 2**25
"""How many cells of the count matrix are held at once: 256 MB. 2,880 binary voters fit."""

SPARSE_CHUNK_VOTES = 2**19
DENSE_CHUNK_CELLS = 2**20

SPARSE_CELL_COST = 450.0
"""What one cell of the sparse product costs, in cells of the dense one (measured: 5 ns, 11 ps)."""


def pair_counts(votes: VoteSource) -> Iterator[tuple[slice, npt.NDArray[np.float64]]]:
    """Yield blocks of the pair counts: a slice of voters, and the rows that belong to them.

    Row `voter * n_classes + class` and column likewise hold the number of items on which both
    votes were cast. There is one block, unless the voters are so many that it would be too large;
    each block is one pass over the votes.

    >>> [(block.start, block.stop, counts.shape) for block, counts in pair_counts(votes)]
    [(0, 3, (6, 6))]
    """
    n_voters, n_classes = len(votes.voters), len(votes.labels)
    step = max(1, BLOCK_CELLS // (n_voters * n_classes**2))
    for start in range(0, n_voters, step):
        block = slice(start, min(start + step, n_voters))
        (counts,) = votes.sum(_PairCounts(block))
        yield block, counts


def vote_totals(votes: VoteSource) -> npt.NDArray[np.float64]:
    """Return how often each voter voted for each class: (n_voters, n_classes).

    >>> vote_totals(votes)
    array([[2., 1.],
           [1., 3.],
           [1., 1.]])
    """
    (totals,) = votes.sum(_count_votes)
    return totals


class _PairCounts:
    """The statistic behind `pair_counts`; an object, so that it can be sent to other machines."""

    def __init__(self, block: slice) -> None:
        self.block = block

    def __call__(self, part: VoteMatrix) -> Statistics:
        n_classes = part.n_classes
        columns = slice(self.block.start * n_classes, self.block.stop * n_classes)
        shape = (columns.stop - columns.start, part.n_voters * n_classes)
        per_vote = 1 if part.distribution is None else n_classes
        sparse_cells = float(np.square(part.votes_per_item * per_vote).sum())
        sparse_cells *= (self.block.stop - self.block.start) / part.n_voters
        if SPARSE_CELL_COST * sparse_cells < part.n_items * shape[0] * shape[1]:
            return (_sparse_product(part, columns, shape),)
        return (_dense_product(part, columns, shape),)


def _sparse_product(
    part: VoteMatrix, columns: slice, shape: tuple[int, int]
) -> npt.NDArray[np.float64]:
    counts = np.zeros(shape)
    for _, one_hot in one_hot_chunks(part, SPARSE_CHUNK_VOTES):
        left = one_hot if shape[0] == shape[1] else one_hot[:, columns]
        counts += (left.T @ one_hot).toarray()
    return counts


def _dense_product(
    part: VoteMatrix, columns: slice, shape: tuple[int, int]
) -> npt.NDArray[np.float64]:
    counts = np.zeros(shape)
    mean_votes = part.n_votes / part.n_items
    # float32 counts exactly up to 2**24, far more than the items of a chunk.
    for _, one_hot in one_hot_chunks(part, int(mean_votes * DENSE_CHUNK_CELLS / shape[1])):
        block = one_hot.astype(np.float32).toarray()
        counts += block[:, columns].T @ block
    return counts


def _count_votes(part: VoteMatrix) -> Statistics:
    totals = np.zeros(part.n_voters * part.n_classes)
    for _, one_hot in one_hot_chunks(part):
        totals += np.bincount(one_hot.indices, one_hot.data, minlength=len(totals))
    return (totals.reshape(part.n_voters, part.n_classes),)
