"""What all pages share: the opened project, its runs, and who is notified of changes."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import polars as pl
from nicegui import run, ui

from wiesel.errors import DataError, WieselError
from wiesel.guidance import ItemFacts, Suggestion
from wiesel.io import FilePath
from wiesel.project.runs import KeptRun, kept_runs
from wiesel.project.workspace import Workspace, positions
from wiesel.workbench.jobs import Jobs

__all__ = ["Desk", "work"]

Made = TypeVar("Made")

_MOMENT = 3.0
"""Seconds until what pages may need is computed unasked."""


@dataclass(frozen=True, eq=False)
class Selection:
    """Rows that another page points at."""

    split: str
    rows: Any
    title: str


class Desk:
    """An opened project and its training runs."""

    def __init__(self, space: Workspace) -> None:
        self.space = space
        self.jobs = Jobs(space.project)
        self.version = 0
        """Grows with every change, so that pages of other people can follow."""
        self.selections: list[Selection] = []
        self._probas: dict[tuple[str, str], Any] = {}
        self._seen = self._stamps()

    @classmethod
    def open(cls, project: FilePath) -> "Desk":
        """Open a project; rows are read, everything else is computed on first use."""
        return cls(Workspace(project))

    def warm_up(self) -> None:
        """Compute votes, features and words in the background, so that pages find them ready.

        It begins after a moment: a page that is opened right away needs the processor first.
        """
        later = threading.Timer(_MOMENT, self._warm_up)
        later.daemon = True
        later.start()

    def _warm_up(self) -> None:
        try:
            _ = self.space.preview
            _ = self.space.index
        except (WieselError, OSError):
            return  # the pages say what is wrong where it matters

    @property
    def is_ready(self) -> bool:
        """Whether votes, gold and predictions are there, so that a page need not wait for them."""
        return self.space.has("cast", "gold", "preview")

    def changed(self, labels_only: bool = False) -> None:
        """Forget what rests on labels or labeling functions, and tell other pages."""
        self.space.refresh(labels_only=labels_only)
        self.version += 1

    def follow_files(self) -> bool:
        """Look whether a file of labeling functions has changed; if so, forget their votes."""
        stamps = self._stamps()
        if stamps == self._seen:
            return False
        self._seen = stamps
        self.changed()
        return True

    def proba(self, split: str) -> tuple[Any, str]:
        """Return P(class) of the rows of a split, by the latest run or the preview, and whose."""
        for latest in kept_runs(self.space.project)[:1]:
            found = self._run_proba(latest, split)
            if found is not None:
                return found, f"model of run {latest.name}"
        preview = self.space.preview
        if preview is None:
            return None, ""
        if split == "train":
            return preview.proba, "preview"
        return preview.predict_proba(self.space.vectors.by_split[split]), "preview"

    def facts(self, split: str) -> ItemFacts:
        """Return what is known of the rows of a split, to filter them by."""
        part = self.space.splits[split]
        votes = self.space.cast.by_split.get(split)
        gold = self.space.gold if split == "train" else part.gold
        return ItemFacts(part.rows, votes, self.proba(split)[0], gold)

    def _run_proba(self, run: KeptRun, split: str) -> Any:
        key = (run.name, split)
        if key not in self._probas:
            frame = run.predictions().filter(pl.col("split") == split)
            same = frame["id"].equals(self.space.splits[split].ids.cast(pl.String))
            columns = [f"p: {name}" for name in self.space.labels]
            there = same and set(columns) <= set(frame.columns)
            self._probas[key] = frame.select(columns).to_numpy() if there else None
        return self._probas[key]

    def place_of(self, item: str, split: str = "train") -> int | None:
        """Return the row of an item."""
        return positions(self.space.splits[split].ids, [item]).get(item)

    def voters(self) -> list[str]:
        """Return the voters that there are."""
        votes = self.space.votes
        return list(votes.voters) if votes.n_votes else []

    def suggested(self, n: int) -> list[Suggestion]:
        """Return suggested labeling functions; none where too little is known to suggest any."""
        try:
            return self.space.suggestions(n) if self.space.has_lfs else []
        except DataError:
            return []

    def select(self, split: str, rows: Any, title: str) -> str:
        """Keep some rows to look at and return the address of the page that shows them."""
        number = len(self.selections)
        self.selections.append(Selection(split, rows, title))
        return f"/?selection={number}"

    def scored(self) -> dict[str, float]:
        """Compute the score of the present labeling functions and keep it in their history."""
        figures = self.space.score()
        if self.space.has_lfs and self.space.lf_set.rules_file is not None:
            self.space.lf_set.note(figures)
        return figures

    def _stamps(self) -> dict[str, Any]:
        project = self.space.project
        files = [Path(project.path(name)) for name in project.votes.lfs]
        return {str(f): (f.stat().st_mtime_ns, f.stat().st_size) for f in files if f.is_file()}


async def work(task: Callable[..., Made], *arguments: Any, quiet: bool = False) -> Made | None:
    """Run something that takes a moment outside the event loop; an error is shown on the page."""
    try:
        return await run.io_bound(task, *arguments)
    except (WieselError, OSError) as error:
        if not quiet:
            ui.notify(str(error), type="negative", timeout=8000, multi_line=True)
        return None
