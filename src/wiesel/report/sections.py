"""The sections of a report, from what it should show to HTML."""

from collections.abc import Sequence
from html import escape

from wiesel.report import charts
from wiesel.report.contents import Disagreement, ReportData, VoterRow

__all__ = ["sections"]

_UNKNOWN = "\N{EN DASH}"
_LISTED_VOTES = 8
_TEXT = 400


def sections(data: ReportData) -> list[tuple[str, str]]:
    """Return the title and the HTML of every section that has something to show."""
    every = [
        ("What was done", _story(data)),
        ("How good it is", _quality(data)),
        ("Voters", _voters(data)),
        ("What stands out", _findings(data)),
        ("Which voters agree", _agreement(data)),
        ("Training", _training(data)),
        ("Where the two networks disagree most", _disagreements(data)),
        ("How to reproduce", _reproduce(data)),
    ]
    return [(title, body) for title, body in every if body]


def _story(data: ReportData) -> str:
    tiles = "".join(
        f"<div><strong>{escape(value)}</strong><span>{escape(caption)}</span></div>"
        for value, caption in data.figures
    )
    text = "".join(f"<p>{escape(sentence)}</p>" for sentence in data.story)
    return f'<div class="tiles">{tiles}</div>{text}'


def _quality(data: ReportData) -> str:
    if data.report is None:
        return (
            "<p>There are no gold labels to judge by. A few dozen labeled rows as "
            "<code>dev</code> in wiesel.toml would also choose the epoch.</p>"
        )
    report, binary = data.report, len(data.labels) == 2
    parts = []
    if len(data.methods) > 1:
        parts += [charts.intervals(data.methods, "accuracy", "Accuracy of every method")]
        title = f"F1 of {data.labels.names[1]}" if binary else "F1, mean over classes"
        parts += [charts.intervals(data.methods, "f1", title)]
    many = len(data.labels) > 20
    parts += ["" if many else charts.confusion(report), charts.calibration(report)]
    if data.curve is not None:
        parts.append(charts.threshold_figure(data.curve, data.threshold, data.labels.names[1]))
    parts.append(charts.coverage(report))
    intro = f"<p>Figures on {report.n_items:,} {escape(data.judged_on)} items with gold labels; "
    intro += "bars are 95 % bootstrap intervals.</p>"
    paired = f"<p>{escape(data.paired)}</p>" if data.paired else ""
    return f'{intro}{paired}<div class="figures">{"".join(parts)}</div>'


def _voters(data: ReportData) -> str:
    if not data.voters:
        return ""
    weights = [row.weight for row in data.voters if row.weight is not None]
    heaviest = max(weights, default=0.0)
    head = "".join(
        f"<th{' class=number' if numeric else ''}>{title}</th>"
        for title, numeric in (
            ("voter", False),
            ("votes for", False),
            ("coverage", True),
            ("conflict", True),
            ("precision", True),
            ("learned weight", True),
        )
    )
    rows = "".join(_voter_row(row, heaviest) for row in data.voters)
    return (
        f"<p>{escape(data.voter_caption)}</p><div class='scroll'><table class='voters'><thead><tr>"
        f"{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _voter_row(row: VoterRow, heaviest: float) -> str:
    classes = ", ".join(escape(name) for name in row.classes[:3]) or _UNKNOWN
    classes += f" and {len(row.classes) - 3} more" if len(row.classes) > 3 else ""
    precision = _UNKNOWN
    if row.precision is not None and row.low is not None and row.high is not None:
        limits = f"{100 * row.low:.0f}{_UNKNOWN}{100 * row.high:.0f}, {row.support:,} items"
        precision = f"{100 * row.precision:.0f} % <small>{limits}</small>"
    weight = _UNKNOWN
    if row.weight is not None:
        weight = _bar(row.weight / heaviest if heaviest > 0 else 0.0, f"{row.weight:.2f}")
    return (
        f"<tr><td class='name'>{escape(row.name)}</td><td>{classes}</td>"
        f"<td class='number'>{_bar(row.coverage, f'{100 * row.coverage:.1f} %')}</td>"
        f"<td class='number'>{100 * row.conflict:.1f} %</td>"
        f"<td class='number'>{precision}</td><td class='number'>{weight}</td></tr>"
    )


def _bar(share: float, text: str) -> str:
    width = 100 * min(max(share, 0.0), 1.0)
    return f"<span class='bar'><i style='width:{width:.0f}%'></i></span>{escape(text)}"


def _findings(data: ReportData) -> str:
    if not data.findings:
        return "<p>Nothing odd was found in these votes.</p>"
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in data.findings)
    return f"<ul>{items}</ul>"


def _agreement(data: ReportData) -> str:
    if data.agreement is None or len(data.agreement_names) < 2:
        return ""
    return charts.heat_map(data.agreement_names, data.agreement)


def _training(data: ReportData) -> str:
    parts = []
    if data.losses:
        note = "Lower is better; a method with two networks has two lines."
        parts.append(charts.epochs("Losses", data.losses, data.kept_epoch, note))
    if data.scores:
        note = "Agreement: how often end model and weighted votes name the same class."
        parts.append(charts.epochs("Agreement and score", data.scores, data.kept_epoch, note))
    return f'<div class="figures">{"".join(parts)}</div>' if parts else ""


def _disagreements(data: ReportData) -> str:
    if not data.disagreements:
        return ""
    intro = (
        "<p>Here the end model, which reads the item, and the weighted votes are furthest apart: "
        "the best places to look for wrong votes, missing labeling functions and odd items.</p>"
    )
    return intro + "".join(_disagreement(item) for item in data.disagreements)


def _disagreement(item: Disagreement) -> str:
    text = escape(item.text[:_TEXT]) + (" …" if len(item.text) > _TEXT else "")
    return (
        f"<article><h3>{escape(item.item)}</h3><blockquote>{text}</blockquote>"
        f"<p><span>end model: <b>{escape(item.end_model)}</b> {100 * item.end_proba:.0f} %</span> "
        f"<span>votes: <b>{escape(item.soft_label)}</b> {100 * item.soft_proba:.0f} %</span> "
        f"<small>{_vote_list(item.votes)}</small></p></article>"
    )


def _vote_list(votes: Sequence[tuple[str, str]]) -> str:
    shown = ", ".join(f"{escape(voter)}: {escape(vote)}" for voter, vote in votes[:_LISTED_VOTES])
    more = len(votes) - _LISTED_VOTES
    return f"{shown} and {more} more" if more > 0 else shown


def _reproduce(data: ReportData) -> str:
    commands = escape("\n".join(data.reproduce))
    settings = (
        f"<details><summary>wiesel.toml</summary><pre>{escape(data.settings)}</pre></details>"
        if data.settings
        else ""
    )
    return f"<pre>{commands}</pre>{settings}"
