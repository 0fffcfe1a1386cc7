"""The report on crowd answers: a sortable table of workers, mistakes, contested items."""

from collections.abc import Callable, Mapping
from html import escape
from typing import Any

import polars as pl

from wiesel.aggregate import Aggregation
from wiesel.analysis.table import UNKNOWN
from wiesel.io import FilePath
from wiesel.report.page import whole_page
from wiesel.report.tables import TableColumn, bar, filter_field, percent_text, sortable_table
from wiesel.saving import write_file

__all__ = ["crowd_html", "write_crowd_report"]

MOST_WORKERS, MOST_ROWS = 5000, 100


def write_crowd_report(found: Aggregation, path: FilePath, title: str = "Crowd answers") -> None:
    """Write the report as one HTML file that needs no network, all or nothing."""
    write_file(str(path), crowd_html(found, title).encode())


def crowd_html(found: Aggregation, title: str = "Crowd answers") -> str:
    """Return the report as an HTML page; every name and text in it is escaped."""
    sections = (
        ("overview", "Overview", _overview(found)),
        ("workers", "Workers", _workers(found)),
        ("mistakes", "Mistakes by class", _mistakes(found)),
        ("contested", "Contested items", _contested(found)),
    )
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
    )
    text = (
        "<p>Accuracy is how often a worker is right, judged by all answers. Adversaries are "
        "clearly worse than chance, spammers no better than chance; copies answer like another "
        "worker, "
        "mistakes included. Click a header to sort.</p>"
    )
    text += filter_field("worker-table", "a name or a flag")
    return text + sortable_table(
        "worker-table", columns, frame.head(MOST_WORKERS).to_dicts(), len(frame)
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
    frame = found.label_frame.rename(
        dict(zip(found.label_frame.columns, ("item", "label", *_MEASURES), strict=True))
    ).drop_nulls("confidence")
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
            "say otherwise", _percent("disagreement"), lambda row: row["disagreement"], "number"
        ),
    )
    return sortable_table("item-table", columns, frame.head(MOST_ROWS).to_dicts(), len(frame))


_MEASURES = ("confidence", "answers", "disagreement", "tie")


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
