"""The stages of `wiesel run`, and the checks before them.

Every stage caches its output under the fingerprint of its inputs. A second run repeats only what
changed, and an interrupted run loses no finished work.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from wiesel import end_to_end
from wiesel.catalog import method
from wiesel.compare import build_method
from wiesel.errors import DataError, ParameterError, WieselError, suggest
from wiesel.io import FilePath, existing_file, matching_files
from wiesel.io.files import read_text
from wiesel.labels import LabelSpace, class_prior
from wiesel.lfs.fingerprints import digest
from wiesel.nn.names import check_end_model
from wiesel.project.bundle import save_bundle
from wiesel.project.judging import Outcome, Prepared, judge
from wiesel.project.kinds import kind_of
from wiesel.project.outputs import one_at_a_time, remove_leftovers
from wiesel.project.settings import Problems, Project, option_tables
from wiesel.project.training import (
    Say,
    Trained,
    TrainingSet,
    Watch,
    end_model_name,
    model_options,
    train_models,
    train_on_labels,
    train_without_labels,
)
from wiesel.project.vectors import KINDS, make_features
from wiesel.project.voting import cast_votes, load_project_lfs
from wiesel.report import whole_page
from wiesel.saving import write_json
from wiesel.tasks import OneLabelTask
from wiesel.training.objective import resolve_device
from wiesel.unfinished import write_file

__all__ = [
    "check_project",
    "prepare",
    "run_methods",
    "run_project",
    "write_results",
]

_UNKNOWN_CLASSES = ("first", "second")
"""Placeholders for the classes if the project file does not name them."""


def check_project(project: Project, requested: Sequence[str] | None = None) -> list[str]:
    """Return the methods to train, the main one first, or raise an error that lists every mistake.

    Only file names are looked up, so a slip in the last line of a project file is found before the
    first labeling function runs. `requested` contains the methods given on the command line.
    """
    kind = kind_of(project)
    for name in requested or ():
        _check_able(kind.task, name)  # no mistake of the project file: reported without a line
    kind.check(project)
    check = _Check(project, Problems(project.file, read_text(project.file)))
    names = list(dict.fromkeys(requested or (project.method.name, *project.method.baselines)))
    _check_files(check)
    end_model = _check_end_model(check)
    _check_features(check)
    _check_methods(check, names, end_model)
    check.problems.raise_if_any()
    return names


class _Check:
    """Runs the checks one by one and collects the problems they find."""

    def __init__(self, project: Project, problems: Problems) -> None:
        self.project, self.problems = project, problems

    def __call__(self, key: str, make: Callable[[], Any], *tables: str, value: str = "") -> Any:
        """Return the result of `make`, or record the problem and return None."""
        try:
            return make()
        except WieselError as error:
            self.problems.add_error(error, key, tables, value)
            return None


def _check_files(check: _Check) -> None:
    project = check.project
    tables = {f"data.{name}": getattr(project.data, name) for name in ("train", "dev", "test")}
    tables["votes.answers"] = project.votes.answers
    for key, name in tables.items():
        if name is not None:
            _check_file(check, key, name, kind_of(project).check_file)
    if project.votes.file is not None and not project.path(project.votes.file).is_dir():
        _check_file(check, "votes.file", project.votes.file, matching_files)
    if project.data.module:
        _check_file(check, "data.module", project.data.module, existing_file)
    for name in project.votes.lfs:
        _check_file(check, "votes.lfs", name, existing_file)


def _check_file(check: _Check, key: str, name: str, look: Callable[[FilePath], Any]) -> None:
    path = check.project.path(name)
    check(key, lambda: look(path), value=name)


def _check_end_model(check: _Check) -> Any:
    settings = check.project.end_model
    name = end_model_name(check.project)
    return check("end_model.name", lambda: check_end_model(name, settings.options), "end_model")


def _check_features(check: _Check) -> None:
    """Check the kind of features and its options, unless the kind is inferred from the data."""
    project, kind = check.project, check.project.features.kind
    if kind is None:
        return
    if kind not in KINDS:
        problem = f"There are no features of kind {kind!r}. {suggest(kind, KINDS)}"
        check.problems.add("features.kind", problem)
        return
    features = check("features.kind", lambda: make_features(project, kind), "features")
    if features is not None:
        check("features.kind", features.check_options, "features")


def _check_methods(check: _Check, names: Sequence[str], end_model: Any) -> None:
    project = check.project
    for name in dict.fromkeys((*names, *project.options)):
        key = "method.baselines" if name in project.method.baselines else "method.name"
        key = key if name in names else f"options.{name}"
        build = partial(_check_method, project, name, end_model)
        check(key, build, *option_tables(name), value=name)
    check("training.engine", lambda: project.training_engine, "training")


def _check_able(task: str, name: str) -> None:
    """Refuse a method that cannot do a kind of task."""
    cls: Any = method(name).cls
    if task in cls.tasks:
        return
    able = [name for name, each in end_to_end.REGISTRY.items() if task in each.cls.tasks]  # type: ignore[attr-defined]
    raise ParameterError(
        f"{name!r} cannot learn {task}: use {', '.join(able)}, or a label model such as "
        "majority_vote."
    )


def _check_method(project: Project, name: str, end_model: Any) -> None:
    task = kind_of(project).task
    _check_able(task, name)
    classes = project.classes if len(set(project.classes)) > 1 else _UNKNOWN_CLASSES
    labels = LabelSpace(*dict.fromkeys(classes))
    model: Any = build_method(name, end_model, labels, model_options(project, name, seed=0))
    model.check_options()
    resolve_device(model.device)
    balance = getattr(model, "class_balance", None)
    is_estimate = isinstance(balance, str) and not any(map(str.isdigit, balance))
    if project.classes and not is_estimate and task == OneLabelTask.kind:
        class_prior(labels, balance)


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
        "project": data.project.file.name,
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
