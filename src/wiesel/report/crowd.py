"""The report on crowd answers: a sortable table of workers, mistakes, contested items."""

from collections.abc import Callable, Mapping
from html import escape
from typing import Any

import polars as pl

from wiesel.aggregate import Aggregation
from wiesel.analysis.table import UNKNOWN
from wiesel.io import FilePath
from wiesel.report.charts import (
    TableColumn,
    bar,
    figure,
    filter_field,
    percent_text,
    shares_table,
    sortable_table,
)
from wiesel.report.sections import whole_page
from wiesel.saving import write_file

__all__ = ["crowd_html", "write_crowd_report"]

MOST_WORKERS, MOST_ROWS, MOST_GROUPS, MOST_NAMED = 5000, 100, 12, 8
MOST_PICTURED, LEAST_PICTURED = 24, 20
LEAST_SHARE = 0.05
"""Rarer mistakes are not told."""


def write_crowd_report(found: Aggregation, path: FilePath, title: str = "Crowd answers") -> None:
    """Write the report as one HTML file that needs no network, all or nothing."""
    write_file(str(path), crowd_html(found, title).encode())


def crowd_html(found: Aggregation, title: str = "Crowd answers") -> str:
    """Return the report as an HTML page; every name and text in it is escaped."""
    sections = {
        "Overview": _overview(found),
        "Workers": _workers(found),
        "Workers who answer alike": _groups(found),
        "Single workers": _single(found),
        "Mistakes by class": _mistakes(found),
        "Contested items": _contested(found),
    }
    return whole_page(title, sections)


def _overview(found: Aggregation) -> str:
    votes, flagged = found.votes, found.worker_table.frame.filter(pl.col("flag") != "")
    confidence = found.label_frame[found.label_frame.columns[2]].mean()
    tiles = {
        "items": f"{votes.n_items:,}",
        "workers": f"{votes.n_voters:,}",
        "answers": f"{found.n_answers:,}",
        "answers per item": f"{found.n_answers / max(1, votes.n_items):.1f}",
        "mean confidence": percent_text(confidence),  # type: ignore[arg-type]
        "workers flagged": f"{len(flagged):,}",
    }
    boxes = "".join(
        f"<div><strong>{value}</strong><span>{name}</span></div>" for name, value in tiles.items()
    )
    rows = [{"name": name, "share": share} for name, share in found.class_shares().items()]
    columns = (
        TableColumn("class", lambda row: escape(row["name"]), style="name"),
        TableColumn("share of the labels", _bar("share"), lambda row: row["share"], "number"),
    )
    note = "".join(
        f"<p>{escape(sentence)}.</p>" for sentence in (found.agreement.sentence(), *found.notes())
    )
    method = escape(type(found.model).__name__)
    return (
        f'<div class="tiles">{boxes}</div><p>Labels by {method}.</p>{note}'
        f"{sortable_table('classes', columns, rows)}"
    )


def _workers(found: Aggregation) -> str:
    frame = found.worker_table.frame
    columns = (
        TableColumn("worker", lambda row: escape(row["worker"]), style="name"),
        TableColumn("flag", lambda row: f'<span class="flag">{escape(row["flag"])}</span>'),
        TableColumn(
            "answers", lambda row: f"{row['answers']:,}", lambda row: row["answers"], "number"
        ),
        TableColumn("accuracy", _bar("accuracy"), lambda row: row["accuracy"], "number"),
        TableColumn("95 % interval", _between, lambda row: row["low"], "number"),
        TableColumn("by chance", _percent("luck"), lambda row: row["luck"], "number"),
        TableColumn("skill", _number("skill"), lambda row: row["skill"], "number"),
        TableColumn("copy of", lambda row: escape(", ".join(row["copy_of"][:3]))),
        *(column for name, column in _HABITS.items() if name in frame.columns),
    )
    text = (
        "<p>Accuracy is how often a worker is right, judged by all answers. Adversaries are "
        "clearly worse than chance, spammers no better than chance; copies answer like another "
        "worker, "
        "mistakes included. Click a header to sort.</p>"
    )
    text += "".join(f"<p>{why}</p>" for name, why in _MEANINGS.items() if name in frame.columns)
    text += filter_field("worker-table", "a name or a flag")
    return text + sortable_table(
        "worker-table", columns, frame.head(MOST_WORKERS).to_dicts(), len(frame)
    )


def _groups(found: Aggregation) -> str:
    names, frame = found.votes.labels.names, found.groups
    if frame.is_empty():
        return "<p>Nobody has 20 answers to items that others answered, too.</p>"
    figures = []
    for row in frame.head(MOST_GROUPS).iter_rows(named=True):
        n_workers = row["n_workers"]
        title = "1 worker" if n_workers == 1 else f"{n_workers:,} workers"
        note = ", ".join(row["workers"][:MOST_NAMED])
        note += f" and {n_workers - MOST_NAMED:,} more" if n_workers > MOST_NAMED else ""
        note += f". {row['answers']:,} answers, {percent_text(row['accuracy'])} right."
        if row["true"] is not None and row["share"] >= LEAST_SHARE:
            note += (
                f" Most frequent mistake: {names[row['answered']]} for {names[row['true']]}, "
                f"{percent_text(row['share'])} of that class."
            )
        figures.append(figure(title, shares_table(names, row["confusion"]), note=note))
    left = len(frame) - len(figures)
    return (
        "<p>Workers with at least 20 answers to items that others answered, too, grouped by what "
        "they answer to which class. Rows are the true class, as far as the others' answers tell; "
        f'shades are shares of the row.</p><div class="figures">{"".join(figures)}</div>'
        + (f"<p>{left:,} more groups.</p>" if left > 0 else "")
    )


def _single(found: Aggregation) -> str:
    """Pictures of the first workers in the table: flagged ones, then the best."""
    place = {name: k for k, name in enumerate(found.votes.voters)}
    figures = []
    for row in found.worker_table.frame.iter_rows(named=True):
        counts = found.expected_answers[place[row["worker"]]]
        total = counts.sum(axis=1, keepdims=True)
        if total.sum() < LEAST_PICTURED:
            continue
        flag = f", {row['flag']}" if row["flag"] else ""
        note = f"{row['answers']:,} answers{flag}."
        shares = (counts / total.clip(1e-300)).tolist()
        figures.append(
            figure(row["worker"], shares_table(found.votes.labels.names, shares), note=note)
        )
        if len(figures) == MOST_PICTURED:
            break
    if not figures:
        return ""
    return (
        "<p>The first workers of the table above, each with at least 20 answers.</p>"
        f'<div class="figures">{"".join(figures)}</div>'
    )


def _mistakes(found: Aggregation) -> str:
    frame = found.mistake_frame
    columns = (
        TableColumn("worker", lambda row: escape(row["worker"]), style="name"),
        TableColumn("true class", lambda row: escape(row["true"])),
        TableColumn("answered", lambda row: escape(row["answered"])),
        TableColumn(
            "times", lambda row: f"{row['times']:,.0f}", lambda row: row["times"], "number"
        ),
        TableColumn("of that class", _bar("share"), lambda row: row["share"], "number"),
    )
    return sortable_table("mistake-table", columns, frame.head(MOST_ROWS).to_dicts(), len(frame))


def _contested(found: Aggregation) -> str:
    frame = found.label_frame
    # A measure has another name if the items' column has its own.
    own = [*frame.columns[:2], *(name.rstrip("_") for name in frame.columns[2:])]
    renamed = dict(zip(frame.columns, ["item", "label", *own[2:]], strict=True))
    frame = frame.rename(renamed).drop_nulls("confidence")
    frame = frame.filter(pl.col("disagreement") > 0).sort("confidence", maintain_order=True)
    columns = (
        TableColumn("item", lambda row: escape(str(row["item"])), style="name"),
        TableColumn("label", lambda row: escape(str(row["label"] or UNKNOWN))),
        TableColumn("tie", lambda row: escape(row["tie"] or "")),
        TableColumn("confidence", _bar("confidence"), lambda row: row["confidence"], "number"),
        TableColumn(
            "answers", lambda row: f"{row['answers']:,}", lambda row: row["answers"], "number"
        ),
        TableColumn(
            "far from it" if found.votes.labels.ordered else "say otherwise",
            _percent("disagreement"),
            lambda row: row["disagreement"],
            "number",
        ),
    )
    return sortable_table("item-table", columns, frame.head(MOST_ROWS).to_dicts(), len(frame))


def _percent(name: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda row: percent_text(row[name])


def _number(name: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda row: UNKNOWN if row[name] is None else f"{row[name]:.2f}"


def _bar(name: str) -> Callable[[Mapping[str, Any]], str]:
    share = _percent(name)
    return lambda row: bar(row[name], share(row))


def _between(row: Mapping[str, Any]) -> str:
    if row["low"] is None:
        return UNKNOWN
    return f"{100 * row['low']:.0f}{UNKNOWN}{100 * row['high']:.0f} %"


_HABITS = {
    "seconds": TableColumn("seconds", _number("seconds"), lambda row: row["seconds"], "number"),
    "pace": TableColumn("pace", _number("pace"), lambda row: row["pace"], "number"),
    "drift": TableColumn("drift", lambda row: escape(row["drift"] or "")),
}
_MEANINGS = {
    "pace": "Pace is the share of the time that others take for the same items: who is below 0.33 "
    "hardly reads them.",
    "drift": "Drift: who got better or worse from the first to the second half of the answers, by "
    "more than chance explains.",
}
