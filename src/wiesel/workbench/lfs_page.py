"""LFs: every labeling function with its statistics, those to review, versions, and undo."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from nicegui import ui
from nicegui.events import KeyEventArguments

from wiesel.errors import listed
from wiesel.guidance import LFPreview, Suggestion
from wiesel.guidance.suggesting import rule_words
from wiesel.io import Snapshot
from wiesel.lfs.text_rules import Keywords, Regex
from wiesel.project.lf_set import LFEntry
from wiesel.workbench.chips import chip
from wiesel.workbench.conflict_box import ConflictBox
from wiesel.workbench.desk import Desk, work
from wiesel.workbench.layout import AXIS, COLORS, GRAY, card, empty_state, heading
from wiesel.workbench.lf_maker import LFMaker, preview_hits
from wiesel.workbench.texts import cut, figure_name, percent, shown, words

__all__ = ["HistoryBox", "LFQueue", "LFsPage"]

_COLUMNS = (
    ("voter", "labeling function", False, "Click a name to see the rows that it votes on."),
    ("polarity", "votes for", False, "The classes that it votes for."),
    ("coverage", "coverage", True, "The share of the rows that it votes on."),
    ("overlap", "overlap", True, "The share of the rows on which another one votes, too."),
    ("conflict", "conflict", True, "The share of the rows on which another one disagrees."),
    ("precision", "precision", True, "The share of its votes on labeled rows that are right."),
    ("trust", "trust", True, "How probable a linear model of the other rows finds its votes."),
)
_LISTED = 50
"""More labeling functions are shown on request: a long table takes the browser seconds."""
_MORE = 30
_VERSIONS_LISTED = 12


class LFsPage:
    """The labeling functions of the project."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.order, self.descending = "voter", False
        self.version = -1
        self.shown: list[Any] = []
        self.search, self.all = "", False

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
                    self.finder = ui.input("Find", on_change=self._find).classes("lf-find")
                    self.finder.props('dense outlined clearable debounce="200"')
                    self.finder.set_visibility(False)
                    self.table = ui.element("div").classes("lf-table").style("min-height: 120px")
                with card("New labeling function"):
                    self.maker = LFMaker(self.desk, self.refresh)
                    self.maker.build()
                with card("Findings"):
                    self.findings = ui.element("div").style("min-height: 60px")
                self.conflicts = ConflictBox(self.desk)
                self.conflicts.build()
            with ui.element("div").classes("w-stack"):
                self.queue = LFQueue(self.desk, self.refresh)
                if self.desk.space.has_preview:  # nothing is proposed without one
                    self.queue.build()
                self.history = HistoryBox(self.desk, self.refresh)
                self.history.build()
        ui.timer(0.01, self._first, once=True)
        ui.timer(2.0, self._follow)

    async def _first(self) -> None:
        await self.refresh()
        if self.desk.space.has_preview:
            await self.queue.load()

    async def _follow(self) -> None:
        """Show changes made elsewhere: a Python file in an editor, a rule in another browser."""
        if await work(self.desk.follow_files, quiet=True) or self.version != self.desk.version:
            await self.refresh()
            if self.desk.space.has_preview:
                await self.queue.follow()

    async def refresh(self) -> None:
        """Show the current statistics."""
        self.version = self.desk.version
        await self.history.refresh()  # the effect on the end model matters most, so it comes first
        found = await work(self._figures)
        if found is None:
            return
        *self.shown, sentences = found
        self._show_table(*self.shown)
        await self.conflicts.refresh()
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
            self.finder.set_visibility(len(ordered) > _LISTED)
            found = [row for row in ordered if self.search in row["voter"].casefold()]
            listed = found if self.all else found[:_LISTED]
            with ui.element("div").classes("w-scroll"), ui.element("table").classes("w-table"):
                self._head()
                with ui.element("tbody"):
                    for row in listed:
                        self._row(row, entries[row["voter"]], failures.get(row["voter"]))
            if len(listed) < len(found):
                more = ui.button(f"Show all {len(found):,}", on_click=self._show_all)
                more.props("flat dense no-caps").classes("lf-all")

    def _find(self) -> None:
        self.search = (self.finder.value or "").strip().casefold()
        self._show_table(*self.shown)

    def _show_all(self) -> None:
        self.all = True
        self._show_table(*self.shown)

    def _key(self, row: dict[str, Any]) -> tuple[bool, Any]:
        value = row.get(self.order)
        unknown = value is None
        value = ", ".join(value) if isinstance(value, list) else value
        empty: Any = "" if self.order in ("voter", "polarity") else 0.0
        return (unknown != self.descending, empty if unknown else value)

    def _head(self) -> None:
        with ui.element("thead"), ui.element("tr"):
            for key, title, is_number, hint in _COLUMNS:
                arrow = (" ↓" if self.descending else " ↑") if key == self.order else ""
                head = words(title + arrow, *(["w-number"] if is_number else []), tag="th")
                head.props('tabindex="0" role="button"').style("cursor: pointer")
                head.props["title"] = hint
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
                name = words(cut(entry.name, 60), "lf-name", tag="a")
                name.props('tabindex="0" role="link"')
                name.on("click", partial(self._rows, entry.name))
                name.on("keydown.enter", partial(self._rows, entry.name))
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
        if isinstance(entry.rule, (Keywords, Regex)):
            edit = ui.button(icon="edit", on_click=partial(self._edit, entry))
            edit.props('flat dense round aria-label="Change it"')
        if entry.place is not None:
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
        rule = self.desk.space.shown_rule(entry)
        if rule is not None:
            await self.maker.edit(entry.name, rule)
            self.maker.input.run_method("focus")

    async def _rows(self, name: str) -> None:
        rows = await work(self.desk.space.rows_of, name)
        if rows is None or not len(rows):
            ui.notify(f"{name} votes on no row.")
            return
        ui.navigate.to(self.desk.select("train", rows, f"rows that {name} votes on"))

    def _look(self, entry: LFEntry) -> None:
        with ui.dialog() as dialog, ui.card().style("max-width: 760px; width: 100%"):
            heading(entry.name)
            words(f"in {entry.file.name}", "w-faint")
            words(shown(entry.source), "w-code", tag="pre")
            if entry.place is None:
                words(
                    "Edit this file in your editor; the page updates itself. A list of words or a "
                    "pattern can be changed here, too: it is copied to the rules file.",
                    "w-faint",
                )
        dialog.on("hide", dialog.delete)
        dialog.open()


def _precision(row: dict[str, Any]) -> str:
    """Return the precision with its interval, or a dash."""
    if row.get("precision") is None:
        return percent(None)
    low, high = 100 * row["precision_low"], 100 * row["precision_high"]
    return f"{percent(row['precision'])} ({low:.0f}–{high:.0f})"  # noqa: RUF001 - a range


class LFQueue:
    """The queue; A accepts and R rejects the top proposal."""

    def __init__(self, desk: Desk, on_changed: Callable[[], Any]) -> None:
        self.desk, self.on_changed = desk, on_changed
        self.waiting: list[Suggestion] = []
        self.judged = 0
        self.busy = False
        self.version = -1

    def build(self) -> None:
        """Show the box."""
        with card("Proposed labeling functions"):
            self.place = (
                ui.element("div")
                .classes("lf-queue")
                .style("display: flex; flex-direction: column; gap: 8px; min-height: 230px")
            )
        with self.place:
            words("Looking for words that distinguish the classes …", "w-faint")
        ui.keyboard(on_key=self._key, repeating=False, ignore=["input", "select", "textarea"])

    async def load(self) -> None:
        """Fetch proposals and show the first; they follow labels and functions made elsewhere."""
        self.version = self.desk.version
        self.waiting = await work(self.desk.suggested, _MORE, quiet=True) or []
        await self._show()

    async def follow(self) -> None:
        """Look again if there was no proposal when something changed elsewhere."""
        if not self.waiting and not self.busy and self.version != self.desk.version:
            await self.load()

    async def _show(self) -> None:
        preview = None
        if self.waiting:
            preview = await work(self.desk.space.preview_rule, self.waiting[0].lf, quiet=True)
        self.place.clear()
        with self.place:
            if not self.waiting or preview is None:
                words(
                    "No proposals yet: label one or two rows of every class, or write a labeling "
                    "function for each.",
                    "w-faint",
                )
                look = ui.button("Look again", on_click=self._again).props("flat dense no-caps")
                look.style("align-self: flex-start")
                return
            self._proposal(self.waiting[0], preview)

    def _proposal(self, found: Suggestion, preview: LFPreview) -> None:
        with ui.element("div").classes("w-row"):
            words(cut(rule_words(found.lf), 80), "w-h", "queue-rule")
            chip(self.desk, found.lf.label, "→ ")
        gold = f", {found.correct} of {found.support} labeled rows right" if found.support else ""
        words(
            f"votes on {len(preview.rows):,} rows ({percent(preview.coverage, 1)}), probably "
            f"{percent(found.precision)} right{gold}, {preview.conflicts:,} conflicts"
        )
        with ui.element("div").classes("w-row"):
            accept = ui.button("Accept (A)", on_click=self.accept).props("unelevated no-caps")
            accept.classes("queue-accept")
            refuse = ui.button("Reject (R)", on_click=self.refuse).props("outline no-caps")
            refuse.classes("queue-refuse")
            words(f"{self.judged} judged, {len(self.waiting)} waiting", "w-faint", "queue-count")
        preview_hits(self.desk, found.lf, preview)

    async def _key(self, event: KeyEventArguments) -> None:
        if not event.action.keydown or event.modifiers.ctrl or event.modifiers.meta:
            return
        if event.key == "a":
            await self.accept()
        elif event.key == "r":
            await self.refuse()

    async def accept(self) -> None:
        """Write the top proposal to the rules file."""
        await self._judge(self.desk.space.accept)

    async def refuse(self) -> None:
        """Reject the top proposal, so that it is never proposed again."""
        await self._judge(self.desk.space.refuse)

    async def _judge(self, then: Callable[[Any], Any]) -> None:
        if self.busy or not self.waiting:
            return
        self.busy = True  # a key pressed twice decides only one proposal
        try:
            found = self.waiting[0]
            if await work(then, found.lf) is None:
                return  # the error is shown, and the proposal stays
            self.waiting = [each for each in self.waiting if each is not found]
            self.judged += 1
            self.desk.count("judged")
            await self._show()
        finally:
            self.busy = False
        if then == self.desk.space.accept:
            self.desk.version += 1
            await self.on_changed()
        if not self.waiting:
            await self._again()

    async def _again(self) -> None:
        self.desk.changed()
        await self.load()


class HistoryBox:
    """The score of the current state, the curve of all states, and an undo button."""

    def __init__(self, desk: Desk, on_changed: Callable[[], Any]) -> None:
        self.desk, self.on_changed = desk, on_changed

    def build(self) -> None:
        """Show the box."""
        with card("Preview of the end model"):
            self.now = ui.element("div").classes("end-preview").style("min-height: 48px")
        with card("History"):
            self.curve = ui.echart(_options([])).style("height: 170px; width: 100%")
            self.list = ui.element("div").style("display: flex; flex-direction: column; gap: 2px")
            self.back = ui.button("Undo the last change", on_click=self._undo)
            self.back.props("flat dense no-caps").classes("lf-undo").style("align-self: flex-start")

    async def refresh(self) -> None:
        """Show the score of the current state."""
        figures = await work(self.desk.scored, quiet=True) or {}
        silent = await work(self.desk.space.silent_classes, quiet=True) or []
        states = await work(self.desk.space.lf_set.history, quiet=True) or []
        self.now.clear()
        with self.now:
            words(_sentence(figures, silent, self.desk.space.has_preview), tag="p")
        self.curve.options.update(_options(states))
        self.curve.update()
        self.back.set_enabled(len(states) > 1)
        self.list.clear()
        with self.list:
            for state in reversed(states[-_VERSIONS_LISTED:]):
                when = time.strftime("%H:%M", time.localtime(state.time))
                words(f"{when}  {cut(state.change, 60)}", "w-faint")

    async def _undo(self) -> None:
        change = await work(self.desk.space.lf_set.undo)
        if change is not None:
            ui.notify(f"Undone: {change}")
            self.desk.changed()
            await self.on_changed()


def _sentence(figures: dict[str, float], silent: Sequence[str], has_preview: bool) -> str:
    if figures.get("lfs") and not has_preview:
        return (
            f"{figures['lfs']:.0f} voters mark something in {percent(figures['coverage'])} of the "
            "texts. A tagger has no preview: train one to see how good it is."
        )
    if not figures.get("lfs"):
        return "Write a labeling function to see a preview: a linear model on the features."
    summary = f"{figures['lfs']:.0f} voters cover {percent(figures['coverage'])} of the rows. "
    shown = [name for name in figures if f"{name}_low" in figures]
    if shown:
        values = [f"the {figure_name(name)} {_interval(figures, name)}" for name in shown]
        return (
            f"{summary}A linear model trained on their votes has {' and '.join(values)} "
            f"on {figures['labeled']:.0f} labeled rows."
        )
    if silent:
        return f"{summary}The preview waits for a vote or a label of {listed(silent, limit=4)}."
    return summary + "Label randomly drawn rows to see how good a linear model is."


def _interval(figures: dict[str, float], name: str) -> str:
    """Return a figure with its 95 % interval."""
    low, high = figures[f"{name}_low"], figures[f"{name}_high"]
    found = percent(figures[name], 1)
    return found if low != low else f"{found} ({100 * low:.0f} to {100 * high:.0f})"


def _options(states: list[Snapshot]) -> dict[str, Any]:
    """Return the chart of accuracy and coverage over the states."""
    series = [
        {
            "name": figure_name(name),
            "type": "line",
            "showSymbol": True,
            "data": [
                None if name not in state.figures else round(100 * state.figures[name], 1)
                for state in states
            ],
        }
        for name in ("accuracy", "micro_f1", "macro_f1", "coverage")
        if name == "coverage" or any(name in state.figures for state in states)
    ]
    return {
        "animation": False,
        "color": COLORS,
        "grid": {"left": 34, "right": 8, "top": 28, "bottom": 20},
        "legend": {"top": 0, "textStyle": {"color": GRAY}},
        "tooltip": {"trigger": "axis", "renderMode": "richText"},
        "xAxis": {
            "type": "category",
            "data": [cut(state.change, 40) for state in states],
            "axisLabel": {"show": False},
        },
        "yAxis": {"type": "value", "min": 0, "max": 100, **AXIS},
        "series": series,
    }
