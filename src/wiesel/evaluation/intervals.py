"""Bootstrap intervals of all metrics at once, from the same resamples.

A resample draws as many items as there are, with replacement. Only the number of times each item
is drawn matters, so a block of resamples is a matrix of counts, and a metric is a product with it.
"""

from collections.abc import Iterator
from numbers import Integral
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from wiesel.errors import ParameterError
from wiesel.evaluation.metrics import (
    FIGURES,
    calibration_parts,
    class_figures,
    item_brier,
    item_log_loss,
)
from wiesel.labels import FloatArray, IntArray

__all__ = ["check_resampling", "draw_items", "percentile_interval", "resampled_figures"]

Draws = npt.NDArray[np.float64]
"""(n_resamples, n_items): how often each item was drawn."""

_BLOCK_CELLS = 200_000
"""The size of a block (resamples x items): small enough for the processor's cache."""


def check_resampling(n_resamples: object, seed: object) -> None:
    """Refuse what is no number of resamples, or no seed.

    >>> check_resampling(-1, 0)
    Traceback (most recent call last):
    wiesel.errors.ParameterError: n_resamples is a whole number of at least 0, which omits \
the intervals; got -1.
    """
    for name, value, effect in (
        ("n_resamples", n_resamples, ", which omits the intervals"),
        ("seed", seed, ""),
    ):
        if not isinstance(value, Integral) or isinstance(value, bool) or value < 0:
            raise ParameterError(
                f"{name} is a whole number of at least 0{effect}; got {value!r:.60}."
            )


def resampled_figures(
    gold: IntArray,
    proba: FloatArray,
    predicted: IntArray,
    n_resamples: int = 1000,
    seed: int = 0,
) -> dict[str, npt.NDArray[np.float64]]:
    """Return every metric on `n_resamples` bootstrap resamples of the items.

    >>> gold, proba = np.array([0, 1]), np.array([[0.9, 0.1], [0.6, 0.4]])
    >>> samples = resampled_figures(gold, proba, proba.argmax(axis=1), n_resamples=200)
    >>> sorted(set(samples["accuracy"].tolist()))
    [0.0, 0.5, 1.0]
    """
    measured = _Measured.of(gold, proba, predicted)
    blocks = [_figures(measured, draws) for draws in draw_items(len(gold), n_resamples, seed)]
    return {name: np.concatenate([block[name] for block in blocks]) for name in FIGURES}


def percentile_interval(
    samples: npt.NDArray[np.float64], confidence: float = 0.95
) -> tuple[float, float]:
    """Return the limits of the central share of the samples; NaN samples are ignored.

    >>> percentile_interval(np.arange(101.0), confidence=0.5)
    (25.0, 75.0)
    """
    known = samples[~np.isnan(samples)]
    if not len(known):
        return float("nan"), float("nan")
    low, high = np.quantile(known, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def draw_items(n_items: int, n_resamples: int, seed: int) -> Iterator[Draws]:
    """Yield blocks of resamples; the same seed draws the same items for every metric."""
    rng = np.random.default_rng(seed)
    block = max(1, _BLOCK_CELLS // n_items)
    for start in range(0, n_resamples, block):
        size = min(block, n_resamples - start)
        drawn = rng.integers(n_items, size=(size, n_items))
        drawn += n_items * np.arange(size)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=size * n_items)
        yield counts.reshape(size, n_items).astype(np.float64)


class _Ranking(NamedTuple):
    """The items by ascending score, and the run of tied scores of each positive item."""

    order: npt.NDArray[np.int64]
    """The items, sorted by score."""
    positive: npt.NDArray[np.int64]
    """The positions of the positive items in `order`."""
    first: npt.NDArray[np.int64]
    """Where the run of each positive item starts in `order`."""
    end: npt.NDArray[np.int64]
    """Where it ends."""
    n_lower: npt.NDArray[np.int64]
    """The number of positive items before the run."""
    n_upto: npt.NDArray[np.int64]
    """The number of positive items before its end."""

    @classmethod
    def of(cls, scores: FloatArray, is_positive: npt.NDArray[np.bool_]) -> "_Ranking":
        order = np.argsort(scores, kind="stable")
        ordered, positive = scores[order], np.flatnonzero(is_positive[order])
        wanted = ordered[positive]
        first = np.searchsorted(ordered, wanted, side="left")
        end = np.searchsorted(ordered, wanted, side="right")
        n_lower, n_upto = np.searchsorted(positive, [first, end])
        return cls(order, positive, first, end, n_lower, n_upto)


class _Measured(NamedTuple):
    """The values per item that the metrics need, computed once for all resamples."""

    rankings: tuple[_Ranking, ...]
    means: npt.NDArray[np.float64]
    """(n_items, 3): whether the prediction is correct, log loss, squared error."""
    cells: sp.csr_array[np.float64, tuple[int, int]]
    """(n_classes^2, n_items): the confusion-matrix cell of each item."""
    gaps: sp.csr_array[np.float64, tuple[int, int]]
    """(n_bins, n_items): correctness minus confidence, in the item's calibration bin."""

    @classmethod
    def of(
        cls, gold: IntArray, proba: FloatArray, predicted: IntArray, n_bins: int = 15
    ) -> "_Measured":
        n_items, n_classes = proba.shape
        classes = (1,) if n_classes == 2 else range(n_classes)
        confidence, right, group = calibration_parts(gold, proba, predicted, n_bins)
        items = np.arange(n_items)
        cell = gold * n_classes + predicted
        return cls(
            tuple(_Ranking.of(proba[:, k], gold == k) for k in classes),
            np.column_stack([right, item_log_loss(gold, proba), item_brier(gold, proba)]),
            sp.csr_array((np.ones(n_items), (cell, items)), shape=(n_classes**2, n_items)),
            sp.csr_array((right - confidence, (group, items)), shape=(n_bins, n_items)),
        )


def _figures(measured: _Measured, draws: Draws) -> dict[str, npt.NDArray[np.float64]]:
    n_items = draws.shape[1]
    right, log_loss, brier = (draws @ measured.means / n_items).T
    n_classes = round(measured.cells.shape[0] ** 0.5)
    counts: Draws = measured.cells @ draws.T  # type: ignore[assignment]  # a dense product
    gaps: Draws = measured.gaps @ draws.T  # type: ignore[assignment]
    confusion = counts.T.reshape(-1, n_classes, n_classes)
    f1 = class_figures(confusion).f1
    macro_f1 = np.nanmean(f1, axis=1)
    areas = np.array([_areas(ranking, draws) for ranking in measured.rankings])
    auc, average_precision = _mean_known(areas)
    return {
        "accuracy": right,
        "f1": f1[:, 1] if n_classes == 2 else macro_f1,
        "macro_f1": macro_f1,
        "auc": auc,
        "average_precision": average_precision,
        "log_loss": log_loss,
        "brier": brier,
        "calibration_error": np.abs(gaps).sum(axis=0) / n_items,
    }


def _areas(ranking: _Ranking, draws: Draws) -> npt.NDArray[np.float64]:
    """ROC-AUC and average precision per resample: (2, n_resamples); NaN with one class."""
    drawn = draws.take(ranking.order, axis=1)
    mass = drawn.take(ranking.positive, axis=1)
    below, positive_below = _before(drawn), _before(mass)
    all_lower, positive_lower = below[:, ranking.first], positive_below[:, ranking.n_lower]
    # AUC: the share of pairs in which the positive item scores higher; a tie counts half.
    lower = all_lower - positive_lower
    upto = below[:, ranking.end] - positive_below[:, ranking.n_upto]
    # Precision with that score as the threshold: among all items with at least that score.
    n_drawn, n_positive = below[:, -1:], positive_below[:, -1:]
    precision = (n_positive - positive_lower) / np.maximum(n_drawn - all_lower, 1)
    sums = np.array([(mass * (lower + upto)).sum(axis=1) / 2, (mass * precision).sum(axis=1)])
    n_pairs = (n_positive * (n_drawn - n_positive))[:, 0]
    wholes = np.array([n_pairs, n_positive[:, 0]])
    return np.divide(sums, wholes, out=np.full(sums.shape, np.nan), where=n_pairs > 0)


def _before(values: Draws) -> Draws:
    """Exclusive cumulative sums, with the total as one more column at the end."""
    sums = np.zeros((values.shape[0], values.shape[1] + 1))
    np.cumsum(values, axis=1, out=sums[:, 1:])
    return sums


def _mean_known(areas: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The mean over the first axis, ignoring NaN; NaN if all values are."""
    known = ~np.isnan(areas)
    count = known.sum(axis=0)
    total = np.where(known, areas, 0).sum(axis=0)
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
