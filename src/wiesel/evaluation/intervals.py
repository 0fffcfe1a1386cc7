"""The 95 % intervals of all metrics, made to hold on 15 items as well as on 15,000.

Shares (accuracy, F1, average precision) have binomial intervals, ROC-AUC one from the ranks'
variance: resamples of a few items would never contain an error that did not occur. Resamples of the
losses get one more item, which may be such an error. Metrics are resampled all at once: only the
number of times each item is drawn matters, so a block of resamples is a matrix of counts, and a
metric is a product with it. Many items are resampled in groups, by the groups' sums: means of
random groups vary as the mean of all items does, whatever the number of groups.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from wiesel.analysis.summary import wilson_interval
from wiesel.errors import ParameterError
from wiesel.evaluation.metrics import (
    FIGURES,
    average_precision,
    calibration_parts,
    checked_arrays,
    class_figures,
    confusion_matrix,
    item_brier,
    item_log_loss,
    roc_auc,
)
from wiesel.labels import FloatArray, IntArray

__all__ = [
    "AreaSlopes",
    "auc_interval",
    "check_resampling",
    "difference_interval",
    "draw_items",
    "figure_intervals",
    "group_sums",
    "item_groups",
    "paired_interval",
    "percentile_interval",
    "resampled_figures",
]

Draws = npt.NDArray[np.float64]
"""(n_resamples, n_items): how often each item was drawn."""

_Z = 1.959964
_ALIKE = 0.5
"""How much the ROC-AUCs of the classes are assumed to vary together."""
_BLOCK_CELLS = 200_000
"""The size of a block (resamples x items): small enough for the processor's cache."""
_N_GROUPS = 10_000
"""How many groups of items are resampled if there are at least twice as many items."""


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

    20,000 items or more are resampled as 10,000 random groups. The areas of a resample, ROC-AUC and
    average precision, then come from what each item adds to them, as in DeLong et al. (1988,
    Biometrics 44, 837-845).

    >>> gold, proba = np.array([0, 1]), np.array([[0.9, 0.1], [0.6, 0.4]])
    >>> samples = resampled_figures(gold, proba, proba.argmax(axis=1), n_resamples=200)
    >>> sorted(set(samples["accuracy"].tolist()))
    [0.0, 0.5, 1.0]
    """
    check_resampling(n_resamples, seed)
    gold, proba, predicted = checked_arrays(gold, proba, predicted)
    measured = _Measured.of(gold, proba, predicted, item_groups(len(gold), seed))
    draws = draw_items(len(measured.sizes), n_resamples, seed)
    blocks = [_figures(measured, block) for block in draws]
    return {name: np.concatenate([block[name] for block in blocks]) for name in FIGURES}


def figure_intervals(
    gold: IntArray,
    proba: FloatArray,
    predicted: IntArray,
    samples: Mapping[str, npt.NDArray[np.float64]],
    seed: int = 0,
) -> dict[str, tuple[float, float]]:
    """Return the 95 % interval of every metric of a report, by name.

    `samples` are those of `resampled_figures` on the same items.

    >>> gold, proba = np.array([0, 1] * 8), np.array([[0.9, 0.1], [0.2, 0.8]] * 8)
    >>> samples = resampled_figures(gold, proba, proba.argmax(axis=1))
    >>> found = figure_intervals(gold, proba, proba.argmax(axis=1), samples)
    >>> [round(end, 2) for end in found["accuracy"]]  # all 16 right
    [0.81, 1.0]
    """
    n_classes, n_items = proba.shape[1], len(gold)
    found = {name: percentile_interval(own, n_items=n_items) for name, own in samples.items()}
    confusion = confusion_matrix(gold, predicted, n_classes)
    found["accuracy"] = _rate(int(confusion.trace()), n_items)
    found["macro_f1"] = _macro_f1(confusion, len(samples["accuracy"]), seed)
    # Among items that are of the class or predicted as it, the right ones are binomial.
    either = int(confusion[1].sum() + confusion[:, 1].sum() - confusion[1, 1])
    jaccard = _rate(int(confusion[1, 1]), either)
    found["f1"] = found["macro_f1"]
    if n_classes == 2:
        found["f1"] = (2 * jaccard[0] / (1 + jaccard[0]), 2 * jaccard[1] / (1 + jaccard[1]))
    found["auc"] = _mean_over_classes(roc_auc, auc_interval, gold, proba)
    found["average_precision"] = _mean_over_classes(
        average_precision, _average_precision_interval, gold, proba
    )
    for name, loss in (("log_loss", item_log_loss), ("brier", item_brier)):
        with_one_more = _one_item_more(samples[name], loss, gold, proba, seed)
        low, high = percentile_interval(with_one_more, n_items=n_items)
        found[name] = (min(low, float(loss(gold, proba).mean())), high)
    return found


def percentile_interval(
    samples: npt.NDArray[np.float64], confidence: float = 0.95, n_items: int | None = None
) -> tuple[float, float]:
    """Return the limits of the central share of the samples; NaN samples are ignored.

    Resamples of a few items vary too little. With `n_items`, the limits are further out, as those
    of Student's t are (Hesterberg 2015, The American Statistician 69).

    >>> percentile_interval(np.arange(101.0), confidence=0.5)
    (25.0, 75.0)
    >>> [round(end, 1) for end in percentile_interval(np.arange(101.0), n_items=10)]
    [0.9, 99.1]
    """
    known = samples[~np.isnan(samples)]
    if not len(known):
        return float("nan"), float("nan")
    tail = (1 - confidence) / 2
    if n_items is not None:
        from scipy.special import ndtr, stdtrit

        least = max(n_items, 2)
        tail = float(ndtr(np.sqrt(least / (least - 1)) * stdtrit(least - 1, tail)))
    low, high = np.quantile(known, [tail, 1 - tail])
    return float(low), float(high)


def auc_interval(auc: float, n_positive: int, n_negative: int) -> tuple[float, float]:
    """Return the 95 % interval of a ROC-AUC; NaN without items of both classes.

    It contains the values from which the observed one is less than 1.96 standard deviations away
    (method 5 of Newcombe 2006, Statistics in Medicine 25, 559-573), so it has a width even if no
    pair is in the wrong order.

    >>> [round(end, 3) for end in auc_interval(1.0, 5, 10)]
    [0.717, 1.0]
    """
    if np.isnan(auc) or not n_positive or not n_negative:
        return float("nan"), float("nan")
    values = np.linspace(0, 1, 2001)
    extra = (n_positive + n_negative) / 2 - 1
    variance = values * (1 - values) / (n_positive * n_negative)
    variance *= 1 + extra * (1 - values) / (2 - values) + extra * values / (1 + values)
    near = np.flatnonzero((values - auc) ** 2 <= _Z**2 * variance)
    ends = values[near] if len(near) else np.array([auc])
    return float(min(ends[0], auc)), float(max(ends[-1], auc))


def paired_interval(only_first: int, only_second: int, n_items: int) -> tuple[float, float]:
    """Return the 95 % interval of the difference between two accuracies on the same items.

    Half an item is added to each of the four cells (Agresti and Min 2005, Statistics in Medicine
    24, 729-740), so that models that never differ on a few items are not said to be equal.

    >>> [round(end, 3) for end in paired_interval(8, 2, 50)]
    [-0.006, 0.236]
    """
    first, second, n = only_first + 0.5, only_second + 0.5, n_items + 2
    center = (first - second) / n
    spread = _Z * np.sqrt(max(first + second - n * center**2, 0.0)) / n
    return float(max(center - spread, -1.0)), float(min(center + spread, 1.0))


def difference_interval(
    first: tuple[float, float, float],
    second: tuple[float, float, float],
    first_samples: npt.NDArray[np.float64],
    second_samples: npt.NDArray[np.float64],
) -> tuple[float, float]:
    """Return the 95 % interval of a difference, from both values with their limits.

    The resamples, drawn together, say how the two vary together (Zou and Donner 2008, Statistics
    in Medicine 27, 1693-1702).

    >>> alike = np.arange(100.0)
    >>> difference_interval((0.8, 0.7, 0.9), (0.5, 0.4, 0.6), alike, alike)[0] > 0.29
    True
    """
    known = ~np.isnan(first_samples) & ~np.isnan(second_samples)
    parts = first_samples[known], second_samples[known]
    alike = 0.0
    if len(parts[0]) > 1 and parts[0].std() > 0 and parts[1].std() > 0:
        alike = float(np.corrcoef(*parts)[0, 1])

    def spread(one: float, other: float) -> float:
        one, other = max(one, 0.0), max(other, 0.0)
        return float(np.sqrt(max(one**2 + other**2 - 2 * alike * one * other, 0.0)))

    apart = first[0] - second[0]
    low = apart - spread(first[0] - first[1], second[2] - second[0])
    return low, apart + spread(first[2] - first[0], second[0] - second[1])


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


def item_groups(n_items: int, seed: int) -> npt.NDArray[np.int64] | None:
    """Return the group of each item in resamples; None if each is its own, as there are few.

    They depend on the seed only, so the groups of two models have the same items.
    """
    if n_items < 2 * _N_GROUPS:
        return None
    return np.random.default_rng([seed, 1]).permutation(np.arange(n_items) % _N_GROUPS)


def group_sums(
    columns: Iterable[npt.NDArray[Any]], groups: npt.NDArray[np.int64] | None
) -> npt.NDArray[np.float64]:
    """Return the sum of each column over each group, or the columns: (n_groups, n_columns)."""
    if groups is None:
        return np.column_stack([np.asarray(own, np.float64) for own in columns])
    return np.column_stack([np.bincount(groups, own, minlength=_N_GROUPS) for own in columns])


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

    def areas(self, draws: Draws) -> npt.NDArray[np.float64]:
        """Return ROC-AUC and average precision per resample of the items: (2, n_resamples)."""
        drawn = draws.take(self.order, axis=1)
        mass = drawn.take(self.positive, axis=1)
        below, positive_below = _before(drawn), _before(mass)
        all_lower, positive_lower = below[:, self.first], positive_below[:, self.n_lower]
        # AUC: the share of pairs in which the positive item scores higher; a tie counts half.
        lower = all_lower - positive_lower
        upto = below[:, self.end] - positive_below[:, self.n_upto]
        # Precision with that score as the threshold: among all items with at least that score.
        n_drawn, n_positive = below[:, -1:], positive_below[:, -1:]
        precision = (n_positive - positive_lower) / np.maximum(n_drawn - all_lower, 1)
        sums = np.array([(mass * (lower + upto)).sum(axis=1) / 2, (mass * precision).sum(axis=1)])
        n_pairs = (n_positive * (n_drawn - n_positive))[:, 0]
        wholes = np.array([n_pairs, n_positive[:, 0]])
        return np.divide(sums, wholes, out=np.full(sums.shape, np.nan), where=n_pairs > 0)


class AreaSlopes(NamedTuple):
    """What the items of each group add to the areas: their first derivatives, summed."""

    sums: npt.NDArray[np.float64]
    """(n_groups, 5): positive items, negative items, shares of the items of the other side that
    the positive and the negative items are in order with, parts of the average precision."""
    auc: float

    @classmethod
    def of(
        cls, scores: FloatArray, is_positive: npt.NDArray[np.bool_], groups: npt.NDArray[np.int64]
    ) -> "AreaSlopes":
        """Return the slopes of the areas at the items as they are, given each item's group."""
        ranking = _Ranking.of(scores, is_positive)
        n_items, n_positive = len(scores), len(ranking.positive)
        n_negative = n_items - n_positive
        ordered = scores[ranking.order]
        starts = np.flatnonzero(np.diff(ordered, prepend=-np.inf))
        lengths = np.diff(starts, append=n_items)
        n_lower, n_upto = (
            np.repeat(np.searchsorted(ranking.positive, places), lengths)
            for places in (starts, starts + lengths)
        )
        positive = np.zeros(n_items)
        positive[ranking.positive] = 1
        # In order with: the negative items below a positive one, the positive ones above a
        # negative one; a tie counts half.
        below = np.repeat(starts + lengths / 2, lengths) - (n_lower + n_upto) / 2
        above = n_positive - (n_lower + n_upto) / 2
        won = positive * below / max(n_negative, 1), (1 - positive) * above / max(n_positive, 1)
        # An item enters the precision at each positive item that it scores at least as high as.
        n_above = n_items - ranking.first
        precision = (n_positive - ranking.n_lower) / n_above
        hits = np.concatenate([[0.0], np.cumsum(1 / n_above)])[n_upto]
        named = np.concatenate([[0.0], np.cumsum(precision / n_above)])[n_upto]
        added = positive * hits - named
        added[ranking.positive] += precision
        own = groups[ranking.order]
        sums = group_sums((positive, 1 - positive, *won, added), own)
        return cls(sums, float(won[0].sum() / max(n_positive, 1)))

    def areas(self, draws: Draws) -> npt.NDArray[np.float64]:
        """Return ROC-AUC and average precision per resample of the groups: (2, n_resamples)."""
        n_positive, n_negative, lower, higher, added = (draws @ self.sums).T
        known = (n_positive > 0) & (n_negative > 0)
        found = np.full((2, len(draws)), np.nan)
        found[0, known] = lower[known] / n_positive[known] + higher[known] / n_negative[known]
        found[0] -= self.auc
        found[1, known] = added[known] / n_positive[known]
        return np.clip(found, 0, 1)


class _Measured(NamedTuple):
    """The values per item, or per group of items, that the metrics need, computed once."""

    sizes: npt.NDArray[np.float64]
    """The number of items of each group."""
    rankings: "tuple[_Ranking | AreaSlopes, ...]"
    means: npt.NDArray[np.float64]
    """(n_groups, 3): whether the prediction is correct, log loss, squared error."""
    cells: sp.csr_array[np.float64, tuple[int, int]]
    """(n_classes^2, n_groups): the confusion-matrix cell of each item."""
    gaps: sp.csr_array[np.float64, tuple[int, int]]
    """(n_bins, n_groups): correctness minus confidence, in the item's calibration bin."""

    @classmethod
    def of(
        cls,
        gold: IntArray,
        proba: FloatArray,
        predicted: IntArray,
        groups: npt.NDArray[np.int64] | None,
        n_bins: int = 15,
    ) -> "_Measured":
        n_items, n_classes = proba.shape
        classes = (1,) if n_classes == 2 else range(n_classes)
        confidence, right, group = calibration_parts(gold, proba, predicted, n_bins)
        cell = gold * n_classes + predicted
        per_item = (np.ones(n_items), right, item_log_loss(gold, proba), item_brier(gold, proba))
        sums = group_sums(per_item, groups)
        sizes, means = sums[:, 0], np.ascontiguousarray(sums[:, 1:])
        rankings: tuple[_Ranking | AreaSlopes, ...]
        if groups is None:
            place = np.arange(n_items)
            rankings = tuple(_Ranking.of(proba[:, k], gold == k) for k in classes)
        else:
            place = groups
            rankings = tuple(AreaSlopes.of(proba[:, k], gold == k, groups) for k in classes)
        shape = n_classes**2, len(sizes)
        return cls(
            sizes,
            rankings,
            means,
            sp.csr_array((np.ones(n_items), (cell, place)), shape=shape),
            sp.csr_array((right - confidence, (group, place)), shape=(n_bins, len(sizes))),
        )


def _figures(measured: _Measured, draws: Draws) -> dict[str, npt.NDArray[np.float64]]:
    n_drawn = draws @ measured.sizes
    right, log_loss, brier = (draws @ measured.means).T / n_drawn
    n_classes = round(measured.cells.shape[0] ** 0.5)
    counts: Draws = measured.cells @ draws.T  # type: ignore[assignment]  # a dense product
    gaps: Draws = measured.gaps @ draws.T  # type: ignore[assignment]
    confusion = counts.T.reshape(-1, n_classes, n_classes)
    f1 = class_figures(confusion).f1
    macro_f1 = np.nanmean(f1, axis=1)
    areas = np.array([ranking.areas(draws) for ranking in measured.rankings])
    auc, average_precision = _mean_known(areas)
    return {
        "accuracy": right,
        "f1": f1[:, 1] if n_classes == 2 else macro_f1,
        "macro_f1": macro_f1,
        "auc": auc,
        "average_precision": average_precision,
        "log_loss": log_loss,
        "brier": brier,
        "calibration_error": np.abs(gaps).sum(axis=0) / n_drawn,
    }


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


def _rate(right: int, of: int) -> tuple[float, float]:
    low, high = wilson_interval(np.array([right]), np.array([of]))
    return float(low[0]), float(high[0])


def _macro_f1(confusion: npt.NDArray[np.int64], n_draws: int, seed: int) -> tuple[float, float]:
    """The limits of the mean F1 over draws of the population's confusion matrix.

    Cells follow gamma distributions (a Bayesian bootstrap of the items). Every class has one item
    more, right to the same unknown degree: of classes without an item, all may be hit or missed.
    """
    rng = np.random.default_rng(seed)
    n_classes = len(confusion)
    true, predicted = np.nonzero(confusion)
    cells = rng.gamma(confusion[true, predicted], size=(n_draws, len(true)))
    unseen, degree = rng.gamma(1.0, size=(n_draws, n_classes)), rng.beta(0.5, 0.5, (n_draws, 1))
    right, wrong = unseen * degree, unseen * (1 - degree)
    hit = true == predicted
    right[:, true[hit]] += cells[:, hit]
    for number in np.flatnonzero(~hit):
        wrong[:, true[number]] += cells[:, number]
        wrong[:, predicted[number]] += cells[:, number]
    return percentile_interval((2 * right / (2 * right + wrong)).mean(axis=1))


def _one_item_more(
    samples: Draws,
    loss: Callable[[IntArray, FloatArray], Draws],
    gold: IntArray,
    proba: FloatArray,
    seed: int,
) -> Draws:
    """Resampled means of a loss with one more item: a random one, of its class to some degree only.

    A few items may contain no confident error, although such errors are most of the mean loss.
    """
    if not len(samples):
        return samples
    rng = np.random.default_rng(seed)
    n_items, n_classes = proba.shape
    shift = rng.integers(1, n_classes, size=n_items)
    as_is, otherwise = loss(gold, proba), loss((gold + shift) % n_classes, proba)
    item, weight = rng.integers(n_items, size=len(samples)), rng.gamma(1.0, size=len(samples))
    degree = rng.beta(0.5, 0.5, size=len(samples))
    more = degree * as_is[item] + (1 - degree) * otherwise[item]
    mean: Draws = (n_items * samples + weight * more) / (n_items + weight)
    return mean


def _average_precision_interval(
    value: float, n_positive: int, n_negative: int
) -> tuple[float, float]:
    """The limits of one class: as if each positive item had been found or missed.

    Boyd, Eng and Page (2013, ECML PKDD, 451-466) find binomial intervals to hold where resamples
    do not. Wilson's also corrects that the average precision of a few items is too high.
    """
    if np.isnan(value) or not n_positive or not n_negative:
        return float("nan"), float("nan")
    low, high = wilson_interval(np.array([value * n_positive]), np.array([n_positive]))
    return float(low[0]), float(high[0])


def _mean_over_classes(
    metric: Callable[[IntArray, FloatArray], float],
    interval: Callable[[float, int, int], tuple[float, float]],
    gold: IntArray,
    proba: FloatArray,
) -> tuple[float, float]:
    """The interval of a metric's mean over classes, from the intervals of the classes."""
    classes = (1,) if proba.shape[1] == 2 else range(proba.shape[1])
    found = []
    for k in classes:
        positive = (gold == k).astype(np.int64)
        own = metric(positive, np.stack([1 - proba[:, k], proba[:, k]], axis=1))
        n_positive = int(positive.sum())
        found.append((own, *interval(own, n_positive, len(gold) - n_positive)))
    values, low, high = np.array([each for each in found if not np.isnan(each[1])]).reshape(-1, 3).T
    if not len(values):
        return float("nan"), float("nan")
    below, above = (
        np.sqrt((1 - _ALIKE) * (gap**2).sum() + _ALIKE * gap.sum() ** 2) / len(values)
        for gap in (values - low, high - values)
    )
    mean = values.mean()
    return float(max(mean - below, 0)), float(min(mean + above, 1))
