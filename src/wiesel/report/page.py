"""The page around the sections: head, style, contents."""

import re
from html import escape
from importlib.resources import files

from wiesel.io import FilePath
from wiesel.report.contents import ReportData
from wiesel.report.sections import sections
from wiesel.saving import write_file
from wiesel.version import __version__

__all__ = ["report_html", "write_report"]


def write_report(data: ReportData, path: FilePath) -> None:
    """Write a report as one HTML file that needs no network, all or nothing."""
    write_file(str(path), report_html(data).encode())


def report_html(data: ReportData) -> str:
    """Return a report as an HTML page; every name and text in it is escaped."""
    style = (files("wiesel.report") / "page.css").read_text(encoding="utf-8")
    shown = [(_anchor(title), title, body) for title, body in sections(data)]
    links = "".join(f'<a href="#{anchor}">{escape(title)}</a>' for anchor, title, _ in shown)
    main = "".join(
        f'<section id="{anchor}"><h2>{escape(title)}</h2>{body}</section>'
        for anchor, title, body in shown
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(data.title)} \N{MIDDLE DOT} Wiesel</title><style>{style}</style></head>\n"
        f"<body><header><h1>{escape(data.title)}</h1><nav>{links}</nav></header>"
        f"<main>{main}</main><footer>Written by Wiesel {__version__}.</footer></body></html>\n"
    )


def _anchor(title: str) -> str:
    return re.sub(r"\W+", "-", title.lower()).strip("-")
