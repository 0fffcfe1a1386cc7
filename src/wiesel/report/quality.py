"""Model quality against references without votes; by class, by slice, by threshold."""

from collections.abc import Mapping
from html import escape
from typing import Any

from wiesel.analysis.table import UNKNOWN
from wiesel.evaluation import Report
from wiesel.evaluation.rendering import score_text
from wiesel.report import charts
from wiesel.report.contents import BalanceRow, ReportData, SliceRow
from wiesel.report.tables import TableColumn, bar, filter_field, percent_text, sortable_table

__all__ = ["balance", "quality", "slices"]

_MANY_CLASSES = 20
_FIGURES = {"accuracy": "accuracy", "f1": "F1", "auc": "ROC-AUC"}
_MANY_SLICES = 8


def quality(data: ReportData) -> str:
    """Return the metrics of every method, and the charts of the main one."""
    if data.report is None:
        return (
            "<p>Not evaluated: there are no gold labels. Add a few dozen labeled rows as "
            "<code>dev</code> in wiesel.toml; they also select the epoch.</p>"
        )
    report, binary = data.report, len(data.labels) == 2
    every = {**data.methods, **data.references}
    parts = []
    if len(every) > 1:
        parts += [charts.intervals(every, "accuracy", "Accuracy of every method")]
        title = f"F1 of {data.labels.names[1]}" if binary else "F1, mean over classes"
        parts += [charts.intervals(every, "f1", title)]
    many = len(data.labels) > _MANY_CLASSES
    parts += ["" if many else charts.confusion(report), charts.calibration(report)]
    if data.curve is not None:
        parts.append(charts.threshold_figure(data.curve, data.threshold, data.labels.names[1]))
    if data.thresholds:
        parts.append(_threshold_tool(data))
    parts.append(charts.coverage(report))
    intro = f"<p>Evaluated on {report.n_items:,} {escape(data.judged_on)} items with gold labels. "
    intro += "Parentheses and bars show 95 % intervals.</p>"
    paired = f"<p>{escape(data.paired)}</p>" if data.paired else ""
    return f'{intro}{_methods(data)}{paired}<div class="figures">{"".join(parts)}</div>'


def balance(data: ReportData) -> str:
    """Return the class balance according to gold, the votes and the end model."""
    if not data.balance:
        return ""
    columns = [
        TableColumn("class", lambda row: escape(row["row"].name), style="name"),
        *(_share_column(*pair) for pair in _BALANCE.items() if _known(data.balance, pair[1])),
    ]
    rows = [{"row": row} for row in data.balance]
    text = (
        "<p>If votes and gold labels differ much, add voters for the class with too few votes, "
        "or set <code>class_balance</code>.</p>"
    )
    return text + sortable_table("balance-table", columns, rows)


def slices(data: ReportData) -> str:
    """Return the accuracy of the end model on slices of the evaluated items."""
    if not data.slices:
        return ""
    columns = (
        TableColumn("slice", lambda row: escape(row["row"].name), style="name"),
        TableColumn("by", lambda row: escape(row["row"].by)),
        TableColumn(
            "items", lambda row: f"{row['row'].n_items:,}", lambda row: row["row"].n_items, "number"
        ),
        TableColumn(
            "accuracy",
            lambda row: bar(row["row"].accuracy, percent_text(row["row"].accuracy)),
            lambda row: row["row"].accuracy,
            "number",
        ),
        TableColumn("95 % interval", _interval, lambda row: row["row"].low, "number"),
    )
    field = filter_field("slice-table", "a slice") if len(data.slices) > _MANY_SLICES else ""
    text = (
        f"<p>Accuracy on parts of the {escape(data.judged_on)} items, by column, length and votes. "
        "More voters or labels help most where accuracy is low. "
        "Click a header to sort.</p>"
    )
    return text + field + sortable_table("slice-table", columns, [{"row": r} for r in data.slices])


def _methods(data: ReportData) -> str:
    every = {**data.methods, **data.references}
    rows = [{"name": name, "report": report} for name, report in every.items()]
    columns = [
        TableColumn("method", lambda row: escape(row["name"]), style="name"),
        *(_score_column(key, title) for key, title in _FIGURES.items()),
    ]
    if data.seconds:
        columns.append(
            TableColumn(
                "seconds",
                lambda row: _seconds(data.seconds.get(row["name"])),
                lambda row: data.seconds.get(row["name"]),
                "number",
            )
        )
    return sortable_table("method-table", columns, rows)


def _seconds(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1f}"


def _score_column(key: str, title: str) -> TableColumn:
    def value(report: Report) -> float | None:
        score = float(getattr(report, key))
        return None if score != score else score

    return TableColumn(
        title,
        lambda row: escape(score_text(getattr(row["report"], key))),
        lambda row: value(row["report"]),
        "number",
    )


_BALANCE = {
    "by gold labels": "gold",
    "by the votes": "votes",
    "by the end model": "predicted",
}


def _known(rows: object, name: str) -> bool:
    return any(getattr(row, name) is not None for row in rows)  # type: ignore[attr-defined]


def _share_column(title: str, name: str) -> TableColumn:
    def share(row: BalanceRow) -> float | None:
        value: float | None = getattr(row, name)
        return value

    return TableColumn(
        title,
        lambda row: bar(share(row["row"]), percent_text(share(row["row"]))),
        lambda row: share(row["row"]),
        "number",
    )


def _interval(row: Mapping[str, Any]) -> str:
    own: SliceRow = row["row"]
    return f"{100 * own.low:.0f}{UNKNOWN}{100 * own.high:.0f} %"


def _threshold_tool(data: ReportData) -> str:
    """Return a threshold slider with costs of mistakes; only numbers go into the page."""
    first, second = (escape(name) for name in data.labels.names)
    points = list(data.thresholds)
    used = 0.5 if data.threshold is None else data.threshold
    start = min(range(len(points)), key=lambda place: abs(points[place][0] - used))
    plain = "[" + ",".join(f"[{t:.4f},{tp},{fp},{fn},{tn}]" for t, tp, fp, fn, tn in points) + "]"
    shown = "".join(
        f'<div><dt>{title}</dt><dd data-shows="{name}">{UNKNOWN}</dd></div>'
        for name, title in (
            ("precision", "precision"),
            ("recall", "recall"),
            ("accuracy", "accuracy"),
            ("alarms", "false alarms"),
            ("misses", "misses"),
            ("cost", "cost of 1,000 items"),
        )
    )
    return (
        f'<figure class="threshold-tool" data-points="{plain}"><figcaption>What a threshold costs'
        f"</figcaption><label>Predict {second} if P({second}) is at least "
        '<b data-shows="threshold"></b> '
        f'<input type="range" min="0" max="{len(points) - 1}" value="{start}"></label>'
        f'<div class="costs"><label>A false alarm ({first} taken for {second}) costs '
        '<input type="number" min="0" step="any" value="1"></label>'
        f"<label>A miss ({second} taken for {first}) costs "
        '<input type="number" min="0" step="any" value="1"></label>'
        '<button type="button">Cheapest threshold</button></div>'
        f"<dl>{shown}</dl><p>Counted on the {escape(data.judged_on)} items. Apply the "
        "threshold you choose to the model's probabilities.</p></figure>"
    )
