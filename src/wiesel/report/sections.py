"""Turns the contents of a report into the HTML of its sections."""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from html import escape
from importlib.resources import files
from typing import Any

from wiesel.analysis.table import UNKNOWN
from wiesel.evaluation import Report
from wiesel.evaluation.report import score_text
from wiesel.io import FilePath
from wiesel.report import charts
from wiesel.report.charts import TableColumn, bar, filter_field, percent_text, sortable_table
from wiesel.report.contents import (
    BalanceRow,
    Disagreement,
    ErrorItem,
    ReportData,
    SliceRow,
    VoterRow,
)
from wiesel.saving import write_file
from wiesel.version import __version__

__all__ = [
    "balance",
    "disagreements",
    "errors",
    "highlighted",
    "quality",
    "report_html",
    "sections",
    "slices",
    "whole_page",
    "write_report",
]

_LISTED_VOTES = 8
_TEXT = 600
_SHOWN = 8
_MANY_CLASSES = 20
_FIGURES = {"accuracy": "accuracy", "f1": "F1", "auc": "ROC-AUC"}
_MANY_SLICES = 8
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def sections(data: ReportData) -> dict[str, str]:
    """Return the HTML of every section by its title; empty ones are left out of a page."""
    return {
        "Summary": _summary(data),
        "Findings": _findings(data),
        "Evaluation": quality(data),
        "Voters": _voters(data),
        "Class balance": balance(data),
        "Slices": slices(data),
        "Errors": errors(data),
        "Where end model and votes disagree": disagreements(data),
        "Training": _training(data),
        "How to reproduce": _reproduce(data),
    }


def _summary(data: ReportData) -> str:
    tiles = "".join(
        f"<div><strong>{escape(value)}</strong><span>{escape(caption)}</span></div>"
        for value, caption in data.figures
    )
    first, text = (
        "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)
        for sentences in (data.uncertain, data.story)
    )
    return f'{first}<div class="tiles">{tiles}</div>{text}'


def _voters(data: ReportData) -> str:
    if not data.voters:
        return ""
    weights = [row.weight for row in data.voters if row.weight is not None]
    heaviest = max(weights, default=0.0)
    columns = [
        TableColumn("voter", lambda row: escape(row["row"].name), style="name"),
        TableColumn("votes for", lambda row: _classes(row["row"])),
        TableColumn(
            "coverage",
            lambda row: bar(row["row"].coverage, percent_text(row["row"].coverage)),
            lambda row: row["row"].coverage,
            "number",
        ),
        TableColumn(
            "conflict",
            lambda row: percent_text(row["row"].conflict),
            lambda row: row["row"].conflict,
            "number",
        ),
        TableColumn(
            "precision", lambda row: _precision(row["row"]), lambda row: row["row"].precision,
            "number",
        ),
    ]  # fmt: skip
    if weights:
        columns.append(
            TableColumn(
                "learned weight",
                lambda row: _weight(row["row"], heaviest),
                lambda row: row["row"].weight,
                "number",
            )
        )
    rows = [{"row": row} for row in data.voters]
    return (
        f"<p>{escape(data.voter_caption)} Click a header to sort.</p>"
        + filter_field("voter-table", "a voter or a class")
        + sortable_table("voter-table", columns, rows)
        + _agreement(data)
    )


def _classes(row: VoterRow) -> str:
    classes = ", ".join(escape(name) for name in row.classes[:3]) or UNKNOWN
    return classes + (f" and {len(row.classes) - 3} more" if len(row.classes) > 3 else "")


def _precision(row: VoterRow) -> str:
    if row.precision is None or row.low is None or row.high is None:
        return UNKNOWN
    limits = f"{100 * row.low:.0f}{UNKNOWN}{100 * row.high:.0f}, {row.support:,} items"
    return f"{100 * row.precision:.0f} % <small>{limits}</small>"


def _weight(row: VoterRow, heaviest: float) -> str:
    if row.weight is None:
        return UNKNOWN
    return bar(row.weight / heaviest if heaviest > 0 else 0.0, f"{row.weight:.2f}")


def _findings(data: ReportData) -> str:
    if not data.findings:
        return "<p>No problems were found in these votes.</p>"
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in data.findings)
    return f"<ol>{items}</ol>"


def _agreement(data: ReportData) -> str:
    if data.agreement is None or len(data.agreement_names) < 2:
        return ""
    return "<h3>Which voters agree</h3>" + charts.heat_map(data.agreement_names, data.agreement)


def _training(data: ReportData) -> str:
    parts = []
    if data.losses:
        note = "Lower is better. A method with two networks has two lines."
        parts.append(charts.epochs("Losses", data.losses, data.kept_epoch, note))
    if data.scores:
        note = "Agreement: how often the end model and the weighted votes predict the same class."
        parts.append(charts.epochs("Agreement and score", data.scores, data.kept_epoch, note))
    return f'<div class="figures">{"".join(parts)}</div>' if parts else ""


def _reproduce(data: ReportData) -> str:
    commands = escape("\n".join(data.reproduce))
    settings = (
        f"<details><summary>wiesel.toml</summary><pre>{escape(data.settings)}</pre></details>"
        if data.settings
        else ""
    )
    return f"<pre>{commands}</pre>{settings}"


def errors(data: ReportData) -> str:
    """Return items with gold labels that the end model gets wrong, most confident first."""
    if not data.errors:
        return ""
    more = (
        f" ({len(data.errors):,} of {data.n_errors:,})" if data.n_errors > len(data.errors) else ""
    )
    intro = (
        f"<p>Wrong predictions on the {escape(data.judged_on)} items, the most confident first"
        f"{more}. Words that a voter matched are marked. Voters that voted for the "
        "gold label are ticked.</p>"
    )
    return intro + _folded([_error(item) for item in data.errors])


def disagreements(data: ReportData) -> str:
    """Return training items on which the end model and the votes disagree."""
    if not data.disagreements:
        return ""
    intro = (
        "<p>Here the end model, which reads the item, and the weighted votes disagree. Such items "
        "often show wrong votes, missing labeling functions, or unusual "
        "items.</p>"
    )
    return intro + _folded([_disagreement(item) for item in data.disagreements])


def highlighted(text: str, spans: Sequence[tuple[int, int]], limit: int = _TEXT) -> str:
    """Return a text as HTML with parts highlighted; a long text is cut around the first one.

    >>> highlighted("a <free> prize", [(3, 7)])
    'a &lt;<mark>free</mark>&gt; prize'
    """
    kept = [(start, end) for start, end in sorted(spans) if 0 <= start < end <= len(text)]
    begin = 0
    if kept and kept[0][0] > limit - 100:
        begin = max(0, kept[0][0] - 100)
    end = min(len(text), begin + limit)
    parts, place = ["\N{HORIZONTAL ELLIPSIS} " if begin else ""], begin
    for first, last in kept:
        if first < place or last > end:
            continue
        parts.append(escape(text[place:first]))
        parts.append(f"<mark>{escape(text[first:last])}</mark>")
        place = last
    parts.append(escape(text[place:end]))
    parts.append(" \N{HORIZONTAL ELLIPSIS}" if end < len(text) else "")
    return "".join(parts)


def _folded(items: Sequence[str]) -> str:
    """Return the first items; the others are folded and open on demand."""
    first, rest = items[:_SHOWN], items[_SHOWN:]
    if not rest:
        return "".join(first)
    return "".join(first) + f"<details><summary>{len(rest)} more</summary>{''.join(rest)}</details>"


def _error(item: ErrorItem) -> str:
    return (
        f"<article><h3>{escape(item.item)}</h3>"
        f"<blockquote>{highlighted(item.text, item.spans)}</blockquote>"
        f"<p><span>gold: <b>{escape(item.gold)}</b></span> "
        f"<span>predicted: <b>{escape(item.predicted)}</b> {100 * item.proba:.0f} %</span> "
        f"{_chips(item.votes, item.gold)}</p></article>"
    )


def _disagreement(item: Disagreement) -> str:
    return (
        f"<article><h3>{escape(item.item)}</h3>"
        f"<blockquote>{highlighted(item.text, ())}</blockquote>"
        f"<p><span>end model: <b>{escape(item.end_model)}</b> {100 * item.end_proba:.0f} %</span> "
        f"<span>votes: <b>{escape(item.soft_label)}</b> {100 * item.soft_proba:.0f} %</span> "
        f"{_chips(item.votes)}</p></article>"
    )


def _chips(votes: Sequence[tuple[str, str]], gold: str | None = None) -> str:
    """Return each voter's vote, with a tick if it matches the gold label."""
    if not votes:
        return "<small>no votes</small>"
    shown = " ".join(
        f'<span class="chip {_side(vote, gold)}">{_tick(vote, gold)}{escape(voter)}: '
        f"{escape(vote)}</span>"
        for voter, vote in votes[:_LISTED_VOTES]
    )
    more = len(votes) - _LISTED_VOTES
    return f"{shown} <small>and {more} more</small>" if more > 0 else shown


def _side(vote: str, gold: str | None) -> str:
    if gold is None:
        return "plain"
    return "right" if vote == gold else "wrong"


def _tick(vote: str, gold: str | None) -> str:
    if gold is None:
        return ""
    return "\N{CHECK MARK} " if vote == gold else "\N{MULTIPLICATION SIGN} "


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


def write_report(data: ReportData, path: FilePath) -> None:
    """Write a report as one HTML file that needs no network, all or nothing."""
    write_file(str(path), report_html(data).encode())


def report_html(data: ReportData) -> str:
    """Return a report as an HTML page; every name and text in it is escaped."""
    return whole_page(data.title, sections(data), data.verdict)


def whole_page(title: str, shown: Mapping[str, str], verdict: str = "") -> str:
    """Return a page of sections (HTML by title) that needs no network; empty ones are left out.

    `verdict` is what a reader has to know first. The page also says on which day it was written.

    >>> "<h2>Workers</h2>" in whole_page("Answers", {"Workers": "<p>None.</p>", "Items": ""})
    True
    """
    parts = [
        (re.sub(r"\W+", "-", name.lower()).strip("-"), name, body)
        for name, body in shown.items()
        if body
    ]
    style, script = _resource("page.css"), _resource("sorting.js") + _resource("threshold.js")
    links = "".join(f'<a href="#{anchor}">{escape(name)}</a>' for anchor, name, _ in parts)
    first = f'<p class="verdict">{escape(verdict)}</p>' if verdict else ""
    main = "".join(
        f'<section id="{anchor}"><h2>{escape(name)}</h2>{body}</section>'
        for anchor, name, body in parts
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)} \N{MIDDLE DOT} Wiesel</title><style>{style}</style></head>\n"
        f"<body><header><h1>{escape(title)}</h1>{first}"
        f'<p class="written">{_today()}, Wiesel {__version__}</p>'
        f'<nav aria-label="Sections">{links}</nav></header><main>{main}</main>'
        f"<script>{script}</script></body></html>\n"
    )


def _today() -> str:
    """Return the day in words that no locale changes and nobody reads as another day."""
    day = date.today()
    return (
        f'<time datetime="{day.isoformat()}">{day.day} {_MONTHS[day.month - 1]} {day.year}</time>'
    )


def _resource(name: str) -> str:
    return (files("wiesel.report") / name).read_text(encoding="utf-8")
