"""The scaling curves as a figure: results/scaling.svg."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS

__all__ = ["write_curves"]

AXES = ("items", "voters", "classes", "votes")


def write_curves(rows: Sequence[dict[str, Any]]) -> Path | None:
    """Draw CPU seconds against each axis, one line per method; None without matplotlib."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        return None
    path = RESULTS / "scaling.svg"
    # Keep text as text and ids fixed, so that the file is small and changes only with its data.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "wiesel", "font.size": 9}):
        figure = Figure(figsize=(9, 6.5), layout="constrained")
        for panel, axis in zip(figure.subplots(2, 2).flat, AXES, strict=True):
            _draw(panel, axis, [row for row in rows if row["axis"] == axis])
        lines, names = figure.axes[0].get_legend_handles_labels()
        figure.legend(lines, names, loc="outside lower center", ncols=4)
        figure.savefig(path, metadata={"Date": None})
    return path


def _draw(panel: Any, axis: str, rows: Sequence[dict[str, Any]]) -> None:
    for row in rows:
        sizes = [point["at"] for point in row["points"]]
        seconds = [point["seconds"] for point in row["points"]]
        panel.plot(sizes, seconds, marker="o", markersize=3, label=row["method"])
    panel.set(xscale="log", yscale="log", xlabel=axis, ylabel="CPU seconds, fit and predict")
    places = sorted({point["at"] for row in rows for point in row["points"]})
    panel.set_xticks(places, [f"{place:,.0f}" for place in places])
    panel.tick_params(which="minor", bottom=False, labelbottom=False)
    panel.grid(alpha=0.3)
