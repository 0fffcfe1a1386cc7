"""The table that a run ends with: every method on the same rows."""

from collections.abc import Mapping, Sequence
from typing import Any

from wiesel.analysis.table import Table
from wiesel.compare import score_table
from wiesel.evaluation import Report
from wiesel.evaluation.rendering import score_text, string_table

__all__ = ["comparison_table"]

_FIGURES = {"accuracy": "accuracy", "f1": "F1", "auc": "ROC-AUC"}


def comparison_table(
    rows: Sequence[Mapping[str, Any]], reports: Mapping[str, Report], split: str
) -> Table:
    """Return a row for each method: with intervals for one seed, mean and spread for more."""
    n_items = next(iter(reports.values())).n_items
    caption = f"On {n_items:,} {split} items"
    if len(rows) > len(reports):
        table = score_table(rows)
        return Table(table.frame, table.columns, f"{caption}, mean and spread over seeds")
    seconds = {row["method"]: row["seconds"] for row in rows}
    cells = [
        [name, *(score_text(getattr(report, key)) for key in _FIGURES), f"{seconds[name]:.1f}"]
        for name, report in reports.items()
    ]
    return string_table(
        ["method", *_FIGURES.values(), "seconds"], cells, f"{caption}, 95 % intervals"
    )
