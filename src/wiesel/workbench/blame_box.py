"""Blame: which voters led to an error, through which rows, and the result without them."""

from functools import partial

from nicegui import ui

from wiesel.guidance import Blame
from wiesel.workbench.desk import Desk, work
from wiesel.workbench.layout import card, table
from wiesel.workbench.row_view import open_row
from wiesel.workbench.texts import cut, percent, words

__all__ = ["BlameBox"]

_LISTED = 8


class BlameBox:
    """The voters and neighbors behind one prediction, with a switch per voter."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.left_out: set[str] = set()
        self.found: Blame | None = None

    def build(self) -> None:
        """Show an empty box."""
        with card("Blame"):
            self.place = (
                ui.element("div")
                .classes("blame")
                .style("display: flex; flex-direction: column; gap: 8px")
            )
        with self.place:
            words("Press 'why?' at an error to see which voters caused it.", "w-faint")

    async def show(self, split: str, place: int, label: str) -> None:
        """Show what led to one prediction."""
        self.found = await work(self.desk.space.blame, place, label, split)
        self.left_out = set()
        self.place.clear()
        if self.found is None:
            return
        names = self.desk.space.labels
        with self.place:
            share = self.found.proba[names.index(label)]
            words(f"A linear model on the same votes gives {cut(label, 40)} {percent(share)}.")
            self.effect = words("Turn voters off to see their effect.", "w-faint", "blame-effect")
            self._voters(self.found)
            words("Most influential rows", "w-h3", tag="h3")
            self._neighbors(self.found)

    def _voters(self, found: Blame) -> None:
        with table(("voter", False), ("vote", False), ("push", True), ("counts", False)):
            for row in found.voters.to_records()[:_LISTED]:
                with ui.element("tr"):
                    words(cut(row["voter"], 40), tag="td")
                    words(cut(row["vote"], 30), tag="td")
                    words(f"{row['push']:+.3f}", "w-number", tag="td")
                    with ui.element("td"):
                        change = partial(self._switched, row["voter"])
                        ui.switch(value=True, on_change=change).props("dense").classes(
                            "blame-switch"
                        )

    async def _switched(self, voter: str, event: object) -> None:
        found = self.found
        if found is None:
            return
        self.left_out ^= {voter}
        proba = await work(found.without, sorted(self.left_out))
        if proba is None:
            return
        place = self.desk.space.labels.index(found.label)
        self.effect.set_text(
            f"Without {', '.join(sorted(self.left_out)) or 'nobody'}: {cut(found.label, 40)} "
            f"{percent(proba[place])} instead of {percent(found.proba[place])}."
        )

    def _neighbors(self, found: Blame) -> None:
        column = self.desk.space.text_column
        rows = self.desk.space.train.rows
        for row in found.neighbors.to_records()[:_LISTED]:
            text = cut(rows[column][row["row"]], 80) if column else str(row["item"])
            with ui.element("div").classes("w-row"):
                opening = partial(open_row, self.desk, "train", row["row"])
                ui.button(f"{row['push']:+.3f}", on_click=opening).props("flat dense no-caps")
                words(text).style("flex: 1; min-width: 0; unicode-bidi: isolate")
