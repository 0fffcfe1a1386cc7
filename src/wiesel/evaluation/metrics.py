"""Figures of merit: pure functions of gold labels, predictions and probabilities.

`gold` and `predicted` are class indices, `proba` is (n_items, n_classes). A figure that the data
do not define (ROC-AUC with one class, say) is NaN, never 0.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.metrics import average_precision_score

from wiesel.labels import FloatArray, IntArray

__all__ = [
    "FIGURES",
    "CalibrationBins",
    "ClassFigures",
    "accuracy",
    "average_precision",
    "brier",
    "calibration_bins",
    "calibration_error",
    "class_figures",
    "confusion_matrix",
    "f1_binary",
    "f1_macro",
    "figures",
    "log_loss",
    "predicted_classes",
    "roc_auc",
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
"""Every figure of a report, in the order of printing."""

_SMALLEST = np.finfo(np.float32).tiny
"""Stands for a probability of 0 in the log loss, which would be infinite."""


class ClassFigures(NamedTuple):
    """Precision, recall and F1 of every class; NaN where undefined."""

    precision: npt.NDArray[np.float64]
    recall: npt.NDArray[np.float64]
    f1: npt.NDArray[np.float64]


class CalibrationBins(NamedTuple):
    """Items grouped by how sure the model was of its prediction."""

    edges: npt.NDArray[np.float64]
    """The limits of the groups, one more than groups."""
    confidence: npt.NDArray[np.float64]
    """The mean confidence of every group; NaN where it is empty."""
    accuracy: npt.NDArray[np.float64]
    """The share of right predictions of every group; NaN where it is empty."""
    n_items: npt.NDArray[np.int64]
    """The size of every group."""


def figures(gold: IntArray, proba: FloatArray, predicted: IntArray) -> dict[str, float]:
    """Return the value of every figure of a report by its name.

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
    """Return the most probable class, or the second of two where its P reaches the threshold.

    >>> predicted_classes(np.array([[0.7, 0.3], [0.4, 0.6]]), threshold=0.3)
    array([1, 1])
    """
    if threshold is None:
        return proba.argmax(axis=1)
    return (proba[:, 1] >= threshold).astype(np.int64)


def accuracy(gold: IntArray, predicted: IntArray) -> float:
    """Return the share of items whose predicted class is right.

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
    """Return precision, recall and F1 of every class from (..., true, predicted) counts.

    >>> class_figures(np.array([[1, 0], [1, 1]])).f1.round(3)
    array([0.667, 0.667])
    """
    right = np.diagonal(confusion, axis1=-2, axis2=-1)
    predicted, true = confusion.sum(axis=-2), confusion.sum(axis=-1)
    return ClassFigures(
        _ratio(right, predicted), _ratio(right, true), _ratio(2 * right, predicted + true)
    )


def f1_binary(gold: IntArray, predicted: IntArray) -> float:
    """Return F1 of the second class of a binary task; NaN if it is nowhere true or predicted.

    >>> round(f1_binary(np.array([0, 1, 1]), np.array([0, 0, 1])), 3)
    0.667
    """
    return float(class_figures(confusion_matrix(gold, predicted, 2)).f1[1])


def f1_macro(gold: IntArray, predicted: IntArray, n_classes: int) -> float:
    """Return the mean F1 of the classes that are true or predicted somewhere.

    >>> f1_macro(np.array([0, 1, 1]), np.array([0, 1, 1]), 3)
    1.0
    """
    f1 = class_figures(confusion_matrix(gold, predicted, n_classes)).f1
    return float(np.nanmean(f1)) if len(gold) else float("nan")


def roc_auc(gold: IntArray, proba: FloatArray) -> float:
    """Return ROC-AUC; of many classes, the mean of each against the rest.

    >>> roc_auc(np.array([0, 1, 1]), np.array([[0.9, 0.1], [0.4, 0.6], [0.8, 0.2]]))
    1.0
    """
    return _one_against_rest(gold, proba, _area)


def average_precision(gold: IntArray, proba: FloatArray) -> float:
    """Return the area under precision over recall; of many classes, the mean over them.

    >>> average_precision(np.array([0, 1, 1]), np.array([[0.9, 0.1], [0.4, 0.6], [0.8, 0.2]]))
    1.0
    """
    return _one_against_rest(gold, proba, average_precision_score)


def log_loss(gold: IntArray, proba: FloatArray) -> float:
    """Return the mean of -log P(true class).

    >>> round(log_loss(np.array([0, 1]), np.array([[0.5, 0.5], [0.75, 0.25]])), 4)
    1.0397
    """
    return float(item_log_loss(gold, proba).mean())


def brier(gold: IntArray, proba: FloatArray) -> float:
    """Return the mean squared error of the probabilities.

    Of two classes that of the second (between 0 and 1), of more the sum over all, as scikit-learn.

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
    """Return items in groups of equal width by the probability of their predicted class.

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


def calibration_parts(
    gold: IntArray, proba: FloatArray, predicted: IntArray | None, n_bins: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Return of every item: confidence in the prediction, whether it is right, its group."""
    chosen = predicted_classes(proba) if predicted is None else predicted
    confidence = proba[np.arange(len(proba)), chosen].astype(np.float64)
    # A group includes its upper limit, as is usual: confidence 1 is in the last one.
    group = np.clip(np.ceil(confidence * n_bins).astype(np.int64) - 1, 0, n_bins - 1)
    return confidence, (chosen == gold).astype(np.float64), group


def item_log_loss(gold: IntArray, proba: FloatArray) -> npt.NDArray[np.float64]:
    """Return -log P(true class) of every item."""
    true = proba[np.arange(len(gold)), gold].astype(np.float64)
    return -np.log(np.maximum(true, _SMALLEST))


def item_brier(gold: IntArray, proba: FloatArray) -> npt.NDArray[np.float64]:
    """Return the squared error of every item."""
    n_classes = proba.shape[1]
    errors = (proba - np.eye(n_classes)[gold]) ** 2
    return errors[:, 1] if n_classes == 2 else errors.sum(axis=1)


def _area(positive: npt.NDArray[np.bool_], scores: FloatArray) -> float:
    """The share of pairs that are in the right order; a tie counts half.

    By ranks, which is much faster than following the curve: it is computed after every epoch.
    """
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    n_positive = int(positive.sum())
    won = ranks[positive].sum() - n_positive * (n_positive + 1) / 2
    return float(won / (n_positive * (len(positive) - n_positive)))


def _one_against_rest(
    gold: IntArray, proba: FloatArray, score: Callable[[Any, Any], float]
) -> float:
    """The mean over classes that occur without being all there is; NaN if there is none."""
    n_classes = proba.shape[1]
    classes = [1] if n_classes == 2 else range(n_classes)
    present = [k for k in classes if 0 < np.sum(gold == k) < len(gold)]
    scores = [float(score(gold == k, proba[:, k])) for k in present]
    return float(np.mean(scores)) if scores else float("nan")


def _ratio(part: npt.NDArray[Any], whole: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """The quotient; NaN where the whole is 0."""
    return np.divide(part, whole, out=np.full(np.shape(part), np.nan), where=whole > 0)
