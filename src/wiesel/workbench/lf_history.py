"""The history of the labeling functions: the score of each state, and undo."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from nicegui import ui

from wiesel.errors import listed
from wiesel.io import Snapshot
from wiesel.workbench.desk import Desk, work
from wiesel.workbench.layout import AXIS, COLORS, GRAY, card
from wiesel.workbench.texts import cut, figure_name, percent, words

__all__ = ["HistoryBox"]

_LISTED = 12


class HistoryBox:
    """The score of the current state, the curve of all states, and an undo button."""

    def __init__(self, desk: Desk, on_changed: Callable[[], Any]) -> None:
        self.desk, self.on_changed = desk, on_changed

    def build(self) -> None:
        """Show the box."""
        with card("Preview of the end model"):
            self.now = ui.element("div").classes("end-preview").style("min-height: 48px")
        with card("History"):
            self.curve = ui.echart(_options([])).style("height: 170px; width: 100%")
            self.list = ui.element("div").style("display: flex; flex-direction: column; gap: 2px")
            self.back = ui.button("Undo the last change", on_click=self._undo)
            self.back.props("flat dense no-caps").classes("lf-undo").style("align-self: flex-start")

    async def refresh(self) -> None:
        """Show the score of the current state."""
        figures = await work(self.desk.scored, quiet=True) or {}
        silent = await work(self.desk.space.silent_classes, quiet=True) or []
        states = await work(self.desk.space.lf_set.history, quiet=True) or []
        self.now.clear()
        with self.now:
            words(_sentence(figures, silent, self.desk.space.has_preview), tag="p")
        self.curve.options.update(_options(states))
        self.curve.update()
        self.back.set_enabled(len(states) > 1)
        self.list.clear()
        with self.list:
            for state in reversed(states[-_LISTED:]):
                when = time.strftime("%H:%M", time.localtime(state.time))
                words(f"{when}  {cut(state.change, 60)}", "w-faint")

    async def _undo(self) -> None:
        change = await work(self.desk.space.lf_set.undo)
        if change is not None:
            ui.notify(f"Undone: {change}")
            self.desk.changed()
            await self.on_changed()


def _sentence(figures: dict[str, float], silent: Sequence[str], has_preview: bool) -> str:
    if figures.get("lfs") and not has_preview:
        return (
            f"{figures['lfs']:.0f} voters mark something in {percent(figures['coverage'])} of the "
            "texts. A tagger has no preview: train one to see how good it is."
        )
    if not figures.get("lfs"):
        return "Write a labeling function to see a preview: a linear model on the features."
    summary = f"{figures['lfs']:.0f} voters cover {percent(figures['coverage'])} of the rows. "
    shown = [name for name in figures if f"{name}_low" in figures]
    if shown:
        values = [f"the {figure_name(name)} {_interval(figures, name)}" for name in shown]
        return (
            f"{summary}A linear model trained on their votes has {' and '.join(values)} "
            f"on {figures['labeled']:.0f} labeled rows."
        )
    if silent:
        return f"{summary}The preview waits for a vote or a label of {listed(silent, limit=4)}."
    return summary + "Label randomly drawn rows to see how good a linear model is."


def _interval(figures: dict[str, float], name: str) -> str:
    """Return a figure with its 95 % interval."""
    low, high = figures[f"{name}_low"], figures[f"{name}_high"]
    found = percent(figures[name], 1)
    return found if low != low else f"{found} ({100 * low:.0f} to {100 * high:.0f})"


def _options(states: list[Snapshot]) -> dict[str, Any]:
    """Return the chart of accuracy and coverage over the states."""
    series = [
        {
            "name": figure_name(name),
            "type": "line",
            "showSymbol": True,
            "data": [
                None if name not in state.figures else round(100 * state.figures[name], 1)
                for state in states
            ],
        }
        for name in ("accuracy", "micro_f1", "macro_f1", "coverage")
        if name == "coverage" or any(name in state.figures for state in states)
    ]
    return {
        "animation": False,
        "color": COLORS,
        "grid": {"left": 34, "right": 8, "top": 28, "bottom": 20},
        "legend": {"top": 0, "textStyle": {"color": GRAY}},
        "tooltip": {"trigger": "axis", "renderMode": "richText"},
        "xAxis": {
            "type": "category",
            "data": [cut(state.change, 40) for state in states],
            "axisLabel": {"show": False},
        },
        "yAxis": {"type": "value", "min": 0, "max": 100, **AXIS},
        "series": series,
    }
