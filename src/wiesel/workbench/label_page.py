"""Label: one row at a time, by keyboard; every answer is saved before the next row is shown."""

import json
from functools import partial
from typing import Any

from nicegui import ui
from nicegui.events import KeyEventArguments

from wiesel.workbench.desk import Desk, work
from wiesel.workbench.label_people import PeopleBox
from wiesel.workbench.layout import card, empty_state
from wiesel.workbench.row_view import RowFacts, row_facts
from wiesel.workbench.texts import cut, marked, shade, words

__all__ = ["LabelPage"]

_BATCH = 20
_TITLES = {
    "recommended": "recommended",
    "random": "at random",
    "conflict": "voters disagree",
    "uncertain": "the model is unsure",
}
_PATIENCE = 60.0
"""How many seconds a browser on a busy machine may take to respond."""
_STORED = "localStorage.getItem('wiesel-person') || ''"


class LabelPage:
    """Rows to label, one after the other."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.person = ""
        self.way = "recommended"
        self.waiting: list[dict[str, Any]] = []
        self.done = 0
        self.busy = False
        self.seed = 0

    def build(self) -> None:
        """Show the page."""
        with ui.element("div").classes("w-columns"):
            with card():
                with ui.element("div").classes("w-row"):
                    self.name = ui.input("Your name", on_change=self._named)
                    self.name.props('dense outlined debounce="400"').classes("label-person")
                    # Else number keys after Enter would be typed into the name.
                    self.name.on("keydown.enter", js_handler="(event) => event.target.blur()")
                    self.ways = ui.select(
                        self._ways(), value=self.way, label="Which rows", on_change=self._choose
                    ).props("dense outlined options-dense")
                    self.ways.style("min-width: 220px")
                self.place = (
                    ui.element("div")
                    .classes("label-row")
                    .style("display: flex; flex-direction: column; gap: 12px; min-height: 320px")
                )
            with ui.element("div").classes("w-stack"):
                self.people = PeopleBox(self.desk)
                self.people.build()
        ui.keyboard(on_key=self._key, repeating=False, ignore=["input", "select", "textarea"])
        ui.timer(0.01, self._first, once=True)

    def _ways(self) -> dict[str, str]:
        voters = {name: f"voted on by {cut(name, 40)}" for name in self.desk.voters()}
        return voters | _TITLES  # of a voter named `random`, the rows cannot be asked for

    async def _first(self) -> None:
        await ui.context.client.connected()
        self.person = await ui.run_javascript(_STORED, timeout=_PATIENCE) or ""
        self.name.value = self.person
        await work(lambda: self.desk.space.votes, quiet=True)
        if self.ways.options != self._ways():
            self.ways.set_options(self._ways(), value=self.way)
        await self.load()
        await self.people.refresh()

    async def _named(self) -> None:
        given = (self.name.value or "").strip()[:40]
        if given == self.person:
            return
        self.person = given
        ui.run_javascript(f"localStorage.setItem('wiesel-person', {json.dumps(given)})")
        await self.load()

    async def _choose(self) -> None:
        if self.ways.value != self.way:
            self.way = self.ways.value
            # The select box would otherwise keep the keyboard focus.
            ui.run_javascript("document.activeElement?.blur()")
            await self.load()

    async def load(self) -> None:
        """Fetch the next rows and show the first."""
        self.waiting = []
        if self.person:
            self.seed += 1
            found = await work(self.desk.space.to_label, _BATCH, self.way, self.person, self.seed)
            self.waiting = [] if found is None else found.to_records()
        await self._show()

    async def _show(self) -> None:
        facts = None
        if self.waiting:
            facts = await work(row_facts, self.desk, "train", self.waiting[0]["row"])
        self.place.clear()
        with self.place:
            if not self.person:
                empty_state("Who are you?", "Enter your name above; labels are saved under it.")
            elif facts is None:
                ways = "Choose other rows above, or write labeling functions with what you have."
                empty_state("No rows are left in this selection", ways, "/lfs", "To the LFs")
            else:
                self._row(facts, self.waiting[0])

    def _row(self, facts: RowFacts, request: dict[str, Any]) -> None:
        column = self.desk.space.text_column
        words(f"Row {cut(facts.item, 40)}: {request['reason']}", "w-faint", "label-reason")
        if column is not None:
            marked(str(facts.row[column] or ""), [])
        for name in [n for n in facts.row if n not in ("id", column)]:
            words(f"{cut(name, 40)}: {cut(facts.row[name])}")
        with ui.element("div").classes("w-row"):
            for number, label in enumerate(self.desk.space.labels, start=1):
                button = ui.button(on_click=partial(self.answer, label)).props("unelevated no-caps")
                button.style(f"background: {shade(self.desk.space.labels, label)} !important")
                with button:
                    words(cut(label, 40))
                    if number <= 9:
                        words(str(number), "w-key")
            ui.button("Skip (S)", on_click=partial(self.answer, None)).props("flat no-caps")
            ui.button("Undo (U)", on_click=self.undo).props("flat no-caps")
        words(f"{self.done} labeled in this session", "w-faint", "label-count")
        words("Number keys label, S skips, U undoes the last label.", "w-faint")

    async def _key(self, event: KeyEventArguments) -> None:
        if not event.action.keydown or event.modifiers.ctrl or event.modifiers.meta:
            return
        number = event.key.number
        if number is not None and 1 <= number <= len(self.desk.space.labels):
            await self.answer(self.desk.space.labels.names[number - 1])
        elif event.key == "s":
            await self.answer(None)
        elif event.key == "u":
            await self.undo()

    async def answer(self, label: str | None) -> None:
        """Save an answer (None skips) and go to the next row."""
        if self.busy or not self.waiting or not self.person:
            return
        self.busy = True
        try:
            request = self.waiting[0]
            if not await work(self._keep, str(request["item"]), label, request["purpose"]):
                return  # not saved, as the page says: the row stays, so that no answer is lost
            self.waiting.pop(0)
            self.done += 1
            if self.waiting:
                await self._show()
            else:
                await self.load()
        finally:
            self.busy = False
        await self.people.refresh()

    def _keep(self, item: str, label: str | None, purpose: str) -> bool:
        self.desk.space.store.add(item, label, self.person, purpose)
        self.desk.changed(labels_only=True)
        return True

    async def undo(self) -> None:
        """Undo the last answer and show its item again."""
        if not self.person:
            return
        item = await work(self.desk.space.store.undo, self.person)
        if item is None:
            ui.notify("There is nothing to undo.")
            return
        self.desk.changed(labels_only=True)
        place = await work(self.desk.place_of, item)
        purpose = await work(self.desk.space.store.purpose_of, item)
        if place is not None:
            request = {"item": item, "row": place, "purpose": purpose, "reason": "shown again"}
            self.waiting.insert(0, request)
        await self._show()
        await self.people.refresh()
