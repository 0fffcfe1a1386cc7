"""Results of tasks with several labels and with spans: figures by label, and the errors."""

from functools import partial
from typing import Any

import numpy as np
from nicegui import ui

from wiesel.project.label_views import LabelView, splits_of_run
from wiesel.workbench.blame_box import BlameBox
from wiesel.workbench.chips import chip, span_line
from wiesel.workbench.desk import work
from wiesel.workbench.layout import card, empty_state, table
from wiesel.workbench.results_page import ResultsPage
from wiesel.workbench.row_view import open_row
from wiesel.workbench.send_box import SendBox
from wiesel.workbench.texts import cut, figure_name, percent, words

__all__ = ["LabelResultsPage"]

_COLUMNS = (
    ("name", "label"),
    ("precision", "precision"),
    ("recall", "recall"),
    ("f1", "F1"),
    ("n_gold", "gold"),
    ("n_predicted", "predicted"),
)
_LISTED = 12


class LabelResultsPage(ResultsPage):
    """One run, and the rows behind its figures."""

    @property
    def beside(self) -> tuple[str, ...]:  # type: ignore[override]
        """The figures of other methods, first the one by which they are compared."""
        tested = ("macro_f1", "span_f1")
        return tuple(sorted(self.desk.space.figures, key=lambda name: name not in tested))

    @property
    def files(self) -> dict[str, str]:
        """The files of the run that can be downloaded."""
        found = {"votes": "votes.parquet", "predictions": "predictions.parquet"}
        found |= {f"{name} spans": f"spans_{name}.jsonl" for name in ("train", "dev", "test")}
        found |= {"soft labels": "soft_labels.parquet", "figures": "metrics.json"}
        folder = self.runs[self.name].folder
        return {title: file for title, file in found.items() if (folder / file).is_file()}

    async def refresh(self) -> None:
        """Show the chosen run."""
        found = await work(self._look)
        self.place.clear()
        if found is None:
            return
        view, splits = found
        if self.splits.options != splits:
            self.splits.set_options(splits, value=self.split)
        with self.place, ui.element("div").classes("w-columns"):
            with ui.element("div").classes("w-stack"):
                if not view.has_gold:
                    title = "This run knows no gold labels of these rows"
                    empty_state(title, self._advice(), "/label", "Label rows")
                else:
                    self._totals(view)
                    self._beside()
                    with card("Labels: click a heading to sort"):
                        self.labels = ui.element("div").classes("class-figures")
                        self._show_labels(view, "f1")
                    self.blame = BlameBox(self.desk)
                    self.blame.build()
            with ui.element("div").classes("w-stack"):
                self._show_errors(view)
                self._compare()
                self._weights(self.runs[self.name])

    def _look(self) -> tuple[LabelView, list[str]]:
        run = self.runs[self.name]
        splits = splits_of_run(run)
        if self.split not in splits:
            self.split = splits[0]
        view: LabelView = self.desk.space.view(run, self.split)
        return view, splits

    def _totals(self, view: LabelView) -> None:
        figures = view.figures()
        has_limits = any(low == low for _, _, low, _ in figures)
        heads = (("figure", False), ("value", True), ("95 % interval" if has_limits else "", True))
        with card(f"{int(view.known.sum()):,} rows with gold"), table(*heads):
            for name, value, low, high in figures:
                with ui.element("tr").classes("label-total"):
                    words(figure_name(name), tag="td")
                    words(percent(value, 1), "w-number", tag="td")
                    limits = f"{100 * low:.1f} to {100 * high:.1f}" if low == low else ""
                    words(limits, "w-number", tag="td")

    def _show_labels(self, view: LabelView, by: str) -> None:
        """Show the figures of each label, the worst first, and the rows behind the errors."""
        rows = sorted(
            view.per_label(),
            key=lambda row: (getattr(row, by) != getattr(row, by), getattr(row, by)),
        )
        if by.startswith("n_"):
            rows.reverse()
        self.labels.clear()
        with (
            self.labels,
            ui.element("div").classes("w-scroll"),
            ui.element("table").classes("w-table"),
        ):
            with ui.element("thead"), ui.element("tr"):
                for name, title in _COLUMNS:
                    number = [] if name == "name" else ["w-number"]
                    head = words(title + (" ↑" if name == by else ""), *number, tag="th")
                    head.props('tabindex="0" role="button"').style("cursor: pointer")
                    for event in ("click", "keydown.enter"):
                        head.on(event, partial(self._show_labels, view, name))
                for title in ("missed in", "wrong in"):
                    words(title, "w-number", tag="th")
            with ui.element("tbody"):
                for row in rows:
                    with ui.element("tr").classes("label-figures"):
                        with ui.element("td"):
                            chip(self.desk, row.name)
                        for share in (row.precision, row.recall, row.f1):
                            words(percent(share, 1), "w-number", tag="td")
                        for count in (row.n_gold, row.n_predicted):
                            words(f"{count:,}", "w-number", tag="td")
                        self._rows_cell(view, row.missed, f"{row.name} is missed")
                        self._rows_cell(view, row.invented, f"{row.name} is predicted wrongly")

    def _rows_cell(self, view: LabelView, rows: Any, title: str) -> None:
        with ui.element("td").classes("w-number"):
            self._see(view, f"{len(rows):,} row{'' if len(rows) == 1 else 's'}", rows, title)

    def _see(self, view: LabelView, text: str, rows: Any, title: str) -> None:
        button = ui.button(text, on_click=partial(self._open, view.split, rows, title))
        button.props("flat dense no-caps").set_enabled(len(rows) > 0)

    def _show_errors(self, view: LabelView) -> None:
        wrong = view.wrong_rows()
        with card("Errors"):
            if not len(wrong):
                words("No errors on the rows with gold labels.", "w-faint")
                return
            with ui.element("div"):
                self._see(
                    view,
                    f"all {len(wrong):,} error{'' if len(wrong) == 1 else 's'}",
                    wrong,
                    "errors",
                )
            for place in map(int, wrong[:_LISTED]):
                box = ui.element("div").classes("label-error w-open w-stack").style("gap: 4px")
                opening = partial(open_row, self.desk, view.split, place, None, wrong)
                box.props('tabindex="0" role="button"')
                for event in ("click", "keydown.enter"):
                    box.on(event, opening)
                with box:
                    self._show_error(view, place)

    def _show_error(self, view: LabelView, place: int) -> None:
        space = self.desk.space
        rows, column = space.splits[view.split].rows, space.text_column
        text = str(rows[column][place] or "") if column else str(view.ids[place])
        told = (("predicted", view.predicted[place]), ("right", view.gold[place]))
        if view.proba is None:  # spans are shown in the text
            for title, found in told:
                span_line(self.desk, text, found, title)
            self._ask("why?", partial(self._blame_spans, view, place))
            return
        words(cut(text, 240)).props('dir="auto"')
        with ui.element("div").classes("w-row"):
            for title, found in told:
                words(title, "w-faint")
                names = [name for name, there in zip(view.labels, found == 1, strict=True) if there]
                for name in names:
                    chip(self.desk, name)
                if not names:
                    words("none")
            wrong = np.flatnonzero(view.predicted[place] != (view.gold[place] == 1))
            for k in wrong.tolist():
                name = cut(view.labels.names[k], 30)
                self._ask(f"why {name}?", partial(self._why, view, place, k))

    def _ask(self, title: str, show: Any) -> None:
        """Show a button in a box that opens the row when it is clicked elsewhere."""
        button = ui.button(title).props("flat dense no-caps").classes("ask-why")
        button.style("align-self: flex-start")
        button.on("click.stop", show)
        button.on("keydown.enter.stop", js_handler="() => {}")

    async def _why(self, view: LabelView, place: int, k: int) -> None:
        """Show what led to a label that is wrong, or to its absence."""
        name, there = view.labels.names[k], bool(view.predicted[place][k])
        row = next(each for each in view.per_label() if each.name == name)
        said, right = (name, f"not {name}") if there else (f"not {name}", name)
        same = row.invented if there else row.missed
        await self.blame.show(view.split, place, said, right, same)

    async def _blame_spans(self, view: LabelView, place: int) -> None:
        """Show who marked what is wrong, and what was missed."""
        found, right = (
            {(int(start), int(end), label) for start, end, label, *_ in own}
            for own in (view.predicted[place], view.gold[place])
        )
        wrong = [("predicted", span) for span in sorted(found - right)]
        wrong += [("missed", span) for span in sorted(right - found)]
        await self.blame.show_spans(view.split, place, wrong)

    def _send(self) -> None:
        split = self.split if self.split in self.desk.space.splits else "train"
        SendBox(self.desk).ask(split, np.arange(len(self.desk.space.splits[split])))

    async def _compared(self, place: ui.element, name: str | None) -> None:
        found = None if not name else await work(self._other, name)
        if found is None:
            return
        rows, better, worse, n_known = found
        place.clear()
        with place:
            words(
                f"They differ on {len(rows):,} rows: of {n_known:,} rows with gold, this run alone "
                f"is right on {better:,}, the other alone on {worse:,}.",
                "run-paired",
            )
            changes = self.runs[self.name].changes(self.runs[str(name)])
            words(f"Different here: {'; '.join(changes) or 'nothing'}.", "w-faint", tag="p")
            if len(rows):
                see = partial(self._open, self.split, rows, "two runs differ")
                ui.button("see all of them", on_click=see).props("flat dense no-caps")

    def _other(self, name: str) -> tuple[Any, int, int, int]:
        """Return the rows that two runs predict differently, and how often which one is right."""
        own, _ = self._look()
        other: LabelView = self.desk.space.view(self.runs[name], self.split)
        wrong, other_wrong, known = own.is_wrong(), other.is_wrong(), own.known
        better = int(np.sum(known & ~wrong & other_wrong))
        worse = int(np.sum(known & wrong & ~other_wrong))
        return own.differs_from(other), better, worse, int(known.sum())
