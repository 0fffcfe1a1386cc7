"""The page around the sections: head, style, contents, and the sort and filter script."""

import re
from collections.abc import Mapping
from html import escape
from importlib.resources import files

from wiesel.io import FilePath
from wiesel.report.contents import ReportData
from wiesel.report.sections import sections
from wiesel.saving import write_file
from wiesel.version import __version__

__all__ = ["report_html", "whole_page", "write_report"]


def write_report(data: ReportData, path: FilePath) -> None:
    """Write a report as one HTML file that needs no network, all or nothing."""
    write_file(str(path), report_html(data).encode())


def report_html(data: ReportData) -> str:
    """Return a report as an HTML page; every name and text in it is escaped."""
    return whole_page(data.title, sections(data))


def whole_page(title: str, shown: Mapping[str, str]) -> str:
    """Return a page of sections (HTML by title) that needs no network; empty ones are left out.

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
    main = "".join(
        f'<section id="{anchor}"><h2>{escape(name)}</h2>{body}</section>'
        for anchor, name, body in parts
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)} \N{MIDDLE DOT} Wiesel</title><style>{style}</style></head>\n"
        f'<body><header><h1>{escape(title)}</h1><nav aria-label="Sections">{links}</nav></header>'
        f"<main>{main}</main><footer>Written by Wiesel {__version__}.</footer>"
        f"<script>{script}</script></body></html>\n"
    )


def _resource(name: str) -> str:
    return (files("wiesel.report") / name).read_text(encoding="utf-8")
