"""The labeling functions of a project: an editable set with undo."""

import inspect
import linecache
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from wiesel.errors import LabelingFunctionError, ParameterError, WieselError, suggest
from wiesel.io import Snapshot, SnapshotStore
from wiesel.io.files import content_of
from wiesel.lfs import LabelingFunction, PythonFunction, load_lfs
from wiesel.lfs.function import as_lfs
from wiesel.lfs.loading import load_lf_file
from wiesel.lfs.rules import Rule
from wiesel.lfs.rules_file import read_off
from wiesel.lfs.rules_writing import with_off, with_rule, without_rule
from wiesel.project.settings import Project
from wiesel.saving import write_file

__all__ = ["LFEntry", "LFSet"]

WORKBENCH_FOLDER = "workbench"
"""The folder for a project's labels and the history of its labeling functions."""


@dataclass(frozen=True)
class LFEntry:
    """One labeling function of a project, and where it is defined."""

    lf: LabelingFunction
    file: Path
    place: int | None
    """Its position in the editable rules file; None if it can only be switched on or off."""
    off: bool
    source: str
    """Its definition: the rule, or the Python code."""

    @property
    def name(self) -> str:
        """The name of the voter."""
        return self.lf.name


@dataclass(frozen=True)
class LFState:
    """All labeling functions of a project, and the errors of files that cannot be read."""

    entries: tuple[LFEntry, ...]
    errors: Mapping[str, str]

    @property
    def voting(self) -> list[LabelingFunction]:
        """The labeling functions that are switched on."""
        return [entry.lf for entry in self.entries if not entry.off]


class LFSet:
    """Reads and changes the labeling functions of a project; every change can be undone.

    Rules are written to the project's first rules file; Python files are only read. A missing rules
    file counts as empty. A file that cannot be read is reported; the other files still count.
    """

    def __init__(self, project: Project) -> None:
        self.project = project
        rules = [name for name in project.votes.lfs if name.endswith(".toml")]
        self.rules_file = project.path(rules[0]) if rules else None
        self.store = SnapshotStore(project.folder / WORKBENCH_FOLDER / "lf_history.sqlite")

    def read(self) -> LFState:
        """Return the labeling functions in the current files."""
        found: list[tuple[Path, int | None, LabelingFunction]] = []
        errors: dict[str, str] = {}
        for file in map(self.project.path, self.project.votes.lfs):
            if file.suffix == ".toml" and not content_of(file).strip():
                continue  # there are no rules yet
            try:
                lfs = load_lf_file(file)
            except WieselError as error:
                errors[file.name] = str(error)
                continue
            own = file == self.rules_file
            found += [(file, place if own else None, lf) for place, lf in enumerate(lfs)]
        off = self._off()
        named = as_lfs([lf for _, _, lf in found]) if found else []
        entries = [
            LFEntry(lf, file, place, lf.name in off, _source(lf))
            for lf, (file, place, _) in zip(named, found, strict=True)
        ]
        return LFState(tuple(entries), errors)

    def add(self, rule: Rule) -> str:
        """Add a rule to the file and return its name."""
        names = [entry.name for entry in self.read().entries]
        if rule.name in names:
            rule = rule.renamed(_free(rule.name, names))
        self._write(with_rule(self._text(), rule), f"added {rule.name}")
        return rule.name

    def replace(self, name: str, rule: Rule) -> None:
        """Replace one rule with another."""
        entry = self._own(name)
        self._write(with_rule(self._text(), rule, entry.place), f"changed {name}")

    def remove(self, name: str) -> None:
        """Remove a rule."""
        place = self._own(name).place or 0
        off = [other for other in self._off() if other != name]
        self._write(with_off(without_rule(self._text(), place), off), f"removed {name}")

    def switch(self, name: str, on: bool) -> None:
        """Switch a labeling function on or off; it stays where it is."""
        self._entry(name)
        off = [other for other in self._off() if other != name] + ([] if on else [name])
        self._write(with_off(self._text(), off), f"switched {name} {'on' if on else 'off'}")

    def undo(self) -> str | None:
        """Take back the last change and return what it was; None if there is none."""
        states = self.history()
        if len(states) < 2:
            return None
        write_file(self._file(), states[-2].text.encode())
        self.store.drop(states[-1].number)
        return states[-1].change

    def history(self) -> list[Snapshot]:
        """Return all states of the rules file, the oldest first, the present one last.

        Changes made with an editor in between are one separate state.
        """
        self.store.follow(self._text())
        return self.store.all()

    def note(self, figures: Mapping[str, float]) -> None:
        """Keep how the present state scores."""
        self.store.note(self.history()[-1].number, figures)

    def _write(self, text: str, change: str) -> None:
        self.history()
        file = self._file()
        before = content_of(file)
        write_file(file, text.encode())
        try:
            if any(entry.off is False for entry in self.read().entries):
                load_lfs(*(path for path in self._files() if content_of(path).strip()))
        except LabelingFunctionError:
            write_file(file, before)
            raise
        self.store.add(text, change)

    def _files(self) -> list[Path]:
        return [self.project.path(name) for name in self.project.votes.lfs]

    def _text(self) -> str:
        return "" if self.rules_file is None else content_of(self.rules_file).decode("utf-8")

    def _file(self) -> Path:
        if self.rules_file is None:
            raise ParameterError(
                f"{self.project.file}: name a rules file to write to, as in [votes] "
                'lfs = ["lfs.py", "rules.toml"]; it need not exist yet.'
            )
        inside = self.project.folder.resolve()
        if not self.rules_file.resolve().is_relative_to(inside):
            raise ParameterError(
                f"{self.rules_file} is outside the project {inside}, so it is not changed here."
            )
        return self.rules_file

    def _off(self) -> list[str]:
        files = [file for file in self._files() if file.suffix == ".toml" and content_of(file)]
        try:
            return [name for file in files for name in read_off(file)]
        except (WieselError, ValueError):
            return []

    def _entry(self, name: str) -> LFEntry:
        entries = self.read().entries
        for entry in entries:
            if entry.name == name:
                return entry
        hint = suggest(name, [entry.name for entry in entries])
        raise ParameterError(f"There is no labeling function {name!r}. {hint}")

    def _own(self, name: str) -> LFEntry:
        entry = self._entry(name)
        if entry.place is None:
            raise ParameterError(
                f"{name!r} is in {entry.file.name}. Change that file in an editor; here you can "
                "only switch the function off."
            )
        return entry


def _free(name: str, taken: list[str]) -> str:
    number = 2
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def _source(lf: LabelingFunction) -> str:
    if not isinstance(lf, PythonFunction):
        return repr(lf)
    try:
        linecache.checkcache()  # the file may have changed since it was read for a traceback
        return inspect.getsource(lf.function)
    except (OSError, TypeError):
        return repr(lf)
