"""Proposed labeling functions, one after the other, to accept or reject with one key."""

from collections.abc import Callable
from typing import Any

from nicegui import ui
from nicegui.events import KeyEventArguments

from wiesel.guidance import LFPreview, Suggestion
from wiesel.guidance.suggesting import rule_words
from wiesel.workbench.chips import chip
from wiesel.workbench.desk import Desk, work
from wiesel.workbench.layout import card
from wiesel.workbench.lf_maker import preview_hits
from wiesel.workbench.texts import cut, percent, words

__all__ = ["LFQueue"]

_MORE = 30


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
