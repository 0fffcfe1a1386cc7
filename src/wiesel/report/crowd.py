"""The report for crowds: workers that sort and filter, mistakes, contested items."""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any, NamedTuple

import polars as pl

from wiesel.aggregate import Aggregation
from wiesel.analysis.table import UNKNOWN
from wiesel.io import FilePath
from wiesel.saving import write_file
from wiesel.version import __version__

__all__ = ["crowd_html", "write_crowd_report"]

MOST_WORKERS, MOST_ROWS = 5000, 100


def write_crowd_report(found: Aggregation, path: FilePath, title: str = "Crowd answers") -> None:
    """Write the report as one HTML file that needs no network, all or nothing."""
    write_file(str(path), crowd_html(found, title).encode())


def crowd_html(found: Aggregation, title: str = "Crowd answers") -> str:
    """Return the report as an HTML page; every name and text in it is escaped."""
    style, script = _resource("page.css") + _resource("crowd.css"), _resource("sorting.js")
    sections = (
        ("overview", "Overview", _overview(found)),
        ("workers", "Workers", _workers(found)),
        ("mistakes", "Mistakes by class", _mistakes(found)),
        ("contested", "Contested items", _contested(found)),
    )
    links = "".join(f'<a href="#{anchor}">{name}</a>' for anchor, name, _ in sections)
    main = "".join(
        f'<section id="{anchor}"><h2>{name}</h2>{body}</section>' for anchor, name, body in sections
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)} \N{MIDDLE DOT} Wiesel</title><style>{style}</style></head>\n"
        f"<body><header><h1>{escape(title)}</h1><nav>{links}</nav></header><main>{main}</main>"
        f"<footer>Written by Wiesel {__version__}.</footer><script>{script}</script>"
        "</body></html>\n"
    )


def _resource(name: str) -> str:
    return (files("wiesel.report") / name).read_text(encoding="utf-8")


class _Column(NamedTuple):
    header: str
    cell: Callable[[Mapping[str, Any]], str]
    """What is shown."""
    key: Callable[[Mapping[str, Any]], float | None] | None = None
    """What numbers are sorted by; text is sorted as it is shown."""
    style: str = ""


def _overview(found: Aggregation) -> str:
    votes, flagged = found.votes, found.worker_table.frame.filter(pl.col("flag") != "")
    confidence = found.label_frame[found.label_frame.columns[2]].mean()
    tiles = {
        "items": f"{votes.n_items:,}",
        "workers": f"{votes.n_voters:,}",
        "answers": f"{votes.n_votes:,}",
        "answers per item": f"{votes.n_votes / max(1, votes.n_items):.1f}",
        "mean confidence": UNKNOWN if confidence is None else f"{confidence:.1%}",  # type: ignore[str-bytes-safe]
        "workers flagged": f"{len(flagged):,}",
    }
    boxes = "".join(
        f"<div><strong>{value}</strong><span>{name}</span></div>" for name, value in tiles.items()
    )
    rows = [{"name": name, "share": share} for name, share in found.class_shares().items()]
    columns = (
        _Column("class", lambda row: escape(row["name"]), style="name"),
        _Column("share of the labels", _bar("share"), lambda row: row["share"], "number"),
    )
    note = (
        f"<p>Left out, because the worker answered the item again: {found.n_repeated:,}.</p>"
        if found.n_repeated
        else ""
    )
    method = escape(type(found.model).__name__)
    return (
        f'<div class="tiles">{boxes}</div><p>Labels by {method}.</p>{note}'
        f"{_table('classes', columns, rows)}"
    )


def _workers(found: Aggregation) -> str:
    frame = found.worker_table.frame
    columns = (
        _Column("worker", lambda row: escape(row["worker"]), style="name"),
        _Column("flag", lambda row: f'<span class="flag">{escape(row["flag"])}</span>'),
        _Column("answers", lambda row: f"{row['answers']:,}", lambda row: row["answers"], "number"),
        _Column("accuracy", _bar("accuracy"), lambda row: row["accuracy"], "number"),
        _Column("95 % interval", _between, lambda row: row["low"], "number"),
        _Column("by luck", _percent("luck"), lambda row: row["luck"], "number"),
        _Column("skill", _number("skill"), lambda row: row["skill"], "number"),
        _Column("copy of", lambda row: escape(", ".join(row["copy_of"][:3]))),
    )
    text = (
        "<p>Accuracy is how often the other workers' answers call a worker right. Adversaries are "
        "surely worse than luck, spammers no better than luck; copies answer as another worker "
        "does, mistakes included. Press a header to sort.</p>"
        '<input type="search" data-filters="worker-table" aria-label="Filter workers" '
        'placeholder="Filter: a name or a flag">'
    )
    return text + _table("worker-table", columns, frame.head(MOST_WORKERS).to_dicts(), len(frame))


def _mistakes(found: Aggregation) -> str:
    frame = found.mistake_frame
    columns = (
        _Column("worker", lambda row: escape(row["worker"]), style="name"),
        _Column("true class", lambda row: escape(row["true"])),
        _Column("answered", lambda row: escape(row["answered"])),
        _Column("times", _number("times"), lambda row: row["times"], "number"),
        _Column("of that class", _bar("share"), lambda row: row["share"], "number"),
    )
    return _table("mistake-table", columns, frame.head(MOST_ROWS).to_dicts(), len(frame))


def _contested(found: Aggregation) -> str:
    frame = found.label_frame.rename(
        dict(zip(found.label_frame.columns, ("item", "label", *_MEASURES), strict=True))
    ).drop_nulls("confidence")
    frame = frame.filter(pl.col("disagreement") > 0).sort("confidence", maintain_order=True)
    columns = (
        _Column("item", lambda row: escape(str(row["item"])), style="name"),
        _Column("label", lambda row: escape(str(row["label"]))),
        _Column("confidence", _bar("confidence"), lambda row: row["confidence"], "number"),
        _Column("answers", lambda row: f"{row['answers']:,}", lambda row: row["answers"], "number"),
        _Column(
            "say otherwise", _percent("disagreement"), lambda row: row["disagreement"], "number"
        ),
    )
    return _table("item-table", columns, frame.head(MOST_ROWS).to_dicts(), len(frame))


_MEASURES = ("confidence", "answers", "disagreement")


def _table(
    name: str, columns: Sequence[_Column], rows: Sequence[Mapping[str, Any]], n_rows: int = 0
) -> str:
    if not rows:
        return "<p>None.</p>"
    head = "".join(
        f'<th scope="col" class="{column.style}"><button type="button">{column.header}</button>'
        "</th>"
        for column in columns
    )
    body = "\n".join("<tr>" + "".join(_cell(c, row) for c in columns) + "</tr>" for row in rows)
    more = f"<p>The first {len(rows):,} of {n_rows:,}.</p>" if n_rows > len(rows) else ""
    return (
        f'<div class="scroll"><table id="{name}" class="voters sortable"><thead><tr>{head}</tr>'
        f"</thead><tbody>\n{body}\n</tbody></table></div>{more}"
    )


def _cell(column: _Column, row: Mapping[str, Any]) -> str:
    if column.key is None:
        return f'<td class="{column.style}">{column.cell(row)}</td>'
    value = column.key(row)
    key = "" if value is None else f"{value:.6g}"
    return f'<td class="{column.style}" data-key="{key}">{column.cell(row)}</td>'


def _percent(name: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda row: UNKNOWN if row[name] is None else f"{row[name]:.1%}"


def _number(name: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda row: UNKNOWN if row[name] is None else f"{row[name]:.2f}"


def _bar(name: str) -> Callable[[Mapping[str, Any]], str]:
    share = _percent(name)

    def cell(row: Mapping[str, Any]) -> str:
        width = 0.0 if row[name] is None else 100 * min(1.0, row[name])
        return f'<span class="bar"><i style="width: {width:.0f}%"></i></span>{share(row)}'

    return cell


def _between(row: Mapping[str, Any]) -> str:
    if row["low"] is None:
        return UNKNOWN
    return f"{100 * row['low']:.0f}{UNKNOWN}{100 * row['high']:.0f} %"
