"""Mean ranks of methods over data sets, and tests of whether they differ significantly."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.stats import rankdata, studentized_range

from experiments.framework.runner import RESULTS


def mean_ranks(scores: np.ndarray) -> list[float]:
    """Return the mean rank of every method; `scores` is (data sets, methods), rank 1 is best.

    >>> mean_ranks(np.array([[0.9, 0.8, 0.7], [0.5, 0.6, 0.4]]))
    [1.5, 1.5, 3.0]
    """
    return [float(rank) for rank in rankdata(-scores, axis=1).mean(axis=0)]


def critical_difference(n_methods: int, n_sets: int, level: float = 0.05) -> float:
    """Return the critical difference of mean ranks (Nemenyi's test).

    >>> round(critical_difference(5, 30), 2)  # Demsar 2006 has q = 2.728 for five methods
    1.11
    """
    q = studentized_range.ppf(1 - level, n_methods, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(n_methods * (n_methods + 1) / (6 * n_sets)))


def draw_ranks(name: str, ranks: Mapping[str, float], n_sets: int) -> None:
    """Draw a critical-difference plot: methods on a rank axis, ties joined by a bar."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    distance = critical_difference(len(ranks), n_sets)
    ordered = sorted(ranks.items(), key=lambda item: item[1])
    figure, axes = plt.subplots(figsize=(8, 0.6 + 0.35 * len(ordered)), layout="constrained")
    for height, (method, rank) in enumerate(ordered):
        axes.plot([rank, rank], [0, -height - 1], color="0.6", linewidth=1)
        axes.annotate(f"{method} ({rank:.2f})", (rank, -height - 1), ha="left", va="center")
    _draw_ties(axes, [rank for _, rank in ordered], distance)
    axes.set(xlim=(1, len(ordered) + 1.5), ylim=(-len(ordered) - 1, 1.5), yticks=[])
    axes.xaxis.set_ticks_position("top")
    axes.set_title(f"mean rank over {n_sets} data sets; critical difference {distance:.2f}")
    for side in ("left", "right", "bottom"):
        axes.spines[side].set_visible(False)
    figure.savefig(RESULTS / f"{name}.png", dpi=110)
    plt.close(figure)


def _draw_ties(axes: Any, ranks: list[float], distance: float) -> None:
    """Join the methods that do not differ significantly."""
    last = -1
    for first, rank in enumerate(ranks):
        end = max(i for i, other in enumerate(ranks) if other - rank <= distance)
        if end > max(first, last):
            height = 0.3 + 0.25 * (first % 4)
            axes.plot([rank, ranks[end]], [height, height], color="C3", linewidth=3)
            last = end
