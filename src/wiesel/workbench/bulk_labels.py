"""Labels many rows at once, with one undo for all."""

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from nicegui import ui

from wiesel.project.settings import SEVERAL_LABELS
from wiesel.workbench.desk import Desk, work
from wiesel.workbench.layout import heading, stored_person
from wiesel.workbench.texts import cut, words

__all__ = ["BulkLabels"]

_MOST = 20_000
"""So many rows are labeled at once at most."""
_LONG_LIST = 15
"""In a longer list of choices one can type."""


class BulkLabels:
    """Asks for the class of some training rows, and labels them."""

    def __init__(self, desk: Desk, on_changed: Callable[[], Any]) -> None:
        self.desk, self.on_changed = desk, on_changed

    async def ask(self, rows: Any) -> None:
        """Ask for the class of the rows."""
        rows = np.asarray(rows)
        person = await stored_person()
        if not person or len(rows) > _MOST:
            ui.notify(
                "Say on the page Label under which name to save labels."
                if not person
                else f"At most {_MOST:,} rows are labeled at once: use filters.",
                type="warning",
            )
            return
        options = {name: cut(name, 60) for name in self.desk.space.labels}
        content = ui.context.client.content
        with content, ui.dialog() as dialog, ui.card().style("min-width: 320px"):
            heading(f"Label {len(rows):,} rows")
            words("Each counts as labeled by you. One undo takes all of them back.", "w-faint")
            is_set = self.desk.space.project.task == SEVERAL_LABELS
            choice = ui.select(
                options,
                label="Labels; leave it empty for none" if is_set else "Class",
                with_input=len(options) > _LONG_LIST,
                multiple=is_set,
            )
            choice.props("outlined dense").classes("label-all-class").style("width: 100%")
            button = ui.button(
                "Label them", on_click=lambda: self._label(dialog, choice, person, rows)
            )
            button.props("unelevated no-caps")
        dialog.on("hide", dialog.delete)
        dialog.open()

    async def _label(self, dialog: Any, choice: Any, person: str, rows: Any) -> None:
        if choice.value is None:
            return
        dialog.close()
        answers = self.desk.space.answers
        text = await work(answers.written, choice.value)
        if text is None or not await work(self._keep, rows, text, person):
            return
        with ui.context.client.content, ui.dialog() as undo, ui.card():
            words(
                f"{len(rows):,} rows are labeled {cut(answers.shown(text), 40)}.", "label-all-done"
            )
            with ui.element("div").classes("w-row"):
                back = ui.button("Undo", on_click=lambda: self._undo(undo, person))
                back.props("flat no-caps")
                ui.button("Good", on_click=undo.close).props("unelevated no-caps")
        undo.on("hide", undo.delete)
        undo.open()
        await self.on_changed()

    def _keep(self, rows: Any, label: str, person: str) -> bool:
        items = self.desk.space.train.ids.cast(pl.String).gather(rows).to_list()
        self.desk.space.store.add_all(items, label, person)
        self.desk.changed(labels_only=True)
        return True

    async def _undo(self, dialog: Any, person: str) -> None:
        dialog.close()
        await work(self.desk.space.store.undo, person)
        self.desk.changed(labels_only=True)
        await self.on_changed()
