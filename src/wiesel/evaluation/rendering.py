"""Reports as text for the terminal and as HTML for notebooks and pages."""

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

import polars as pl

from wiesel.analysis.table import UNKNOWN, Column, Table

if TYPE_CHECKING:
    from wiesel.evaluation.report import Report, Score

__all__ = ["TITLES", "number_text", "report_html", "report_text", "score_text", "string_table"]

TITLES = {
    "accuracy": "accuracy",
    "f1": "F1",
    "macro_f1": "macro F1",
    "auc": "ROC-AUC",
    "average_precision": "average precision",
    "log_loss": "log loss",
    "brier": "Brier score",
    "calibration_error": "calibration error",
}
"""The printed names of the metrics."""

_MOST_CLASSES = 20
"""A confusion matrix with more classes is too wide to read."""


def number_text(value: float) -> str:
    """Return a number as text, or a dash if it is unknown.

    >>> number_text(0.5), number_text(float("nan"))
    ('0.500', '–')
    """
    return UNKNOWN if math.isnan(value) else f"{value:.3f}"


def score_text(score: "Score") -> str:
    """Return a score with its interval, such as `0.875 (0.861 to 0.890)`."""
    if math.isnan(score) or math.isnan(score.low):
        return number_text(score)
    return f"{number_text(score)} ({number_text(score.low)} to {number_text(score.high)})"


def string_table(header: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> Table:
    """Return a table of formatted cells: first column left-aligned, the others right-aligned.

    >>> print(string_table(["class", "F1"], [["ham", "0.500"]]))
     class      F1
    ───────────────
     ham     0.500
    """
    keys = [str(position) for position in range(len(header))]
    frame = pl.DataFrame(list(rows), schema=dict.fromkeys(keys, pl.String), orient="row")
    columns = tuple(_column(name, key) for name, key in zip(header, keys, strict=True))
    return Table(frame, columns, caption)


def report_text(report: "Report") -> str:
    """Return the report as text for a terminal."""
    return "\n\n".join(table.to_text() for table in _tables(report))


def report_html(report: "Report") -> str:
    """Return the report as an HTML fragment; names are escaped."""
    body = "".join(table.to_html() for table in _tables(report))
    return f'<div class="wiesel-report">{body}</div>'


def html_fragment(name: str, sentences: Sequence[str], table: Table) -> str:
    """Return sentences above a table."""
    text = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)
    return f'<div class="{name}">{text}{table.to_html()}</div>'


def _column(header: str, key: str) -> Column:
    return Column(header, lambda row: str(row[key]), numeric=key != "0")


def _tables(report: "Report") -> list[Table]:
    tables = [_score_table(report), _class_table(report)]
    if len(report.labels) <= _MOST_CLASSES:
        tables.append(_confusion_table(report))
    return tables


def _score_table(report: "Report") -> Table:
    groups = {"all": report, "covered": report.covered, "uncovered": report.uncovered}
    shown = {name: group for name, group in groups.items() if group is not None}
    header = ["", *(f"{name} ({group.n_items:,})" for name, group in shown.items())]
    rows = [
        [title, *(score_text(getattr(group, name)) for group in shown.values())]
        for name, title in _titles(report).items()
    ]
    return string_table(header, rows, _caption(report))


def _caption(report: "Report") -> str:
    intervals = "" if math.isnan(report.accuracy.low) else ", 95 % intervals"
    rule = "" if report.threshold is None else f", decision threshold {report.threshold:.3f}"
    left_out = f", {report.n_unknown:,} without a gold label left out" if report.n_unknown else ""
    counts = f"{report.n_items:,} items, {len(report.labels)} classes"
    return f"Report on {counts}{intervals}{rule}{left_out}"


def _titles(report: "Report") -> dict[str, str]:
    """The metrics to print: F1 of the positive class; for multi-class tasks only the mean."""
    if len(report.labels) == 2:
        return {**TITLES, "f1": f"F1 of {report.labels.names[1]!r}"}
    return {name: title for name, title in TITLES.items() if name != "f1"}


def _class_table(report: "Report") -> Table:
    rows = [
        [
            scores.name,
            *map(number_text, (scores.precision, scores.recall, scores.f1)),
            f"{scores.n_gold:,}",
            f"{scores.n_predicted:,}",
        ]
        for scores in report.per_class
    ]
    return string_table(["class", "precision", "recall", "F1", "true", "predicted"], rows)


def _confusion_table(report: "Report") -> Table:
    counts = zip(report.labels, report.confusion.tolist(), strict=True)
    rows = [[name, *(f"{count:,}" for count in row)] for name, row in counts]
    return string_table(["true \\ predicted", *report.labels], rows)
