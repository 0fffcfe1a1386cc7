"""A map of the rows: similar rows lie side by side on a plane, in a second or two."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from wiesel.errors import FeatureError
from wiesel.threads import one_thread

__all__ = ["RowMap", "map_rows"]

Points = npt.NDArray[np.float32]
"""(n_points, n_dimensions)"""

_SHOWN = 20_000
_DIMENSIONS = 30
_LANDMARKS = 600
_ROUNDS = 2
_NEAR = 5
"""A row is put between so many landmarks."""
_PERPLEXITY = 12.0
_STEPS = 250
_BLOCK = 5_000


@dataclass(frozen=True, eq=False)
class RowMap:
    """Rows and where they lie."""

    rows: npt.NDArray[np.int64]
    """Positions of the rows, in order."""
    points: Points
    """(n_rows, 2): between -1 and 1."""

    def neighborhoods(self, n: int = 12, seed: int = 0) -> list["RowMap"]:
        """Return the map in parts, the one with the most rows first.

        >>> points = np.float32([[0, 0], [0, 0.1], [1, 1]])
        >>> [part.rows.tolist() for part in RowMap(np.arange(3), points).neighborhoods(2)]
        [[0, 1], [2]]
        """
        from scipy.cluster.vq import kmeans2

        n = min(n, len(np.unique(self.points, axis=0)))
        if n < 1:
            return []
        rng = np.random.default_rng(seed)
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # an empty part
            _, group = kmeans2(self.points, n, minit="++", rng=rng)
        parts = [RowMap(self.rows[group == k], self.points[group == k]) for k in range(n)]
        return sorted((part for part in parts if len(part.rows)), key=lambda part: -len(part.rows))

    def inside(self, outline: Any) -> npt.NDArray[np.int64]:
        """Return the rows inside a polygon, whose corners are pairs of numbers.

        >>> two = RowMap(np.array([3, 8]), np.float32([[0, 0], [1, 1]]))
        >>> two.inside([(-1, -1), (1, -1), (0, 1)])
        array([3])
        """
        corners = np.asarray(outline, dtype=np.float64)
        if corners.ndim != 2 or corners.shape[1] != 2 or len(corners) < 3:
            return np.empty(0, np.int64)
        x, y = self.points[:, 0], self.points[:, 1]
        within = np.zeros(len(self.points), dtype=np.bool_)
        # A point is inside if a ray from it crosses an odd number of sides.
        for (x1, y1), (x2, y2) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
            if y1 != y2:
                crosses = (y1 > y) != (y2 > y)
                within ^= crosses & (x < x1 + (y - y1) * (x2 - x1) / (y2 - y1))
        return self.rows[within]


@one_thread()
def map_rows(X: Any, *, n_shown: int = _SHOWN, seed: int = 0) -> RowMap:
    """Return a map of the rows, of which at most `n_shown` are drawn at random.

    A few hundred landmarks (centers of similar rows) are laid out by t-SNE (van der Maaten and
    Hinton, 2008); every row lies between the landmarks that are nearest to it. So 20,000 rows take
    about a second, and neighbors on the map are neighbors in the features.

    >>> X = np.repeat(np.eye(3), 20, axis=0) + np.random.default_rng(0).normal(0, 0.01, (60, 3))
    >>> map_rows(X).points.shape
    (60, 2)
    """
    if not hasattr(X, "shape") or len(X.shape) != 2 or X.dtype.kind != "f":
        raise FeatureError("A map needs features that are a matrix of numbers.")
    rng = np.random.default_rng(seed)
    rows = np.arange(len(X))
    if not len(rows):
        return RowMap(rows, np.empty((0, 2), dtype=np.float32))
    if len(rows) > n_shown:
        rows = np.sort(rng.choice(rows, n_shown, replace=False))
    points = _principal(np.asarray(X[rows], dtype=np.float32), _DIMENSIONS)
    landmarks = _landmarks(points, rng)
    placed = _placed(points, landmarks, _laid_out(landmarks))
    return RowMap(rows, placed / max(float(np.abs(placed).max(initial=0.0)), 1e-9))


def _principal(X: Points, n: int) -> Points:
    """Return the first principal components."""
    centered = X - X.mean(axis=0, dtype=np.float32)
    _, directions = np.linalg.eigh(centered.T @ centered)
    found: Points = centered @ directions[:, ::-1][:, :n]
    return np.pad(found, ((0, 0), (0, max(0, 2 - found.shape[1]))))


def _landmarks(points: Points, rng: np.random.Generator) -> Points:
    """Return centers of similar points: two rounds of k-means from points drawn at random."""
    different = np.unique(points, axis=0)
    centers = rng.choice(different, min(_LANDMARKS, len(different)), replace=False)
    for _ in range(_ROUNDS):
        group = np.concatenate(
            [_squares(points[k : k + _BLOCK], centers).argmin(axis=1) for k in _starts(points)]
        )
        ones = np.ones(len(points), dtype=np.float32)
        shape = (len(centers), len(points))
        sums = sp.csr_array((ones, (group, np.arange(len(points)))), shape=shape) @ points
        sizes = np.bincount(group, minlength=len(centers))[:, None]
        centers = np.where(sizes > 0, sums / np.maximum(sizes, 1), centers).astype(np.float32)
    return centers


def _starts(points: Points) -> range:
    return range(0, len(points), _BLOCK)


def _squares(points: Points, others: Points) -> Points:
    """Return the squared distances."""
    found = points @ (-2 * others.T)
    found += np.square(points).sum(axis=1)[:, None]
    found += np.square(others).sum(axis=1)
    return np.maximum(found, 0, out=found)


def _placed(points: Points, landmarks: Points, layout: Points) -> Points:
    """Return the place of every point: a mean of its nearest landmarks, the nearest counts most."""
    n_near = min(_NEAR, len(landmarks) - 1)
    if n_near < 1:
        return np.zeros((len(points), 2), dtype=np.float32)
    placed = []
    for start in _starts(points):
        squares = _squares(points[start : start + _BLOCK], landmarks)
        near = np.argpartition(squares, n_near, axis=1)[:, : n_near + 1]
        found = np.take_along_axis(squares, near, axis=1)
        # The farthest of them has no weight, so that places change little from point to point.
        weight = np.square(found.max(axis=1, keepdims=True) - found) + 1e-12
        weight /= weight.sum(axis=1, keepdims=True)
        placed.append((weight[:, :, None] * layout[near]).sum(axis=1))
    return np.concatenate(placed).astype(np.float32)


def _laid_out(points: Points) -> Points:
    """Return a place on the plane for each point, by t-SNE with all pairs."""
    n = len(points)
    layout = _principal(points, 2)
    if n <= 3:
        return layout
    wanted = _neighborhoods(points)
    layout *= 1e-2 / max(float(layout[:, 0].std()), 1e-9)
    speed, gain = np.zeros_like(layout), np.ones_like(layout)
    rate = max(n / 48, 50.0)
    for step in range(_STEPS):
        is_early = step < _STEPS // 3
        near = 1 / (1 + _squares(layout, layout))
        np.fill_diagonal(near, 0)
        force = ((12 if is_early else 1) * wanted - near / near.sum()) * near
        slope = 4 * (force.sum(axis=1)[:, None] * layout - force @ layout)
        gain = np.where(np.sign(slope) != np.sign(speed), gain + 0.2, gain * 0.8).clip(0.01)
        speed = (0.5 if is_early else 0.8) * speed - rate * gain * slope
        layout = layout + speed
        layout -= layout.mean(axis=0)
    return layout.astype(np.float32)


def _neighborhoods(points: Points) -> Points:
    """Return P(i, j) of t-SNE: every point has about `_PERPLEXITY` neighbors that count."""
    n = len(points)
    squares = _squares(points, points).astype(np.float64)
    np.fill_diagonal(squares, np.inf)
    squares -= squares.min(axis=1, keepdims=True)
    wanted = np.log(min(_PERPLEXITY, n / 3))
    narrow = np.ones(n) / max(float(np.median(squares[np.isfinite(squares)])), 1e-12)
    low, high = np.zeros(n), np.full(n, np.inf)
    for _ in range(40):
        share = np.exp(-squares * narrow[:, None])
        share /= share.sum(axis=1, keepdims=True)
        entropy = -(share * np.log(np.maximum(share, 1e-12))).sum(axis=1)
        low, high = (
            np.where(entropy > wanted, narrow, low),
            np.where(entropy > wanted, high, narrow),
        )
        narrow = np.where(np.isinf(high), 2 * narrow, (low + high) / 2)
    return ((share + share.T) / (2 * n)).astype(np.float32)
