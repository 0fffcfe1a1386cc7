"""Map: similar rows lie side by side; draw around some to look at them, label or find a rule."""

from functools import partial
from typing import Any

import numpy as np
from nicegui import ui

from wiesel.guidance.row_map import RowMap
from wiesel.labels import ABSTAIN
from wiesel.project.settings import ONE_LABEL
from wiesel.workbench.bulk_labels import BulkLabels
from wiesel.workbench.chips import chip
from wiesel.workbench.desk import Desk, work
from wiesel.workbench.layout import GRAY, card, keep_in_address
from wiesel.workbench.lf_maker import LFMaker
from wiesel.workbench.row_view import open_row
from wiesel.workbench.texts import cut, shade, words

__all__ = ["MapPage"]

_COLORS = {"predicted": "the prediction", "votes": "most votes", "gold": "the label"}
_UNKNOWN = "unknown"
_MOST_CLASSES = 12
"""So many of the commonest classes are named above the map."""
_MOST_COLORED = 300
_WORDS = 8
_ROWS = 6
_LIFT = 3.0
"""Typical words are so many times as frequent there as elsewhere."""
_LASSO = {
    "type": "takeGlobalCursor",
    "key": "brush",
    "brushOption": {"brushType": "polygon", "brushMode": "single", "transformable": False},
}


class MapPage:
    """The map, and what is known of the rows around which one draws."""

    def __init__(self, desk: Desk, query: dict[str, str]) -> None:
        self.desk = desk
        self.color = query.get("color", "predicted")
        if self.color not in _COLORS:
            self.color = "predicted"
        self.map: RowMap | None = None
        self.parts: list[tuple[RowMap, str]] = []
        """The neighborhoods and their words."""
        self.rows: Any = np.empty(0, np.int64)
        self.has_lasso = False
        self.bulk = BulkLabels(desk, self._changed)

    def build(self) -> None:
        """Show the page; the map follows."""
        with ui.element("div").classes("w-columns"):
            with card("Map: similar rows are near each other"):
                with ui.element("div").classes("w-row"):
                    words("Color:", "w-faint")
                    color = ui.toggle(_COLORS, value=self.color, on_change=self._colored)
                    color.props("dense unelevated no-caps").classes("w-toggle map-color")
                self.note = words("Computing the features and the map …", "w-faint", "map-note")
                self.place = ui.element("div").classes("map-place").style("min-height: 300px")
            with ui.element("div").classes("w-stack"):
                with card("Selected rows"):
                    self.selected = ui.element("div").classes("map-selected w-stack")
                with card("Make a labeling function"):
                    self.maker = LFMaker(self.desk, self._changed)
                    if self.desk.space.has_lfs:
                        self.maker.build()
                    else:
                        words("The votes of this project come from people or a file.", "w-faint")
                with card("Neighborhoods"):
                    self.list = ui.element("div").classes("map-parts")
        self._show_selected([])
        ui.timer(0.01, self._first, once=True)

    async def _first(self) -> None:
        found = await work(self._laid_out)
        if found is None:
            self.note.set_text("There is no map: it needs features that are a matrix of numbers.")
            return
        self.map, self.parts = found
        with self.list:
            for part, name in self.parts:
                button = ui.button(
                    f"{name} ({len(part.rows):,})", on_click=partial(self.look, part.rows)
                )
                button.props("flat dense no-caps align=left").classes("map-part")
        with self.place:
            self.chart = ui.echart(await self._options()).classes("map-chart")
            self.chart.style("height: min(68vh, 720px); width: 100%")
            self.chart.on("chart:brushEnd", self._drawn, ["areas"])
            # A chart is there once it was drawn; before, it has no lasso.
            self.chart.on("chart:finished", self._drawn_first, [])
        self._say_what_is_shown()

    def _say_what_is_shown(self) -> None:
        if self.map is None:
            return
        n_rows, n_shown = len(self.desk.space.train), len(self.map.rows)
        which = (
            f"{n_rows:,} rows"
            if n_shown == n_rows
            else (f"{n_shown:,} of {n_rows:,} rows, drawn at random")
        )
        rarest = (
            ""
            if self.desk.space.project.task == ONE_LABEL
            else ", in the color of its rarest label"
        )
        self.note.set_text(f"{which}{rarest}. Draw around points to select their rows.")

    def _drawn_first(self) -> None:
        if not self.has_lasso:
            self.has_lasso = True
            self._give_lasso()

    def _give_lasso(self) -> None:
        self.chart.run_chart_method("dispatchAction", _LASSO)

    def _laid_out(self) -> tuple[RowMap, list[tuple[RowMap, str]]]:
        found = self.desk.space.map
        parts = []
        for part in found.neighborhoods():
            terms = self.desk.space.typical_words(part.rows, 3, _LIFT)
            parts.append((part, cut(", ".join(terms) or "no typical words", 40)))
        return found, parts

    async def _colored(self, event: Any) -> None:
        self.color = event.value
        keep_in_address("/map", {"color": self.color})
        await self._changed()

    async def _recolor(self) -> None:
        if self.map is not None:
            options = await self._options()
            self.chart.options.clear()
            self.chart.options.update(options)
            self.chart.update()
            self._give_lasso()

    async def _changed(self) -> None:
        """Follow a new rule, new labels or another color."""
        await self._recolor()
        await self.look(self.rows)

    async def _options(self) -> dict[str, Any]:
        classes = await work(self._classes, self.map.rows if self.map else self.rows)
        return _chart(self.desk, self.map, classes, self.parts)

    def _classes(self, rows: Any) -> Any:
        """Return the class index by which each row is colored; -1 for none."""
        space = self.desk.space
        if space.project.task != ONE_LABEL:
            return self._rarest(rows)
        if self.color == "gold":
            return space.gold[rows]
        if self.color == "votes":
            counts = space.votes[rows].counts()
            most = counts.argmax(axis=1)
            return np.where(counts.sum(axis=1) > 0, most, ABSTAIN)
        found = self.desk.predictions("train")
        return np.full(len(rows), ABSTAIN) if found is None else found.predicted[rows]

    def _rarest(self, rows: Any) -> Any:
        """Return the rarest of the labels that each row has; -1 for none."""
        facts = self.desk.facts("train")
        nothing = np.zeros(facts.gold.shape, dtype=bool)
        there = {"gold": facts.gold == 1, "predicted": facts.predicted}
        found = facts.voted("") if self.color == "votes" else there[self.color]
        found = nothing if found is None else found
        order = np.argsort(found.sum(axis=0), kind="stable")
        own = found[rows][:, order]
        return np.where(own.any(axis=1), order[own.argmax(axis=1)], ABSTAIN)

    async def _drawn(self, event: Any) -> None:
        """Select the rows inside the outline that was drawn."""
        areas = event.args.get("areas") if isinstance(event.args, dict) else None
        if self.map is None or not isinstance(areas, list) or not areas:
            return
        area = areas[0] if isinstance(areas[0], dict) else {}
        try:
            found = self.map.inside(area.get("coordRange") or [])
        except (TypeError, ValueError):  # no browser of ours sends this
            return
        await self.look(found)

    async def look(self, rows: Any) -> None:
        """Show what is known of some rows."""
        self.rows = rows
        found = await work(self._facts, rows) if len(rows) else []
        self._show_selected([] if found is None else found)

    def _facts(self, rows: Any) -> list[Any]:
        space = self.desk.space
        names, column = space.labels.names, space.text_column
        classes = self._classes(rows)
        counts = [(names[k], int((classes == k).sum())) for k in np.unique(classes) if k >= 0]
        counts.sort(key=lambda pair: -pair[1])
        terms = space.typical_words(rows, _WORDS, _LIFT)
        some = np.random.default_rng(0).permutation(rows)[:_ROWS]
        shown = space.train.ids.cast(str) if column is None else space.train.rows[column]
        return [counts, terms, [(int(row), cut(shown[int(row)], 140)) for row in some]]

    def _show_selected(self, found: list[Any]) -> None:
        self.selected.clear()
        with self.selected:
            if not found:
                words("Draw around points on the map, or choose a neighborhood below.", "w-faint")
                return
            counts, terms, texts = found
            words(f"{len(self.rows):,} rows", "w-h3", "map-count", tag="h3")
            with ui.element("div").classes("w-row"):
                look = ui.button("Look at them", on_click=self._open)
                look.props("unelevated dense no-caps").classes("map-look")
                if self.desk.space.answers.in_bulk:
                    label = ui.button("Label them", on_click=lambda: self.bulk.ask(self.rows))
                    label.props("outline dense no-caps").classes("map-label")
            with ui.element("div"):
                for name, count in counts[:_MOST_CLASSES]:
                    chip(self.desk, name, f"{count:,} ")
            if terms and self.desk.space.has_lfs:
                words("Typical words: click one to make a labeling function of it.", "w-faint")
                with ui.element("div").classes("w-row"):
                    for term in terms:
                        write = partial(self.maker.show, term, counts[0][0] if counts else "")
                        button = ui.button(term, on_click=write)
                        button.props("outline dense no-caps").classes("map-word")
            for row, text in texts:
                with ui.element("div").classes("w-row"):
                    opening = partial(open_row, self.desk, "train", row, self._changed, self.rows)
                    ui.button("open", on_click=opening).props("flat dense no-caps")
                    words(text).style("flex: 1; min-width: 0; unicode-bidi: isolate")

    def _open(self) -> None:
        ui.navigate.to(self.desk.select("train", self.rows, "selected on the map"))


def _chart(
    desk: Desk, found: RowMap | None, classes: Any, parts: list[tuple[RowMap, str]]
) -> dict[str, Any]:
    """Return the points in the colors of their classes, and the words of the neighborhoods."""
    labels = desk.space.labels
    series: list[dict[str, Any]] = []
    legend: list[str] = []
    points = np.empty((0, 2)) if found is None else found.points
    own = np.full(len(points), ABSTAIN) if classes is None else classes
    frequent = np.argsort(-np.bincount(own[own >= 0], minlength=len(labels)), kind="stable")
    for number, k in enumerate([ABSTAIN, *frequent.tolist()][:_MOST_COLORED]):
        here = own == k
        if not here.any():
            continue
        name = _UNKNOWN if k < 0 else labels.names[k]
        series.append(
            {
                "name": cut(name, 30),
                "type": "scatter",
                "large": True,
                "symbolSize": 4 if len(points) > 3_000 else 6,
                "itemStyle": {"color": GRAY if k < 0 else shade(labels, name)}
                | {"opacity": 0.35 if k < 0 else 0.6},
                "data": points[here].round(3).tolist(),
            }
        )
        if number <= _MOST_CLASSES:
            legend.append(series[-1]["name"])
    series.append(
        {
            "type": "scatter",
            "symbolSize": 1,
            "silent": True,
            "z": 5,
            "data": [
                {"value": np.median(part.points, axis=0).round(3).tolist(), "name": name}
                for part, name in parts
            ],
            "label": {
                "show": True,
                "formatter": "{b}",
                "fontSize": 11,
                "color": "#10202c",
                "backgroundColor": "rgba(255,255,255,0.82)",
                "padding": [2, 5],
                "borderRadius": 4,
            },
            "labelLayout": {"hideOverlap": True},
        }
    )
    hidden = {"type": "value", "min": -1.05, "max": 1.05, "show": False}
    return {
        "animation": False,
        "grid": {"left": 4, "right": 4, "top": 34, "bottom": 28},
        "legend": {"top": 0, "left": 0, "right": 0, "type": "scroll", "data": legend}
        | {"textStyle": {"color": GRAY}},
        "toolbox": {"feature": {"brush": {"type": ["polygon", "rect", "clear"]}}}
        | {"bottom": 0, "right": 4},
        "brush": {"xAxisIndex": 0, "brushMode": "single", "transformable": False}
        | {"throttleType": "debounce", "throttleDelay": 200, "outOfBrush": {"colorAlpha": 0.25}},
        "xAxis": hidden,
        "yAxis": hidden,
        "series": series,
    }
