"""Shared by all plots: figures that display in notebooks, colors, row names."""

import io
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from wiesel.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "COLORS",
    "LINE",
    "MOST_VOTERS",
    "SOFT",
    "add_legend",
    "color_of",
    "empty_figure",
    "name_rows",
    "plot_title",
    "rows_figure",
]

Layout = Literal["constrained", "compressed"]

COLORS = (
    "#2a78d6",
    "#d9541e",
    "#138a60",
    "#8a5cc7",
    "#c79a16",
    "#c2407f",
    "#3aa6b9",
    "#7a6a58",
)
SOFT, LINE = "#55544f", "#dddcd6"
MOST_VOTERS = 40
"""The maximum number of voters in a plot: those with the most votes."""


def empty_figure(width: float, height: float, layout: Layout = "constrained") -> "Figure":
    """Return an empty figure with sizes in inches; use the layout `compressed` for square cells."""
    return _figure_class()(figsize=(width, height), layout=layout)


def rows_figure(n_rows: int) -> "tuple[Figure, Axes]":
    """Return a figure for this many rows, and its axes."""
    figure = empty_figure(7.5, max(1.9, 1.2 + 0.3 * n_rows))
    return figure, figure.subplots()


def name_rows(axes: "Axes", names: Sequence[str]) -> None:
    """Write names next to the rows of a plot, the first on top."""
    shown = [name if len(name) <= 40 else f"{name[:39]}\N{HORIZONTAL ELLIPSIS}" for name in names]
    axes.set_yticks(range(len(shown)), [_plain(name) for name in shown])
    axes.set_ylim(len(shown) - 0.5, -0.5)  # the first on top


def plot_title(words: str, n_shown: int, n_voters: int) -> str:
    """Return a title that says when only some voters are shown."""
    return (
        words if n_shown == n_voters else f"{words}: the {n_shown} busiest of {n_voters:,} voters"
    )


def color_of(index: int) -> str:
    """Return the color of the class or line at a position."""
    return COLORS[index % len(COLORS)]


def add_legend(
    axes: "Axes", loc: Literal["upper left", "lower right"] = "upper left", beside: bool = True
) -> None:
    """Add a legend for the colors, next to the axes or inside them."""
    handles, names = axes.get_legend_handles_labels()
    place: dict[str, Any] = {"bbox_to_anchor": (1.01, 1.0)} if beside else {}
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(handles, [_plain(name) for name in names], loc=loc, frameon=False, **place)


def _plain(text: str) -> str:
    """Escape text for matplotlib, where a dollar sign would start a formula."""
    return text.replace("$", r"\$")


@cache
def _figure_class() -> "type[Figure]":
    """Return a figure class that displays in notebooks even if pyplot was never imported."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("Plots need matplotlib: pip install 'wiesel[plots]'") from None

    class Plot(Figure):
        def _repr_png_(self) -> bytes:
            page = io.BytesIO()
            self.savefig(page, format="png", dpi=110)
            return page.getvalue()

    return Plot
