"""Scores for predicted sets of labels: for each label, and for all of them together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis.table import UNKNOWN, Column, Table, count, number, text
from wiesel.errors import FeatureError
from wiesel.evaluation.intervals import (
    AreaSlopes,
    check_resampling,
    group_sums,
    item_groups,
    percentile_interval,
)
from wiesel.evaluation.metrics import as_numbers, average_precision
from wiesel.evaluation.report import Report, Score, evaluate_proba, known
from wiesel.label_sets import MultiLabelSpace, Presence
from wiesel.labels import as_indices
from wiesel.tables import in_order_of

__all__ = ["FIGURES", "MultiLabelReport", "evaluate_presence"]

FIGURES = ("micro_f1", "macro_f1", "average_precision", "exact_match", "cell_accuracy")
"""The scores over all labels, in the order of printing."""

_TITLES = {
    "micro_f1": "micro F1",
    "macro_f1": "macro F1",
    "average_precision": "average precision",
    "exact_match": "exact match",
    "cell_accuracy": "right cells",
}
_AT_ONCE = 50
_HALF = float(np.nextafter(0.5, 1))
Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class MultiLabelReport:
    """The result of an evaluation; print it, or use `to_dict()`."""

    labels: MultiLabelSpace
    n_items: int
    """How many items have a known gold value for some label."""
    micro_f1: Score
    """F1 over all pairs of an item and a label."""
    macro_f1: Score
    """The mean of the labels' F1."""
    average_precision: Score
    """The mean of the labels' average precision."""
    exact_match: Score
    """The share of items whose predicted set equals the gold set."""
    cell_accuracy: Score
    """The share of correct pairs of an item and a label (one minus the Hamming loss)."""
    per_label: dict[str, Report]
    """The report on every label as a binary task; labels without gold values are left out."""

    def scores(self) -> Iterator[tuple[str, Score]]:
        """Yield the name and value of every score over all labels."""
        for name in FIGURES:
            yield name, getattr(self, name)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data for JSON; NaN becomes None."""
        return {
            "labels": list(self.labels),
            "n_items": self.n_items,
            "scores": {
                name: {"value": known(score), "low": known(score.low), "high": known(score.high)}
                for name, score in self.scores()
            },
            "per_label": {name: own.to_dict() for name, own in self.per_label.items()},
        }

    @property
    def table(self) -> Table:
        """One row for each label."""
        rows = [_row(label, self.per_label.get(label)) for label in self.labels]
        columns = [text("label"), count("gold"), count("predicted")]
        columns += [number("precision"), number("recall"), number("f1", "F1")]
        columns += [number("average_precision", "average precision"), number("auc", "ROC-AUC")]
        columns += [number("calibration_error", "calibration error"), number("threshold")]
        return Table(pl.DataFrame(rows, infer_schema_length=None), tuple(columns))

    @property
    def totals(self) -> Table:
        """One row for each score over all labels, with its 95 % interval."""
        rows = [
            {"figure": _TITLES[name], "value": float(score), "low": score.low, "high": score.high}
            for name, score in self.scores()
        ]
        cells = (text("figure"), Column("all labels", _shown))
        return Table(pl.DataFrame(rows), cells, f"{self.n_items:,} items")

    def __repr__(self) -> str:
        return f"{self.totals.to_text()}\n\n{self.table.to_text()}"

    def _repr_html_(self) -> str:
        return self.totals.to_html() + self.table.to_html()


def evaluate_presence(
    proba: Any,
    gold: Any,
    labels: MultiLabelSpace | Sequence[str],
    *,
    thresholds: Any = None,
    n_resamples: int = 1000,
    seed: int = 0,
) -> MultiLabelReport:
    """Return the report on given probabilities (n_items, n_labels).

    >>> report = evaluate_presence([[0.9, 0.2], [0.7, 0.6]], [{"a"}, {"b"}], ["a", "b"])
    >>> round(float(report.micro_f1), 3), float(report.exact_match)
    (0.8, 0.5)
    """
    check_resampling(n_resamples, seed)
    space = MultiLabelSpace.of(labels)
    gold = in_order_of(proba, gold, "gold", "the probabilities")
    array, truth = _checked(proba, space), space.presence(gold)
    if truth.shape != array.shape:
        raise FeatureError(
            f"There are predictions for {len(array)} items, and gold labels of {len(truth)}."
        )
    if (truth < 0).all():
        raise FeatureError("None of the gold labels is known; there is nothing to evaluate on.")
    # Without votes a label model returns 0.5: without a threshold that is not enough.
    limits = np.full(len(space), _HALF) if thresholds is None else np.asarray(thresholds)
    reports = {
        label: evaluate_proba(
            np.stack([1 - array[:, k], array[:, k]], axis=1),
            as_indices(truth[:, k]),
            space.binary(label),
            threshold=float(limits[k]),
            n_resamples=0,
        )
        for k, label in enumerate(space)
        if (truth[:, k] >= 0).any()
    }
    judged = (truth >= 0).any(axis=1)
    totals = _totals(array[judged], truth[judged], limits, n_resamples, seed)
    return MultiLabelReport(space, int(judged.sum()), **totals, per_label=reports)


def _checked(proba: Any, labels: MultiLabelSpace) -> Array:
    array = as_numbers(proba, "The probabilities")
    if array.ndim != 2 or array.shape[1] != len(labels) or not len(array):
        raise FeatureError(
            f"Probabilities must be items x {len(labels)} labels, with at least one item; got the "
            f"shape {array.shape}."
        )
    bad = ~((array >= 0) & (array <= 1))
    if bad.any():
        row, column = (int(place[0]) for place in np.nonzero(bad))
        raise FeatureError(
            f"P({labels.names[column]}) of row {row} is {array[row, column]}; it must lie between "
            "0 and 1. Logits need a sigmoid first."
        )
    return array


def _totals(
    proba: Array, truth: Presence, limits: Array, n_resamples: int, seed: int
) -> dict[str, Score]:
    predicted = proba >= limits
    groups = item_groups(len(truth), seed)
    counts = group_sums(_counted(truth, predicted), groups)
    values = _figures(np.ones((1, len(counts))), counts)
    precisions = [
        average_precision(own, np.stack([1 - proba[rows, k], proba[rows, k]], axis=1))
        for k in range(truth.shape[1])
        if 0 < (own := truth[rows := truth[:, k] >= 0, k]).sum() < len(own)
    ]
    values["average_precision"] = np.array([np.mean(precisions) if precisions else np.nan])
    if not n_resamples:
        return {name: Score(float(values[name][0])) for name in FIGURES}
    rng = np.random.default_rng(seed)
    samples: dict[str, list[Array]] = {name: [] for name in FIGURES}
    slopes = None if groups is None else _slopes(proba, truth, groups)
    for start in range(0, n_resamples, _AT_ONCE):
        shape = min(_AT_ONCE, n_resamples - start)
        weights = rng.multinomial(len(counts), np.full(len(counts), 1 / len(counts)), size=shape)
        drawn = weights.astype(np.float64)
        for name, found in _figures(drawn, counts).items():
            samples[name].append(found)
        samples["average_precision"].append(
            _weighted_precision(weights, truth, proba)
            if slopes is None
            else _mean_of_known(np.stack([own.areas(drawn)[1] for own in slopes], axis=1))
        )
    return {name: _score(float(values[name][0]), np.concatenate(samples[name])) for name in FIGURES}


def _slopes(proba: Array, truth: Presence, groups: npt.NDArray[np.int64]) -> list[AreaSlopes]:
    known_rows = [np.flatnonzero(own >= 0) for own in truth.T]
    return [
        AreaSlopes.of(proba[rows, k], truth[rows, k] == 1, groups[rows])
        for k, rows in enumerate(known_rows)
    ]


def _score(value: float, samples: Array) -> Score:
    if np.isnan(value) or np.isnan(samples).all():
        return Score(value)
    return Score(value, *percentile_interval(samples))


def _counted(
    truth: Presence, predicted: npt.NDArray[np.bool_]
) -> Iterator[npt.NDArray[np.float64]]:
    """Yield per label what is right, present and predicted, then the counts over all labels."""
    known_cells = truth >= 0
    for counted in ((predicted & (truth == 1)), truth == 1, predicted & known_cells):
        for k in range(truth.shape[1]):
            yield np.asarray(counted[:, k], np.float64)
    alike, complete = (predicted == (truth == 1)), known_cells.all(axis=1)
    yield np.asarray(alike.all(axis=1) & complete, np.float64)
    yield np.asarray(complete, np.float64)
    yield np.asarray((alike & known_cells).sum(axis=1), np.float64)
    yield np.asarray(known_cells.sum(axis=1), np.float64)


def _figures(weights: Array, counts: Array) -> dict[str, Array]:
    """The scores that follow from the sums of `_counted`, for every row of weights."""
    totals = weights @ counts
    exact, complete, alike, n_known = totals[:, -4:].T
    found, n_present, n_predicted = np.split(totals[:, :-4], 3, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "micro_f1": 2 * found.sum(axis=1) / (n_present + n_predicted).sum(axis=1),
            "macro_f1": _mean_of_known(2 * found / (n_present + n_predicted)),
            "exact_match": exact / complete,
            "cell_accuracy": alike / n_known,
        }


def _mean_of_known(values: Array) -> Array:
    there = ~np.isnan(values)
    total = np.where(there, values, 0).sum(axis=1)
    mean: Array = np.divide(
        total, there.sum(axis=1), out=np.full(len(values), np.nan), where=there.any(axis=1)
    )
    return mean


def _weighted_precision(weights: npt.NDArray[np.int64], truth: Presence, proba: Array) -> Array:
    """The mean average precision of the labels, for every row of item weights."""
    columns = []
    for k in range(truth.shape[1]):
        rows = np.flatnonzero(truth[:, k] >= 0)
        order = rows[np.argsort(-proba[rows, k], kind="stable")]
        heavy = weights[:, order].astype(np.float64)
        positive = heavy * (truth[order, k] == 1)
        total = positive.sum(axis=1)
        precision = np.cumsum(positive, axis=1) / np.maximum(np.cumsum(heavy, axis=1), 1)
        area = (precision * positive).sum(axis=1)
        unknown = np.full(len(weights), np.nan)
        columns.append(np.divide(area, total, out=unknown, where=total > 0))
    return _mean_of_known(np.stack(columns, axis=1))


def _row(label: str, report: Report | None) -> dict[str, Any]:
    if report is None:
        names = ("gold", "predicted", "precision", "recall", "f1", "average_precision", "auc")
        return {"label": label} | dict.fromkeys((*names, "calibration_error", "threshold"))
    own = report.per_class[1]
    return {
        "label": label,
        "gold": own.n_gold,
        "predicted": own.n_predicted,
        "precision": known(own.precision),
        "recall": known(own.recall),
        "f1": known(own.f1),
        "average_precision": known(float(report.average_precision)),
        "auc": known(float(report.auc)),
        "calibration_error": known(float(report.calibration_error)),
        "threshold": report.threshold,
    }


def _shown(row: Any) -> str:
    if np.isnan(row["value"]):
        return UNKNOWN
    if np.isnan(row["low"]):
        return f"{row['value']:.3f}"
    return f"{row['value']:.3f} ({row['low']:.3f} to {row['high']:.3f})"
