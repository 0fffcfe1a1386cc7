"""A kept run by row: which rows are behind a figure."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import DataError
from wiesel.evaluation import Report, evaluate_proba
from wiesel.evaluation.metrics import calibration_parts, threshold_curve
from wiesel.labels import ABSTAIN, LabelSpace
from wiesel.project.runs import KeptRun

__all__ = ["Predictions", "RowMarks", "RunView", "ThresholdPoint", "places_among", "view_run"]

_BINS = 15
_POINTS = 40


class Predictions(NamedTuple):
    """What a model says of all rows of a split."""

    proba: Any
    """(n_rows, n_classes) or (n_rows, n_labels); None for spans."""
    predicted: Any
    """Class indices (with a threshold, these need not be the most probable classes), whether each
    label is predicted, or spans."""
    source: str
    """The model, in words."""
    threshold: Any = None
    """The least P(second class) to predict it; None if the most probable class is predicted."""


class RowMarks(NamedTuple):
    """What voters, a model and people say of a row, in the names of labels."""

    votes: dict[str, int]
    """How many votes each class or label has, or how many spans."""
    predicted: tuple[tuple[str, str], ...]
    """The predicted labels, each with its probability, and its threshold if that decided."""
    gold: tuple[str, ...] | None
    """The labels that are known; None if they are not."""


@dataclass(frozen=True)
class ThresholdPoint:
    """The result of a decision threshold on the probability of the second class."""

    threshold: float
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, eq=False)
class RunView:
    """A run's predictions for the rows of a split, with the gold labels."""

    labels: LabelSpace
    split: str
    ids: pl.Series
    proba: npt.NDArray[np.float64]
    predicted: npt.NDArray[np.int64]
    gold: npt.NDArray[np.int64]
    """Class indices, -1 where unknown."""
    threshold: float | None = None

    @property
    def has_gold(self) -> bool:
        """Whether at least one label is known."""
        return bool((self.gold != ABSTAIN).any())

    def report(self, n_resamples: int = 200) -> Report:
        """Return the evaluation report for the rows with gold."""
        return evaluate_proba(
            self.proba, self.gold, self.labels, threshold=self.threshold, n_resamples=n_resamples
        )

    def confusion_rows(self, true: int, predicted: int) -> npt.NDArray[np.int64]:
        """Return the rows of class `true` that were predicted as class `predicted`."""
        return np.flatnonzero((self.gold == true) & (self.predicted == predicted))

    def bin_rows(self, number: int) -> npt.NDArray[np.int64]:
        """Return the rows in one confidence bin, from 0 to 14."""
        known = np.flatnonzero(self.gold != ABSTAIN)
        _, _, group = calibration_parts(
            self.gold[known], self.proba[known], self.predicted[known], _BINS
        )
        return known[group == number]

    def threshold_points(self) -> list[ThresholdPoint]:
        """Return the results of other thresholds, for two classes with gold for both."""
        known = np.flatnonzero(self.gold != ABSTAIN)
        if len(self.labels) != 2 or not (self.gold == 1).any():
            return []
        curve = threshold_curve(self.proba[known], self.gold[known])
        chosen = np.unique(np.linspace(0, len(curve.threshold) - 1, _POINTS).astype(int))
        return [ThresholdPoint(*(float(part[place]) for part in curve)) for place in chosen]

    def changed_rows(self, threshold: float) -> npt.NDArray[np.int64]:
        """Return the rows whose prediction another threshold would change."""
        other = (self.proba[:, 1] >= threshold).astype(np.int64)
        return np.flatnonzero(other != self.predicted)

    def wrong_rows(self) -> npt.NDArray[np.int64]:
        """Return the rows with a wrong prediction, most confident first."""
        wrong = np.flatnonzero((self.gold != ABSTAIN) & (self.predicted != self.gold))
        certainty = self.proba[wrong, self.predicted[wrong]]
        return wrong[np.argsort(-certainty, kind="stable")]


def places_among(ids: pl.Series, wanted: pl.Series) -> npt.NDArray[np.int64]:
    """Return the place of each wanted id.

    >>> places_among(pl.Series(["a", "b", "c"]), pl.Series(["c", "a"]))
    array([2, 0])
    """
    place = {item: number for number, item in enumerate(ids.cast(pl.String).to_list())}
    return np.array([place[item] for item in wanted.cast(pl.String).to_list()], dtype=np.int64)


def view_run(run: KeptRun, split: str, labels: LabelSpace) -> RunView:
    """Return the view of a run's predictions for a split."""
    frame = run.predictions().filter(pl.col("split") == split)
    columns = [f"p: {name}" for name in labels]
    if not len(frame) or not set(columns) <= set(frame.columns):
        raise DataError(
            f"The run {run.name} has no predictions on {split} rows for these classes; train again."
        )
    gold = labels.indices(frame["gold"].to_list(), allow_unknown=True)
    # Training rows have no figures, but are predicted with the threshold of the others.
    reports = run.metrics.get("splits", {})
    saved: Any = reports.get(split) or next(iter(reports.values()), {})
    return RunView(
        labels,
        split,
        frame["id"],
        frame.select(columns).to_numpy(),
        labels.indices(frame["prediction"].to_list()),
        gold,
        saved.get("threshold"),
    )
