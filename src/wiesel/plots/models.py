"""Plots of trained models: learning curves, calibration, the decision threshold."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wiesel.errors import ParameterError
from wiesel.evaluation import Report
from wiesel.evaluation.metrics import threshold_curve
from wiesel.labels import ABSTAIN
from wiesel.plots.drawing import COLORS, SOFT, add_legend, color_of, empty_figure
from wiesel.scikit_learn import require_model
from wiesel.tables import in_order_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["calibration", "learning_curves", "threshold"]


def learning_curves(model: Any) -> "Figure":
    """Plot losses and validation score by epoch, for a fitted model or its `history_`.

    Thin lines are the members of an ensemble; the dashed line is the selected epoch.

    >>> from wiesel.training import History
    >>> records = [{"epoch": 1, "loss_end": 0.7}, {"epoch": 2, "loss_end": 0.5}]
    >>> learning_curves(History(records)).axes[0].lines[0].get_ydata().tolist()
    [0.7, 0.5]
    """
    history = getattr(model, "history_", model)
    records = getattr(history, "records", None)
    if not records:
        raise ParameterError(
            f"learning_curves() needs a fitted end-to-end model or its history_; got {model!r:.80}."
        )
    losses, scores = _columns(records, "loss"), _columns(records, "validation_")
    figure = empty_figure(10 if scores else 5.5, 3.8)
    panels = figure.subplots(1, 2 if scores else 1, squeeze=False)[0]
    for axes, names, title in zip(panels, (losses, scores), ("loss", "validation"), strict=False):
        for index, name in enumerate(names):
            _draw_curve(axes, history, name, color_of(index))
        if history.best_epoch is not None:
            axes.axvline(history.best_epoch, color=SOFT, linestyle="--", linewidth=1, label="kept")
        axes.set(xlabel="epoch", ylabel=title, title=f"{title.capitalize()} by epoch")
        axes.locator_params(axis="x", integer=True)
        add_legend(axes)
    return figure


def calibration(report: Report) -> "Figure":
    """Plot confidence against accuracy, from the report of `evaluate`.

    >>> from wiesel.evaluation import evaluate_proba
    >>> proba = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.1, 0.9]])
    >>> report = evaluate_proba(proba, ["ham", "spam", "spam", "spam"], ["ham", "spam"])
    >>> calibration(report).axes[0].get_ylabel()
    'share of right predictions'
    """
    if not isinstance(report, Report):
        raise ParameterError(
            "calibration() needs the report of wiesel.evaluate(model, X, y); "
            f"got {type(report).__name__}."
        )
    bins = report.calibration
    known = bins.n_items > 0
    figure = empty_figure(5.2, 5.6)
    axes, below = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
    axes.plot([0, 1], [0, 1], color=SOFT, linestyle="--", linewidth=1, label="ideal")
    label = f"model (error {100 * report.calibration_error:.1f} %)"
    axes.plot(bins.confidence[known], bins.accuracy[known], "o-", color=COLORS[0], label=label)
    low = 1 / len(report.labels)
    axes.set(ylabel="share of right predictions", ylim=(0, 1.03), title="Calibration")
    add_legend(axes, loc="lower right", beside=False)
    below.bar(bins.edges[:-1], bins.n_items, np.diff(bins.edges), align="edge", color=COLORS[0])
    below.set(xlabel="confidence of the prediction", ylabel="items")
    below.set_xlim(max(0.0, low - 0.02), 1.0)
    return figure


def threshold(model: Any, X: Any, y: Any) -> "Figure":
    """Plot precision, recall and F1 of the second class for every decision threshold.

    `y` contains gold labels: names or indices, None if unknown. The dashed line is the threshold
    that the model uses.

    >>> from wiesel import MajorityVote
    >>> figure = threshold(MajorityVote().fit(votes), votes, ["ham", "spam", "spam", "spam"])
    >>> [line.get_label() for line in figure.axes[0].lines[:3]]
    ['precision', 'recall', 'F1']
    """
    require_model(model, "model")
    if len(model.labels_) != 2:
        raise ParameterError(
            f"A decision threshold belongs to two classes; this model has {len(model.labels_)}."
        )
    gold = model.labels_.indices(in_order_of(X, y, "y", "X"), allow_unknown=True)
    known = gold != ABSTAIN
    curve = threshold_curve(np.asarray(model.predict_proba(X))[known, 1], gold[known])
    figure = empty_figure(6.2, 4)
    axes = figure.subplots()
    lines = {"precision": curve.precision, "recall": curve.recall, "F1": curve.f1}
    for index, (name, values) in enumerate(lines.items()):
        axes.plot(curve.threshold, values, color=color_of(index), label=name)
    used = getattr(model, "threshold_", None)
    words = f"in use: {0.5 if used is None else used:.2f}"
    axes.axvline(0.5 if used is None else used, color=SOFT, linestyle="--", label=words)
    positive = model.labels_.names[1]
    axes.set(xlabel=f"least P({positive}) to predict it", xlim=(0, 1), ylim=(0, 1.03))
    axes.set_title(f"Decision threshold for {positive!r}")
    add_legend(axes)
    return figure


def _draw_curve(axes: "Axes", history: Any, name: str, color: str) -> None:
    words = name.removeprefix("loss_").removeprefix("validation_").replace("_", " ")
    for member in history.members:
        points = [(r["epoch"], r[name]) for r in member.records if name in r]
        axes.plot(*_unzipped(points), color=color, linewidth=0.6, alpha=0.5)
    points = [(place, r[name]) for place, r in enumerate(history.records, 1) if name in r]
    axes.plot(*_unzipped(points), color=color, marker="." if len(points) < 30 else "", label=words)


def _unzipped(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _columns(records: Sequence[dict[str, Any]], prefix: str) -> list[str]:
    """Return the names of epoch values with a prefix, in their original order."""
    names = dict.fromkeys(name for record in records for name in record)
    numbers = {n for record in records for n, value in record.items() if np.ndim(value) == 0}
    return [name for name in names if name.startswith(prefix) and name in numbers]
