"""The pair moments of very many voters, as a linear operator on the sparse votes.

With Psi the one-hot votes, the moments are O = Psi^T Psi / n without the pairs of a voter with
itself. Ten thousand voters and two classes have 400 million of them; O @ mu needs two products of
the sparse Psi with a narrow matrix.
"""

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from wiesel.label_models.vote_products import OneHot, one_hot_chunks
from wiesel.labels import FloatArray
from wiesel.votes import VoteMatrix

__all__ = ["VotePairs"]

PRODUCT_ROWS = 512


class VotePairs:
    """O of votes in memory: supports products, sums and squares, but no access to entries.

    >>> pairs = VotePairs(votes)
    >>> (pairs @ np.ones((6, 1))).ravel().sum() == pairs.sum()
    np.True_
    """

    def __init__(self, votes: VoteMatrix) -> None:
        self.shape = (votes.n_voters * votes.n_classes,) * 2
        self._n_items = votes.n_items
        self._one_hots = [chunk.one_hot for chunk in one_hot_chunks(votes)]
        self._own = _own_pairs(votes) / votes.n_items

    def __matmul__(self, mu: FloatArray) -> npt.NDArray[np.float64]:
        product = np.zeros(mu.shape)
        for one_hot in self._one_hots:
            product += np.asarray(one_hot.T @ (one_hot @ mu))
        product /= self._n_items
        n_voters, n_classes, _ = self._own.shape
        own = self._own @ mu.reshape(n_voters, n_classes, -1)
        product -= own.reshape(mu.shape)
        return product

    def sum(self) -> float:
        """Return the sum of all moments."""
        everything = sum(float(np.square(one_hot.sum(axis=1)).sum()) for one_hot in self._one_hots)
        return everything / self._n_items - float(self._own.sum())

    def mean(self) -> float:
        """Return the mean of all moments, including zeros."""
        return self.sum() / self.shape[0] ** 2

    @property
    def squares(self) -> float:
        """The sum of the squared moments: that of Psi^T Psi is also that of Psi Psi^T."""
        stacked = _stacked(self._one_hots)
        by_item = float(np.square(np.diff(stacked.indptr).astype(np.float64)).sum())
        per_column = np.bincount(stacked.indices, minlength=stacked.shape[1]).astype(np.float64)
        by_column = float(np.square(per_column).sum())
        everything = _squares(stacked if by_column < by_item else stacked.T.tocsr())
        return everything / self._n_items**2 - float(np.square(self._own).sum())


def _own_pairs(votes: VoteMatrix) -> npt.NDArray[np.float64]:
    """Psi^T Psi of each voter with itself: (n_voters, n_classes, n_classes)."""
    n_voters, n_classes = votes.n_voters, votes.n_classes
    own = np.zeros((n_voters, n_classes, n_classes))
    if votes.distribution is None:
        cell = votes.voter_index.astype(np.int64) * n_classes + votes.class_index
        totals = np.bincount(cell, minlength=n_voters * n_classes)
        own[:, range(n_classes), range(n_classes)] = totals.reshape(n_voters, n_classes)
        return own
    rows = votes.distribution.astype(np.float64)
    for c in range(n_classes):
        for d in range(n_classes):
            mass = rows[:, c] * rows[:, d]
            own[:, c, d] = np.bincount(votes.voter_index, mass, minlength=n_voters)
    return own


def _stacked(one_hots: list[OneHot]) -> OneHot:
    return one_hots[0] if len(one_hots) == 1 else sp.vstack(one_hots, format="csr")


def _squares(matrix: OneHot) -> float:
    """The sum of the squares of `matrix @ matrix.T`, some rows at a time."""
    turned = matrix.T.tocsr()
    total = 0.0
    for start in range(0, matrix.shape[0], PRODUCT_ROWS):
        total += float(np.square((matrix[start : start + PRODUCT_ROWS] @ turned).data).sum())
    return total
