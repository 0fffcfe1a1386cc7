"""Evaluates a model on gold labels and returns a report."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from wiesel.errors import FeatureError, ParameterError
from wiesel.evaluation import metrics
from wiesel.evaluation.intervals import check_resampling, figure_intervals, resampled_figures
from wiesel.evaluation.report import ClassScores, Report, Score
from wiesel.label_sets import MultiLabelSpace
from wiesel.labels import LabelSpace, checked_proba
from wiesel.row_ids import in_order_of
from wiesel.votes import VoteMatrix

__all__ = [
    "Classifier",
    "commonest_class",
    "evaluate",
    "evaluate_proba",
    "labels_of",
    "model_proba",
]


class Classifier(Protocol):
    """A model that can be evaluated: it predicts a probability for every class."""

    def predict_proba(self, X: Any, /) -> Any:
        """Return P(class) of every item: (n_items, n_classes)."""
        ...


def evaluate(
    model: Classifier,
    X: Any,
    y: Any,
    votes: VoteMatrix | None = None,
    *,
    n_resamples: int = 1000,
    seed: int = 0,
) -> Any:
    """Return a report on how well a model predicts gold labels, with 95 % intervals.

    It is a `Report`, or a `MultiLabelReport` if the model predicts several labels for each item;
    `y` contains a set of labels for each item then. `model` needs `predict_proba(X)` and its
    classes in `labels_` (or scikit-learn's `classes_`).
    If it has a `threshold_`, the second class is predicted at or above that probability. `y`
    contains names or indices; items with an unknown label (None, NaN, -1) are left out and counted.
    With `votes`, items with and without a vote are also evaluated separately.

    >>> from wiesel import MajorityVote
    >>> model = MajorityVote().fit(votes)
    >>> evaluate(model, votes, ["ham", "spam", "spam", "spam"]).accuracy
    Score(0.5000, 0.1500 to 0.8500)
    """
    labels = labels_of(model)
    X, y = in_order_of(votes, X, "X"), in_order_of(votes, y, "y")
    y = in_order_of(X, y, "y", "X")
    if isinstance(labels, MultiLabelSpace):
        from wiesel.evaluation.several_labels import evaluate_presence

        return evaluate_presence(
            model.predict_proba(X),
            y,
            labels,
            thresholds=getattr(model, "threshold_", None),
            n_resamples=n_resamples,
            seed=seed,
        )
    return evaluate_proba(
        model_proba(model, X),
        y,
        labels,
        threshold=getattr(model, "threshold_", None),
        covered=None if votes is None else votes.covered,
        n_resamples=n_resamples,
        seed=seed,
    )


def evaluate_proba(
    proba: Any,
    y: Any,
    labels: LabelSpace | Sequence[str],
    *,
    threshold: float | None = None,
    covered: Any = None,
    n_resamples: int = 1000,
    seed: int = 0,
) -> Report:
    """Return the report on predicted probabilities; see `evaluate`.

    `n_resamples=0` omits the intervals.

    >>> proba = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]
    >>> report = evaluate_proba(proba, ["ham", "spam", "spam"], ["ham", "spam"], n_resamples=0)
    >>> print(report)  # doctest: +ELLIPSIS
    Report on 3 items, 2 classes
                         all (3)
    ─────────────────────────────
     accuracy              0.667
     F1 of 'spam'          0.667
    ...
    """
    check_resampling(n_resamples, seed)
    labels = LabelSpace.of(labels)
    y = in_order_of(proba, y, "y", "the probabilities")
    covered = in_order_of(proba, covered, "covered", "the probabilities")
    array = checked_proba(proba, labels, "The probabilities")
    if not len(array):
        raise FeatureError("The probabilities must have at least one item; there is none.")
    if threshold is not None and len(labels) != 2:
        raise ParameterError(f"A threshold needs two classes; there are {len(labels)}.")
    gold = _checked_gold(y, labels, len(array))
    report = _report(array, gold, labels, threshold, n_resamples, seed)
    if covered is None:
        return report
    mask = _checked_mask(covered, len(array))
    parts = {
        name: _report(array[part], gold[part], labels, threshold, n_resamples, seed)
        for name, part in (("covered", mask), ("uncovered", ~mask))
        if (gold[part] >= 0).any()
    }
    return replace(report, covered=parts.get("covered"), uncovered=parts.get("uncovered"))


def labels_of(model: Any) -> LabelSpace:
    """Return the classes of a fitted model from Wiesel or scikit-learn."""
    if hasattr(model, "labels_"):
        return LabelSpace.of(model.labels_)
    if hasattr(model, "classes_"):
        return LabelSpace(*map(str, model.classes_))
    raise ParameterError(
        f"{type(model).__name__} has neither labels_ nor classes_: fit it first, or use "
        "evaluate_proba(proba, y, labels)."
    )


def model_proba(model: Classifier, X: Any) -> Any:
    """Return `model.predict_proba(X)`, checked."""
    if not hasattr(model, "predict_proba"):
        raise ParameterError(
            f"{type(model).__name__} has no predict_proba, which evaluation needs."
        )
    found = model.predict_proba(X)
    return checked_proba(found, labels_of(model), f"The probabilities by {type(model).__name__}")


def _checked_gold(y: Any, labels: LabelSpace, n_items: int) -> npt.NDArray[np.int64]:
    gold = labels.indices(y, allow_unknown=True)
    if len(gold) != n_items:
        raise FeatureError(f"There are {n_items} predictions but {len(gold)} gold labels.")
    if (gold < 0).all():
        raise FeatureError("None of the gold labels is known; there is nothing to evaluate on.")
    return gold


def _checked_mask(covered: Any, n_items: int) -> npt.NDArray[np.bool_]:
    mask = np.asarray(covered, dtype=bool)
    if mask.shape != (n_items,):
        raise FeatureError(f"There are {n_items} predictions but votes on {mask.shape[0]} items.")
    return mask


def _report(
    proba: npt.NDArray[np.float64],
    gold: npt.NDArray[np.int64],
    labels: LabelSpace,
    threshold: float | None,
    n_resamples: int,
    seed: int,
) -> Report:
    known = gold >= 0
    n_unknown = int(np.sum(~known))
    proba, gold = proba[known], gold[known]
    predicted = metrics.predicted_classes(proba, threshold)
    confusion = metrics.confusion_matrix(gold, predicted, len(labels))
    return Report(
        labels=labels,
        n_items=len(gold),
        n_unknown=n_unknown,
        threshold=threshold,
        **_scores(gold, proba, predicted, n_resamples, seed),  # type: ignore[arg-type]
        per_class=_class_scores(confusion, labels),
        confusion=confusion,
        calibration=metrics.calibration_bins(gold, proba, predicted),
    )


def _scores(
    gold: npt.NDArray[np.int64],
    proba: npt.NDArray[np.float64],
    predicted: npt.NDArray[np.int64],
    n_resamples: int,
    seed: int,
) -> dict[str, Score]:
    values = metrics.figures(gold, proba, predicted)
    if n_resamples == 0:
        return {name: Score(value) for name, value in values.items()}
    samples = resampled_figures(gold, proba, predicted, n_resamples, seed)
    limits = figure_intervals(gold, proba, predicted, samples, seed)
    # A metric that is undefined on the full data has no interval, even if some resamples give one.
    return {
        name: Score(value) if np.isnan(value) else Score(value, *limits[name])
        for name, value in values.items()
    }


def _class_scores(confusion: npt.NDArray[np.int64], labels: LabelSpace) -> tuple[ClassScores, ...]:
    precision, recall, f1 = metrics.class_figures(confusion)
    return tuple(
        ClassScores(
            name,
            float(precision[k]),
            float(recall[k]),
            float(f1[k]),
            int(confusion[k].sum()),
            int(confusion[:, k].sum()),
        )
        for k, name in enumerate(labels)
    )


def commonest_class(y: Any, labels: LabelSpace, *, n_resamples: int = 0) -> tuple[str, Report]:
    """Return the most frequent gold class, and the report on always predicting it.

    The probabilities are the class frequencies, the same for all items.

    >>> name, report = commonest_class(["ham", "ham", "spam", None], LabelSpace("ham", "spam"))
    >>> name, round(float(report.accuracy), 3), float(report.auc)
    ('ham', 0.667, 0.5)
    """
    gold = labels.indices(y, allow_unknown=True)
    counts = np.bincount(gold[gold >= 0], minlength=len(labels))
    first = int(counts.argmax())
    shares = counts / max(counts.sum(), 1)
    proba = np.broadcast_to(shares, (len(gold), len(labels)))
    return labels.names[first], evaluate_proba(proba, gold, labels, n_resamples=n_resamples)
