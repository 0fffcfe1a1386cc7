"""Label: one row at a time, by keyboard; every answer is saved before the next one."""

import asyncio
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from nicegui import ui
from nicegui.events import KeyEventArguments

from wiesel.project.labels import read_guidelines, write_guidelines
from wiesel.workbench.desk import Desk, work
from wiesel.workbench.label_people import PeopleBox
from wiesel.workbench.layout import (
    card,
    empty_state,
    heading,
    keep_in_address,
    remember_person,
    stored_person,
)
from wiesel.workbench.texts import cut, marked, shade, words

__all__ = ["LabelPage"]

_BATCH = 40
_FEW = 15
"""With fewer rows waiting, more are fetched, so that quick keys never wait for them."""
_KEYS = 9
"""How many classes have a number key."""
_FOUND = 12
_SOON = 50_000
_TITLES = {
    "recommended": "recommended",
    "random": "at random",
    "conflict": "voters disagree",
    "uncertain": "the model is unsure",
}
_PAUSE = 0.6
"""Seconds without an answer after which the counts follow."""


class LabelPage:
    """Rows to label, one after the other."""

    hint = "Number keys label"
    """What the keys do that give answers."""

    def __init__(self, desk: Desk, query: Mapping[str, str]) -> None:
        self.desk = desk
        self.person = ""
        self.way = query.get("way", "recommended")
        self.waiting: list[dict[str, Any]] = []
        self.proba: Any = None
        """What a model says of all rows; known only where there are many classes."""
        self.keys: list[str] = list(desk.space.labels)[:_KEYS]
        """The class of each number key."""
        self.done = 0
        self.seed = 0
        self.answered = 0.0
        self.stale = True
        """Whether the counts do not show the last answers yet."""
        self.in_order = asyncio.Lock()
        """Keys are answered one after the other, however fast they are pressed."""
        self.fetching: asyncio.Task[None] | None = None

    @property
    def is_many(self) -> bool:
        """Whether there are more classes than number keys."""
        return len(self.desk.space.labels) > _KEYS

    def build(self) -> None:
        """Show the page."""
        with ui.element("div").classes("w-columns"):
            with card():
                with ui.element("div").classes("w-row"):
                    self.name = ui.input("Your name", on_change=self._named)
                    self.name.props('dense outlined debounce="400"').classes("label-person")
                    # Else number keys after Enter would be typed into the name; and Enter itself is
                    # not an answer to the row, as it is where it saves labels.
                    leave = "(event) => { event.stopPropagation(); event.target.blur(); }"
                    self.name.on("keydown.enter", js_handler=leave)
                    self.ways = ui.select(
                        {self.way: cut(self.way, 40)} | self._ways(),
                        value=self.way,
                        label="Which rows",
                        on_change=self._choose,
                    ).props("dense outlined options-dense")
                    self.ways.style("min-width: 220px")
                with ui.element("div").classes("label-row w-stack").style("min-height: 320px"):
                    self.message = ui.element("div")
                    self._build_row()
            with ui.element("div").classes("w-stack"):
                with card("Guidelines"):
                    self.guidelines = ui.element("div").classes("label-guidelines w-stack")
                    edit = ui.button("Change the guidelines", on_click=self._edit_guidelines)
                    edit.props("flat dense no-caps").style("align-self: flex-start")
                self.people = PeopleBox(self.desk)
                self.people.build()
        ui.keyboard(on_key=self._key, repeating=False, ignore=["input", "select", "textarea"])
        ui.timer(0.01, self._first, once=True)
        ui.timer(_PAUSE, self._count)

    def _build_row(self) -> None:
        """Build what shows a row; afterwards only texts change, so that keys are answered fast."""
        self.row = ui.element("div").classes("w-stack")
        self.row.set_visibility(False)
        with self.row:
            self.reason = words("", "w-faint", "label-reason")
            self.content = ui.element("div").classes("w-stack")
            self._build_answers()
            with ui.element("div").classes("w-row"):
                ui.button("Skip (S)", on_click=partial(self.answer, None)).props("flat no-caps")
                ui.button("Undo (U)", on_click=self.undo).props("flat no-caps")
            self.count = words("", "w-faint", "label-count")

    def _build_answers(self) -> None:
        """Build what answers are given with."""
        self.buttons = ui.element("div").classes("w-row label-buttons")
        if self.is_many:
            self._build_finder()
        self._show_buttons()

    def _build_finder(self) -> None:
        self.finder = ui.input("Find a class (/)", on_change=self._find)
        self.finder.props('dense outlined clearable debounce="50"').classes("label-find")
        self.finder.on("keydown.enter", self._take_first)
        self.finder.on("keydown.esc", js_handler="(event) => event.target.blur()")
        self.found = ui.element("div").classes("w-row label-found")

    def _ways(self) -> dict[str, str]:
        there = self.desk.voters() if self.desk.space.has("cast") else []
        voters = {name: f"voted on by {cut(name, 40)}" for name in there}
        return voters | _TITLES  # of a voter named `random`, the rows cannot be asked for

    async def _first(self) -> None:
        await ui.context.client.connected()
        self.person = await stored_person()
        self.name.value = self.person
        await self._show_guidelines()
        if self.way in _TITLES:
            await self.load()  # the first row need not wait for the names of the voters
        await work(lambda: self.desk.space.votes, quiet=True)
        ways = self._ways()
        if self.way not in ways:  # anyone can write an address
            self.way = "recommended"
        if self.ways.options != ways:
            self.ways.set_options(ways, value=self.way)
        if not self.waiting:
            await self.load()

    async def _named(self) -> None:
        given = (self.name.value or "").strip()[:40]
        if given == self.person:
            return
        self.person = given
        remember_person(given)
        await self.load()

    async def _choose(self) -> None:
        if self.ways.value != self.way:
            self.way = self.ways.value
            keep_in_address("/label", {"way": self.way})
            # The select box would otherwise keep the keyboard focus.
            ui.run_javascript("document.activeElement?.blur()")
            await self.load()

    async def load(self) -> None:
        """Fetch rows anew and show the first."""
        async with self.in_order:
            self.waiting = []
            await self._fetch()
            self._show()

    async def _fetch(self) -> None:
        """Add rows to those that wait."""
        if not self.person:
            return
        self.seed += 1
        asked, person, n = self.way, self.person, _BATCH + len(self.waiting)
        space = self.desk.space
        # Votes on a million rows may take minutes. Until they are there, rows are drawn at random.
        way = "random" if space.sampled and not space.has("cast") else asked
        found = await work(space.to_label, n, way, person, self.seed)
        # Of a million rows, what a model says of all is not computed again for every few labels.
        if self.is_many and (self.proba is None or len(self.desk.space.train) <= _SOON):
            known = await work(self.desk.predictions, "train", quiet=True)
            self.proba = None if known is None else known.proba
        if found is None or (asked, person) != (self.way, self.person):
            return
        there = {request["item"] for request in self.waiting}
        self.waiting += [each for each in found.to_records() if each["item"] not in there]

    def _fetch_soon(self) -> None:
        if len(self.waiting) < _FEW and (self.fetching is None or self.fetching.done()):
            self.fetching = asyncio.create_task(self._fetch())

    def _show(self) -> None:
        """Show the first row that waits."""
        self.row.set_visibility(bool(self.waiting))
        self.message.clear()
        if self.waiting:
            self._show_row(self.waiting[0])
            return
        with self.message:
            if not self.person:
                empty_state("Who are you?", "Enter your name above; labels are saved under it.")
            else:
                ways = "Choose other rows above, or write labeling functions with what you have."
                empty_state("No rows are left in this selection", ways, "/lfs", "To the LFs")

    def _show_row(self, request: dict[str, Any]) -> None:
        space = self.desk.space
        row, column = space.train.rows.row(request["row"], named=True), space.text_column
        self.reason.set_text(f"Row {cut(row['id'], 40)}: {request['reason']}")
        self.count.set_text(
            f"{self.done} labeled in this session. {self.hint}, S skips, U undoes, "
            "? lists all keys."
        )
        self.content.clear()
        with self.content:
            self._show_text(request, str(row[column] or "") if column is not None else None)
            for name in [n for n in row if n not in ("id", column)]:
                words(f"{cut(name, 40)}: {cut(row[name])}")
        if self.is_many and self.proba is not None:
            sure = np.nan_to_num(self.proba[request["row"]])  # of a million rows, some are known
            likely = (-sure).argsort(kind="stable")[:_KEYS]
            keys = [space.labels.names[place] for place in likely]
            if keys != self.keys:
                self.keys = keys
                self._show_buttons()

    def _show_text(self, request: dict[str, Any], text: str | None) -> None:
        """Show the text of a row, if it has one."""
        if text is not None:
            marked(text, [])

    def _show_buttons(self) -> None:
        self.buttons.clear()
        with self.buttons:
            for number, label in enumerate(self.keys, start=1):
                self._label_button(label, str(number))

    def _label_button(self, label: str, key: str = "") -> None:
        button = ui.button(on_click=partial(self.answer, label)).props("unelevated no-caps")
        button.classes("w-class")
        button.style(f"background: {shade(self.desk.space.labels, label)} !important")
        with button:
            words(cut(label, 40))
            if key:
                words(key, "w-key")

    def _matching(self) -> list[str]:
        typed = (self.finder.value or "").strip().casefold()
        names = [name for name in self.desk.space.labels if typed and typed in name.casefold()]
        return sorted(names, key=lambda name: (not name.casefold().startswith(typed), len(name)))

    def _find(self) -> None:
        found = self._matching()
        self.found.clear()
        with self.found:
            for label in found[:_FOUND]:
                self._label_button(label)
            if len(found) > _FOUND:
                words(f"and {len(found) - _FOUND:,} more", "w-faint")

    async def _take_first(self) -> None:
        found = self._matching()
        if found:
            self.finder.value = ""
            await self.answer(found[0])

    async def _key(self, event: KeyEventArguments) -> None:
        if not event.action.keydown or event.modifiers.ctrl or event.modifiers.meta:
            return
        number = event.key.number
        if number is not None and 1 <= number <= len(self.keys):
            # Where keys mean other classes at each row, one that comes early is for none.
            if not (self.is_many and self.in_order.locked()):
                await self.answer(self.keys[number - 1])
        elif event.key == "s":
            await self.answer(None)
        elif event.key == "u":
            await self.undo()
        elif event.key == "/" and self.is_many:
            self.finder.run_method("focus")

    async def answer(self, label: str | None) -> None:
        """Save an answer (None skips) and go to the next row."""
        async with self.in_order:
            if not self.waiting or not self.person:
                return
            request = self.waiting[0]
            if not await work(self._keep, str(request["item"]), label, request["purpose"]):
                return  # not saved, as the page says: the row stays, so that no answer is lost
            self.waiting.pop(0)
            self.done += 1
            if not self.waiting:
                await self._fetch()
            self._show()
            self._fetch_soon()
        self.answered, self.stale = time.monotonic(), True

    def _keep(self, item: str, label: str | None, purpose: str) -> bool:
        self.desk.space.store.hold()
        self.desk.space.store.add(item, label, self.person, purpose)
        self.desk.changed(labels_only=True)
        return True

    async def undo(self) -> None:
        """Undo the last answer and show its item again."""
        if not self.person:
            return
        async with self.in_order:
            item = await work(self.desk.space.store.undo, self.person)
            if item is None:
                ui.notify("There is nothing to undo.")
                return
            self.desk.changed(labels_only=True)
            place = await work(self.desk.place_of, item)
            purpose = await work(self.desk.space.store.purpose_of, item)
            if place is not None:
                request = {"item": item, "row": place, "purpose": purpose, "reason": "shown again"}
                self.waiting = [each for each in self.waiting if str(each["item"]) != item]
                self.waiting.insert(0, request)
            self._show()
        self.stale = True

    async def _count(self) -> None:
        """Let the counts follow once no key was pressed for a moment."""
        if self.stale and time.monotonic() - self.answered > _PAUSE:
            self.stale = False
            await self.people.refresh()

    async def _show_guidelines(self) -> None:
        told = await work(read_guidelines, self.desk.space.project) or {}
        self.guidelines.clear()
        with self.guidelines:
            if not told:
                words(
                    "Write down when a row belongs to a class, so that all label alike.", "w-faint"
                )
            for name in (label for label in self.desk.space.labels if label in told):
                with ui.element("div"):
                    words(cut(name, 60), tag="strong")
                    words(cut(told[name], 2000), tag="div").style("white-space: pre-wrap")

    def _edit_guidelines(self) -> None:
        names = list(self.desk.space.labels)
        told = read_guidelines(self.desk.space.project)
        with ui.dialog() as dialog, ui.card().style("max-width: 640px; width: 100%"):
            heading("Guidelines")
            choice = ui.select(
                {name: cut(name, 60) for name in names}, value=names[0], label="Class"
            )
            text = ui.textarea("When does a row belong to it?", value=told.get(names[0], ""))
            choice.on_value_change(lambda event: text.set_value(told.get(event.value, "")))
            text.on_value_change(lambda event: told.update({choice.value: event.value or ""}))
            for box in (choice, text):
                box.props("outlined dense").style("width: 100%")

            async def save() -> None:
                dialog.close()
                await work(write_guidelines, self.desk.space.project, told)
                await self._show_guidelines()

            ui.button("Save", on_click=save).props("unelevated no-caps")
        dialog.on("hide", dialog.delete)
        dialog.open()
