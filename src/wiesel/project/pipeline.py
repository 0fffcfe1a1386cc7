"""The stages of `wiesel run`: read, vote, understand, vectorize, train, evaluate, report.

Every stage caches its output under the fingerprint of its inputs. A second run repeats only what
changed, and an interrupted run loses no finished work.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wiesel.io import write_votes
from wiesel.lfs import prompt_records
from wiesel.project.bundle import data_facts, save_bundle
from wiesel.project.checking import check_project
from wiesel.project.distilled import write_judge_errors
from wiesel.project.judging import Outcome, judge
from wiesel.project.monitoring import run_reference
from wiesel.project.outputs import (
    item_weights,
    one_at_a_time,
    write_predictions,
    write_soft_labels,
)
from wiesel.project.preparing import prepare
from wiesel.project.reporting import report_data
from wiesel.project.settings import Project
from wiesel.project.training import (
    Say,
    Trained,
    Watch,
    end_model_name,
    train_models,
    train_on_labels,
    train_without_labels,
)
from wiesel.report import write_report
from wiesel.saving import write_json
from wiesel.version import __version__

__all__ = ["metrics_of", "run_methods", "run_project", "write_results"]


def run_project(
    project: Project,
    methods: Sequence[str] | None = None,
    say: Say | None = None,
    watch: Watch | None = None,
) -> Outcome:
    """Run all stages and write the results into the project's output folder.

    `methods` replaces those of the project file; the first is the main one. `say(stage, text)`
    is called for every step, `watch(method, seed, record)` after every epoch of training.
    """
    tell = say or _silent
    names = check_project(project, methods)
    outcome = run_methods(project, names, project.method.seeds, tell, watch)
    with one_at_a_time(project.output_folder):
        folder = project.output_folder
        write_results(outcome, folder)
        write_report(report_data(outcome), folder / "report.html")
        tell("report", str(folder / "report.html"))
    if reused := _reused(outcome):
        tell("reused", reused)
    return outcome


def run_methods(
    project: Project,
    methods: Sequence[str],
    seeds: Sequence[int],
    say: Say,
    watch: Watch | None = None,
) -> Outcome:
    """Train and evaluate methods that passed `check_project`; only the caches are written."""
    prepared = prepare(project, say, methods)
    cache = project.output_folder / ".cache"
    trained = train_models(prepared.data, methods, seeds, cache, say, watch)
    stopped = trained[-1].model.history_.interrupted
    references: list[Trained | None] = []
    if not stopped and any(split in prepared.data.splits for split in ("dev", "test")):
        rest = (seeds[0], cache, say, watch is not None)
        references = [
            train_on_labels(prepared.data, *rest),
            train_without_labels(prepared.data, methods[0], *rest),
        ]
    return judge(prepared, trained, *references)


def write_results(outcome: Outcome, folder: Path) -> None:
    """Write votes, predictions, soft labels, metrics and the model of a run into a folder."""
    data, main = outcome.prepared.data, outcome.main
    lfs, rows = outcome.prepared.lfs, data.splits["train"].rows
    sources = prompt_records(lfs, rows) if lfs else {}
    write_votes(outcome.prepared.votes.train, folder / "votes.parquet", sources=sources)
    write_predictions(data, main.model, outcome.proba, folder / "predictions.parquet")
    if outcome.soft_labels is None:
        # A file left by another method would be taken for this one's.
        (folder / "soft_labels.parquet").unlink(missing_ok=True)
    else:
        weights = item_weights(main.model, data)
        if weights is None:  # the method has one weight per voter, or none
            weights = np.broadcast_to(outcome.weights, (data.votes.n_items, data.votes.n_voters))
        write_soft_labels(data, outcome.soft_labels, weights, folder / "soft_labels.parquet")
    write_judge_errors(outcome.distilled, folder)
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
        "data": data_facts(data.project, data.splits),
        "metrics": metrics["splits"],
    }
    column = data.project.features.column
    reference = run_reference(main.model, data, outcome.prepared.votes.by_split)
    save_bundle(main.model, data.vectors, column, folder / "model", about, reference)


def metrics_of(outcome: Outcome) -> dict[str, Any]:
    """Return all metrics of a run as plain data."""
    data, votes = outcome.prepared.data, outcome.prepared.votes.train
    main = outcome.reports.get(outcome.main.method, {})
    judges = {"judges": outcome.distilled.to_dict()} if outcome.distilled else {}
    return {
        **judges,
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
        "references": [_known(row) for row in outcome.reference_rows],
        "verdict": outcome.verdict or None,
        "labels": 0 if data.gold is None else len(data.gold),
        "judged_on": outcome.judged_on,
        "against_majority_vote": outcome.paired.to_dict() if outcome.paired else None,
        "reused": {
            "votes": outcome.prepared.votes.known,
            "features": data.vectors.reused,
            "models": sum(run.reused for run in outcome.trained),
        },
    }


def _reused(outcome: Outcome) -> str:
    """Return what was reused from an earlier run, and which models had to be trained again."""
    votes, trained = outcome.prepared.votes, outcome.trained
    known = [run for run in trained if run.reused]
    parts = ["the features"] if outcome.prepared.data.vectors.reused else []
    parts += [f"{len(known)} of {len(trained)} models"] if known else []
    # Cached votes alone prove nothing: they may come from another split of the same run.
    if not parts:
        return ""
    if votes.known:
        parts.insert(0, f"{votes.known:,} of {votes.total:,} parts of the votes")
    retrained = dict.fromkeys(run.method for run in trained if not run.reused)
    return ", ".join(parts) + (f"; trained: {', '.join(retrained)}" if retrained else "")


def _known(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: None if isinstance(value, float) and np.isnan(value) else value
        for key, value in row.items()
    }


def _silent(stage: str, text: str) -> None:
    """Ignore a message."""
