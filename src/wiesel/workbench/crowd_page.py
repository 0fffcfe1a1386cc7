"""Crowd: what to ask next, whom, and how good the workers are."""

from typing import Any

import polars as pl
from nicegui import ui

from wiesel.aggregate import Aggregation, ask_next
from wiesel.guidance.asking import AskNext
from wiesel.workbench.desk import Desk, work
from wiesel.workbench.layout import card, table
from wiesel.workbench.texts import cut, percent, words

__all__ = ["CrowdPage"]

_LISTED = 20


class CrowdPage:
    """The answers of a project whose votes come from people."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.plan: AskNext | None = None
        self.version = -1

    def build(self) -> None:
        """Show the page; figures follow."""
        with ui.element("div").classes("w-columns"):
            with card("Ask next"):
                with ui.element("div").classes("w-row"):
                    self.target = self._field("Chance of a wrong label, at most, %", 10, 100)
                    self.price = self._field("Price of one answer", 1)
                    self.budget = self._field("Budget (optional)", None)
                self.asked = ui.element("div").classes("crowd-asked w-stack")
                self.asked.style("min-height: 200px")
                self.download = ui.button("Download the list", on_click=self._download)
                self.download.props("flat dense no-caps").style("align-self: flex-start")
                self.download.set_visibility(False)
            with ui.element("div").classes("w-stack"):
                with card("Workers"):
                    self.workers = ui.element("div").classes("crowd-workers")
                    self.workers.style("min-height: 120px")
                with card("Agreement"):
                    self.notes = ui.element("div").classes("w-stack").style("min-height: 60px")
        ui.timer(0.01, self._follow, once=True)
        ui.timer(2.0, self._follow)

    def _field(self, title: str, value: float | None, most: float | None = None) -> Any:
        box = ui.number(title, value=value, min=0, max=most, on_change=self._plan)
        return box.props('outlined dense debounce="400"')

    async def _follow(self) -> None:
        """Show the answers, and again when labels have changed: they calibrate confidences."""
        if self.version == self.desk.version:
            return
        self.version = self.desk.version
        found = await work(lambda: self.desk.space.crowd)
        if found is None:
            return
        shown = await work(lambda: (found.worker_table.frame, found.agreement, found.notes()))
        if shown is not None:
            self._show_workers(found, shown[0])
            self.notes.clear()
            with self.notes:
                for sentence in (shown[1].sentence(), *shown[2]):
                    words(f"{sentence}.", tag="div")
        await self._plan()

    async def _plan(self) -> None:
        found = await work(lambda: self.desk.space.crowd, quiet=True)
        target, price, budget = self.target.value, self.price.value, self.budget.value
        if found is None or target is None or price is None:
            return
        self.plan = await work(
            lambda: ask_next(found, target=target / 100, price=price, budget=budget)
        )
        self.download.set_visibility(self.plan is not None and len(self.plan.table) > 0)
        self.asked.clear()
        if self.plan is not None:
            with self.asked:
                self._show_plan(self.plan)

    def _show_plan(self, plan: AskNext) -> None:
        for sentence in plan.sentences():
            words(f"{sentence}.", tag="div")
        if not len(plan.table):
            return
        columns = (("", False), ("label", False), ("wrong", True), ("answers", True))
        with table(*columns, ("ask for", True), ("wrong after", True), ("whom", False)):
            item = plan.table.frame.columns[0]
            for row in plan.table.frame.head(_LISTED).iter_rows(named=True):
                with ui.element("tr"):
                    words(cut(row[item], 40), tag="td")
                    words(cut(row["label"], 40), tag="td")
                    words(percent(row["wrong"]), "w-number", tag="td")
                    words(f"{row['answers']:,}", "w-number", tag="td")
                    further = row["further"]
                    words("decide it" if further is None else f"{further}", "w-number", tag="td")
                    words(percent(row["wrong_after"]), "w-number", tag="td")
                    words(cut(", ".join(row["ask"]), 60), tag="td")
        if len(plan.table) > _LISTED:
            words(f"and {len(plan.table) - _LISTED:,} more, in the list to download", "w-faint")

    def _show_workers(self, found: Aggregation, frame: pl.DataFrame) -> None:
        self.workers.clear()
        with self.workers:
            words(found.worker_table.caption, "w-faint")
            with table(("", False), ("answers", True), ("accuracy (95 %)", True), ("", False)):
                for row in frame.head(_LISTED).iter_rows(named=True):
                    with ui.element("tr"):
                        words(cut(row["worker"], 40), tag="td")
                        words(f"{row['answers']:,}", "w-number", tag="td")
                        limits = f"{percent(row['low'])} to {percent(row['high'])}"
                        known = row["accuracy"] is not None
                        accuracy = f"{percent(row['accuracy'])} ({limits})" if known else "–"  # noqa: RUF001
                        words(accuracy, "w-number", tag="td")
                        words(row["flag"], "w-bad", tag="td")

    def _download(self) -> None:
        if self.plan is not None:
            frame = self.plan.table.frame.with_columns(pl.col("ask").list.join(", "))
            ui.download.content(frame.write_csv(), f"{self.desk.space.project.name}-ask.csv")
