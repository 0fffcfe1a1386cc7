"""Clusters of items without votes, with the words that characterize them."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wiesel.guidance.end_preview import features_of
from wiesel.guidance.terms import TermIndex, distinctive_terms
from wiesel.threads import one_thread
from wiesel.votes import VoteMatrix, require_votes

__all__ = ["Cluster", "uncovered_clusters"]

_SAMPLE = 20_000
"""Cluster centers are computed on at most this many items; then all items are assigned."""
_STARTS = 3

Points = npt.NDArray[np.float32]
"""(n_points, n_features)"""


@dataclass(frozen=True, eq=False)
class Cluster:
    """Similar items without a vote."""

    rows: npt.NDArray[np.int64]
    """Positions of the items, nearest to the center first."""
    words: tuple[str, ...]
    """Terms that distinguish these items from all others; empty without texts."""

    def __len__(self) -> int:
        return len(self.rows)


@one_thread()
def uncovered_clusters(
    X: Any,
    votes: VoteMatrix,
    index: TermIndex | None = None,
    *,
    n_clusters: int = 8,
    seed: int = 0,
) -> list[Cluster]:
    """Return clusters of the items without a vote, the largest first.

    `X` contains the features of all items, `index` the terms of their texts for the words.

    >>> from wiesel import VoteMatrix
    >>> some = VoteMatrix.from_dense([[0], [-1], [-1], [-1]], ["ham", "spam"], ["keyword"])
    >>> index = TermIndex.of(["hi", "win cash", "cash now", "lunch"], min_count=1)
    >>> found = uncovered_clusters([[0.0], [5.0], [5.1], [-5.0]], some, index, n_clusters=2)
    >>> [(cluster.words[:1], len(cluster)) for cluster in found]
    [(('cash',), 2), (('lunch',), 1)]
    """
    require_votes(votes)
    features = features_of(X, votes)
    rows = np.flatnonzero(~votes.covered)
    if not len(rows):
        return []
    from scipy.cluster.vq import vq

    rng = np.random.default_rng(seed)
    sample = rows if len(rows) <= _SAMPLE else np.sort(rng.choice(rows, _SAMPLE, replace=False))
    centers = _centers(features[sample], min(n_clusters, len(sample)), rng)
    group, distance = vq(features[rows], centers)
    found = [_cluster(rows, distance, group == k, index) for k in range(len(centers))]
    return sorted((each for each in found if len(each)), key=len, reverse=True)


def _centers(points: Points, n_clusters: int, rng: np.random.Generator) -> Points:
    """The centers of k-means clusters, from the best of a few random starts."""
    from scipy.cluster.vq import kmeans2, vq  # scikit-learn's takes longer to import

    # Neither fewer distinct points than clusters nor an empty cluster is an error.
    n_clusters = min(n_clusters, len(np.unique(points, axis=0)))
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        tries = [kmeans2(points, n_clusters, minit="++", rng=rng)[0] for _ in range(_STARTS)]
    return min(tries, key=lambda centers: float(np.square(vq(points, centers)[1]).sum()))


def _cluster(
    rows: npt.NDArray[np.int64],
    distance: npt.NDArray[np.floating[Any]],
    own: npt.NDArray[np.bool_],
    index: TermIndex | None,
) -> Cluster:
    nearest = np.argsort(distance[own], kind="stable")
    chosen = rows[own][nearest]
    return Cluster(chosen, () if index is None else tuple(distinctive_terms(index, chosen)))
