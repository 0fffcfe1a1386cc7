"""The runs of a project: those that were kept, compared, and shown."""

import io
import itertools
import json
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import DataError, listed
from wiesel.evaluation import Report, evaluate_proba
from wiesel.evaluation.comparison import LABELS_ALONE, without_labels
from wiesel.evaluation.metrics import calibration_parts, threshold_curve
from wiesel.io import read_rows
from wiesel.labels import ABSTAIN, LabelSpace
from wiesel.project.settings import Project
from wiesel.saving import write_json

if TYPE_CHECKING:
    from wiesel.project.judging import Outcome

__all__ = [
    "KeptRun",
    "Predictions",
    "RowMarks",
    "RunView",
    "ThresholdPoint",
    "claim_run",
    "compare_runs",
    "effort_curves",
    "keep_run",
    "kept_runs",
    "places_among",
    "read_run",
    "run_folder",
    "view_run",
]

_ABOUT = "run.json"
_NAMED = 3
_KINDS: dict[str, type | tuple[type, ...]] = {
    "time": (int, float),
    "seconds": (int, float),
    "methods": list,
    "voters": list,
    "weights": list,
    "rows": list,
    "histories": dict,
}
_BINS = 15
_POINTS = 40


@dataclass(frozen=True)
class KeptRun:
    """One kept run of a project."""

    name: str
    folder: Path
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def metrics(self) -> dict[str, Any]:
        """All metrics of the run."""
        found: dict[str, Any] = json.loads((self.folder / "metrics.json").read_bytes())
        return found

    @property
    def histories(self) -> dict[str, list[dict[str, Any]]]:
        """The epoch records of every method."""
        found: dict[str, list[dict[str, Any]]] = dict(self.about.get("histories", {}))
        return found

    @property
    def title(self) -> str:
        """The name that a person gave the run; empty without one."""
        request = self.about.get("request")
        return str(request.get("title") or "") if isinstance(request, dict) else ""

    def changes(self, before: "KeptRun") -> list[str]:
        """Return what is different from an earlier run: rules, labels, methods and options.

        >>> first = KeptRun("a", Path(), {"voters": ["cash"], "request": {"n_labels": 0}})
        >>> about = {"voters": ["cash", "win"], "request": {"n_labels": 5}}
        >>> KeptRun("b", Path(), about).changes(first)
        ['1 rule added: win', '5 labels more']
        """
        now, was = list(self.about.get("voters", [])), list(before.about.get("voters", []))
        found = []
        for verb, names in (
            ("added", [name for name in now if name not in was]),
            ("removed", [name for name in was if name not in now]),
        ):
            if names:
                s = "" if len(names) == 1 else "s"
                found.append(f"{len(names)} rule{s} {verb}: {', '.join(names[:_NAMED])}")
                found[-1] += " …" if len(names) > _NAMED else ""
        own, other = (_request(run) for run in (self, before))
        more = (own.get("n_labels") or 0) - (other.get("n_labels") or 0)
        if more:
            word = "label" if abs(more) == 1 else "labels"
            found.append(f"{abs(more)} {word} {'more' if more > 0 else 'fewer'}")
        if own.get("methods") and other.get("methods") and own["methods"] != other["methods"]:
            found.append(f"methods {', '.join(own['methods'])}")
        options, others = (each.get("training") or {} for each in (own, other))
        for name in dict.fromkeys([*options, *others]):
            if options.get(name) != others.get(name):
                found.append(f"{name} {options.get(name, 'by default')}")
        if own.get("seeds") != other.get("seeds") and own.get("seeds") and other.get("seeds"):
            found.append(f"seed {', '.join(map(str, own['seeds']))}")
        return found

    def predictions(self) -> pl.DataFrame:
        """Return id, split, prediction, probabilities and gold of every item."""
        return read_rows(self.folder / "predictions.parquet")

    def soft_labels(self) -> pl.DataFrame | None:
        """Return the soft labels; None if the method has none."""
        file = self.folder / "soft_labels.parquet"
        return read_rows(file) if file.is_file() else None

    def model_archive(self) -> bytes:
        """Return the saved model as a zip file."""
        folder = self.folder / "model"
        if not folder.is_dir():
            raise DataError(f"The run {self.name} has no saved model.")
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(folder.rglob("*")):
                if file.is_file():
                    archive.write(file, Path("model") / file.relative_to(folder))
        return content.getvalue()


def effort_curves(
    runs: Sequence[KeptRun], judged_on: str | None
) -> dict[str, list[tuple[int, float]]]:
    """Return the accuracy of votes and labels, and of labels alone, by the number of labels.

    `runs` are those of `kept_runs`, newest first; those judged on another split are left out. Each
    run also tells what its method reaches without labels.
    """
    found: dict[str, dict[int, float]] = {}
    for run in reversed(runs):  # so that of runs with equally many labels the newest counts
        with suppress(OSError, ValueError):
            for title, n_labels, accuracy in _points(run.metrics, judged_on):
                found.setdefault(title, {})[n_labels] = accuracy
    return {title: sorted(own.items()) for title, own in found.items()}


def _points(metrics: Mapping[str, Any], judged_on: str | None) -> Iterator[tuple[str, int, float]]:
    """Yield the points of one run: which curve, the number of labels, and the accuracy."""
    n_labels, methods = metrics.get("labels"), metrics.get("methods")
    if n_labels is None or not methods or metrics.get("judged_on") != judged_on:
        return
    title = "votes and labels"
    yield title, n_labels, methods[0]["accuracy"]
    for row in metrics.get("references", []):
        if row["method"] == without_labels(methods[0]["method"]):
            yield title, 0, row["accuracy"]
        elif row["method"].startswith(LABELS_ALONE):
            yield row["method"], n_labels, row["accuracy"]


def run_folder(project: Project) -> Path:
    """Return the folder of the kept runs."""
    return project.output_folder / "runs"


def claim_run(project: Project) -> Path:
    """Make the folder of a new run and return it; its name is the time, and nobody else's."""
    now, runs = time.strftime("%Y%m%d-%H%M%S"), run_folder(project)
    runs.mkdir(parents=True, exist_ok=True)
    for number in itertools.count(1):
        folder = runs / (now if number == 1 else f"{now}-{number}")
        with suppress(FileExistsError):
            folder.mkdir()
            break
    return folder


def keep_run(outcome: "Outcome", name: str, about: Mapping[str, Any] | None = None) -> KeptRun:
    """Keep the results of a run under a name, next to earlier runs."""
    # It loads torch; reading a run does not.
    from wiesel.project.pipeline import write_results

    project = outcome.prepared.data.project
    folder = run_folder(project) / _checked(name)
    folder.mkdir(parents=True, exist_ok=True)
    # Not copied from the output folder: another run may have written there since.
    write_results(outcome, folder)
    noted = {
        "name": name,
        "time": time.time(),
        "methods": [run.method for run in outcome.trained],
        "seconds": sum(run.seconds for run in outcome.trained),
        "interrupted": any(run.model.history_.interrupted for run in outcome.trained),
        "voters": list(outcome.prepared.votes.train.voters),
        "weights": [None if np.isnan(w) else float(w) for w in outcome.weights],
        "rows": outcome.known_rows(outcome.rows),
        "histories": {run.method: _plain(run.model.history_.records) for run in outcome.trained},
        **(about or {}),
    }
    write_json(noted, folder / _ABOUT)
    return KeptRun(name, folder, noted)


def is_kept(folder: Path) -> bool:
    """Return whether the folder of a run is complete."""
    return (folder / _ABOUT).is_file()


def kept_runs(project: Project) -> list[KeptRun]:
    """Return the kept runs, latest first; unfinished and damaged ones are left out."""
    found = []
    for file in run_folder(project).glob(f"*/{_ABOUT}"):
        try:
            about = json.loads(file.read_bytes())
        except (OSError, ValueError, RecursionError):
            continue
        if _is_about(about):
            found.append(KeptRun(file.parent.name, file.parent, about))
    return sorted(found, key=lambda run: run.about.get("time", 0.0), reverse=True)


def read_run(project: Project, name: str) -> KeptRun:
    """Return one run by its name."""
    runs = {run.name: run for run in kept_runs(project)}
    if name not in runs:
        raise DataError(f"There is no run {name!r}. There are: {listed(runs) or 'none yet'}.")
    return runs[name]


def compare_runs(first: KeptRun, second: KeptRun, split: str) -> pl.DataFrame:
    """Return the items of a split that two runs predict differently, with gold if known."""
    left, right = (
        run.predictions().filter(pl.col("split") == split).select("id", "prediction", "gold")
        for run in (first, second)
    )
    both = left.join(right.drop("gold"), on="id", suffix="_2", maintain_order="left")
    apart = both.filter(pl.col("prediction") != pl.col("prediction_2"))
    return apart.select(
        "id",
        pl.col("prediction").alias("first"),
        pl.col("prediction_2").alias("second"),
        "gold",
    )


def _request(run: KeptRun) -> dict[str, Any]:
    found = run.about.get("request")
    return found if isinstance(found, dict) else {}


def _is_about(about: Any) -> bool:
    """Whether this is what `keep_run` notes about a run."""
    return isinstance(about, dict) and all(
        isinstance(about.get(name), kind) for name, kind in _KINDS.items()
    )


def _checked(name: str) -> str:
    if not name or not all(c.isalnum() or c in "-_" for c in name):
        raise DataError(f"A run is named with letters, digits, - and _; got {name!r}.")
    return name


def _plain(records: Any) -> list[dict[str, Any]]:
    """Return the records without values that JSON cannot represent."""
    return [
        {
            key: None if isinstance(value, float) and not np.isfinite(value) else value
            for key, value in record.items()
            if isinstance(value, (int, float, str))
        }
        for record in records
    ]


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
