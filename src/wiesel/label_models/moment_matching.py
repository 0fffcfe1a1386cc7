"""Finds P(vote | class) such that independent voters reproduce the observed pair moments.

Symbols: O[a, b] = P(votes a and b are cast together), for a and b of different voters and zero
elsewhere; q[a] = P(vote a is cast); p = P(class); mu[a, y] = P(vote a is cast | class y). Given
the class, different voters are independent, so off the diagonal blocks O = mu diag(p) mu^T.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from wiesel.label_models.pair_statistics import BLOCK_CELLS, pair_counts
from wiesel.label_models.vote_products import OneHot, one_hot_chunks, vote_totals
from wiesel.labels import FloatArray
from wiesel.votes import VoteMatrix, VoteSource

__all__ = [
    "MomentLoss",
    "Moments",
    "VotePairs",
    "minimize_adam",
    "minimize_lbfgs",
    "minimize_sgd",
    "moments_of",
]

_LARGE = 2**22
"""Cells of a matrix of pairs that is kept without its zeros if nearly all are zero."""
_SPARSE = 0.05
_MANY_UNKNOWNS = 50_000
"""From this many unknown numbers on, SciPy's checks of the bounds take most of the time."""
_MEMORY = 10
"""How many steps the own L-BFGS remembers, as SciPy's does."""
_SMALLEST_GAIN, _SMALLEST_SLOPE = 1e-13, 1e-10
"""L-BFGS stops at a smaller gain of a step, or where no slope is larger."""
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


class Moments(NamedTuple):
    """The moments of pairs of votes and of single votes."""

    pairs: FloatArray | sp.csr_array[np.float64, tuple[int, int]] | VotePairs
    """O: (n_voters * n_classes) squared, zero for two votes of one voter."""
    singles: npt.NDArray[np.float64]
    """q: (n_voters, n_classes)."""
    n_items: int

    @property
    def noise(self) -> float:
        """The expected sum of squared sampling errors of the pairs."""
        return float(self.pairs.sum() - self.squares) / self.n_items

    @property
    def squares(self) -> float:
        """The sum of the squared pairs."""
        if isinstance(self.pairs, VotePairs):
            return self.pairs.squares
        cells = self.pairs.data if sp.issparse(self.pairs) else self.pairs
        return float(np.square(cells).sum())


def moments_of(votes: VoteSource) -> Moments:
    """Return the pair and single moments of votes."""
    n_items, n_classes = votes.n_items, len(votes.labels)
    singles = vote_totals(votes) / n_items
    if isinstance(votes, VoteMatrix) and singles.size**2 > BLOCK_CELLS:
        return Moments(VotePairs(votes), singles, n_items)
    rows: list[sp.csr_array[np.float64, tuple[int, int]]] = []
    for voters, counts in pair_counts(votes):
        counts /= n_items
        _remove_own_pairs(counts, voters.start * n_classes, n_classes)
        if voters.stop - voters.start == len(votes.voters):
            large = counts.size > _LARGE and np.count_nonzero(counts) < counts.size * _SPARSE
            return Moments(sp.csr_array(counts) if large else counts, singles, n_items)
        # Remote votes are read once for each block. If there are too many voters for one block,
        # they rarely share items, so most of their pairs are zero.
        rows.append(sp.csr_array(counts))
    return Moments(sp.vstack(rows, format="csr"), singles, n_items)


class MomentLoss:
    """The loss of `mu` and its gradient, from the moments alone.

    loss = |O - mu P mu^T off the diagonal blocks|^2 + |mu p - q|^2 + l2^2 |mu - start|^2

    The squares are expanded, so that mu P mu^T is never computed: a step costs one product of O
    with a narrow matrix.
    """

    def __init__(
        self, moments: Moments, prior: FloatArray, start: FloatArray, l2: FloatArray | float
    ) -> None:
        self.moments, self.prior, self.start = moments, prior, start
        self.pull = np.square(l2)
        self._squares = moments.squares

    def __call__(self, mu: FloatArray) -> tuple[float, npt.NDArray[np.float64]]:
        """Return the loss and its gradient."""
        p, q = self.prior, self.moments.singles.ravel()
        seen, modelled = np.asarray(self.moments.pairs @ mu), _apply_model(mu, p)
        off, from_start = mu @ p - q, mu - self.start
        fit = self._squares + float((((modelled - 2 * seen) * mu) * p).sum())
        loss = max(fit, 0.0) + float(off @ off) + float((self.pull * np.square(from_start)).sum())
        gradient = 4 * (modelled - seen) * p + 2 * np.outer(off, p) + 2 * self.pull * from_start
        return loss, gradient

    def misfit(self, mu: FloatArray) -> float:
        """Return the squared pair errors in units of sampling noise: about 1 is a good model."""
        seen, modelled = np.asarray(self.moments.pairs @ mu), _apply_model(mu, self.prior)
        errors = self._squares + float((((modelled - 2 * seen) * mu) * self.prior).sum())
        return max(errors, 0.0) / max(self.moments.noise, 1e-300)


Step = Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]


def minimize_lbfgs(
    loss: MomentLoss, mu: FloatArray, steps: int
) -> tuple[npt.NDArray[np.float64], list[float]]:
    """Minimize to convergence, with every probability kept in [0, 1]."""
    history: list[float] = []
    current = np.array(mu, dtype=np.float64)
    # Votes that are never cast start at 0, and so does their gradient. They are most votes of
    # labeling functions for one of many classes, and SciPy is slow for many bounds.
    cast = loss.moments.singles.ravel() > 0

    def flat(x: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        current[cast] = x.reshape(-1, mu.shape[1])
        value, gradient = loss(current)
        history.append(value)
        return value, gradient[cast].ravel()

    start = current[cast].ravel()
    if len(start) >= _MANY_UNKNOWNS:
        best = _projected_lbfgs(flat, start, steps)
    else:
        from scipy.optimize import Bounds, minimize

        best = minimize(
            flat,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=Bounds(0.0, 1.0),
            options={"maxiter": steps, "ftol": _SMALLEST_GAIN, "gtol": _SMALLEST_SLOPE},
        ).x
    current[cast] = best.reshape(-1, mu.shape[1])
    return current, history


def _projected_lbfgs(
    loss: Callable[[npt.NDArray[np.float64]], tuple[float, npt.NDArray[np.float64]]],
    x: npt.NDArray[np.float64],
    steps: int,
) -> npt.NDArray[np.float64]:
    """The minimum over numbers in [0, 1], by quasi-Newton steps that are cut off at the bounds.

    Numbers at a bound stay there while the gradient points beyond it; the others take an L-BFGS
    step, halved until the loss falls enough. It stops where SciPy's L-BFGS-B does.
    """
    value, gradient = loss(x)
    memory: deque[tuple[FloatArray, FloatArray, float]] = deque(maxlen=_MEMORY)
    for _ in range(steps):
        free = ~(((x <= 0) & (gradient > 0)) | ((x >= 1) & (gradient < 0)))
        slope = np.where(free, gradient, 0.0)
        if np.abs(slope).max(initial=0.0) <= _SMALLEST_SLOPE:
            break
        direction = np.where(free, -_newton_step(slope, memory), 0.0)
        if gradient @ direction >= 0:
            memory.clear()
            direction = -slope
        size = 1.0 if memory else min(1.0, 1 / float(np.sqrt(slope @ slope)))
        while True:
            moved = np.clip(x + size * direction, 0.0, 1.0)
            next_value, next_gradient = loss(moved)
            expected = gradient @ (moved - x)
            if next_value <= value + 1e-4 * expected or size < 1e-12:
                break
            size /= 2
        step, change = moved - x, next_gradient - gradient
        if step @ change > 1e-10 * (change @ change):
            memory.append((step, change, 1 / float(step @ change)))
        gain = value - next_value
        x, value, gradient = moved, next_value, next_gradient
        if gain <= _SMALLEST_GAIN * max(abs(value), 1.0):
            break
    return x


def _newton_step(
    slope: FloatArray, memory: Sequence[tuple[FloatArray, FloatArray, float]]
) -> npt.NDArray[np.float64]:
    """The inverse of the Hessian that L-BFGS remembers, times the slope: its two-loop recursion."""
    found, shares = np.array(slope, dtype=np.float64), []
    for step, change, inverse in reversed(memory):
        shares.append(inverse * float(step @ found))
        found -= shares[-1] * change
    if memory:
        _, change, inverse = memory[-1]
        found /= inverse * float(change @ change)
    for (step, change, inverse), share in zip(memory, reversed(shares), strict=True):
        found += (share - inverse * float(change @ found)) * step
    return found


def minimize_sgd(
    loss: MomentLoss, mu: FloatArray, steps: int, lr: float, weight_decay: float
) -> tuple[npt.NDArray[np.float64], list[float]]:
    """Take full-batch steps with momentum 0.9."""
    velocity = np.zeros(mu.shape)

    def step(gradient: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        nonlocal velocity
        velocity = 0.9 * velocity + gradient
        return lr * velocity

    return _descend(loss, mu, steps, step, weight_decay)


def minimize_adam(
    loss: MomentLoss, mu: FloatArray, steps: int, lr: float, weight_decay: float
) -> tuple[npt.NDArray[np.float64], list[float]]:
    """Take full-batch Adam steps (beta 0.9 and 0.999)."""
    mean, square = np.zeros(mu.shape), np.zeros(mu.shape)
    taken = 0

    def step(gradient: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        nonlocal mean, square, taken
        taken += 1
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        scale = np.sqrt(square / (1 - 0.999**taken)) + 1e-8
        return lr * mean / (1 - 0.9**taken) / scale

    return _descend(loss, mu, steps, step, weight_decay)


def _descend(
    loss: MomentLoss, mu: FloatArray, steps: int, step: Step, weight_decay: float
) -> tuple[npt.NDArray[np.float64], list[float]]:
    """Descend until the steps are done or the loss diverges; then the last loss is not finite."""
    history: list[float] = []
    current = np.array(mu, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(steps):
            value, gradient = loss(current)
            history.append(value)
            if not np.isfinite(value):
                break
            current = current - step(gradient + weight_decay * current)
        history.append(loss(current)[0])
    return current, history


def _apply_model(mu: FloatArray, prior: FloatArray) -> npt.NDArray[np.float64]:
    """(mu P mu^T without its diagonal blocks) @ mu, without computing the large matrix."""
    n_classes = len(prior)
    own = mu.reshape(-1, n_classes, n_classes)
    everything = mu @ (prior[:, None] * (mu.T @ mu))
    own_pairs = own @ (prior[:, None] * (own.transpose(0, 2, 1) @ own))
    return everything - own_pairs.reshape(mu.shape)


def _remove_own_pairs(rows: npt.NDArray[np.float64], first_column: int, n_classes: int) -> None:
    """Set the pairs of each voter with itself to zero."""
    for row in range(0, len(rows), n_classes):
        column = first_column + row
        rows[row : row + n_classes, column : column + n_classes] = 0


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
