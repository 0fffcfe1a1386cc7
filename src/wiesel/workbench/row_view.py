"""The detail view of a row: text with matched words, votes, soft label and prediction."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from nicegui import ui
from nicegui.events import KeyEventArguments

from wiesel.errors import WieselError
from wiesel.explain import Explanation
from wiesel.lfs.apply import matched_spans
from wiesel.project.runs import RowMarks, kept_runs
from wiesel.project.settings import ONE_LABEL
from wiesel.workbench.chips import chip, span_line
from wiesel.workbench.desk import Desk, work
from wiesel.workbench.layout import heading, stored_person, table
from wiesel.workbench.lf_maker import LFMaker
from wiesel.workbench.texts import cut, marked, percent, shown, words

_KEYS = 9
"""How many classes have a number key."""
_SPREAD = "justify-content: space-between; width: 100%"

__all__ = ["RowFacts", "open_row", "row_facts"]


@dataclass(frozen=True)
class RowFacts:
    """All facts about one row."""

    item: str
    row: dict[str, Any]
    spans: list[tuple[int, int]]
    """The parts of the text column that labeling functions matched."""
    votes: list[tuple[str, str, float]]
    """Voter, class, and trust in the voter (NaN if unknown)."""
    soft_labels: tuple[tuple[str, float], ...]
    """What the votes say together, each label with its share."""
    marks: RowMarks
    lines: list[tuple[str, Any]]
    """What voters, the model and people mark in the text, if the labels are of its parts."""
    source: str
    """The model that predicts."""


def row_facts(desk: Desk, split: str, place: int) -> RowFacts:
    """Collect everything about one row."""
    space = desk.space
    part = space.splits[split]
    row = part.rows.row(place, named=True)
    found = space.votes_on(split, place)
    spans = _spans(desk, row, {name for name, _, _ in found})
    predictions = desk.predictions(split)
    return RowFacts(
        str(row["id"]),
        row,
        spans,
        found,
        space.soft_labels_of(split, place) if found else (),
        space.marks(split, [place], predictions)[0],
        space.span_lines(split, place, predictions),
        "" if predictions is None else predictions.source,
    )


def _spans(desk: Desk, row: dict[str, Any], voters: set[str]) -> list[tuple[int, int]]:
    column, state = desk.space.text_column, desk.space.cast.state
    if column is None or state is None:
        return []
    found = [
        span
        for entry in state.entries
        if entry.name in voters
        for span in matched_spans(entry.lf, row).get(column, [])
    ]
    return sorted(set(found))


async def open_row(
    desk: Desk,
    split: str,
    place: int,
    on_added: Callable[[], Any] | None = None,
    rows: Any = (),
    label: str = "",
) -> None:
    """Open a row in a dialog; words marked in its text become labeling functions.

    `on_added` is called when a labeling function has been added. `rows` are those before and after,
    `label` is the class that a new function votes for at first.
    """
    await RowView(desk, split, on_added, rows, label).show(place)


class RowView:
    """A row in a dialog, and the way to the rows before and after it."""

    def __init__(
        self,
        desk: Desk,
        split: str,
        on_added: Callable[[], Any] | None,
        rows: Any,
        label: str = "",
    ) -> None:
        self.desk, self.split, self.on_added, self.rows = desk, split, on_added, rows
        self.label = label
        self.place = -1
        self.person = ""
        self.dialog: Any = None

    async def show(self, place: int) -> None:
        """Show a row."""
        facts = await work(row_facts, self.desk, self.split, place)
        if facts is None:
            return
        self.place = place
        self.desk.count("opened")
        if self.dialog is None:
            with ui.dialog() as self.dialog:
                self.card = ui.card().style("max-width: 900px; width: 100%")
                ui.keyboard(on_key=self._key, ignore=["input", "select", "textarea"])
            self.dialog.on("hide", self.dialog.delete)
            self.dialog.open()
        self.card.clear()
        with self.card:
            self._head(facts)
            _text(self.desk, facts, self.on_added, self.label)
            for title, found in facts.lines:
                span_line(self.desk, str(facts.row[str(self.desk.space.text_column)]), found, title)
            _other_columns(self.desk, facts)
            _verdict(self.desk, facts)
            if self._takes_labels:
                self._labels()
            _votes(self.desk, facts)
            if kept_runs(self.desk.space.project) and facts.votes:
                _explain_button(self.desk, facts)

    def _head(self, facts: RowFacts) -> None:
        with ui.element("div").classes("w-row").style(_SPREAD):
            heading(f"Row {cut(facts.item, 60)}")
            with ui.element("div").classes("w-row"):
                for step, icon, name in (
                    (-1, "arrow_back", "before"),
                    (1, "arrow_forward", "after"),
                ):
                    button = ui.button(icon=icon, on_click=partial(self._turn, step))
                    button.props("flat round").classes(f"row-{name}")
                    button.props["aria-label"] = f"The row {name}"
                    button.set_enabled(self._neighbor(step) is not None)
                close = ui.button(icon="close", on_click=self.dialog.close)
                close.props('flat round aria-label="Close"')

    def _neighbor(self, step: int) -> int | None:
        found = np.flatnonzero(np.asarray(self.rows) == self.place)
        wanted = int(found[0]) + step if len(found) else -1
        return int(self.rows[wanted]) if 0 <= wanted < len(self.rows) else None

    async def _turn(self, step: int) -> None:
        wanted = self._neighbor(step)
        if wanted is not None:
            await self.show(wanted)

    @property
    def _takes_labels(self) -> bool:
        """Whether the row can be labeled here: with one class, which is a whole answer."""
        return self.split == "train" and self.desk.space.project.task == ONE_LABEL

    def _labels(self) -> None:
        """Show buttons to label the row; many classes are a list in which one can type."""
        names = self.desk.space.labels.names
        with ui.element("div").classes("w-row row-labels"):
            words("Label it", "w-faint")
            if len(names) > _KEYS:
                options = {name: cut(name, 40) for name in names}
                box = ui.select(options, with_input=True, label="Class")
                box.on_value_change(lambda event: self._label(event.value))
                box.props("dense outlined options-dense").style("min-width: 220px")
            else:
                for number, name in enumerate(names, start=1):
                    button = ui.button(on_click=partial(self._label, name))
                    button.props("outline dense no-caps")
                    with button:
                        words(cut(name, 30))
                        words(str(number), "w-key")

    async def _label(self, label: str) -> None:
        if not self.person:
            self.person = await stored_person()
        if not self.person:
            ui.notify("Say on the page Label under which name to save it.", type="warning")
            return
        item = str(self.desk.space.splits[self.split].ids[self.place])
        if await work(self._keep, item, label):
            ui.notify(
                f"{cut(item, 40)} is labeled {cut(label, 40)}; U on the page Label undoes it."
            )
            await self.show(self.place)

    def _keep(self, item: str, label: str) -> bool:
        self.desk.space.store.add(item, label, self.person)
        self.desk.changed(labels_only=True)
        return True

    async def _key(self, event: KeyEventArguments) -> None:
        if not event.action.keydown or event.modifiers.ctrl or event.modifiers.meta:
            return
        names, number = self.desk.space.labels.names, event.key.number
        if event.key.arrow_left or event.key.arrow_right:
            await self._turn(1 if event.key.arrow_right else -1)
        elif self._takes_labels and number and number <= len(names) <= _KEYS:
            await self._label(names[number - 1])


def _text(desk: Desk, facts: RowFacts, on_added: Callable[[], Any] | None, label: str = "") -> None:
    column = desk.space.text_column
    if column is None:
        return
    box = marked(str(facts.row[column] or ""), facts.spans, limit=20_000).classes("row-text")
    if on_added is None or not desk.space.has_lfs:
        return
    words("Select words in the text to make a labeling function from them.", "w-faint")
    maker = LFMaker(desk, on_added)
    with ui.element("div").style("width: 100%; display: flex; flex-direction: column; gap: 8px"):
        # Most often, words are marked that say what the row is believed to be.
        believed = (*(facts.marks.gold or ()), *(name for name, _ in facts.marks.predicted))
        maker.build(label or next(iter(believed), ""))

    async def marked_words(event: Any) -> None:
        await maker.show(str(event.args))

    script = "() => { const s = String(getSelection()).trim(); if (s) emit(s.slice(0, 400)) }"
    box.props('tabindex="0"')
    box.on("mouseup", marked_words, js_handler=script)
    box.on("keyup", marked_words, js_handler=script)


def _other_columns(desk: Desk, facts: RowFacts) -> None:
    others = [name for name in facts.row if name not in ("id", desk.space.text_column)]
    if not others:
        return
    with table(("column", False), ("value", False)):
        for name in others:
            with ui.element("tr"):
                words(cut(name), tag="td")
                words(cut(facts.row[name], 400), tag="td")


def _verdict(desk: Desk, facts: RowFacts) -> None:
    with ui.element("div").classes("w-row"):
        for name in facts.marks.gold or ():
            chip(desk, name, "gold: ")
        if facts.marks.gold == ():
            words("gold: none", "w-faint")
        for name, sure in facts.marks.predicted:
            chip(desk, name, f"{facts.source.split()[0]}: {sure} ")
        if facts.source and not facts.marks.predicted:
            words(f"{facts.source.split()[0]}: none", "w-faint")
        for name, share in facts.soft_labels:
            chip(desk, name, f"votes: {percent(share)} ")


def _votes(desk: Desk, facts: RowFacts) -> None:
    if not facts.votes:
        words("No labeling function votes on this row.", "w-faint")
        return
    n_classes = len(desk.space.labels)
    with table(("voter", False), ("vote", False), ("trust", True), ("push", True)):
        for voter, label, trust in facts.votes:
            with ui.element("tr"):
                words(shown(voter), tag="td")
                with ui.element("td"):
                    chip(desk, label)
                words(percent(trust), "w-number", tag="td")
                push = np.log(trust * (n_classes - 1) / (1 - trust))
                words(percent(None) if np.isnan(push) else f"{push:+.2f}", "w-number", tag="td")


def _explain_button(desk: Desk, facts: RowFacts) -> None:
    run = kept_runs(desk.space.project)[0]
    place = ui.element("pre").classes("w-code")

    async def explain() -> None:
        found = await work(_explained, desk, run.folder / "model", facts.item)
        with place:
            place.clear()
            words(
                str(found) if found is not None else "No explanation is available.", "row-explained"
            )

    ui.button(f"Explain with run {run.name}", on_click=explain).props("flat dense no-caps")


def _explained(desk: Desk, model: Any, item: str) -> Explanation | str:
    from wiesel.project.explaining import explain_item  # it loads torch; the pages do not need it

    try:
        return explain_item(model, item, project=desk.space.project.file)[0]
    except WieselError as error:
        return str(error)
