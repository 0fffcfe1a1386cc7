"""wiesel run: read, vote, understand, vectorize, train, evaluate, report.

Every stage keeps what it made under the fingerprint of what it was made from, so a second run
does again only what changed, and an interruption loses nothing that was finished.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wiesel.analysis.table import Table
from wiesel.evaluation import Comparison, Report, compare_paired_proba, evaluate_proba
from wiesel.explain import Explanation
from wiesel.io import write_votes
from wiesel.project.bundle import save_bundle
from wiesel.project.labels import with_labeled_dev
from wiesel.project.leftovers import remove_leftovers
from wiesel.project.outputs import (
    item_weights,
    soft_labels_of,
    voter_weights,
    write_json,
    write_predictions,
    write_soft_labels,
)
from wiesel.project.reporting import report_data
from wiesel.project.rows import project_classes, read_splits
from wiesel.project.settings import Project
from wiesel.project.tables import comparison_table
from wiesel.project.training import (
    Say,
    Trained,
    TrainingSet,
    Watch,
    chosen_methods,
    end_model_name,
    taken,
    train_models,
)
from wiesel.project.vectors import make_vectors
from wiesel.project.voting import Votes, cast_votes, project_lfs
from wiesel.report import write_report
from wiesel.version import __version__

__all__ = ["Outcome", "Prepared", "judge", "prepare", "run_project"]

RESAMPLES = 1000


@dataclass(frozen=True)
class Prepared:
    """Everything up to training."""

    data: TrainingSet
    votes: Votes
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    """The fingerprint of every labeling function."""


@dataclass(frozen=True)
class Outcome:
    """What a run found, for the terminal, the report and metrics.json."""

    prepared: Prepared
    trained: Sequence[Trained]
    reports: Mapping[str, Mapping[str, Report]]
    """Reports by method (first seed) and split."""
    rows: Sequence[Mapping[str, Any]]
    """The figures of every method and seed, on the test rows if there are any, else on dev."""
    proba: Mapping[str, Any]
    """What the main model predicts for every split."""
    soft_labels: Any
    weights: Any
    """The weight of every voter (learned), or NaN."""
    paired: Comparison | None
    """The main model against the majority vote, on the same items."""

    @property
    def main(self) -> Trained:
        """The first method with its first seed: the model that is saved."""
        return self.trained[0]

    @property
    def judged_on(self) -> str | None:
        """The split that figures are of."""
        judged = next(iter(self.reports.values()))
        return next((name for name in ("test", "dev") if name in judged), None)

    def explanations(self, n_items: int) -> list[Explanation]:
        """Return why the first training items with a vote got their label, if the method can."""
        data, model = self.prepared.data, self.main.model
        if not hasattr(model, "explain"):
            return []
        rows = np.flatnonzero(data.votes.covered)[:n_items]
        return [model.explain(taken(data.vectors.train, row), data.votes[int(row)]) for row in rows]

    @property
    def first_voted(self) -> str:
        """The id of the first training item with a vote."""
        votes = self.prepared.data.votes
        return str(votes.ids[int(np.argmax(votes.covered))])

    @property
    def table(self) -> Table | None:
        """One row for each method."""
        if self.judged_on is None:
            return None
        reports = {name: found[self.judged_on] for name, found in self.reports.items()}
        return comparison_table(self.rows, reports, self.judged_on)


def run_project(
    project: Project,
    methods: Sequence[str] | None = None,
    say: Say | None = None,
    watch: Watch | None = None,
) -> Outcome:
    """Run all stages and write the results into the project's output folder.

    `methods` replaces those of the project file: the first is the main one. `say(stage, text)`
    is told what happens, `watch(method, seed, record)` every epoch of training.
    """
    tell = say or _silent
    prepared = prepare(project, tell)
    names = chosen_methods(project, methods, prepared.data.splits)
    cache = project.output_folder / ".cache"
    trained = train_models(prepared.data, names, project.method.seeds, cache, tell, watch)
    outcome = judge(prepared, trained)
    _write(outcome, tell)
    if reused := _reused(outcome):
        tell("reused", reused)
    return outcome


def prepare(project: Project, say: Say) -> Prepared:
    """Run the stages before training: rows, votes, and what the end model reads."""
    cache = project.output_folder / ".cache"
    lfs = project_lfs(project)
    named = None if lfs is None else lfs.labels
    if project.classes:
        project_classes(project, named)
    labels, splits = read_splits(project, named)
    splits = with_labeled_dev(project, splits, labels)
    sizes = ", ".join(f"{len(split):,} {name}" for name, split in splits.items())
    say("read", f"{sizes} items, classes {', '.join(labels)}")
    cache.mkdir(parents=True, exist_ok=True)
    if removed := remove_leftovers(project.output_folder):
        say("cleaned", f"{len(removed)} half-written files of runs that were killed")
    start = time.perf_counter()
    votes = cast_votes(project, lfs, splits, labels, cache)
    known = f", {votes.known} of {votes.total} parts reused" if votes.total else ""
    took = f"{time.perf_counter() - start:.1f} s"
    say("votes", f"{_described(votes)}{known} ({took})")
    start = time.perf_counter()
    vectors = make_vectors(project, splits, cache)
    how = "reused" if vectors.reused else f"{time.perf_counter() - start:.1f} s"
    say("features", f"{vectors.kind}, {vectors.shape} ({how})")
    fingerprints = {} if lfs is None else {lf.name: lf.fingerprint for lf in lfs}
    data = TrainingSet(project, labels, splits, vectors, votes.train, votes.by_split.get("dev"))
    return Prepared(data, votes, fingerprints)


def judge(prepared: Prepared, trained: Sequence[Trained]) -> Outcome:
    """Evaluate every model on the rows with gold labels."""
    data = prepared.data
    judged = [name for name in ("dev", "test") if name in data.splits]
    reports: dict[str, dict[str, Report]] = {}
    rows: list[dict[str, Any]] = []
    by_method: dict[str, Any] = {}
    for run in trained:
        proba = {name: run.model.predict_proba(data.vectors.by_split[name]) for name in judged}
        first = run.method not in reports
        found = {name: _report(prepared, run, name, proba[name], first) for name in judged}
        if first:
            reports[run.method], by_method[run.method] = found, (run, proba)
        if judged:
            figures = {name: float(score) for name, score in found[judged[-1]].scores()}
            about = {"method": run.method, "seed": run.seed, "seconds": run.seconds}
            rows.append({**about, **figures})
    main = trained[0]
    everything = {"train": main.model.predict_proba(data.vectors.train)}
    weights = item_weights(main.model, data)
    return Outcome(
        prepared=prepared,
        trained=trained,
        reports=reports,
        rows=rows,
        proba=everything | by_method[main.method][1],
        soft_labels=soft_labels_of(main.model, data),
        weights=voter_weights(main.model, data, weights),
        paired=_paired(prepared, main.method, by_method, judged),
    )


def _report(
    prepared: Prepared, run: Trained, split: str, proba: Any, with_intervals: bool
) -> Report:
    votes = prepared.votes.by_split.get(split)
    return evaluate_proba(
        proba,
        prepared.data.splits[split].gold,
        prepared.data.labels,
        threshold=run.model.threshold_,
        covered=None if votes is None else votes.covered,
        n_resamples=RESAMPLES if with_intervals else 0,
    )


def _paired(
    prepared: Prepared, main: str, by_method: Mapping[str, Any], judged: Sequence[str]
) -> Comparison | None:
    """The main method against the majority vote, where both were trained and there is gold."""
    if not judged or main == "majority_vote" or "majority_vote" not in by_method:
        return None
    pair = [by_method[name] for name in (main, "majority_vote")]
    return compare_paired_proba(
        pair[0][1][judged[-1]],
        pair[1][1][judged[-1]],
        prepared.data.splits[judged[-1]].gold,
        prepared.data.labels,
        thresholds=(pair[0][0].model.threshold_, pair[1][0].model.threshold_),
    )


def _write(outcome: Outcome, say: Say) -> None:
    data, main = outcome.prepared.data, outcome.main
    folder = data.project.output_folder
    write_votes(outcome.prepared.votes.train, folder / "votes.parquet")
    write_predictions(data, main.model, outcome.proba, folder / "predictions.parquet")
    if outcome.soft_labels is None:
        # What another method left there would pass for this one's.
        (folder / "soft_labels.parquet").unlink(missing_ok=True)
    else:
        weights = item_weights(main.model, data)
        if weights is None:  # the method trusts a voter equally on all items, or does not say
            weights = np.broadcast_to(outcome.weights, (data.votes.n_items, data.votes.n_voters))
        write_soft_labels(data, outcome.soft_labels, weights, folder / "soft_labels.parquet")
    metrics = metrics_of(outcome)
    write_json(metrics, folder / "metrics.json")
    about = {
        "project": str(data.project.file.resolve()),
        "method": main.method,
        "end_model": {
            "name": end_model_name(data.project),
            "options": dict(data.project.end_model.options),
        },
        "lfs": dict(outcome.prepared.fingerprints),
        "metrics": metrics["splits"],
    }
    column = data.project.features.column
    save_bundle(main.model, data.vectors, column, folder / "model", about)
    write_report(report_data(outcome), folder / "report.html")
    say("report", str(folder / "report.html"))


def metrics_of(outcome: Outcome) -> dict[str, Any]:
    """Return every figure of a run as plain data."""
    data, votes = outcome.prepared.data, outcome.prepared.votes.train
    main = outcome.reports.get(outcome.main.method, {})
    return {
        "wiesel": __version__,
        "project": data.project.name,
        "method": outcome.main.method,
        "seeds": list(data.project.method.seeds),
        "classes": list(data.labels),
        "items": {name: len(split) for name, split in data.splits.items()},
        "votes": {
            "voters": votes.n_voters,
            "votes": votes.n_votes,
            "covered": float(votes.covered.mean()),
        },
        "splits": {name: report.to_dict() for name, report in main.items()},
        "methods": [_known(row) for row in outcome.rows],
        "against_majority_vote": outcome.paired.to_dict() if outcome.paired else None,
        "reused": {
            "votes": outcome.prepared.votes.known,
            "features": data.vectors.reused,
            "models": sum(run.reused for run in outcome.trained),
        },
    }


def _reused(outcome: Outcome) -> str:
    """What was there from an earlier run, and which models had to be trained again."""
    votes, trained = outcome.prepared.votes, outcome.trained
    known = [run for run in trained if run.reused]
    parts = ["the features"] if outcome.prepared.data.vectors.reused else []
    parts += [f"{len(known)} of {len(trained)} models"] if known else []
    # Votes alone may be known from another split of the same run.
    if not parts:
        return ""
    if votes.known:
        parts.insert(0, f"{votes.known:,} of {votes.total:,} parts of the votes")
    anew = dict.fromkeys(run.method for run in trained if not run.reused)
    return ", ".join(parts) + (f"; trained: {', '.join(anew)}" if anew else "")


def _known(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: None if isinstance(value, float) and np.isnan(value) else value
        for key, value in row.items()
    }


def _described(votes: Votes) -> str:
    train = votes.train
    return f"{train.n_voters:,} voters, {100 * train.covered.mean():.1f} % of train covered"


def _silent(stage: str, text: str) -> None:
    """Say nothing."""
