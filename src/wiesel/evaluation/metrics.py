"""Metrics: pure functions of gold labels, predictions and probabilities.

`gold` and `predicted` are class indices, `proba` is (n_items, n_classes). A metric that is
undefined for the data, such as ROC-AUC with one class, is NaN, never 0.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wiesel.errors import FeatureError
from wiesel.labels import FloatArray, IntArray
from wiesel.tables import in_order_of

__all__ = [
    "FIGURES",
    "CalibrationBins",
    "ClassFigures",
    "ThresholdCurve",
    "accuracy",
    "average_precision",
    "brier",
    "calibration_bins",
    "calibration_error",
    "choose_threshold",
    "class_figures",
    "confusion_matrix",
    "f1_binary",
    "f1_macro",
    "figures",
    "log_loss",
    "precision_and_recall",
    "predicted_classes",
    "roc_auc",
    "supported_threshold",
    "threshold_curve",
]

FIGURES = (
    "accuracy",
    "f1",
    "macro_f1",
    "auc",
    "average_precision",
    "log_loss",
    "brier",
    "calibration_error",
)
"""The metrics of a report, in the order of printing."""

_SMALLEST = np.finfo(np.float32).tiny
"""Replaces a probability of 0 in the log loss, which would otherwise be infinite."""
_RESAMPLES = 200
_SHRINKAGE = 50.0
"""With this many gold items, a threshold goes half of the way from 1/2."""


class ClassFigures(NamedTuple):
    """Precision, recall and F1 of each class; NaN where undefined."""

    precision: npt.NDArray[np.float64]
    recall: npt.NDArray[np.float64]
    f1: npt.NDArray[np.float64]


class PrecisionRecall(NamedTuple):
    """Precision and recall if items with at least a score are predicted, by ascending score."""

    threshold: npt.NDArray[np.float64]
    precision: npt.NDArray[np.float64]
    recall: npt.NDArray[np.float64]


class CalibrationBins(NamedTuple):
    """Items in bins by the model's confidence in its prediction."""

    edges: npt.NDArray[np.float64]
    """The edges of the bins; one more than the number of bins."""
    confidence: npt.NDArray[np.float64]
    """The mean confidence in each bin; NaN if it is empty."""
    accuracy: npt.NDArray[np.float64]
    """The share of correct predictions in each bin; NaN if it is empty."""
    n_items: npt.NDArray[np.int64]
    """The number of items in each bin."""


def figures(gold: IntArray, proba: FloatArray, predicted: IntArray) -> dict[str, float]:
    """Return the value of every metric of a report, by name.

    >>> figures(np.array([0, 1]), np.array([[0.9, 0.1], [0.3, 0.7]]), np.array([0, 1]))["auc"]
    1.0
    """
    n_classes = proba.shape[1]
    macro_f1 = f1_macro(gold, predicted, n_classes)
    values = (
        accuracy(gold, predicted),
        f1_binary(gold, predicted) if n_classes == 2 else macro_f1,
        macro_f1,
        roc_auc(gold, proba),
        average_precision(gold, proba),
        log_loss(gold, proba),
        brier(gold, proba),
        calibration_error(gold, proba, predicted),
    )
    return dict(zip(FIGURES, values, strict=True))


def predicted_classes(proba: FloatArray, threshold: float | None = None) -> npt.NDArray[np.int64]:
    """Return the most probable class; with a threshold, the second class if its P reaches it.

    >>> predicted_classes(np.array([[0.7, 0.3], [0.4, 0.6]]), threshold=0.3)
    array([1, 1])
    """
    if threshold is None:
        return proba.argmax(axis=1)
    return (proba[:, 1] >= threshold).astype(np.int64)


def accuracy(gold: IntArray, predicted: IntArray) -> float:
    """Return the share of items whose predicted class is correct.

    >>> accuracy(np.array([0, 1, 1, 1]), np.array([0, 1, 0, 1]))
    0.75
    """
    return float(np.mean(gold == predicted))


def confusion_matrix(gold: IntArray, predicted: IntArray, n_classes: int) -> npt.NDArray[np.int64]:
    """Return how many items of each true class (row) were predicted as each class (column).

    >>> confusion_matrix(np.array([0, 1, 1]), np.array([0, 0, 1]), 2)
    array([[1, 0],
           [1, 1]])
    """
    cells = np.bincount(gold * n_classes + predicted, minlength=n_classes**2)
    return cells.reshape(n_classes, n_classes)


def class_figures(confusion: npt.NDArray[Any]) -> ClassFigures:
    """Return precision, recall and F1 of each class from (..., true, predicted) counts.

    >>> class_figures(np.array([[1, 0], [1, 1]])).f1.round(3)
    array([0.667, 0.667])
    """
    right = np.diagonal(confusion, axis1=-2, axis2=-1)
    predicted, true = confusion.sum(axis=-2), confusion.sum(axis=-1)
    return ClassFigures(
        _ratio(right, predicted), _ratio(right, true), _ratio(2 * right, predicted + true)
    )


def f1_binary(gold: IntArray, predicted: IntArray) -> float:
    """Return F1 of the second class of a binary task; NaN if it is never true or predicted.

    >>> round(f1_binary(np.array([0, 1, 1]), np.array([0, 0, 1])), 3)
    0.667
    """
    return float(class_figures(confusion_matrix(gold, predicted, 2)).f1[1])


def f1_macro(gold: IntArray, predicted: IntArray, n_classes: int) -> float:
    """Return the mean F1 over the classes that occur in `gold` or `predicted`.

    >>> f1_macro(np.array([0, 1, 1]), np.array([0, 1, 1]), 3)
    1.0
    """
    f1 = class_figures(confusion_matrix(gold, predicted, n_classes)).f1
    return float(np.nanmean(f1)) if len(gold) else float("nan")


def roc_auc(gold: IntArray, proba: FloatArray) -> float:
    """Return ROC-AUC; for multi-class tasks, the one-vs-rest mean.

    >>> roc_auc(np.array([0, 1, 1]), np.array([[0.9, 0.1], [0.4, 0.6], [0.8, 0.2]]))
    1.0
    """
    return _one_against_rest(gold, proba, _area)


def average_precision(gold: IntArray, proba: FloatArray) -> float:
    """Return the average precision; for multi-class tasks, the one-vs-rest mean.

    >>> average_precision(np.array([0, 1, 1]), np.array([[0.9, 0.1], [0.4, 0.6], [0.8, 0.2]]))
    1.0
    """
    return _one_against_rest(gold, proba, _mean_precision)


def precision_and_recall(positive: npt.NDArray[np.bool_], scores: FloatArray) -> PrecisionRecall:
    """Return precision and recall at every distinct score; some item must be positive.

    scikit-learn has the same function, but importing scikit-learn takes longer than a small fit.

    >>> precision_and_recall(np.array([False, True, True]), np.array([0.1, 0.3, 0.6])).precision
    array([0.66666667, 1.        , 1.        ])
    """
    threshold, place = np.unique(np.asarray(scores, np.float64), return_inverse=True)
    predicted = _at_or_above(np.bincount(place))
    right = _at_or_above(np.bincount(place, positive))
    return PrecisionRecall(threshold, right / predicted, right / right[0])


def log_loss(gold: IntArray, proba: FloatArray) -> float:
    """Return the mean of -log P(true class).

    >>> round(log_loss(np.array([0, 1]), np.array([[0.5, 0.5], [0.75, 0.25]])), 4)
    1.0397
    """
    return float(item_log_loss(gold, proba).mean())


def brier(gold: IntArray, proba: FloatArray) -> float:
    """Return the mean squared error of the probabilities.

    Binary tasks: for the second class only (between 0 and 1). Multi-class tasks: the sum over
    classes. This is scikit-learn's definition.

    >>> brier(np.array([0, 1]), np.array([[0.5, 0.5], [1.0, 0.0]]))
    0.625
    """
    return float(item_brier(gold, proba).mean())


def calibration_error(
    gold: IntArray, proba: FloatArray, predicted: IntArray | None = None, n_bins: int = 15
) -> float:
    """Return the expected calibration error: the mean gap between confidence and accuracy.

    >>> round(calibration_error(np.array([0, 0]), np.array([[0.9, 0.1], [0.8, 0.2]])), 2)
    0.15
    """
    bins = calibration_bins(gold, proba, predicted, n_bins)
    gaps = np.abs(bins.confidence - bins.accuracy) * bins.n_items
    return float(np.nansum(gaps) / bins.n_items.sum())


def calibration_bins(
    gold: IntArray, proba: FloatArray, predicted: IntArray | None = None, n_bins: int = 15
) -> CalibrationBins:
    """Return items in bins of equal width by the probability of their predicted class.

    >>> calibration_bins(np.array([0, 1]), np.array([[0.9, 0.1], [0.8, 0.2]]), n_bins=2).accuracy
    array([nan, 0.5])
    """
    confidence, right, group = calibration_parts(gold, proba, predicted, n_bins)
    n_items = np.bincount(group, minlength=n_bins)
    return CalibrationBins(
        np.linspace(0, 1, n_bins + 1),
        _ratio(np.bincount(group, confidence, minlength=n_bins), n_items),
        _ratio(np.bincount(group, right, minlength=n_bins), n_items),
        n_items,
    )


def checked_arrays(gold: Any, proba: Any, predicted: Any) -> tuple[IntArray, FloatArray, IntArray]:
    """Return gold, probabilities and predictions of the same items as arrays, or refuse them."""
    numbers = as_numbers(proba, "The probabilities")
    if numbers.ndim != 2 or not numbers.size:
        raise FeatureError(
            f"The probabilities must be an array of items x classes; got the shape {numbers.shape}."
        )
    found = []
    for values, what in ((gold, "gold"), (predicted, "predicted")):
        classes = np.asarray(values)
        if classes.dtype.kind not in "iu" or classes.shape != (len(numbers),):
            raise FeatureError(
                f"{what} must hold the index of the class of each of the {len(numbers)} items; got "
                f"{type(values).__name__} of {classes.dtype} with the shape {classes.shape}. "
                "evaluate(model, X, y) also takes names."
            )
        if classes.min() < 0 or classes.max() >= numbers.shape[1]:
            raise FeatureError(
                f"{what} must be from 0 to {numbers.shape[1] - 1}: there are {numbers.shape[1]} "
                "classes. Leave out items without a label."
            )
        found.append(classes)
    return found[0], numbers, found[1]


def as_numbers(values: Any, what: str) -> npt.NDArray[np.float64]:
    """Return an array of numbers, or an error that names what is none."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise FeatureError(f"{what} are not an array of numbers: {values!r:.60}.") from None


def calibration_parts(
    gold: IntArray, proba: FloatArray, predicted: IntArray | None, n_bins: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Return per item: the confidence, whether the prediction is correct, and the bin."""
    chosen = predicted_classes(proba) if predicted is None else predicted
    confidence = proba[np.arange(len(proba)), chosen].astype(np.float64)
    # A bin includes its upper edge, as usual, so confidence 1 is in the last one.
    group = np.clip(np.ceil(confidence * n_bins).astype(np.int64) - 1, 0, n_bins - 1)
    return confidence, (chosen == gold).astype(np.float64), group


def item_log_loss(gold: IntArray, proba: FloatArray) -> npt.NDArray[np.float64]:
    """Return -log P(true class) for each item."""
    true = proba[np.arange(len(gold)), gold].astype(np.float64)
    return -np.log(np.maximum(true, _SMALLEST))


def item_brier(gold: IntArray, proba: FloatArray) -> npt.NDArray[np.float64]:
    """Return the squared error of each item."""
    n_classes = proba.shape[1]
    errors = (proba - np.eye(n_classes)[gold]) ** 2
    return errors[:, 1] if n_classes == 2 else errors.sum(axis=1)


def _area(positive: npt.NDArray[np.bool_], scores: FloatArray) -> float:
    """The share of pairs that are in the right order; a tie counts half.

    Computed from ranks, which is much faster than tracing the curve: it runs after every epoch.
    """
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    n_positive = int(positive.sum())
    won = ranks[positive].sum() - n_positive * (n_positive + 1) / 2
    return float(won / (n_positive * (len(positive) - n_positive)))


def _mean_precision(positive: npt.NDArray[np.bool_], scores: FloatArray) -> float:
    """The precision at each threshold, weighted by the recall that the threshold adds."""
    _, precision, recall = precision_and_recall(positive, scores)
    return float(-np.diff(recall, append=0.0) @ precision)


def _at_or_above(counts: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The sum of each count and all later ones."""
    return counts[::-1].cumsum()[::-1]


def _one_against_rest(
    gold: IntArray, proba: FloatArray, score: Callable[[Any, Any], float]
) -> float:
    """The mean over classes with both positive and negative items; NaN if there are none."""
    n_classes = proba.shape[1]
    classes = [1] if n_classes == 2 else range(n_classes)
    present = [k for k in classes if 0 < np.sum(gold == k) < len(gold)]
    scores = [float(score(gold == k, proba[:, k])) for k in present]
    return float(np.mean(scores)) if scores else float("nan")


def _ratio(part: npt.NDArray[Any], whole: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """The quotient; NaN where `whole` is 0."""
    return np.divide(part, whole, out=np.full(np.shape(part), np.nan), where=whole > 0)


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
    scores = as_numbers(proba, "The probabilities")
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
