"""Results of multi-label and span runs, and the steps that these runs share."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from wiesel import end_to_end
from wiesel.analysis.table import Table
from wiesel.catalog import method
from wiesel.compare import score_table
from wiesel.end_to_end import TwoStage
from wiesel.errors import ParameterError, listed
from wiesel.evaluation import Score
from wiesel.label_models import LabelModel
from wiesel.project.settings import Project
from wiesel.project.training import Say
from wiesel.version import __version__

__all__ = [
    "FittedRun",
    "RunResults",
    "built_method",
    "chosen_methods",
    "fit_all",
    "label_model_and_rest",
    "methods_for",
    "timed",
]

DataT = TypeVar("DataT")
ModelT = TypeVar("ModelT")
ReportT = TypeVar("ReportT")


@dataclass(frozen=True)
class FittedRun(Generic[ModelT, ReportT]):
    """One fitted model, with its method, seed and training time."""

    method: str
    seed: int
    model: ModelT
    seconds: float
    reports: Mapping[str, ReportT]
    """Reports by split, for splits with gold."""


@dataclass(frozen=True)
class RunResults(ABC, Generic[DataT, ModelT, ReportT]):
    """The results of a run, for the terminal, the report and metrics.json."""

    data: DataT
    runs: Sequence[FittedRun[ModelT, ReportT]]

    best_by: ClassVar[str]
    """The metric that decides which method is best."""

    @property
    def main(self) -> FittedRun[ModelT, ReportT]:
        """The first method with its first seed: the model that is saved."""
        return self.runs[0]

    @property
    def judged_on(self) -> str | None:
        """The split that the metrics refer to."""
        return next((name for name in ("test", "dev") if name in self.main.reports), None)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The metrics of every method and seed, on the test items if there are any, else on dev."""
        split = self.judged_on
        return [] if split is None else [self._row(run, split) for run in self.runs]

    @property
    def table(self) -> Table | None:
        """One row for each method."""
        return score_table(self.rows) if self.rows else None

    @property
    def best(self) -> str:
        """The best method, on the dev items if there are any.

        Test items serve to evaluate a choice, not to make it.
        """
        split = "dev" if "dev" in self.main.reports else "test"
        scores: dict[str, list[float]] = {}
        for run in self.runs:
            scores.setdefault(run.method, []).append(self._row(run, split)[self.best_by] or 0.0)
        return max(scores, key=lambda name: sum(scores[name]) / len(scores[name]))

    def to_dict(self) -> dict[str, Any]:
        """Return all metrics of the run as plain data."""
        reports: Mapping[str, Any] = self.main.reports
        return {
            "wiesel": __version__,
            "method": self.main.method,
            **self._about_data(),
            "judged_on": self.judged_on,
            "splits": {name: report.to_dict() for name, report in reports.items()},
            "methods": self.rows,
        }

    def _row(self, run: FittedRun[ModelT, ReportT], split: str) -> dict[str, Any]:
        figures = self._figures(run.reports[split])
        known = {n: None if np.isnan(value) else float(value) for n, value in figures.items()}
        for name, score in figures.items():
            if isinstance(score, Score):
                known |= {f"{name}_low": score.low, f"{name}_high": score.high}
        return {"method": run.method, "seed": run.seed, "seconds": run.seconds, **known}

    @abstractmethod
    def _figures(self, report: ReportT) -> Mapping[str, float]:
        """Return the metrics of a report by name; NaN is unknown, and a `Score` has limits."""

    @abstractmethod
    def _about_data(self) -> dict[str, Any]:
        """Return the project, its labels, and the sizes of splits and votes."""


def methods_for(task: str) -> list[str]:
    """Return the names of the end-to-end methods that can do a kind of task."""
    methods: Mapping[str, Any] = end_to_end.REGISTRY
    return [name for name, each in methods.items() if task in each.cls.tasks]


def chosen_methods(
    project: Project, requested: Sequence[str] | None, able: Collection[str], task: str
) -> list[str]:
    """Return the methods to train, the main one first: methods that are `able`, or label models."""
    names = list(dict.fromkeys(requested or project.methods))
    others = [n for n in names if n not in able and not issubclass(method(n).cls, LabelModel)]
    if others:
        raise ParameterError(
            f"{listed(others)} cannot learn {task}: use {', '.join(able)}, or a label model such "
            "as majority_vote."
        )
    return names


def built_method(name: str, network: Any, options: Mapping[str, Any]) -> Any:
    """Return an unfitted method by its name; a label model is the first of two stages."""
    if name in end_to_end.REGISTRY:
        return method(name).cls(network, **options)
    label_model, rest = label_model_and_rest(method(name).cls, options, TwoStage.option_names())
    return TwoStage(label_model, network, **rest)


def label_model_and_rest(
    cls: Any, options: Mapping[str, Any], training: Collection[str]
) -> tuple[Any, dict[str, Any]]:
    """Return a label model built with its options, and the remaining options for training."""
    own = {key for key in cls.option_names() if key not in training}
    label_model = cls(**{key: value for key, value in options.items() if key in own})
    return label_model, {key: value for key, value in options.items() if key not in own}


def fit_all(
    methods: Sequence[str],
    seeds: Sequence[int],
    fit: Callable[[str, int], FittedRun[ModelT, ReportT]],
    say: Say,
) -> list[FittedRun[ModelT, ReportT]]:
    """Return the result of `fit` for every method and seed."""
    runs = []
    for name in methods:
        for seed in seeds:
            runs.append(fit(name, seed))
            say("train", f"{name}, seed {seed}: {runs[-1].seconds:.1f} s")
    return runs


def timed(model: Any, *data: Any, **gold: Any) -> float:
    """Fit a model and return the seconds it took; an interruption ends the run."""
    start = time.perf_counter()
    model.fit(*data, **gold)
    if model.history_.interrupted:
        raise KeyboardInterrupt
    return time.perf_counter() - start
