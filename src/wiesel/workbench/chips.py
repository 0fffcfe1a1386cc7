"""Classes in their color: as a chip, and as spans of a text."""

from collections.abc import Sequence
from typing import Any

from nicegui import ui

from wiesel.workbench.desk import Desk
from wiesel.workbench.texts import cut, shade, shown, words

__all__ = ["chip", "span_line"]

_AROUND = 80
_LONG = 600


def chip(desk: Desk, label: str, before: str = "") -> None:
    """Show a class in its color."""
    box = words(f"{before}{cut(label, 40)}", "w-chip")
    box.style(f"background: {shade(desk.space.labels, label)}")


def span_line(
    desk: Desk, text: str, found: Sequence[Any] | None, title: str = "", limit: int = _LONG
) -> None:
    """Show a text with its spans in color; of a long text, the part around the first of them."""
    plain, marks = shown(text), sorted(found or (), key=lambda span: (span[0], span[1]))
    start = max(0, marks[0][0] - _AROUND) if marks and len(plain) > limit else 0
    with ui.element("div").classes("w-text span-line").props('dir="auto"'):
        if title:
            words(f"{title}: ", "w-faint")
        place = start
        words("…" if start else "")
        for begin, end, label, *_ in marks:
            if begin < place or begin > start + limit:
                continue  # voters may mark the same words twice
            words(plain[place:begin])
            with words("", "marker-span", tag="mark") as box:
                words(plain[begin:end])
                words(cut(label, 24), "marker-label")
            box.style(f"--span: {shade(desk.space.labels, label)}")
            place = end
        words(plain[place : max(place, start + limit)])
        words("…" if len(plain) > max(place, start + limit) else "")
        if title and not marks:
            words("no span" if found is not None else "not known", "w-faint").style(
                "margin-left: 8px"
            )
