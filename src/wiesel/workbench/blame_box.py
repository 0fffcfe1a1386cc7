"""Blame: which voters led to an error, through which rows, and the result without them."""

from collections.abc import Callable
from functools import partial
from typing import Any

from nicegui import ui

from wiesel.guidance import Blame
from wiesel.lfs.function import LabelRule
from wiesel.lfs.text_rules import Keywords, Regex
from wiesel.workbench.chips import chip
from wiesel.workbench.desk import Desk, work
from wiesel.workbench.layout import card, table
from wiesel.workbench.lf_maker import LFMaker
from wiesel.workbench.row_view import open_row
from wiesel.workbench.texts import cut, percent, words

__all__ = ["BlameBox"]

_NOBODY = {
    "predicted": "No span function marks anything here: the tagger learned it from other texts.",
    "missed": "No span function marks anything here: a rule is missing.",
}
_LISTED = 8


class BlameBox:
    """The voters and neighbors behind one prediction, with a switch per voter."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.left_out: set[str] = set()
        self.found: Blame | None = None
        self.bucket: tuple[str, Any, str] | None = None
        """The split, the rows and the right class of the errors of the same kind."""

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

    async def show(
        self, split: str, place: int, label: str, right: str = "", errors: Any = ()
    ) -> None:
        """Show what led to one prediction; `errors` are all of the same kind."""
        self.bucket = (split, errors, right) if len(errors) else None
        self.found = await work(self.desk.space.blame, place, label, split)
        self.left_out = set()
        self.place.clear()
        if self.found is None:
            return
        names = self.found.data[1].labels
        with self.place:
            share = self.found.proba[names.index(label)]
            words(f"A linear model on the same votes gives {cut(label, 40)} {percent(share)}.")
            self.effect = words("Turn voters off to see their effect.", "w-faint", "blame-effect")
            self._voters(self.found)
            with ui.element("div").classes("w-row"):
                write = ui.button(
                    "Write the missing rule", on_click=partial(self._write, split, place, right)
                )
                write.props("outline dense no-caps").classes("blame-write")
            self.replayed = words("", "blame-replayed")
            words("Most influential rows", "w-h3", tag="h3")
            self._neighbors(self.found)
        _come_into_view()

    async def show_spans(
        self, split: str, place: int, wrong: list[tuple[str, tuple[int, int, str]]]
    ) -> None:
        """Show which span functions mark the places of wrong spans: predicted ones, and missed."""
        space: Any = self.desk.space
        voted = await work(space.spans_on, split, place)
        self.bucket = None
        self.place.clear()
        if voted is None:
            return
        text = space.documents[split].texts[place]
        with self.place:
            for told, (start, end, label) in wrong:
                heading = f"“{cut(text[start:end], 60)}” as {cut(label, 30)}: {told}"
                words(heading, "w-h3", "blame-span", tag="h3")
                there = [(name, span) for name, span in voted if span[0] < end and start < span[1]]
                if not there:
                    words(_NOBODY[told], "w-faint")
                for name, span in there:
                    with ui.element("div").classes("w-row"):
                        chip(self.desk, span[2])
                        words(f"{cut(name, 40)}: {cut(text[span[0] : span[1]], 60)}")
                        self._mends(name)
            write = partial(self._write, split, place, wrong[0][1][2] if wrong else "")
            button = ui.button("Write the missing rule", on_click=write)
            button.props("outline dense no-caps").classes("blame-write")
            self.replayed = words("", "blame-replayed")
        _come_into_view()

    def _voters(self, found: Blame) -> None:
        with table(("voter", False), ("vote", False), ("push", True), ("", False)):
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
                        self._mends(row["voter"])

    def _mends(self, voter: str) -> None:
        """Offer what can be done about a rule: narrow it, split it, switch it off."""
        state = self.desk.space.cast.state
        entry = next((e for e in state.entries if e.name == voter), None) if state else None
        if entry is None:
            return
        with ui.button(icon="build").props('flat dense round aria-label="Mend it"') as button:
            button.classes("blame-mend")
            with ui.menu():
                lfs = self.desk.space.lf_set
                off = partial(lfs.switch, voter, False)
                ui.menu_item("Switch it off", on_click=partial(self._mend, voter, off))
                if isinstance(entry.rule, (Keywords, Regex)):
                    narrow = partial(self._narrow, entry.name, entry.rule)
                    ui.menu_item("Narrow it: change its words", on_click=narrow)
                is_list = isinstance(entry.rule, Keywords) and len(entry.rule.keywords) > 1
                if is_list and entry.place is not None:
                    split = partial(self._mend, voter, partial(lfs.split, voter))
                    ui.menu_item("Split it: one rule for each word", on_click=split)

    async def _mend(self, voter: str, change: Callable[[], object]) -> None:
        before = await work(self._right_now, quiet=True)
        if await work(_done, change):
            ui.notify(f"{cut(voter, 60)} is changed; undo it on the page LFs.")
            await self._replay(before)

    def _narrow(self, voter: str, rule: LabelRule) -> None:
        """Change the words of a rule, with the effect on the model before it is saved."""
        with ui.dialog() as dialog, ui.card().style("max-width: 900px; width: 100%"):

            async def changed() -> None:
                dialog.close()
                await self._replay(before)

            maker = LFMaker(self.desk, changed)
            maker.build()
            before = self._right_now()
            ui.timer(0.01, partial(maker.edit, voter, rule), once=True)
        dialog.on("hide", dialog.delete)
        dialog.open()

    async def _write(self, split: str, place: int, right: str) -> None:
        before = await work(self._right_now, quiet=True)
        await open_row(self.desk, split, place, partial(self._replay, before), label=right)

    def _right_now(self) -> int | None:
        """Return how many errors of this kind the preview gets right; None if there is none."""
        if self.bucket is None:
            return None
        split, rows, right = self.bucket
        found = self.desk.space.previewed(split)
        if found is None:
            return None
        predicted = [dict(own.predicted) for own in self.desk.space.marks(split, rows, found)]
        if right in self.desk.space.labels:
            return sum(right in own for own in predicted)
        return sum(right.removeprefix("not ") not in own for own in predicted)  # of several labels

    async def _replay(self, before: int | None) -> None:
        """Show what became of the errors of this kind, in the preview."""
        self.desk.changed()
        now = await work(self._right_now, quiet=True)
        if self.bucket is None or now is None or before is None:
            return
        self.replayed.set_text(
            f"Of the {len(self.bucket[1]):,} errors of this kind, the preview gets {now:,} right, "
            f"{before:,} before."
        )

    async def _switched(self, voter: str, event: object) -> None:
        found = self.found
        if found is None:
            return
        self.left_out ^= {voter}
        if self.left_out >= set(found.voters.frame["voter"]):
            self.effect.set_text("Without all of them, there is nothing left to learn from.")
            return
        proba = await work(found.without, sorted(self.left_out))
        if proba is None:
            return
        place = found.data[1].labels.index(found.label)
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


def _come_into_view() -> None:
    """Scroll to the answer, which may be far from the error that was asked about."""
    ui.run_javascript(
        "document.querySelector('.blame').parentElement"
        ".scrollIntoView({block: 'nearest', behavior: 'smooth'})"
    )


def _done(change: Callable[[], object]) -> bool:
    change()
    return True
