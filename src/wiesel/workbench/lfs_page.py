"""LFs: every labeling function with its statistics, proposals to review, and undo."""

from functools import partial
from typing import Any

from nicegui import ui

from wiesel.lfs.rules import LabelRule
from wiesel.project.lf_set import LFEntry
from wiesel.workbench.chips import chip
from wiesel.workbench.desk import Desk, work
from wiesel.workbench.layout import card, empty_state, heading
from wiesel.workbench.lf_history import HistoryBox
from wiesel.workbench.lf_maker import LFMaker
from wiesel.workbench.lf_queue import LFQueue
from wiesel.workbench.texts import cut, percent, shown, words

__all__ = ["LFsPage"]

_COLUMNS = (
    ("voter", "labeling function", False),
    ("polarity", "votes for", False),
    ("coverage", "coverage", True),
    ("overlap", "overlap", True),
    ("conflict", "conflict", True),
    ("precision", "precision", True),
    ("trust", "trust", True),
)


class LFsPage:
    """The labeling functions of the project."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.order, self.descending = "voter", False
        self.version = -1
        self.shown: list[Any] = []

    def build(self) -> None:
        """Show the page; statistics follow."""
        if not self.desk.space.has_lfs:
            empty_state(
                "The votes of this project come from people or a file",
                "Name labeling functions in wiesel.toml to write them here: "
                '[votes] lfs = ["rules.toml"].',
            )
            return
        with ui.element("div").classes("w-columns"):
            with ui.element("div").classes("w-stack"):
                with card("Labeling functions"):
                    self.table = ui.element("div").classes("lf-table").style("min-height: 120px")
                with card("New labeling function"):
                    self.maker = LFMaker(self.desk, self.refresh)
                    self.maker.build()
                with card("Findings"):
                    self.findings = ui.element("div").style("min-height: 60px")
            with ui.element("div").classes("w-stack"):
                self.queue = LFQueue(self.desk, self.refresh)
                self.queue.build()
                self.history = HistoryBox(self.desk, self.refresh)
                self.history.build()
        ui.timer(0.01, self._first, once=True)
        ui.timer(2.0, self._follow)

    async def _first(self) -> None:
        await self.refresh()
        await self.queue.load()

    async def _follow(self) -> None:
        """Show changes made elsewhere: a Python file in an editor, a rule in another browser."""
        if await work(self.desk.follow_files, quiet=True) or self.version != self.desk.version:
            await self.refresh()

    async def refresh(self) -> None:
        """Show the current statistics."""
        self.version = self.desk.version
        await self.history.refresh()  # the effect on the end model matters most, so it comes first
        found = await work(self._figures)
        if found is None:
            return
        *self.shown, sentences = found
        self._show_table(*self.shown)
        self.findings.clear()
        with self.findings:
            for sentence in sentences:
                words(shown(sentence), tag="p").style("margin: 0 0 6px")
            if not sentences:
                voted = any("coverage" in row for row in self.shown[0])
                none = (
                    "No problems were found in the votes." if voted else "There are no votes yet."
                )
                words(none, "w-faint")

    def _figures(self) -> tuple[Any, ...]:
        space = self.desk.space
        cast = space.cast
        entries = {entry.name: entry for entry in cast.state.entries} if cast.state else {}
        rows = space.summary().to_dicts() if space.votes.n_votes else []
        known = {row["voter"] for row in rows}
        rows = [row for row in rows if row["voter"] in entries]
        rows += [{"voter": name} for name in entries if name not in known]
        failures = {name: cast.failures.examples(name, 1)[0] for name in cast.failures.counts}
        sentences = [row["sentence"] for row in space.findings()]
        return rows, entries, failures, sentences

    def _show_table(
        self, rows: list[dict[str, Any]], entries: dict[str, LFEntry], failures: dict[str, Any]
    ) -> None:
        self.table.clear()
        with self.table:
            if not rows:
                empty_state(
                    "There is no labeling function yet",
                    "Enter words below and choose the class they indicate, or label rows of each "
                    "class to get proposals.",
                    "/label",
                    "Label rows",
                )
                return
            ordered = sorted(rows, key=self._key, reverse=self.descending)
            with ui.element("div").classes("w-scroll"), ui.element("table").classes("w-table"):
                self._head()
                with ui.element("tbody"):
                    for row in ordered:
                        self._row(row, entries[row["voter"]], failures.get(row["voter"]))

    def _key(self, row: dict[str, Any]) -> tuple[bool, Any]:
        value = row.get(self.order)
        unknown = value is None
        value = ", ".join(value) if isinstance(value, list) else value
        empty: Any = "" if self.order in ("voter", "polarity") else 0.0
        return (unknown != self.descending, empty if unknown else value)

    def _head(self) -> None:
        with ui.element("thead"), ui.element("tr"):
            for key, title, is_number in _COLUMNS:
                arrow = (" ↓" if self.descending else " ↑") if key == self.order else ""
                head = words(title + arrow, *(["w-number"] if is_number else []), tag="th")
                head.props('tabindex="0" role="button"').style("cursor: pointer")
                head.on("click", partial(self._sort, key))
                head.on("keydown.enter", partial(self._sort, key))
            words("", tag="th")

    def _sort(self, key: str) -> None:
        self.descending = not self.descending if key == self.order else key not in ("voter",)
        self.order = key
        self._show_table(*self.shown)

    def _row(self, row: dict[str, Any], entry: LFEntry, failure: Any) -> None:
        with ui.element("tr").style("opacity: 0.55" if entry.off else ""):
            with ui.element("td"):
                words(cut(entry.name, 60))
                if entry.problem:
                    words(cut(entry.problem, 240), "w-bad", tag="div")
                if failure is not None:
                    words(cut(str(failure), 240), "w-bad", tag="div")
            with ui.element("td"):
                for label in row.get("polarity") or ():
                    chip(self.desk, label)
            for key in ("coverage", "overlap", "conflict"):
                words(percent(row.get(key), 1), "w-number", tag="td")
            words(_precision(row), "w-number", tag="td")
            words(percent(row.get("trust")), "w-number", tag="td")
            with ui.element("td").style("white-space: nowrap"):
                self._buttons(entry)

    def _buttons(self, entry: LFEntry) -> None:
        switch = ui.switch(value=not entry.off, on_change=partial(self._switch, entry))
        switch.props("dense").props["aria-label"] = "off" if entry.off else "on"
        look = ui.button(icon="code", on_click=partial(self._look, entry))
        look.props('flat dense round aria-label="Show its source"')
        if entry.place is not None:
            if entry.lf.__class__.__name__ in ("Keywords", "Regex"):
                edit = ui.button(icon="edit", on_click=partial(self._edit, entry))
                edit.props('flat dense round aria-label="Change it"')
            remove = ui.button(icon="delete", on_click=partial(self._remove, entry))
            remove.props('flat dense round aria-label="Remove it"')

    async def _switch(self, entry: LFEntry) -> None:
        await work(self.desk.space.lf_set.switch, entry.name, entry.off)
        self.desk.changed()
        await self.refresh()

    async def _remove(self, entry: LFEntry) -> None:
        done = await work(self.desk.space.lf_set.remove, entry.name)
        self.desk.changed()
        await self.refresh()
        if done is not None:
            ui.notify(f"{entry.name} is removed; Undo brings it back.")

    async def _edit(self, entry: LFEntry) -> None:
        if isinstance(entry.lf, LabelRule):
            await self.maker.edit(entry.name, entry.lf)

    def _look(self, entry: LFEntry) -> None:
        with ui.dialog() as dialog, ui.card().style("max-width: 760px; width: 100%"):
            heading(entry.name)
            words(f"in {entry.file.name}", "w-faint")
            words(shown(entry.source), "w-code", tag="pre")
            if entry.place is None:
                words("Edit this file in your editor; the page updates itself.", "w-faint")
        dialog.on("hide", dialog.delete)
        dialog.open()


def _precision(row: dict[str, Any]) -> str:
    """Return the precision with its interval, or a dash."""
    if row.get("precision") is None:
        return percent(None)
    low, high = 100 * row["precision_low"], 100 * row["precision_high"]
    return f"{percent(row['precision'])} ({low:.0f}–{high:.0f})"  # noqa: RUF001 - a range
