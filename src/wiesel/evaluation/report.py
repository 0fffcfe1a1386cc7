"""Evaluates a model on gold labels: a report of every metric with its interval."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from numbers import Real
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis.table import UNKNOWN, Column, Table
from wiesel.errors import FeatureError, ParameterError
from wiesel.evaluation import metrics
from wiesel.evaluation.intervals import check_resampling, figure_intervals, resampled_figures
from wiesel.evaluation.metrics import FIGURES, CalibrationBins
from wiesel.label_sets import MultiLabelSpace
from wiesel.labels import LabelSpace, checked_proba
from wiesel.tables import in_order_of
from wiesel.votes import VoteMatrix

__all__ = [
    "TITLES",
    "ClassScores",
    "Classifier",
    "Report",
    "Score",
    "commonest_class",
    "evaluate",
    "evaluate_proba",
    "labels_of",
    "model_proba",
    "number_text",
    "report_html",
    "report_text",
    "score_text",
    "string_table",
]

TITLES = {
    "accuracy": "accuracy",
    "f1": "F1",
    "macro_f1": "macro F1",
    "auc": "ROC-AUC",
    "average_precision": "average precision",
    "log_loss": "log loss",
    "brier": "Brier score",
    "calibration_error": "calibration error",
}
"""The printed names of the metrics."""

_MOST_CLASSES = 20
"""A confusion matrix with more classes is too wide to read."""


class Score(float):
    """A number with its interval; it behaves like a float.

    >>> score = Score(0.875, 0.8612, 0.8901)
    >>> score > 0.87, score.high, score
    (True, 0.8901, Score(0.8750, 0.8612 to 0.8901))
    """

    __slots__ = ("high", "low")
    low: float
    high: float

    def __new__(cls, value: float, low: float = math.nan, high: float = math.nan) -> "Score":
        """Create a score; the limits are NaN if there is no interval."""
        score = super().__new__(cls, value)
        score.low, score.high = low, high
        return score

    def __repr__(self) -> str:
        return f"Score({float(self):.4f}, {self.low:.4f} to {self.high:.4f})"

    def __getnewargs__(self) -> tuple[float, float, float]:  # type: ignore[override]
        return float(self), self.low, self.high


@dataclass(frozen=True)
class ClassScores:
    """The metrics of one class; NaN where undefined."""

    name: str
    precision: float
    recall: float
    f1: float
    n_gold: int
    """The number of items that belong to this class."""
    n_predicted: int
    """The number of items predicted to belong to this class."""


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """The result of `evaluate`. Print it, show it in a notebook, or use `to_dict()`.

    >>> from wiesel.evaluation import evaluate_proba
    >>> proba = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.1, 0.9]])
    >>> report = evaluate_proba(proba, ["ham", "spam", "spam", "spam"], ["ham", "spam"])
    >>> float(report.accuracy), round(report.f1, 2), report.confusion.tolist()
    (0.75, 0.8, [[1, 0], [1, 2]])
    """

    labels: LabelSpace
    n_items: int
    """The number of evaluated items, those with a gold label."""
    n_unknown: int
    """The number of items that were left out because their gold label is unknown."""
    threshold: float | None
    """The minimum P(second class) to predict it; None if the most probable class is predicted."""
    accuracy: Score
    f1: Score
    """Binary tasks: F1 of the second class. Multi-class tasks: the mean over classes."""
    macro_f1: Score
    """The mean F1 over classes."""
    auc: Score
    """The area under the ROC curve; for multi-class tasks, the one-vs-rest mean."""
    average_precision: Score
    log_loss: Score
    brier: Score
    calibration_error: Score
    """The expected calibration error over 15 confidence bins."""
    per_class: tuple[ClassScores, ...]
    confusion: npt.NDArray[np.int64]
    """(true class, predicted class) counts."""
    calibration: CalibrationBins
    """Confidence against accuracy, for a calibration plot."""
    covered: "Report | None" = None
    """The report on items with a vote; None without votes or without such items."""
    uncovered: "Report | None" = None
    """The report on items without a vote; None without votes or without such items."""

    def scores(self) -> Iterator[tuple[str, Score]]:
        """Yield the name and value of every metric that has an interval."""
        for name in FIGURES:
            yield name, getattr(self, name)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data for JSON; NaN becomes None."""
        return {
            "classes": list(self.labels),
            "n_items": self.n_items,
            "n_unknown": self.n_unknown,
            "threshold": self.threshold,
            "scores": {
                name: {"value": known(score), "low": known(score.low), "high": known(score.high)}
                for name, score in self.scores()
            },
            "per_class": {
                scores.name: {
                    "precision": known(scores.precision),
                    "recall": known(scores.recall),
                    "f1": known(scores.f1),
                    "n_gold": scores.n_gold,
                    "n_predicted": scores.n_predicted,
                }
                for scores in self.per_class
            },
            "confusion": self.confusion.tolist(),
            "calibration": {
                name: [known(value) for value in values.tolist()]
                for name, values in self.calibration._asdict().items()
            },
            "covered": self.covered.to_dict() if self.covered else None,
            "uncovered": self.uncovered.to_dict() if self.uncovered else None,
        }

    def __repr__(self) -> str:
        return report_text(self)

    def _repr_html_(self) -> str:
        return report_html(self)


def known(value: float) -> float | None:
    """Return a number for JSON: None instead of NaN.

    >>> known(float("nan")), known(0.5)
    (None, 0.5)
    """
    return None if math.isnan(value) else float(value)


def number_text(value: float) -> str:
    """Return a number as text, or a dash if it is unknown.

    >>> number_text(0.5), number_text(float("nan"))
    ('0.500', '–')
    """
    return UNKNOWN if math.isnan(value) else f"{value:.3f}"


def score_text(score: "Score") -> str:
    """Return a score with its interval, such as `0.875 (0.861 to 0.890)`."""
    if math.isnan(score) or math.isnan(score.low):
        return number_text(score)
    return f"{number_text(score)} ({number_text(score.low)} to {number_text(score.high)})"


def string_table(header: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> Table:
    """Return a table of formatted cells: first column left-aligned, the others right-aligned.

    >>> print(string_table(["class", "F1"], [["ham", "0.500"]]))
     class      F1
    ───────────────
     ham     0.500
    """
    keys = [str(position) for position in range(len(header))]
    frame = pl.DataFrame(list(rows), schema=dict.fromkeys(keys, pl.String), orient="row")
    columns = tuple(_column(name, key) for name, key in zip(header, keys, strict=True))
    return Table(frame, columns, caption)


def report_text(report: "Report") -> str:
    """Return the report as text for a terminal."""
    return "\n\n".join(table.to_text() for table in _tables(report))


def report_html(report: "Report") -> str:
    """Return the report as an HTML fragment; names are escaped."""
    body = "".join(table.to_html() for table in _tables(report))
    return f'<div class="wiesel-report">{body}</div>'


def html_fragment(name: str, sentences: Sequence[str], table: Table) -> str:
    """Return sentences above a table."""
    text = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)
    return f'<div class="{name}">{text}{table.to_html()}</div>'


def _column(header: str, key: str) -> Column:
    return Column(header, lambda row: str(row[key]), numeric=key != "0")


def _tables(report: "Report") -> list[Table]:
    tables = [_score_table(report), _class_table(report)]
    if len(report.labels) <= _MOST_CLASSES:
        tables.append(_confusion_table(report))
    return tables


def _score_table(report: "Report") -> Table:
    groups = {"all": report, "covered": report.covered, "uncovered": report.uncovered}
    shown = {name: group for name, group in groups.items() if group is not None}
    header = ["", *(f"{name} ({group.n_items:,})" for name, group in shown.items())]
    rows = [
        [title, *(score_text(getattr(group, name)) for group in shown.values())]
        for name, title in _titles(report).items()
    ]
    return string_table(header, rows, _caption(report))


def _caption(report: "Report") -> str:
    intervals = "" if math.isnan(report.accuracy.low) else ", 95 % intervals"
    rule = "" if report.threshold is None else f", decision threshold {report.threshold:.3f}"
    left_out = f", {report.n_unknown:,} without a gold label left out" if report.n_unknown else ""
    counts = f"{report.n_items:,} items, {len(report.labels)} classes"
    return f"Report on {counts}{intervals}{rule}{left_out}"


def _titles(report: "Report") -> dict[str, str]:
    """The metrics to print: F1 of the positive class; for multi-class tasks only the mean."""
    if len(report.labels) == 2:
        return {**TITLES, "f1": f"F1 of {report.labels.names[1]!r}"}
    return {name: title for name, title in TITLES.items() if name != "f1"}


def _class_table(report: "Report") -> Table:
    rows = [
        [
            scores.name,
            *map(number_text, (scores.precision, scores.recall, scores.f1)),
            f"{scores.n_gold:,}",
            f"{scores.n_predicted:,}",
        ]
        for scores in report.per_class
    ]
    return string_table(["class", "precision", "recall", "F1", "true", "predicted"], rows)


def _confusion_table(report: "Report") -> Table:
    counts = zip(report.labels, report.confusion.tolist(), strict=True)
    rows = [[name, *(f"{count:,}" for count in row)] for name, row in counts]
    return string_table(["true \\ predicted", *report.labels], rows)


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
    if threshold is not None and not isinstance(threshold, Real):
        raise ParameterError(
            "threshold is one probability, from which the second class is predicted; got "
            f"{threshold!r:.60}.",
            option="threshold",
        )
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
        raise FeatureError(f"There are {n_items} predictions but votes on {mask.size} items.")
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
    labels = LabelSpace.of(labels)
    gold = labels.indices(y, allow_unknown=True)
    counts = np.bincount(gold[gold >= 0], minlength=len(labels))
    first = int(counts.argmax())
    shares = counts / max(counts.sum(), 1)
    proba = np.broadcast_to(shares, (len(gold), len(labels)))
    return labels.names[first], evaluate_proba(proba, gold, labels, n_resamples=n_resamples)
