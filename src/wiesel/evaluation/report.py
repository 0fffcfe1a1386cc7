"""What an evaluation found: every figure with its interval, printable and as plain data."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wiesel.evaluation.metrics import FIGURES, CalibrationBins
from wiesel.evaluation.rendering import report_html, report_text
from wiesel.labels import LabelSpace

__all__ = ["ClassScores", "Report", "Score"]


class Score(float):
    """A number with the interval it lies in; behaves as the number.

    >>> score = Score(0.875, 0.8612, 0.8901)
    >>> score > 0.87, score.high, score
    (True, 0.8901, Score(0.8750, 0.8612 to 0.8901))
    """

    __slots__ = ("high", "low")
    low: float
    high: float

    def __new__(cls, value: float, low: float = math.nan, high: float = math.nan) -> "Score":
        """Make a score; the limits are NaN where there is no interval."""
        score = super().__new__(cls, value)
        score.low, score.high = low, high
        return score

    def __repr__(self) -> str:
        return f"Score({float(self):.4f}, {self.low:.4f} to {self.high:.4f})"

    def __getnewargs__(self) -> tuple[float, float, float]:  # type: ignore[override]
        return float(self), self.low, self.high


@dataclass(frozen=True)
class ClassScores:
    """How one class fares; NaN where there is nothing to divide by."""

    name: str
    precision: float
    recall: float
    f1: float
    n_gold: int
    """How many items are of this class."""
    n_predicted: int
    """How many items were predicted to be."""


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """The outcome of `evaluate`; print it, show it in a notebook, or take `to_dict()`.

    >>> from wiesel.evaluation import evaluate_proba
    >>> proba = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.1, 0.9]])
    >>> report = evaluate_proba(proba, ["ham", "spam", "spam", "spam"], ["ham", "spam"])
    >>> float(report.accuracy), round(report.f1, 2), report.confusion.tolist()
    (0.75, 0.8, [[1, 0], [1, 2]])
    """

    labels: LabelSpace
    n_items: int
    """How many items with a gold label were evaluated."""
    n_unknown: int
    """How many were left out, because their gold label is not known."""
    threshold: float | None
    """The least P(second class) for predicting it; None where the most probable class wins."""
    accuracy: Score
    f1: Score
    """Binary tasks: F1 of the second class. Multi-class tasks: the mean over classes."""
    macro_f1: Score
    """The mean F1 over classes."""
    auc: Score
    """Area under the ROC curve; of more than two classes, the mean of each against the rest."""
    average_precision: Score
    log_loss: Score
    brier: Score
    calibration_error: Score
    """Expected calibration error over 15 groups of confidence."""
    per_class: tuple[ClassScores, ...]
    confusion: npt.NDArray[np.int64]
    """(true class, predicted class) counts."""
    calibration: CalibrationBins
    """Confidence against accuracy, for a calibration plot."""
    covered: "Report | None" = None
    """The same on items with a vote, where votes were given and there are such items."""
    uncovered: "Report | None" = None
    """The same on items without one."""

    def scores(self) -> Iterator[tuple[str, Score]]:
        """Yield the name and value of every figure that has an interval."""
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
    """Return the number as JSON has it: None for NaN.

    >>> known(float("nan")), known(0.5)
    (None, 0.5)
    """
    return None if math.isnan(value) else float(value)
