"""A class in its color."""

from wiesel.workbench.desk import Desk
from wiesel.workbench.texts import cut, shade, words

__all__ = ["chip"]


def chip(desk: Desk, label: str, before: str = "") -> None:
    """Show a class in its color."""
    box = words(f"{before}{cut(label, 40)}", "w-chip")
    box.style(f"background: {shade(desk.space.labels, label)}")
