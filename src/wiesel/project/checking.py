"""Checks a project's methods, options, end model and files first; reports all mistakes at once."""

from collections.abc import Callable, Sequence
from typing import Any

from wiesel.catalog import method
from wiesel.compare import build_method
from wiesel.errors import ParameterError, WieselError, suggest
from wiesel.io import FilePath, existing_file, matching_files
from wiesel.io.files import table_format
from wiesel.labels import LabelSpace
from wiesel.nn.names import check_end_model
from wiesel.project.lines import key_lines, line_of
from wiesel.project.settings import Problems, Project
from wiesel.project.training import end_model_name, model_options
from wiesel.project.vectors import KINDS, make_features

__all__ = ["check_project"]

_UNKNOWN_CLASSES = ("first", "second")
"""Placeholders for the classes if the project file does not name them."""


def check_project(project: Project, requested: Sequence[str] | None = None) -> list[str]:
    """Return the methods to train, the main one first, or raise an error that lists every mistake.

    Only file names are looked up, so a slip in the last line of a project file is found before the
    first labeling function runs. `requested` contains the methods given on the command line.
    """
    for name in requested or ():
        method(name)  # not a mistake of the project file, so reported without a line
    text = project.file.read_text(encoding="utf-8")
    check = _Check(project, text, Problems(project.file, key_lines(text)))
    names = list(dict.fromkeys(requested or (project.method.name, *project.method.baselines)))
    _check_files(check)
    end_model = _check_end_model(check)
    _check_features(check)
    _check_methods(check, names, end_model)
    check.problems.raise_if_any()
    return names


class _Check:
    """Runs the checks one by one and collects the problems they find."""

    def __init__(self, project: Project, text: str, problems: Problems) -> None:
        self.project, self.text, self.problems = project, text, problems

    def __call__(self, key: str, make: Callable[[], Any]) -> Any:
        """Return the result of `make`, or record the problem with its line and return None."""
        try:
            return make()
        except WieselError as error:
            message = str(error)
            line = line_of(message, self.text)
            if message.startswith(f"{self.project.file}, line"):  # the line is already named
                message = message.partition(": ")[2]
            self.problems.add(key, _ended(message), line)
            return None


def _ended(message: str) -> str:
    return message if message.endswith((".", "?", "!")) else f"{message}."


def _check_files(check: _Check) -> None:
    project = check.project
    tables = {f"data.{name}": getattr(project.data, name) for name in ("train", "dev", "test")}
    tables["votes.answers"] = project.votes.answers
    for key, name in tables.items():
        if name is not None:
            _check_file(check, key, name, lambda path: table_format(matching_files(path)[0]))
    if project.votes.file is not None and not project.path(project.votes.file).is_dir():
        _check_file(check, "votes.file", project.votes.file, matching_files)
    if project.data.module:
        _check_file(check, "data.module", project.data.module, existing_file)
    for name in project.votes.lfs:
        _check_file(check, "votes.lfs", name, existing_file)


def _check_file(check: _Check, key: str, name: str, look: Callable[[FilePath], Any]) -> None:
    path = check.project.path(name)
    check(key, lambda: look(path))


def _check_end_model(check: _Check) -> Any:
    settings = check.project.end_model
    name = end_model_name(check.project)
    return check("end_model.name", lambda: check_end_model(name, settings.options))


def _check_features(check: _Check) -> None:
    """Check the kind of features and its options, unless the kind is inferred from the data."""
    project, kind = check.project, check.project.features.kind
    if kind is None:
        return
    if kind not in KINDS:
        problem = f"There are no features of kind {kind!r}. {suggest(kind, KINDS)}"
        check.problems.add("features.kind", problem)
        return
    features = check("features", lambda: make_features(project, kind))
    if hasattr(features, "check_options"):
        check("features", features.check_options)


def _check_methods(check: _Check, names: Sequence[str], end_model: Any) -> None:
    project = check.project
    known = []
    for name in dict.fromkeys((*names, *project.options)):
        key = "method.baselines" if name in project.method.baselines else "method.name"
        key = key if name in names else f"options.{name}"
        found = check(key, lambda name=name: method(name))  # type: ignore[misc]
        known += [] if found is None else [name]
    check("training.engine", lambda: project.training_engine)
    reported: set[str] = set()
    for name in known:
        try:
            _built(project, name, end_model).check_options()
        except ParameterError as error:
            # A slip in [training] affects all methods; report it once.
            line = line_of(str(error), check.text)
            if str(line) not in reported or line is None:
                check.problems.add(f"options.{name}", _ended(str(error)), line)
            reported.add(str(line))


def _built(project: Project, name: str, end_model: Any) -> Any:
    classes = project.classes if len(set(project.classes)) > 1 else _UNKNOWN_CLASSES
    options = model_options(project, name, seed=0)
    return build_method(name, end_model, LabelSpace(*dict.fromkeys(classes)), options)
