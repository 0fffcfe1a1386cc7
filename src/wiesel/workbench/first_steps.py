"""The first steps, from rows to a classifier: what to do now, until closed for good."""

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import polars as pl
from nicegui import ui

from wiesel.errors import WieselError
from wiesel.project.runs import kept_runs
from wiesel.project.seen import state_file
from wiesel.saving import write_file
from wiesel.workbench.desk import Desk, work
from wiesel.workbench.texts import link, words

__all__ = ["FirstSteps"]

_EVERY = 1.5
_RANDOM = 20
"""So many rows drawn at random are labeled first."""


class Step(NamedTuple):
    """A step: its name, what to do, where, and how many times."""

    name: str
    title: str
    hint: str
    page: str
    way: str
    times: int


_STEPS = (
    Step("opened", "Look at rows", "Open three rows: click them, or press Enter.", "/", "", 3),
    Step(
        "rules",
        "Mark words",
        "In an open row, mark words that tell its class, choose the class, and press Add. Do it "
        "for two classes.",
        "/",
        "",
        2,
    ),
    Step(
        "judged",
        "Judge proposals",
        "Accept (A) or reject (R) five proposed labeling functions.",
        "/lfs",
        "",
        5,
    ),
    Step(
        "labeled",
        "Label 20 rows",
        "Label 20 rows that are drawn at random, by number keys: they tell how good the "
        "classifier is.",
        "/label",
        "random",
        _RANDOM,
    ),
    Step(
        "trained", "Train", "Press Start. You can use the other pages meanwhile.", "/train", "", 1
    ),
    Step("seen", "See what to improve", "The results say what to do now.", "/results", "", 1),
)
_OF_RULES = ("rules", "judged")


class FirstSteps:
    """The box on every page."""

    def __init__(self, desk: Desk, page: str) -> None:
        self.desk, self.page = desk, page
        self.shown: list[int] | None = None

    def build(self) -> None:
        """Show the box, unless it was closed for good or there was a run before the first visit."""
        if self.page == "/results" and self.desk.counts.get("trained"):
            self.desk.count("seen")
        self.box = ui.element("section").classes("first-steps w-card")
        self.box.set_visibility(False)
        if not _is_closed():
            # At once, else the page would move under a user who is about to press a button.
            self._follow_to(self._done())
            self.timer = ui.timer(_EVERY, self._follow)

    async def _follow(self) -> None:
        self._follow_to(await work(self._done, quiet=True))

    def _follow_to(self, done: list[int] | None) -> None:
        if done is None or done == self.shown:
            return
        self.shown = done
        self.box.clear()
        self.box.set_visibility(True)
        with self.box:
            self._show(done)

    def _steps(self) -> list[Step]:
        return [step for step in _STEPS if self.desk.space.has_lfs or step.name not in _OF_RULES]

    def _done(self) -> list[int] | None:
        """Return how many times each step was done; None if there is nothing to show."""
        counts, space = self.desk.counts, self.desk.space
        has_run = bool(kept_runs(space.project))
        if has_run and not counts:
            return None  # who has a run knows the way
        found = dict(counts)
        if has_run and not found.get("trained"):
            self.desk.count("trained")
        if space.has("cast") and space.cast.state is not None:
            found["rules"] = len(space.cast.state.entries)
        if found.get("labeled", 0) < _RANDOM:
            with suppress(WieselError):  # the pages that need labels show the error
                labels = space.store.labels().filter(pl.col("purpose") == "evaluate")
                found["labeled"] = len(labels.drop_nulls("label"))
            if found.get("labeled", 0) >= _RANDOM:
                self.desk.count("labeled", _RANDOM)
        found["trained"] = int(has_run)
        return [min(found.get(step.name, 0), step.times) for step in self._steps()]

    def _show(self, done: list[int]) -> None:
        steps = self._steps()
        left = [k for k, step in enumerate(steps) if done[k] < step.times]
        with ui.element("div").classes("w-row").style("justify-content: space-between"):
            words("First steps", "w-h3", tag="h2")
            close = ui.button("Close for good", on_click=self._close)
            close.props("flat dense no-caps").classes("first-steps-close")
        with ui.element("ol").classes("first-steps-list"):
            for k, step in enumerate(steps):
                state = "done" if k not in left else "now" if k == left[0] else "later"
                with ui.element("li").classes(f"first-step-{state}"):
                    sign = "\N{CHECK MARK}" if state == "done" else str(k + 1)
                    query = {"way": step.way} if step.way else {}
                    link(f"{sign} {step.title}", step.page, **query)
        if not left:
            words(
                "You have a classifier. From here on: ask why it errs, mend the rule to blame, "
                "label more rows, and train again.",
                "first-steps-hint",
            )
            return
        step = steps[left[0]]
        count = f" ({done[left[0]]} of {step.times})" if step.times > 1 else ""
        with ui.element("div").classes("w-row"):
            words(f"{step.hint}{count}", "first-steps-hint")
            if step.page != self.page:
                query = {"way": step.way} if step.way else {}
                link("Go there", step.page, "first-steps-go", **query)

    def _close(self) -> None:
        close_first_steps()
        self.timer.cancel()
        self.box.set_visibility(False)
        ui.notify("The list of keys (?) shows the first steps again.")


def close_first_steps(closed: bool = True) -> None:
    """Never show the first steps to this user again, or do so again."""
    place = _place()
    with suppress(OSError):
        if place is not None and closed:
            place.parent.mkdir(parents=True, exist_ok=True)
            write_file(place, b"")
        elif place is not None:
            place.unlink(missing_ok=True)


def _is_closed() -> bool:
    place = _place()
    return place is not None and place.exists()


def _place() -> Path | None:
    known = state_file()
    return None if known is None else known.with_name("first-steps-closed")
