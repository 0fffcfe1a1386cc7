"""Clusters of items without votes, with the words that characterize them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wiesel.errors import FeatureError
from wiesel.guidance.terms import TermIndex, distinctive_terms
from wiesel.threads import one_thread
from wiesel.votes import VoteMatrix

__all__ = ["Cluster", "uncovered_clusters"]

_SAMPLE = 20_000
"""Cluster centers are computed on at most this many items; then all items are assigned."""
_STARTS, _ROUNDS = 3, 30

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
    features = np.asarray(X, dtype=np.float32)
    if features.ndim != 2 or len(features) != votes.n_items:
        raise FeatureError(f"Features are items x numbers, for {votes.n_items:,} items.")
    rows = np.flatnonzero(~votes.covered)
    if not len(rows):
        return []
    rng = np.random.default_rng(seed)
    sample = rows if len(rows) <= _SAMPLE else np.sort(rng.choice(rows, _SAMPLE, replace=False))
    centers = _centers(features[sample], min(n_clusters, len(sample)), rng)
    group, distance = _nearest(features[rows], centers), _distances(features[rows], centers)
    found = [_cluster(rows, distance, group == k, index) for k in range(len(centers))]
    return sorted((each for each in found if len(each)), key=len, reverse=True)


def _centers(points: Points, n_clusters: int, rng: np.random.Generator) -> Points:
    """The centers of k-means clusters, from the best of a few random starts.

    scikit-learn has k-means, too, but importing scikit-learn takes longer than clustering.
    """
    tries = [_settled(points, _spread(points, n_clusters, rng)) for _ in range(_STARTS)]
    return min(tries, key=lambda centers: float(np.square(_distances(points, centers)).sum()))


def _spread(points: Points, n_clusters: int, rng: np.random.Generator) -> Points:
    """Points far from each other (k-means++); fewer if there are fewer distinct points.

    Arthur and Vassilvitskii 2007, "k-means++: The advantages of careful seeding", SODA.
    """
    centers = points[[int(rng.integers(len(points)))]]
    while len(centers) < n_clusters:
        squares = np.square(_distances(points, centers), dtype=np.float64)
        if not squares.any():
            break
        centers = np.vstack([centers, points[rng.choice(len(points), p=squares / squares.sum())]])
    return centers


def _settled(points: Points, centers: Points) -> Points:
    """Move every center to the mean of the points nearest to it, until none moves."""
    group = np.full(len(points), -1)
    for _ in range(_ROUNDS):
        before, group = group, _nearest(points, centers)
        if np.array_equal(group, before):
            break
        own = [points[group == k] for k in range(len(centers))]
        means = [part.mean(axis=0) if len(part) else centers[k] for k, part in enumerate(own)]
        centers = np.stack(means)
    return centers


def _nearest(points: Points, centers: Points) -> npt.NDArray[np.int64]:
    """The number of the nearest center of each point."""
    return (np.square(centers).sum(axis=1) - 2 * points @ centers.T).argmin(axis=1)


def _distances(points: Points, centers: Points) -> Points:
    """The distance of each point to the nearest center."""
    return np.linalg.norm(points - centers[_nearest(points, centers)], axis=1)


def _cluster(
    rows: npt.NDArray[np.int64],
    distance: npt.NDArray[np.floating[Any]],
    own: npt.NDArray[np.bool_],
    index: TermIndex | None,
) -> Cluster:
    nearest = np.argsort(distance[own], kind="stable")
    chosen = rows[own][nearest]
    return Cluster(chosen, () if index is None else tuple(distinctive_terms(index, chosen)))
