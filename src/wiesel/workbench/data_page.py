"""Data: the rows page by page, what to look at next, and a detail view for each row."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from nicegui import ui

from wiesel.guidance import ItemFilter
from wiesel.guidance.suggesting import rule_words
from wiesel.workbench.bulk_labels import BulkLabels
from wiesel.workbench.chips import chip
from wiesel.workbench.desk import Desk, work
from wiesel.workbench.layout import card, empty_state, keep_in_address, table
from wiesel.workbench.lf_maker import LFMaker
from wiesel.workbench.row_view import open_row
from wiesel.workbench.send_box import SendBox
from wiesel.workbench.texts import cut, shown, words

__all__ = ["DataPage"]

_PAGE = 25
_ANY = ""
"""The choice of everything: no class and no voter has this name."""
_FILTERS = ("search", "votes", "voter", "vote", "predicted", "gold", "confidence")
_LONG_LIST = 15
"""In a longer list of choices one can type."""
_CLASS = "class "
"""Tells the class `unknown` from rows without a gold label."""
_SURE = {"low": (0.0, 0.6), "middle": (0.6, 0.9), "high": (0.9, 1.0)}
_DISPUTED = 100
_VOTES = {_ANY: "any votes", "covered": "with votes", "uncovered": "without votes"}
_VOTES |= {"conflict": "in conflict"}


class DataPage:
    """The rows that meet the chosen conditions, 25 at a time."""

    def __init__(self, desk: Desk, query: Mapping[str, str]) -> None:
        self.desk = desk
        self.split = query.get("split", "train")
        if self.split not in desk.space.splits:
            self.split = "train"
        self.filters = {name: query[name] for name in _FILTERS if query.get(name)}
        """The filters in use; they are in the address, too, so that reload and back keep them."""
        self.number = query.get("selection", "")
        self.chosen: Any = None
        """The rows to show; None shows all."""
        self.title = ""
        self.page = 0
        self.turn = 0
        """Incremented with each new view, so that late answers are discarded."""
        self.looks = 0
        """The same for what to look at next."""
        self.shown: tuple[str, list[tuple[Any, ...]]] = ("", [])
        """The split and the cells of the table."""
        self.doing: Any = None
        """What shows how far slow work is; None if there is none."""
        self.source = ""
        """The model whose predictions are shown."""
        self.rows: Any = np.arange(len(desk.space.splits[self.split]))
        self.bulk, self.send = BulkLabels(desk, self._show), SendBox(desk)
        found = desk.selected(self.number)
        if found is not None:
            self.split, self.chosen, self.title = found.split, found.rows, found.title
            self.rows = np.asarray(found.rows)

    def build(self) -> None:
        """Show the page; slow parts follow."""
        with ui.element("div").classes("w-columns"):
            with card():
                self._filters()
                self.list = ui.element("div").classes("data-rows")
                self._pager()
            with ui.element("div").classes("w-stack"):
                with card("Make a labeling function"):
                    words("Open a row and mark words in it, or type them here.", "w-faint")
                    self.maker = LFMaker(self.desk, self._refresh_all)
                    self.maker.build()
                with card("What to look at next"):
                    self.next = ui.element("div").style(
                        "display: flex; flex-direction: column; gap: 8px; min-height: 260px"
                    )
                    with self.next:
                        words("Looking …", "w-faint")
        self._show_rows(self._texts())
        ui.timer(0.01, self._refresh_all, once=True)
        if not self.desk.is_ready:
            ui.timer(1.0, self._tell_doing)

    async def _refresh_all(self) -> None:
        await self.refresh()
        await self._what_next()

    def _filters(self) -> None:
        names = {name: cut(name, 40) for name in self.desk.space.labels}
        labels = {_ANY: "any class", **names}
        gold = {_ANY: "any gold", "known": "labeled", "unknown": "not labeled", "wrong": "wrong"}
        gold |= {_CLASS + name: shown for name, shown in names.items()}
        sure = {_ANY: "any confidence", "low": "below 60 %", "middle": "60 to 90 %"}
        sure |= {"high": "above 90 %"}
        with ui.element("div").classes("w-filters"):
            search = ui.input("Search", value=self.filters.get("search", ""))
            search.on_value_change(lambda event: self._set("search", event.value or ""))
            search.props('dense outlined clearable debounce="300"').classes("w-search")
            if len(self.desk.space.splits) > 1:
                names = {n: n for n in self.desk.space.splits}
                rows = ui.select(names, value=self.split, label="Rows")
                rows.on_value_change(lambda event: self._set_split(event.value))
                rows.props("dense outlined options-dense")
            self._choice("Votes", "votes", _VOTES)
            own = {name: cut(name, 40) for name in [self.filters.get("voter")] if name}
            self.voter = self._choice("Voter", "voter", {_ANY: "any voter", **own})
            self._choice("Vote", "vote", labels)
            self._choice("Predicted", "predicted", labels)
            self._choice("Gold", "gold", gold)
            self._choice("Confidence", "confidence", sure)
        self.note = ui.element("div").classes("w-row")

    def _choice(self, title: str, name: str, options: dict[str, str]) -> ui.select:
        value = self.filters.get(name, _ANY)
        value = value if value in options else _ANY
        box = ui.select(options, value=value, label=title, with_input=len(options) > _LONG_LIST)
        box.on_value_change(lambda event: self._set(name, event.value or _ANY))
        box.props("dense outlined options-dense")
        return box

    async def _set(self, name: str, value: str) -> None:
        self.filters = {**self.filters, name: value}
        if not value:
            del self.filters[name]
        self.page = 0
        await self.refresh()

    async def _set_split(self, value: str) -> None:
        self.split, self.chosen, self.number, self.page = value, None, "", 0
        await self.refresh()

    def _wanted(self) -> ItemFilter:
        """Return the condition that the filters express."""
        plain = ("search", "voter", "vote", "predicted")
        wanted: dict[str, Any] = {k: self.filters[k] for k in plain if k in self.filters}
        votes, gold = self.filters.get("votes"), self.filters.get("gold", "")
        if votes in ("covered", "uncovered"):
            wanted["covered"] = votes == "covered"
        if votes == "conflict":
            wanted["conflict"] = True
        if gold:
            is_class = gold.startswith(_CLASS)
            wanted["gold_class" if is_class else "gold"] = gold.removeprefix(_CLASS)
        if self.filters.get("confidence") in _SURE:
            low, high = _SURE[self.filters["confidence"]]
            wanted |= {"least_confidence": low, "most_confidence": high}
        return ItemFilter.of(wanted)

    def _keep_in_address(self) -> None:
        """Write the filters into the address, without a new entry in the browser's history."""
        kept = dict(self.filters)
        kept |= {"split": self.split} if self.split != "train" else {}
        kept |= {"selection": self.number} if self.number else {}
        keep_in_address("/", kept)

    async def point_at(self, rows: Any, title: str) -> None:
        """Show only these rows."""
        self.split, self.chosen, self.title, self.page = "train", rows, title, 0
        self.number = self.desk.select("train", rows, title).rpartition("=")[2]
        await self.refresh()

    async def refresh(self) -> None:
        """Query the rows again and show the first page."""
        self._keep_in_address()
        found = await work(self._found)
        if found is not None:
            self.rows = found
        await self._show()

    def _found(self) -> Any:
        wanted = self._wanted()
        n_rows = len(self.desk.space.splits[self.split])
        rows = np.arange(n_rows) if wanted.is_empty else wanted.rows(self.desk.facts(self.split))
        if self.chosen is None:
            return rows
        return np.asarray(self.chosen)[np.isin(self.chosen, rows)]

    async def _show(self) -> None:
        self.turn += 1
        turn = self.turn
        self.list.classes(remove="w-ready")
        if not self.desk.is_ready:
            self._show_rows(self._texts())
            early = await work(self._cells, self._on_page(), False, quiet=True)
            if turn == self.turn and early is not None:
                self._show_rows(early)
        cells = await work(self._cells, self._on_page())
        if turn != self.turn:
            return  # another page was requested in the meantime
        if cells is not None:
            self._show_rows(cells)
        self.list.classes("w-ready")
        options = {_ANY: "any voter", **{v: cut(v, 40) for v in self.desk.voters()}}
        if options != self.voter.options:
            self.voter.set_options(options, value=self.voter.value)

    def _on_page(self) -> Any:
        return self.rows[self.page * _PAGE : (self.page + 1) * _PAGE]

    def _show_rows(self, cells: list[tuple[Any, ...]]) -> None:
        self._show_note()
        if cells and self.shown == (self.split, cells):
            return  # do not redraw under a user who is about to open a row
        self.shown = (self.split, cells)
        self.list.clear()
        with self.list:
            if not cells:
                empty_state("No rows match", "Remove a filter to see more rows.")
                return
            with table(("text", False), ("votes", False), ("predicted", False), ("gold", False)):
                for cell in cells:
                    self._row(*cell)

    def _row(
        self,
        place: int,
        text: str,
        votes: dict[str, int],
        predicted: tuple[tuple[str, str], ...],
        gold: tuple[str, ...] | None,
    ) -> None:
        with ui.element("tr").classes("w-open").props('tabindex="0"') as row:
            words(text, tag="td").props('dir="auto"')
            with ui.element("td"):
                for name, count in votes.items():
                    chip(self.desk, name, f"{count} ")
            with ui.element("td"):
                for name, sure in predicted:
                    chip(self.desk, name, f"{sure} ")
            with ui.element("td"):
                for name in gold or ():
                    chip(self.desk, name)
                if gold == ():
                    words("none", "w-faint")
        opening = partial(self._open, place)
        row.on("click", opening)
        row.on("keydown.enter", opening)

    async def _open(self, place: int) -> None:
        await open_row(self.desk, self.split, place, self._refresh_all, self.rows)

    def _texts(self) -> list[tuple[Any, ...]]:
        """Return the table rows before votes and predictions are available."""
        column = self._column()
        texts = self.desk.space.splits[self.split].rows[column]
        places = map(int, self._on_page())
        return [(place, cut(texts[place]), {}, (), None) for place in places]

    def _column(self) -> str:
        return self.desk.space.text_column or self.desk.space.splits[self.split].rows.columns[0]

    def _cells(self, places: Any, predict: bool = True) -> list[tuple[Any, ...]]:
        """Return the cells of the table rows: plain text and numbers."""
        texts = self.desk.space.splits[self.split].rows[self._column()]
        found = self.desk.predictions(self.split) if predict else None
        self.source = "" if found is None else found.source
        rows = [int(place) for place in places]
        marks = self.desk.space.marks(self.split, rows, found)
        return [
            (place, cut(texts[place]), own.votes, own.predicted, own.gold)
            for place, own in zip(rows, marks, strict=True)
        ]

    def _show_note(self) -> None:
        self.note.clear()
        self.doing = None
        n_rows, n_found = len(self.desk.space.splits[self.split]), len(self.rows)
        with self.note:
            words(f"{n_found:,} of {n_rows:,} {self.split} rows", "w-faint", "data-count")
            if not self.desk.is_ready:
                self.doing = words(self._doing(), "w-faint", "data-doing")
            elif self.source:
                asked = self.desk.space.sampled if self.source == "preview" and self.filters else ""
                words(f"— predicted by the {self.source}", "w-faint")
                words(f"of {asked}" if asked else "", "w-faint")
            if self.chosen is not None:
                words(f"— {shown(self.title)}", "w-faint")
                ui.button("show all", on_click=self._all).props("flat dense no-caps")
            some = n_found and (self.chosen is not None or self.filters)
            if self.split == "train" and some and self.desk.space.answers.in_bulk:
                label = ui.button(
                    f"Label all {n_found:,}", on_click=lambda: self.bulk.ask(self.rows)
                )
                label.props("flat dense no-caps").classes("label-all")
            if n_found:
                send = ui.button("Send to …", on_click=lambda: self.send.ask(self.split, self.rows))
                send.props("flat dense no-caps").classes("send-rows")
        last = max(0, (n_found - 1) // _PAGE)
        self.where.set_text(f"page {self.page + 1:,} of {last + 1:,}")
        self.back.set_enabled(self.page > 0)
        self.forward.set_enabled(self.page < last)

    def _doing(self) -> str:
        doing = self.desk.space.doing
        return f"— votes and predictions are being computed … {shown(doing)}"

    def _tell_doing(self) -> None:
        """Show how far the slow work is, while it lasts."""
        if self.doing is not None and not self.desk.is_ready:
            self.doing.set_text(self._doing())

    async def _all(self) -> None:
        self.chosen, self.title, self.number, self.page = None, "", "", 0
        await self.refresh()

    def _pager(self) -> None:
        with ui.element("div").classes("w-row"):
            self.back = ui.button("Previous", on_click=partial(self._turn, -1))
            self.where = ui.label("page 1").classes("w-faint data-page")
            self.forward = ui.button("Next", on_click=partial(self._turn, 1))
            self.forward.classes("data-next")
            for button in (self.back, self.forward):
                button.props("flat dense no-caps")

    async def _turn(self, step: int) -> None:
        self.page = max(0, self.page + step)
        await self._show()

    async def _what_next(self) -> None:
        self.looks += 1
        look = self.looks
        found = await work(self._next_found, quiet=True) or []
        if look != self.looks:
            return  # another labeling function was added in the meantime
        self._show_next(found, "Looking for labeling functions to suggest …")
        found += await work(self._next_suggested, quiet=True) or []
        if look != self.looks:
            return
        more = "" if found else "Write a labeling function or label some rows to get suggestions."
        self._show_next(found, more)

    def _show_next(self, found: list[tuple[str, Any, str]], more: str) -> None:
        self.next.clear()
        with self.next:
            for title, rows, hint in found:
                with ui.element("div").classes("w-next"):
                    ui.button(title, on_click=partial(self.point_at, rows, title)).props(
                        "flat dense no-caps align=left"
                    ).classes("next-item")
                    words(hint, "w-faint")
            if more:
                words(more, "w-faint")

    def _next_found(self) -> list[tuple[str, Any, str]]:
        space = self.desk.space
        found: list[tuple[str, Any, str]] = []
        if space.votes.n_votes:
            for cluster in space.clusters()[:5]:
                name = ", ".join(cluster.words[:4]) or "no typical words"
                hint = f"{len(cluster):,} rows without a vote"
                among = f", among {space.sampled}" if space.sampled else ""
                found.append((cut(name, 60), cluster.rows, hint + among))
            disputed = space.disputed(_DISPUTED)
            if len(disputed):
                hint = f"the {len(disputed)} most disputed rows"
                found.append(("label models disagree", disputed, hint))
        return found

    def _next_suggested(self) -> list[tuple[str, Any, str]]:
        found: list[tuple[str, Any, str]] = []
        for each in self.desk.suggested(3):
            rows = self.desk.space.preview_rule(each.lf).rows
            title = cut(f"{rule_words(each.lf)} → {each.lf.label}", 60)
            found.append((title, rows, f"a suggested LF would vote on {len(rows):,} rows"))
        return found
