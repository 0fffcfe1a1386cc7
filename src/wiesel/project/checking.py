"""Checks a project's methods, options, end model and files first; reports all mistakes at once."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from wiesel import end_to_end
from wiesel.catalog import method
from wiesel.compare import build_method
from wiesel.errors import ParameterError, WieselError, suggest
from wiesel.io import FilePath, existing_file, matching_files
from wiesel.io.files import read_text
from wiesel.labels import LabelSpace, class_prior
from wiesel.nn.names import check_end_model
from wiesel.project.kinds import kind_of
from wiesel.project.lines import Problems
from wiesel.project.settings import Project, option_tables
from wiesel.project.training import end_model_name, model_options
from wiesel.project.vectors import KINDS, make_features
from wiesel.tasks import OneLabelTask
from wiesel.training.objective import resolve_device

__all__ = ["check_project"]

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
