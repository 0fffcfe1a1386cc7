"""Tables with sorting and filtering, also readable without scripts."""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from wiesel.analysis.table import UNKNOWN

__all__ = ["TableColumn", "bar", "filter_field", "percent_text", "sortable_table"]

Row = Mapping[str, Any]


class TableColumn(NamedTuple):
    """One column of a table: its title, its cells, and its sort key."""

    header: str
    cell: Callable[[Row], str]
    """The content of a cell, as HTML."""
    key: Callable[[Row], float | None] | None = None
    """The sort key of numbers; text is sorted as shown."""
    style: str = ""


def sortable_table(
    name: str, columns: Sequence[TableColumn], rows: Sequence[Row], n_rows: int = 0
) -> str:
    """Return a table; `n_rows` is the total number of rows if not all are shown.

    >>> column = TableColumn("class", lambda row: row["name"])
    >>> '<th scope="col"' in sortable_table("classes", [column], [{"name": "ham"}])
    True
    """
    if not rows:
        return "<p>None.</p>"
    head = "".join(
        f'<th scope="col" class="{column.style}"><button type="button">{column.header}</button>'
        "</th>"
        for column in columns
    )
    body = "\n".join(
        "<tr>" + "".join(_cell(column, row, place == 0) for place, column in enumerate(columns))
        + "</tr>"
        for row in rows
    )  # fmt: skip
    more = f"<p>The first {len(rows):,} of {n_rows:,}.</p>" if n_rows > len(rows) else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(name)}">'
        f'<table id="{name}" class="voters sortable"><thead><tr>{head}</tr></thead>'
        f"<tbody>\n{body}\n</tbody></table></div>{more}"
    )


def filter_field(table: str, what: str) -> str:
    """Return an input field that filters the rows of a table by the typed text."""
    return (
        f'<p class="filter"><input type="search" data-filters="{table}" '
        f'aria-label="Filter {escape(what)}" placeholder="Filter: {escape(what)}">'
        f'<output data-counts="{table}"></output></p>'
    )


def bar(share: float | None, text: str) -> str:
    """Return a text after a bar whose length is a share."""
    width = 100 * min(max(share or 0.0, 0.0), 1.0)
    return f'<span class="bar"><i style="width:{width:.0f}%"></i></span><span>{escape(text)}</span>'


def percent_text(share: float | None, digits: int = 1) -> str:
    """Return a share in percent; a dash if unknown."""
    return UNKNOWN if share is None else f"{100 * share:.{digits}f} %"


def _cell(column: TableColumn, row: Row, first: bool) -> str:
    key = ""
    if column.key is not None:
        value = column.key(row)
        key = f' data-key="{"" if value is None else f"{value:.6g}"}"'
    opening, closing = ('<th scope="row"', "</th>") if first else ("<td", "</td>")
    return f'{opening} class="{column.style}"{key}>{column.cell(row)}{closing}'
