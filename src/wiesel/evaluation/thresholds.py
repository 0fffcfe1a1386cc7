"""The decision threshold of a binary model, chosen on items with gold labels."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wiesel.errors import FeatureError
from wiesel.evaluation.metrics import precision_and_recall
from wiesel.labels import FloatArray
from wiesel.row_ids import in_order_of

__all__ = ["ThresholdCurve", "choose_threshold", "supported_threshold", "threshold_curve"]

_RESAMPLES = 200
_SHRINKAGE = 50.0
"""With this many gold items, a threshold goes half of the way from 1/2."""


class ThresholdCurve(NamedTuple):
    """Precision, recall and F1 for each threshold on P(second class)."""

    threshold: npt.NDArray[np.float64]
    precision: npt.NDArray[np.float64]
    recall: npt.NDArray[np.float64]
    f1: npt.NDArray[np.float64]


def choose_threshold(proba: FloatArray, gold: Any) -> float:
    """Return the threshold on P(second class) with the best F1; predict it if P >= threshold.

    `gold` is 1 (or True) for items of the second class and 0 for the others, whatever their names.
    Among thresholds with equal F1, the one nearest to 0.5 is chosen. A threshold lies halfway
    between the scores it separates. If gold has only one class, F1 is undefined and the result is
    0.5.

    >>> choose_threshold(np.array([0.1, 0.2, 0.3, 0.6]), np.array([0, 0, 1, 1]))
    0.25
    """
    scores, positive = _scores(proba, gold)
    if positive.all() or not positive.any():
        return 0.5
    curve = threshold_curve(scores, positive)
    lower = np.concatenate([[0.0], curve.threshold[:-1]])
    between = (lower + curve.threshold) / 2
    best = np.flatnonzero(curve.f1 >= curve.f1.max() - 1e-12)
    return float(between[best[np.abs(between[best] - 0.5).argmin()]])


def supported_threshold(proba: FloatArray, gold: Any) -> float:
    """Return 1/2, or a threshold on P(second class) if gold shows beyond chance that it is better.

    In each of 200 resamples of the items, the threshold with the best macro F1 is judged on the
    items that were not drawn. Unless its mean gain over 1/2 exceeds one standard deviation, the
    threshold is 1/2. Otherwise it is the median of the resamples, shrunk toward 1/2: with n items
    it goes n / (n + 50) of the way.

    >>> rng = np.random.default_rng(0)
    >>> gold = rng.integers(0, 2, 400)
    >>> scores = np.clip(0.2 * gold + rng.uniform(0, 0.2, 400), 0, 1)
    >>> round(supported_threshold(scores, gold), 1), supported_threshold(scores + 0.3, gold)
    (0.2, 0.5)
    """
    scores, positive = _scores(proba, gold)
    order = np.argsort(scores, kind="stable")
    scores, positive = scores[order], positive[order]
    n_items = len(scores)
    half = int(np.searchsorted(scores, 0.5))
    ends = np.flatnonzero(np.diff(scores, prepend=-np.inf))  # the first item of every score
    generator = np.random.default_rng(0)
    gains, chosen = [], []
    for _ in range(_RESAMPLES):
        drawn = np.bincount(generator.integers(n_items, size=n_items), minlength=n_items)
        left_out = (drawn == 0).astype(np.float64)
        both = [(own * positive).any() and (own * ~positive).any() for own in (drawn, left_out)]
        if not all(both):
            continue
        curve = _macro_f1(drawn.astype(np.float64), positive)
        places = np.append(ends, n_items)
        best = int(places[np.flatnonzero(curve[places] >= curve[places].max() - 1e-12)[0]])
        judged = _macro_f1(left_out, positive)
        gains.append(judged[best] - judged[half])
        below, above = scores[max(best - 1, 0)], scores[min(best, n_items - 1)]
        chosen.append((below + above) / 2)
    if len(gains) < _RESAMPLES // 2 or np.mean(gains) <= np.std(gains):
        return 0.5
    return float(0.5 + (np.median(chosen) - 0.5) * n_items / (n_items + _SHRINKAGE))


def _macro_f1(weights: FloatArray, positive: npt.NDArray[np.bool_]) -> FloatArray:
    """The macro F1 if all items from a place on are said to be positive: (n_items + 1,)."""
    hits = np.concatenate([[0.0], np.cumsum(weights * positive)])
    misses = np.concatenate([[0.0], np.cumsum(weights * ~positive)])
    true_positives, false_positives = hits[-1] - hits, misses[-1] - misses
    found: FloatArray = true_positives / (2 * true_positives + false_positives + hits) + misses / (
        2 * misses + false_positives + hits
    )
    return found


def threshold_curve(proba: FloatArray, gold: Any) -> ThresholdCurve:
    """Return precision, recall and F1 at every distinct score, in ascending order.

    >>> threshold_curve(np.array([0.1, 0.3, 0.6]), np.array([0, 1, 1])).f1
    array([0.8       , 1.        , 0.66666667])
    """
    scores, positive = _scores(proba, gold)
    if not positive.any():
        raise FeatureError("A threshold curve needs at least one item of the second class.")
    threshold, precision, recall = precision_and_recall(positive, scores)
    total = precision + recall
    f1 = np.divide(2 * precision * recall, total, out=np.zeros_like(total), where=total > 0)
    return ThresholdCurve(threshold, precision, recall, f1)


def _scores(proba: FloatArray, gold: Any) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """P(second class), and whether the second class is the true one."""
    gold = in_order_of(proba, gold, "gold", "the probabilities")
    scores = np.asarray(proba, dtype=np.float64)
    if scores.ndim == 2 and scores.shape[1] == 2:
        scores = scores[:, 1]
    truth = np.asarray(gold)
    if scores.ndim != 1 or not len(scores) or truth.shape != scores.shape:
        raise FeatureError(
            "A threshold is chosen for two classes: probabilities (n_items,) or (n_items, 2) and "
            f"as many gold labels; got {np.shape(proba)} and {truth.shape}."
        )
    if not np.isfinite(scores).all():
        raise FeatureError("The probabilities must be finite; found NaN or infinity.")
    if not np.isin(truth, (0, 1)).all():
        raise FeatureError("Gold labels for a threshold are class indices, 0 or 1.")
    return scores, truth.astype(bool)
