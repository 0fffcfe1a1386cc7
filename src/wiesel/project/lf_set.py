"""The labeling functions of a project: an editable set with undo."""

import inspect
import json
import linecache
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from wiesel.errors import LabelingFunctionError, ParameterError, WieselError, suggest
from wiesel.io import Snapshot, SnapshotStore
from wiesel.io.files import content_of, read_text
from wiesel.labels import LabelSpace
from wiesel.lfs import LabelingFunction, PythonFunction
from wiesel.lfs.function import LabelRule, Rule, as_lfs
from wiesel.lfs.loading import load_each_lf
from wiesel.lfs.rules_file import read_off, with_off, with_rule, without_rule
from wiesel.lfs.text_rules import Keywords
from wiesel.multilabel.files import load_each_multilabel_lf
from wiesel.multilabel.functions import MultiLabelFunction, as_multilabel_lfs
from wiesel.project.settings import ONE_LABEL, SEVERAL_LABELS, SPANS, Project, read_project
from wiesel.saving import write_file
from wiesel.spans.functions import PythonSpanFunction
from wiesel.spans.patterns import as_span_functions, load_each_span_lf

__all__ = ["LFEntry", "LFSet"]

WORKBENCH_FOLDER = "workbench"
"""The folder for a project's labels and the history of its labeling functions."""


@dataclass(frozen=True)
class LFEntry:
    """One labeling function of a project, and where it is defined."""

    lf: Any
    """A `LabelingFunction`, `MultiLabelFunction` or `SpanFunction`, as the kind of task needs."""
    file: Path
    place: int | None
    """Its position in the editable rules file; None if it can only be switched on or off."""
    off: bool
    source: str
    """Its definition: the rule, or the Python code."""
    problem: str = ""
    """Why it cannot vote on the rows at all; then it counts as switched off."""
    rule: LabelRule | None = None
    """The rule that it is, or that it is made of; None for Python code and other rules."""
    beside: Mapping[str, Any] = field(default_factory=dict)
    """With several labels: whether it votes against its label, and what its silence means."""

    @property
    def name(self) -> str:
        """The name of the voter."""
        return str(self.lf.name)


@dataclass(frozen=True)
class LFState:
    """All labeling functions of a project, and what is broken."""

    entries: tuple[LFEntry, ...]
    broken: tuple[str, ...] = ()
    """What is wrong with each rule or Python file that cannot be read."""
    off: Mapping[Path, tuple[str, ...]] = field(default_factory=dict)
    """The names that each rules file switches off."""
    labels: LabelSpace | None = None
    """The classes, if a file names them."""
    text: str = ""
    """The text of the editable rules file."""

    @property
    def voting(self) -> list[Any]:
        """The labeling functions that are switched on."""
        return [entry.lf for entry in self.entries if not (entry.off or entry.problem)]

    @property
    def problems(self) -> tuple[str, ...]:
        """What is broken, and names in `off` that do not exist."""
        found = (*self.broken, *(entry.problem for entry in self.entries if entry.problem))
        if self.broken:
            return found  # a name may be that of a broken rule
        names = [entry.name for entry in self.entries]
        return found + tuple(
            f"{file}: off names {name!r}, which does not exist. {suggest(name, names)}"
            for file, off in self.off.items()
            for name in off
            if name not in names
        )

    def without(self, problems: Mapping[str, str]) -> "LFState":
        """Return the state in which some labeling functions cannot vote, and why."""
        entries = tuple(
            replace(entry, problem=problems.get(entry.name, "")) for entry in self.entries
        )
        return replace(self, entries=entries)


class LFSet:
    """Reads and changes the labeling functions of a project; every change can be undone.

    Rules are written to the project's first rules file; Python files are only read. A missing rules
    file counts as empty. If the project names only Python files, the first change adds a rules file
    to its wiesel.toml. A rule or a Python file that cannot be read is reported; the others still
    count. Several threads and processes may change the rules at the same time: every change starts
    from the state that the one before it left.
    """

    def __init__(self, project: Project) -> None:
        self.project = project
        self.rules_file = _rules_file(project)
        self.store = SnapshotStore(project.folder / WORKBENCH_FOLDER / "lf_history.sqlite")

    def read(self) -> LFState:
        """Return the labeling functions in the current files."""
        text = (
            ""
            if self.rules_file is None
            else content_of(self.rules_file).decode("utf-8", "replace")
        )
        found: list[tuple[Path, int | None, Any]] = []
        off: dict[Path, tuple[str, ...]] = {}
        broken: list[str] = []
        spaces: list[LabelSpace] = []
        for file in self.files():
            if file.suffix == ".toml" and not content_of(file).strip():
                continue  # there are no rules yet
            try:
                lfs, labels = _load_each(self.project.task, file)
                off[file] = read_off(file) if file.suffix == ".toml" else ()
            except (WieselError, OSError) as error:
                broken.append(str(error))
                continue
            spaces += [] if labels is None else [labels]
            for number, lf in enumerate(lfs):
                if isinstance(lf, LabelingFunctionError):
                    broken.append(str(lf))
                elif _is_repeated(lf, [other for _, _, other in found]):
                    broken.append(f"{file}: the name {lf.name!r} appears more than once.")
                else:
                    found.append((file, number if file == self.rules_file else None, lf))
        named = _NAMED[self.project.task]([lf for _, _, lf in found]) if found else []
        entries = []
        for lf, (file, place, given) in zip(named, found, strict=True):
            is_off = any(lf.name in names for names in off.values())
            rule = getattr(given, "lf", given)  # of a rule for several labels
            entries.append(
                LFEntry(
                    lf,
                    file,
                    place,
                    is_off,
                    _source(lf),
                    rule=rule.renamed(lf.name) if isinstance(rule, LabelRule) else None,
                    beside=_beside(given),
                )
            )
        labels = spaces[0] if spaces else None
        return LFState(tuple(entries), tuple(broken), off, labels, text)

    def add(self, rule: Rule, beside: Mapping[str, Any] | None = None) -> str:
        """Add a rule to the file, with options `beside` it, and return its name."""
        with self.store.changing() as store:
            state = self.read()
            names = [entry.name for entry in state.entries]
            if rule.name in names:
                rule = rule.renamed(_free(rule.name, names))
            self._write(
                store, state, with_rule(self._text(), rule, None, beside), f"added {rule.name}"
            )
        return rule.name

    def replace(self, name: str, rule: Rule, beside: Mapping[str, Any] | None = None) -> str:
        """Replace one rule with another, with options `beside` it, and return its name.

        One that is defined in Python is switched off, and the new one has a name of its own.
        """
        with self.store.changing() as store:
            state = self.read()
            entry = _entry(state, name)
            if entry.place is None and entry.rule is not None:
                rule = rule.renamed(_free(name, [each.name for each in state.entries]))
                text = with_rule(self._text(), rule, None, beside)
                text = with_off(text, [*self._off(state, name), name])
            else:
                text = with_rule(self._text(), rule, _editable_place(state, name), beside)
            self._write(store, state, text, f"changed {name}")
        return rule.name

    def remove(self, name: str) -> str:
        """Remove a rule and return its name."""
        with self.store.changing() as store:
            state = self.read()
            text = without_rule(self._text(), _editable_place(state, name))
            self._write(store, state, with_off(text, self._off(state, name)), f"removed {name}")
        return name

    def split(self, name: str) -> list[str]:
        """Replace a list of words by one rule for each word, and return the names."""
        with self.store.changing() as store:
            state = self.read()
            entry = _entry(state, name)
            rule, beside = entry.rule, entry.beside
            if not isinstance(rule, Keywords) or len(rule.keywords) < 2 or rule.min_matches > 1:
                raise ParameterError(f"{name!r} is no list of several words, so it is not split.")
            text = without_rule(self._text(), _editable_place(state, name))
            taken = [entry.name for entry in state.entries]
            names = []
            for word in rule.keywords:
                part = replace(rule, keywords=(word,), name="")
                part = part.renamed(_free(part.name, taken) if part.name in taken else part.name)
                taken.append(part.name)
                names.append(part.name)
                text = with_rule(text, part, None, beside)
            text = with_off(text, self._off(state, name))
            self._write(store, state, text, f"split {name}")
        return names

    def switch(self, name: str, on: bool) -> None:
        """Switch a labeling function on or off; it stays where it is."""
        with self.store.changing() as store:
            state = self.read()
            _entry(state, name)
            for file, names in state.off.items():
                if on and name in names and file != self.rules_file:
                    raise ParameterError(
                        f"{name!r} is switched off in {file.name}. Change that file in an editor."
                    )
            off = self._off(state, name) + ([] if on else [name])
            change = f"switched {name} {'on' if on else 'off'}"
            self._write(store, state, with_off(self._text(), off), change)

    def undo(self) -> str | None:
        """Take back the last change and return what it was; None if there is none."""
        with self.store.changing() as store:
            store.follow(self._text())
            states = store.all()
            if len(states) < 2:
                return None
            write_file(self._file(), states[-2].text.encode())
            store.drop(states[-1].number)
        return states[-1].change

    def history(self) -> list[Snapshot]:
        """Return all states of the rules file, the oldest first, the present one last.

        Changes made with an editor in between are one separate state.
        """
        self.store.follow(self._text())
        return self.store.all()

    def note(self, figures: Mapping[str, float], state: LFState) -> None:
        """Keep how a state scores, if it is still the present one."""
        with self.store.changing() as store:
            store.follow(self._text())
            last = store.all()[-1]
            if last.text == state.text:
                store.note(last.number, figures)

    def _write(self, store: SnapshotStore, before: LFState, text: str, change: str) -> None:
        """Write the rules file; if that breaks anything, restore it and raise an error."""
        store.follow(self._text())
        file = self._file()
        content = content_of(file)
        write_file(file, text.encode())
        after = self.read()
        if len(after.broken) > len(before.broken) or file not in after.off:
            write_file(file, content)
            new = [each for each in after.broken if each not in before.broken]
            own = [each for each in after.broken if each.startswith(str(file))]
            raise LabelingFunctionError([*new, *own][0])
        store.add(text, change)

    def files(self) -> list[Path]:
        """Return the files of labeling functions."""
        return [self.project.path(name) for name in self.project.votes.lfs]

    def _name_rules_file(self) -> Path:
        """Add a rules file to wiesel.toml, unless somebody else has done so."""
        project = read_project(self.project.file)
        found = _rules_file(project)
        if found is None:
            name = next(
                name
                for name in ("rules.toml", *(f"rules_{k}.toml" for k in range(2, 1000)))
                if not project.path(name).exists()
            )
            text = with_lfs_file(read_text(project.file), name)
            if text is None:
                self.rules_file = None
                raise self._no_rules_file()
            write_file(project.file, text.encode())
            project = read_project(project.file)
            found = project.path(name)
        self.project, self.rules_file = project, found
        return found

    def _text(self) -> str:
        file = self.rules_file
        return "" if file is None or not content_of(file) else read_text(file)

    def _off(self, state: LFState, but: str) -> list[str]:
        """The other names that the editable file switches off, also those of broken rules."""
        own = state.off.get(self.rules_file, ()) if self.rules_file else ()
        return [name for name in own if name != but]

    def _no_rules_file(self) -> ParameterError:
        return ParameterError(
            f"{self.project.file}: name a rules file to write to, as in [votes] "
            'lfs = ["lfs.py", "rules.toml"]; it need not exist yet.'
        )

    def _file(self) -> Path:
        if self.rules_file is None and not self.project.votes.lfs:
            raise self._no_rules_file()
        if self.rules_file is None:
            return self._name_rules_file()
        inside = self.project.folder.resolve()
        if not self.rules_file.resolve().is_relative_to(inside):
            raise ParameterError(
                f"{self.rules_file} is outside the project {inside}, so it is not changed here."
            )
        return self.rules_file


def _rules_file(project: Project) -> Path | None:
    rules = [name for name in project.votes.lfs if name.endswith(".toml")]
    return project.path(rules[0]) if rules else None


def with_lfs_file(text: str, name: str) -> str | None:
    r"""Return the text of a wiesel.toml that names one more file of labeling functions.

    None if it cannot be added without changing something else.

    >>> with_lfs_file('[votes]\nlfs = ["lfs.py"]  # ours', "rules.toml")
    '[votes]\nlfs = ["lfs.py", "rules.toml"]  # ours'
    """
    wanted = tomllib.loads(text)
    wanted["votes"]["lfs"] = [*wanted["votes"]["lfs"], name]
    for found in re.finditer(r"\blfs\s*=\s*\[[^\]]*?(?=,?\s*\])", text):
        changed = f"{text[: found.end()]}, {json.dumps(name)}{text[found.end() :]}"
        try:
            if tomllib.loads(changed) == wanted:
                return changed
        except tomllib.TOMLDecodeError:
            continue
    return None


def _load_each(kind: str, file: Path) -> tuple[list[Any], LabelSpace | None]:
    """Return the labeling functions of a file as a kind of task needs them, and its classes.

    In a rules file, an error is in the place of a broken rule.
    """
    if kind == SEVERAL_LABELS:
        return load_each_multilabel_lf(file)
    return (load_each_lf if kind == ONE_LABEL else load_each_span_lf)(file)


def _beside(lf: Any) -> dict[str, Any]:
    """Return the options that a rules file has for a function beside those of the rule."""
    if not isinstance(lf, MultiLabelFunction):
        return {}
    scope = list(lf.exhaustive) if isinstance(lf.exhaustive, tuple) else lf.exhaustive
    options = {"against": lf.against, "exhaustive": scope}
    return {name: value for name, value in options.items() if value}


def _named_span_functions(found: Sequence[Any]) -> list[Any]:
    """Return span functions; rules keep the numbers that make generated names unique."""
    rules = [each for each in found if isinstance(each, LabelingFunction)]
    names = {id(old): new for old, new in zip(rules, as_lfs(rules) if rules else (), strict=True)}
    return as_span_functions([names.get(id(each), each) for each in found])


_NAMED: dict[str, Callable[[Sequence[Any]], list[Any]]] = {
    ONE_LABEL: as_lfs,
    SEVERAL_LABELS: as_multilabel_lfs,
    SPANS: _named_span_functions,
}
"""What gives labeling functions unique names, by kind of task."""


def _is_repeated(lf: Any, others: Sequence[Any]) -> bool:
    """Whether another one has the same name; generated names are numbered instead."""
    return not _is_automatic(lf) and any(
        other.name == lf.name and not _is_automatic(other) for other in others
    )


def _is_automatic(lf: Any) -> bool:
    return bool(getattr(getattr(lf, "lf", lf), "automatic_name", False))


def _entry(state: LFState, name: str) -> LFEntry:
    for entry in state.entries:
        if entry.name == name:
            return entry
    hint = suggest(name, [entry.name for entry in state.entries])
    raise ParameterError(f"There is no labeling function {name!r}. {hint}")


def _editable_place(state: LFState, name: str) -> int:
    """The position of a rule in the editable file."""
    entry = _entry(state, name)
    if entry.place is None:
        raise ParameterError(
            f"{name!r} is in {entry.file.name}. Change that file in an editor; here you can "
            "only switch the function off."
        )
    return entry.place


def _free(name: str, taken: list[str]) -> str:
    number = 2
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def _source(lf: Any) -> str:
    own = getattr(lf, "lf", lf)  # of a function for several labels
    if not isinstance(own, (PythonFunction, PythonSpanFunction)):
        return repr(own)
    try:
        linecache.checkcache()  # the file may have changed since it was read for a traceback
        return inspect.getsource(own.function)
    except (OSError, TypeError):
        return repr(lf)
