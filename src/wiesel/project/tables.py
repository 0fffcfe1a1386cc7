"""The final table of a run: every method on the same rows."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from wiesel.analysis.table import UNKNOWN, Table
from wiesel.compare import score_table
from wiesel.evaluation import Report, Score
from wiesel.evaluation.rendering import string_table

__all__ = ["comparison_table"]

_FIGURES = {"accuracy": "accuracy", "f1": "F1", "auc": "ROC-AUC"}


def comparison_table(
    rows: Sequence[Mapping[str, Any]], reports: Mapping[str, Report], split: str
) -> Table:
    """Return one row per method: with intervals for one seed, with mean and spread for several."""
    n_items = next(iter(reports.values())).n_items
    caption = f"On {n_items:,} {split} items"
    if len(rows) > len(reports):
        table = score_table(rows)
        return Table(table.frame, table.columns, f"{caption}, mean and spread over seeds")
    seconds = {row["method"]: row["seconds"] for row in rows}
    cells = [
        [name, *(_short(getattr(report, key)) for key in _FIGURES), _seconds(seconds[name])]
        for name, report in reports.items()
    ]
    return string_table(
        ["method", *_FIGURES.values(), "seconds"], cells, f"{caption}, 95 % intervals"
    )


def _short(score: Score) -> str:
    """Format a score with its interval, short enough for three in a row."""
    if math.isnan(score):
        return UNKNOWN
    if math.isnan(score.low):
        return f"{score:.3f}"
    return f"{score:.3f} ({score.low:.2f}{UNKNOWN}{score.high:.2f})"


def _seconds(value: float) -> str:
    return f"{value:.1f}" if value else UNKNOWN
