"""State shared by all pages: the open project, its runs, and change notification."""

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl
from nicegui import run, ui

from wiesel.errors import DataError, WieselError, message_for
from wiesel.evaluation.metrics import predicted_classes
from wiesel.explain import certainty
from wiesel.guidance import ItemFacts, Suggestion
from wiesel.io import FilePath
from wiesel.labels import ABSTAIN
from wiesel.project.lf_set import WORKBENCH_FOLDER
from wiesel.project.run_views import view_run
from wiesel.project.runs import KeptRun, kept_runs
from wiesel.project.settings import Project, in_project_words
from wiesel.project.vectors import check_inputs
from wiesel.project.workspace import Workspace, positions
from wiesel.saving import write_json
from wiesel.workbench.jobs import Jobs

__all__ = ["Desk", "work"]

Made = TypeVar("Made")

_COUNTED = 20
"""The steps are not counted further."""
_MOMENT = 3.0
"""Seconds before values that pages may need are computed in advance."""


class Predictions(NamedTuple):
    """What a model says of all rows of a split."""

    proba: npt.NDArray[np.float64]
    predicted: npt.NDArray[np.int64]
    """Class indices; with a threshold, these need not be the most probable classes."""
    source: str
    """The model, in words."""
    threshold: float | None = None
    """The least P(second class) to predict it; None if the most probable class is predicted."""

    def certainty(self, place: int) -> str:
        """Return how sure a prediction is: its probability, and the threshold if it decided."""
        return certainty(self.proba[place].tolist(), int(self.predicted[place]), self.threshold)


@dataclass(frozen=True, eq=False)
class Selection:
    """Rows selected by another page."""

    split: str
    rows: Any
    title: str


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
        self.counts = self._counted()
        """How often a new user did each of the first steps; empty before the first."""

    @classmethod
    def open(cls, project: Project | FilePath) -> "Desk":
        """Open a project: read its rows; compute everything else on first use."""
        space = Workspace(project)
        # On the pages, the error would come again and again, and votes would never be ready.
        check_inputs(space.project, space.splits)
        return cls(space)

    def close(self) -> None:
        """Stop the active run and close the file of labels."""
        self.jobs.close()
        self.space.store.release()

    def warm_up(self) -> None:
        """Compute votes, features and words in the background, so that they are ready for pages.

        It starts after a short delay, because a page opened right away needs the processor first.
        """
        later = threading.Timer(_MOMENT, self._warm_up)
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
        preview = self.space.preview
        if preview is None:
            return None
        vectors = self.space.vectors.by_split
        proba = preview.proba if split == "train" else preview.predict_proba(vectors[split])
        return Predictions(proba, predicted_classes(proba), "preview")

    def facts(self, split: str) -> ItemFacts:
        """Return the facts about a split's rows that filters use."""
        part = self.space.splits[split]
        votes = self.space.cast.by_split.get(split)
        gold = self.space.gold if split == "train" else part.gold
        found = self.predictions(split)
        if found is None:
            return ItemFacts(part.rows, votes, None, gold)
        return ItemFacts(part.rows, votes, found.proba, gold, found.predicted)

    def _of_run(self, run: KeptRun, split: str) -> Predictions | None:
        key = (run.name, split)
        if key not in self._of_runs:
            try:
                view = view_run(run, split, self.space.labels)
            except DataError:  # it has none for these rows and classes
                self._of_runs[key] = None
                return None
            same = view.ids.equals(self.space.splits[split].ids.cast(pl.String))
            source = f"model of run {run.name}"
            found = Predictions(view.proba, view.predicted, source, view.threshold)
            self._of_runs[key] = found if same else None
        return self._of_runs[key]

    def place_of(self, item: str, split: str = "train") -> int | None:
        """Return the row number of an item; None if it is not in the split."""
        return positions(self.space.splits[split].ids, [item]).get(item)

    def voters(self) -> list[str]:
        """Return the names of all voters."""
        votes = self.space.votes
        return list(votes.voters) if votes.n_votes else []

    def rows_of(self, voter: str) -> Any:
        """Return the training rows that a voter votes on; none if it is switched off."""
        votes = self.space.votes
        there = voter in votes.voters
        return np.flatnonzero(votes.select([voter]).covered) if there else np.empty(0, np.int64)

    def conflicting_rows(self, first: str, second: str) -> Any:
        """Return the training rows on which two voters vote for different classes."""
        votes = self.space.votes
        if not {first, second} <= set(votes.voters):
            return np.empty(0, np.int64)  # one of them is gone or switched off
        one, other = votes.select([first, second]).dense().T
        return np.flatnonzero((one != ABSTAIN) & (other != ABSTAIN) & (one != other))

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
        """Count what a new user did, for the first steps."""
        self.counts = {**self.counts, what: self.counts.get(what, 0) + times}
        if self.counts[what] <= _COUNTED:
            with suppress(OSError):  # nothing depends on it
                self._steps_file.parent.mkdir(parents=True, exist_ok=True)
                write_json(self.counts, self._steps_file)

    def _counted(self) -> dict[str, int]:
        try:
            found = json.loads(self._steps_file.read_bytes())
        except (OSError, ValueError):
            return {}
        known = found.items() if isinstance(found, dict) else ()
        return {str(name): times for name, times in known if isinstance(times, int)}

    @property
    def _steps_file(self) -> Path:
        return self.space.project.folder / WORKBENCH_FOLDER / "first_steps.json"

    def _stamps(self) -> dict[str, Any]:
        files = self.space.lf_set.files()
        return {str(f): (f.stat().st_mtime_ns, f.stat().st_size) for f in files if f.is_file()}


async def work(task: Callable[..., Made], *arguments: Any, quiet: bool = False) -> Made | None:
    """Run a slow task outside the event loop; an error is shown on the page."""
    try:
        return await run.io_bound(task, *arguments)
    except (WieselError, OSError) as error:
        if not quiet:
            told = message_for(error, in_project_words)
            ui.notify(told, type="negative", timeout=8000, multi_line=True)
        return None
