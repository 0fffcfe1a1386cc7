"""The result of an evaluation: every metric with its interval, printable and as plain data."""

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
