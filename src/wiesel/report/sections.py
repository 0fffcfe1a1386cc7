"""Turns the contents of a report into the HTML of its sections."""

from html import escape

from wiesel.analysis.table import UNKNOWN
from wiesel.report import charts
from wiesel.report.contents import ReportData, VoterRow
from wiesel.report.items import disagreements, errors
from wiesel.report.quality import balance, quality, slices
from wiesel.report.tables import TableColumn, bar, filter_field, percent_text, sortable_table

__all__ = ["sections"]


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
        "Which voters agree": _agreement(data),
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
    return charts.heat_map(data.agreement_names, data.agreement)


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
