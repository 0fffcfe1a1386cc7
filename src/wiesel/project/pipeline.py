"""The stages of `wiesel run`: read, vote, understand, vectorize, train, evaluate, report.

Every stage caches its output under the fingerprint of its inputs. A second run repeats only what
changed, and an interrupted run loses no finished work.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from wiesel.errors import DataError
from wiesel.lfs.fingerprints import digest
from wiesel.project.bundle import save_bundle
from wiesel.project.checking import check_project
from wiesel.project.judging import Outcome, Prepared, judge
from wiesel.project.kinds import kind_of
from wiesel.project.outputs import one_at_a_time, remove_leftovers
from wiesel.project.settings import Project
from wiesel.project.training import (
    Say,
    Trained,
    TrainingSet,
    Watch,
    end_model_name,
    train_models,
    train_on_labels,
    train_without_labels,
)
from wiesel.project.voting import cast_votes, load_project_lfs
from wiesel.report import whole_page
from wiesel.saving import write_file, write_json

__all__ = ["prepare", "run_methods", "run_project", "write_results"]


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
    folder = project.output_folder
    with one_at_a_time(folder):
        write_results(outcome, folder)
        page = whole_page(project.name, outcome.kind.sections(outcome), outcome.headline)
        write_file(folder / "report.html", page.encode())
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
    if not stopped and any(split in prepared.data.truth for split in ("dev", "test")):
        rest = (seeds[0], cache, say, watch is not None)
        references = [
            train_on_labels(prepared.data, *rest),
            train_without_labels(prepared.data, methods[0], *rest),
        ]
    return judge(prepared, trained, *references)


def prepare(project: Project, say: Say, methods: Sequence[str] = ()) -> Prepared:
    """Run the stages before training: rows, votes and end-model inputs.

    Rows that the `methods` or the features cannot use are rejected before any slow step.
    """
    kind, cache = kind_of(project), project.output_folder / ".cache"
    rows = kind.read(project, load_project_lfs(project))
    rows = kind.with_labels_of_people(project, rows)
    if "supervised" in methods and "train" not in rows.truth:
        raise DataError(
            "'supervised' learns from gold labels, and the training rows have none: leave it out."
        )
    kind.check_inputs(project, rows)
    sizes = ", ".join(f"{len(split):,} {name}" for name, split in rows.splits.items())
    say("read", f"{sizes} {kind.items}, {kind.classes} {', '.join(rows.labels.names)}")
    cache.mkdir(parents=True, exist_ok=True)
    if removed := remove_leftovers(project.output_folder):
        say("cleaned", f"{len(removed)} half-written files of runs that were killed")
    start = time.perf_counter()
    votes = cast_votes(project, rows, cache)
    own = {"train": kind.votes_of_people(rows, votes.train)}
    votes = replace(votes, by_split={**votes.by_split, **own})
    known = f", {votes.known} of {votes.total} parts reused" if votes.total else ""
    slowest = f", {votes.slowest}" if votes.slowest else ""
    took = f"{time.perf_counter() - start:.1f} s{slowest}"
    say("votes", f"{kind.described_votes(votes.train)}{known} ({took})")
    if warning := kind.warning(votes.train):
        say("warning", warning)
    start = time.perf_counter()
    vectors = kind.vectors(project, rows, votes.train, cache)
    if vectors.features is not None:
        how = "reused" if vectors.reused else f"{time.perf_counter() - start:.1f} s"
        say("features", f"{vectors.description} ({how})")
    gold = rows.train_gold
    if n_gold := 0 if gold is None else int(kind.known(gold.y).sum()):
        say("labels", f"{n_gold:,} of the training rows have one, which the models learn")
    data = TrainingSet(project, rows.labels, rows.splits, rows.truth, vectors, votes.by_split, gold)
    return Prepared(data, votes, rows)


def write_results(outcome: Outcome, folder: Path) -> None:
    """Write votes, predictions, soft labels, metrics and the model of a run into a folder."""
    data, main, kind = outcome.data, outcome.main, outcome.kind
    kind.write(outcome, folder)
    metrics = outcome.to_dict()
    write_json(metrics, folder / "metrics.json")
    about = {
        "project": str(data.project.file.resolve()),
        "method": main.method,
        "end_model": {
            "name": end_model_name(data.project),
            "options": dict(data.project.end_model.options),
        },
        "lfs": {lf.name: _fingerprint(lf) for lf in outcome.prepared.lfs},
        "data": kind.data_facts(data),
        "metrics": metrics["splits"],
    }
    column = data.project.features.column
    save_bundle(main.model, data.vectors, column, folder / "model", about, kind.reference(outcome))


def _fingerprint(lf: Any) -> str:
    return getattr(lf, "fingerprint", "") or digest(lf)


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


def _silent(stage: str, text: str) -> None:
    """Ignore a message."""
