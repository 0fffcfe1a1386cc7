"""State shared by all pages: the open project, its runs, and change notification."""

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl
from nicegui import run, ui

from wiesel.errors import DataError, WieselError, message_for
from wiesel.guidance import Suggestion
from wiesel.io import FilePath
from wiesel.labels import ABSTAIN
from wiesel.project.lf_set import WORKBENCH_FOLDER
from wiesel.project.rows import positions
from wiesel.project.runs import KeptRun, Predictions, kept_runs
from wiesel.project.settings import Project, in_project_words
from wiesel.project.workspace import Workspace, open_workspace
from wiesel.saving import write_json
from wiesel.workbench.jobs import Jobs

__all__ = ["Desk", "work"]

Made = TypeVar("Made")

_COUNTED = 20
"""The steps are not counted further."""
_WARM_UP_SECONDS = 3.0
"""Seconds before values that pages may need are computed in advance."""


@dataclass(frozen=True, eq=False)
class Selection:
    """Rows selected by another page."""

    split: str
    rows: Any
    title: str


class Drafts:
    """Marks in texts that were not saved yet, by person and item, in a file of the project."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._lock = threading.Lock()

    def of(self, person: str) -> dict[str, Any]:
        """Return the drafts of a person by item; none if the file cannot be read."""
        own = _json_of(self.file).get(person)
        return dict(own) if isinstance(own, dict) else {}

    def keep(self, person: str, item: str, draft: dict[str, Any] | None) -> None:
        """Keep a draft; None drops it."""
        with self._lock:
            own = self.of(person)
            if own.pop(item, None) is None and draft is None:
                return
            own |= {} if draft is None else {item: draft}
            every = _json_of(self.file) | {person: own}
            self.file.parent.mkdir(parents=True, exist_ok=True)
            write_json({name: kept for name, kept in every.items() if kept}, self.file)


class Desk:
    """An open project and its training runs."""

    def __init__(self, space: Workspace) -> None:
        self.space = space
        self.jobs = Jobs(space.project)
        self.version = 0
        """Incremented with every change, so that other users' pages can follow."""
        self.selections: list[Selection] = []
        self._of_runs: dict[tuple[str, str], Predictions | None] = {}
        self._seen = self._stamps()
        self.drafts = Drafts(space.project.folder / WORKBENCH_FOLDER / "unsaved_marks.json")
        self.counts = self._counted()
        """How often a new user did each of the first steps; empty before the first."""

    @classmethod
    def open(cls, project: Project | FilePath) -> "Desk":
        """Open a project: read its rows; compute everything else on first use."""
        space = open_workspace(project)
        # On the pages, the error would come again and again, and votes would never be ready.
        space.check()
        return cls(space)

    def close(self) -> None:
        """Stop the active run and close the file of labels."""
        self.jobs.close()
        self.space.store.release()

    def warm_up(self) -> None:
        """Compute votes, features and words in the background, so that they are ready for pages.

        It starts after a short delay, because a page opened right away needs the processor first.
        """
        later = threading.Timer(_WARM_UP_SECONDS, self._warm_up)
        later.daemon = True
        later.start()

    def _warm_up(self) -> None:
        try:
            _ = self.space.preview
            _ = self.space.index
        except (WieselError, OSError):
            return  # the pages that need the value show the error

    @property
    def is_ready(self) -> bool:
        """Whether votes, gold and predictions are computed, so that a page need not wait."""
        return self.space.has("cast", "gold", "preview")

    def changed(self, labels_only: bool = False) -> None:
        """Drop values derived from labels or labeling functions, and notify other pages."""
        self.space.refresh(labels_only=labels_only)
        self.version += 1

    def follow_files(self) -> bool:
        """Check whether a file of labeling functions has changed; if so, drop their votes."""
        stamps = self._stamps()
        if stamps == self._seen:
            return False
        self._seen = stamps
        self.changed()
        return True

    def problems(self) -> tuple[str, ...]:
        """Return what is wrong with labeling functions, and so does not vote."""
        try:
            return self.space.problems
        except WieselError as error:
            return (str(error),)

    def predictions(self, split: str) -> Predictions | None:
        """Return the predictions for a split's rows, of the latest run or of the preview."""
        for latest in kept_runs(self.space.project)[:1]:
            found = self._of_run(latest, split)
            if found is not None:
                return found
        return self.space.previewed(split)

    def facts(self, split: str) -> Any:
        """Return the facts about a split's rows that filters use."""
        return self.space.facts_of(split, self.predictions(split))

    def _of_run(self, run: KeptRun, split: str) -> Predictions | None:
        key = (run.name, split)
        if key not in self._of_runs:
            try:
                view = self.space.view(run, split)
            except DataError:  # it has none for these rows and classes
                self._of_runs[key] = None
                return None
            same = view.ids.equals(self.space.splits[split].ids.cast(pl.String))
            source = f"model of run {run.name}"
            found = Predictions(
                view.proba, view.predicted, source, getattr(view, "threshold", None)
            )
            self._of_runs[key] = found if same else None
        return self._of_runs[key]

    def place_of(self, item: str, split: str = "train") -> int | None:
        """Return the row number of an item; None if it is not in the split."""
        return positions(self.space.splits[split].ids, [item]).get(item)

    def voters(self) -> list[str]:
        """Return the names of all voters."""
        votes = self.space.votes
        return list(votes.voters) if votes.n_votes else []

    def conflicting_rows(self, first: str, second: str) -> Any:
        """Return the training rows on which two voters disagree."""
        votes, rows = self.space.vote_cells()
        if not {first, second} <= set(votes.voters):
            return np.empty(0, np.int64)  # one of them is gone or switched off
        one, other = votes.select([first, second]).dense().T
        return np.unique(rows[(one != ABSTAIN) & (other != ABSTAIN) & (one != other)])

    def suggested(self, n: int) -> list[Suggestion]:
        """Return suggested labeling functions; none if there is too little evidence."""
        try:
            return self.space.suggestions(n) if self.space.has_lfs else []
        except DataError:
            return []

    def select(self, split: str, rows: Any, title: str) -> str:
        """Store selected rows and return the address of the page that shows them."""
        number = len(self.selections)
        self.selections.append(Selection(split, rows, title))
        return f"/?selection={number}"

    def selected(self, number: str) -> Selection | None:
        """Return the selection that an address names; None if there is none."""
        # Anyone can write an address: `isdigit` holds for "²", too, and `int` limits the digits.
        known = {str(place): found for place, found in enumerate(self.selections)}
        return known.get(number)

    def scored(self) -> dict[str, float]:
        """Compute the score of the current labeling functions and record it in their history."""
        state = self.space.cast.state
        figures = self.space.score()
        lfs = self.space.lf_set
        if state is not None and state is self.space.cast.state and lfs.rules_file is not None:
            lfs.note(figures, state)
        return figures

    def count(self, what: str, times: int = 1) -> None:
        """Count what a new user did, for the first steps; who has a run already is not new."""
        if not self.counts and kept_runs(self.space.project):
            return
        self.counts = {**self.counts, what: self.counts.get(what, 0) + times}
        if self.counts[what] <= _COUNTED:
            with suppress(OSError):  # nothing depends on it
                self._steps_file.parent.mkdir(parents=True, exist_ok=True)
                write_json(self.counts, self._steps_file)

    def _counted(self) -> dict[str, int]:
        known = _json_of(self._steps_file).items()
        return {str(name): times for name, times in known if isinstance(times, int)}

    @property
    def _steps_file(self) -> Path:
        return self.space.project.folder / WORKBENCH_FOLDER / "first_steps.json"

    def _stamps(self) -> dict[str, Any]:
        files = self.space.lf_set.files()
        return {str(f): (f.stat().st_mtime_ns, f.stat().st_size) for f in files if f.is_file()}


def _json_of(file: Path) -> dict[str, Any]:
    """Return the object in a file; empty if there is none."""
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


async def work(task: Callable[..., Made], *arguments: Any, quiet: bool = False) -> Made | None:
    """Run a slow task outside the event loop; an error is shown on the page."""
    try:
        return await run.io_bound(task, *arguments)
    except (WieselError, OSError) as error:
        if not quiet:
            told = message_for(error, in_project_words)
            ui.notify(told, type="negative", timeout=8000, multi_line=True)
        return None
