"""Figures of the studies, drawn with matplotlib (the extra `plots`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from experiments.framework.runner import RESULTS


@dataclass(frozen=True)
class Panel:
    """One pair of axes: lines by name, each with one row per seed."""

    title: str
    lines: Mapping[str, np.ndarray]
    """(n_seeds, n_points) by the name in the legend."""
    levels: Mapping[str, float] = field(default_factory=dict)
    """Horizontal reference lines by name."""
    positions: Sequence[float] | None = None
    """The x positions of the points; by default 1, 2, 3, ..."""


def draw_panels(name: str, panels: Sequence[Panel], x: str, y: str) -> None:
    """Draw the mean and standard deviation of every line, and write `results/<name>.png`."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    columns = min(len(panels), 3)
    n_rows = -(-len(panels) // columns)
    figure, grid = plt.subplots(
        n_rows,
        columns,
        figsize=(4.6 * columns + 1, 3.6 * n_rows),
        squeeze=False,
        sharey=True,
        layout="constrained",
    )
    for axes, panel in zip(grid.flat, panels, strict=False):
        _draw(axes, panel)
        axes.set(title=panel.title, xlabel=x)
    for axes in grid.flat[len(panels) :]:
        axes.axis("off")
    for axes in grid[:, 0]:
        axes.set_ylabel(y)
    handles = {
        label: handle
        for axes in grid.flat
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="outside right upper", fontsize="small")
    figure.savefig(RESULTS / f"{name}.png", dpi=110)
    plt.close(figure)


def _draw(axes: Any, panel: Panel) -> None:
    styles = ("-", "--", "-.", ":")
    for position, (label, values) in enumerate(panel.lines.items()):
        x = panel.positions or range(1, values.shape[1] + 1)
        mean, deviation = values.mean(axis=0), values.std(axis=0)
        color = f"C{position % 10}"
        style = styles[position // 10 % len(styles)]
        marker = "o" if panel.positions else None
        axes.plot(x, mean, style, label=label, color=color, marker=marker, markersize=3)
        axes.fill_between(x, mean - deviation, mean + deviation, color=color, alpha=0.12)
    for label, level in panel.levels.items():
        axes.axhline(level, label=label, color="black", linewidth=1, linestyle=":")
    axes.grid(alpha=0.3)
