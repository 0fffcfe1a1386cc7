"""Which labeling functions disagree with each other, and on which rows."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from nicegui import ui

from wiesel.analysis.agreement import pair_counts
from wiesel.workbench.desk import Desk, work
from wiesel.workbench.layout import GRAY, card, table
from wiesel.workbench.texts import cut, percent, words

__all__ = ["ConflictBox"]

_SHOWN = 24
"""The matrix has so many labeling functions, those with most conflicts; the list has all pairs."""
_LISTED = 8
SMALL, LARGE = "height: 330px; width: 100%", "height: 630px; width: 100%"
_NUMBERED = 12
"""In a smaller matrix, cells have room for numbers."""


class Pair(NamedTuple):
    """Two voters, the rows on which both vote, and those on which they vote differently."""

    first: str
    second: str
    both: int
    apart: int


class ConflictBox:
    """A matrix of the conflicts, and the largest ones in a list."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.shown: list[Pair] | None = None
        self.names: list[str] = []
        """The voters of the matrix."""

    def build(self) -> None:
        """Show the box; conflicts follow."""
        with card("Conflicts: click a number or a cell to see the rows"):
            self.list = ui.element("div").classes("conflict-list")
            self.matrix = ui.element("div").classes("conflict-matrix")

    async def refresh(self) -> None:
        """Show the conflicts of the current votes."""
        found = await work(self._pairs, quiet=True)
        if found is None or found == self.shown:
            return
        self.shown = found
        self.list.clear()
        self.matrix.clear()
        if not found:
            with self.list:
                words("No two labeling functions disagree on a row.", "w-faint")
            return
        # Numbers come first: a phone has no room for two long names and them.
        with self.list, table(("conflicts", True), ("of", True), ("between", False)):
            for pair in found[:_LISTED]:
                with ui.element("tr").classes("conflict-pair"):
                    with ui.element("td").classes("w-number"):
                        see = partial(self._open, pair.first, pair.second)
                        button = ui.button(f"{pair.apart:,}", on_click=see)
                        button.props("flat dense no-caps")
                    share = percent(pair.apart / pair.both)
                    words(f"{pair.both:,} ({share})", "w-number", tag="td")
                    words(f"{cut(pair.first, 40)} and {cut(pair.second, 40)}", tag="td")
        with self.matrix:
            if len(found) > 1:
                self._show_matrix(found)

    def _pairs(self) -> list[Pair]:
        """Return the pairs that disagree, those with most conflicts first."""
        votes, _ = self.desk.space.vote_cells()
        if votes.n_votes == 0 or votes.n_voters < 2:
            return []
        counts = pair_counts(votes)
        apart = np.rint(counts.both - counts.agree).astype(np.int64)
        order = np.argsort(-apart, kind="stable")
        order = order[apart[order] > 0]
        return [
            Pair(
                votes.voters[counts.first[k]],
                votes.voters[counts.second[k]],
                round(float(counts.both[k])),
                int(apart[k]),
            )
            for k in order
        ]

    def _show_matrix(self, pairs: list[Pair]) -> None:
        total: dict[str, int] = {}
        for pair in pairs:
            for name in (pair.first, pair.second):
                total[name] = total.get(name, 0) + pair.apart
        self.names = sorted(total, key=lambda name: -total[name])[:_SHOWN]
        if len(total) > _SHOWN:
            words(f"The {_SHOWN} of {len(total):,} with most conflicts:", "w-faint")
        chart = ui.echart(_options(self.names, pairs), on_point_click=self._clicked)
        chart.style(SMALL if len(self.names) <= _NUMBERED else LARGE)

    async def _clicked(self, event: Any) -> None:
        try:
            first, second = (self.names[int(place)] for place in event.value[:2])
        except (TypeError, ValueError, IndexError):
            return
        await self._open(first, second)

    async def _open(self, first: str, second: str) -> None:
        rows = await work(self.desk.conflicting_rows, first, second)
        if rows is not None and len(rows):
            title = f"{first} and {second} disagree"
            ui.navigate.to(self.desk.select("train", rows, title))


def _options(names: list[str], pairs: list[Pair]) -> dict[str, Any]:
    """Return the chart: a cell for two voters, darker for more conflicts."""
    place = {name: k for k, name in enumerate(names)}
    cells = [
        [place[a], place[b], pair.apart]
        for pair in pairs
        for a, b in ((pair.first, pair.second), (pair.second, pair.first))
        if a in place and b in place
    ]
    shown = [cut(name, 20) for name in names]
    axis = {"type": "category", "data": shown, "splitArea": {"show": False}}
    text = {"color": GRAY, "interval": 0, "fontSize": 11}
    return {
        "animation": False,
        "grid": {"left": 130, "right": 10, "top": 10, "bottom": 120},
        "tooltip": {"renderMode": "richText"},
        "xAxis": {**axis, "axisLabel": {**text, "rotate": 60}},
        "yAxis": {**axis, "axisLabel": text, "inverse": True},
        "visualMap": {
            "show": False,
            "min": 0,
            "max": max((cell[2] for cell in cells), default=1),
            "inRange": {"color": ["rgba(207,116,64,0.12)", "rgba(207,116,64,1)"]},
        },
        "series": [
            {
                "type": "heatmap",
                "data": cells,
                "cursor": "pointer",
                "label": {"show": len(names) <= _NUMBERED, "color": "#fff"}
                | {"textBorderColor": "rgba(0,0,0,0.75)", "textBorderWidth": 2},
                "itemStyle": {"borderWidth": 1, "borderColor": "rgba(128,128,128,0.3)"},
            }
        ],
    }
