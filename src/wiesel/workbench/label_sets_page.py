"""Label rows that may have several labels: number keys choose, Enter saves."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from nicegui import ui
from nicegui.events import KeyEventArguments

from wiesel.workbench.desk import Desk
from wiesel.workbench.label_page import LabelPage
from wiesel.workbench.texts import cut, shade, words

__all__ = ["LabelSetPage"]


class LabelSetPage(LabelPage):
    """Rows to label; each gets any number of labels, or none, before it is saved."""

    hint = "Number keys choose labels, Enter saves"

    def __init__(self, desk: Desk, query: Mapping[str, str]) -> None:
        super().__init__(desk, query)
        self.chosen: set[str] = set()
        self.item = ""
        """The item that the chosen labels are for."""

    def _build_answers(self) -> None:
        super()._build_answers()
        with ui.element("div").classes("w-row"):
            self.save_button = ui.button(on_click=self.save).props("unelevated no-caps")
            self.save_button.classes("label-save")
        self._show_buttons()

    def _show_text(self, request: dict[str, Any], text: str | None) -> None:
        super()._show_text(request, text)
        if request["item"] != self.item:
            self.item, self.chosen = request["item"], set()
            self._show_buttons()

    def _show_buttons(self) -> None:
        # Chosen labels stay in sight, even if they were found by typing.
        others = [name for name in self.desk.space.labels if name in self.chosen - {*self.keys}]
        self.buttons.clear()
        with self.buttons:
            for number, label in enumerate(self.keys, start=1):
                self._label_button(label, str(number))
            for label in others:
                self._label_button(label)
        if hasattr(self, "save_button"):
            some = ", ".join(name for name in self.desk.space.labels if name in self.chosen)
            self.save_button.set_text(f"Save {cut(some, 60) or 'none of them'} (Enter)")

    def _label_button(self, label: str, key: str = "") -> None:
        is_chosen = label in self.chosen
        button = ui.button(on_click=partial(self.toggle, label))
        button.props("unelevated no-caps" if is_chosen else "outline no-caps")
        button.props["aria-pressed"] = "true" if is_chosen else "false"
        if is_chosen:
            button.style(f"background: {shade(self.desk.space.labels, label)} !important")
        with button:
            words(("\N{CHECK MARK} " if is_chosen else "") + cut(label, 40))
            if key:
                words(key, "w-key")

    def toggle(self, label: str) -> None:
        """Choose a label, or take it back."""
        if self.waiting and self.person:
            self.chosen ^= {label}
            self._show_buttons()

    async def save(self) -> None:
        """Save the chosen labels, which may be none, and go to the next row."""
        await self.answer(self.desk.space.answers.written(self.chosen))

    async def _take_first(self) -> None:
        found = self._matching()
        if found:
            self.finder.value = ""
            self.toggle(found[0])

    async def _key(self, event: KeyEventArguments) -> None:
        if not event.action.keydown or event.modifiers.ctrl or event.modifiers.meta:
            return
        number = event.key.number
        if number is not None and 1 <= number <= len(self.keys):
            if not (self.is_many and self.in_order.locked()):
                self.toggle(self.keys[number - 1])
        elif event.key.enter:
            await self.save()
        else:
            await super()._key(event)
