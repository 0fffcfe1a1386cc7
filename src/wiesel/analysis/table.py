"""Table: a Polars frame that prints well in a terminal and as HTML."""

import io
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

import polars as pl
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from wiesel.errors import MissingExtraError

__all__ = [
    "BARS",
    "UNKNOWN",
    "Cell",
    "Column",
    "Head",
    "Table",
    "count",
    "html_table",
    "interval",
    "number",
    "percent",
    "telling_rest",
    "text",
]

UNKNOWN = "\N{EN DASH}"
"""Printed for an unknown value."""

_NARROWEST, _WIDEST = 60, 120
_UNBROKEN, _NAME = 14, 16
"""The maximum length of a number on one line; the width that names get if they need it."""
_LISTED = 3
_HTML_ROWS = 500
_REST: ContextVar[str] = ContextVar("rest", default=" in .frame")
"""Where the rows are that a table does not show."""
BARS = {"blue": "42,120,214", "orange": "217,84,30", "green": "19,138,96"}
"""The RGB colors of bars; drawn semi-transparent, so that they suit dark pages too."""

_STYLE = """
.wiesel-table {overflow:auto; max-height:36em; width:fit-content; max-width:100%}
.wiesel-table table {border-collapse:collapse; margin:0; color:inherit; font-size:inherit}
.wiesel-table caption {caption-side:top; text-align:left; padding:.3em 0; color:inherit}
.wiesel-table th, .wiesel-table td {padding:.25em .7em; text-align:left; white-space:pre-wrap}
.wiesel-table th {border-bottom:1px solid rgba(128,128,128,.6); vertical-align:bottom}
.wiesel-table .number {text-align:right; white-space:nowrap; font-variant-numeric:tabular-nums}
.wiesel-table button {all:unset; cursor:pointer; font-weight:600}
.wiesel-table button:focus-visible {outline:2px solid rgb(42,120,214)}
.wiesel-table [aria-sort=ascending] button::after {content:" \\25B2"}
.wiesel-table [aria-sort=descending] button::after {content:" \\25BC"}
"""

# The script is an attribute of the table head, because notebooks do not run the scripts of all
# outputs, nor at predictable times. It must not contain double quotes.
_SORT = """
const head = event.target.closest('th');
if (head) {
  const body = head.closest('table').tBodies[0];
  const down = head.getAttribute('aria-sort') === 'ascending';
  const key = (row) => row.cells[head.cellIndex].dataset.key;
  const words = (row) => row.cells[head.cellIndex].textContent;
  const compare = (a, b) => key(a) === undefined
    ? words(a).localeCompare(words(b)) : Number(key(a)) - Number(key(b));
  const known = (row) => key(row) !== '';
  const rows = [...body.rows];
  const sorted = rows.filter(known).sort((a, b) => (down ? compare(b, a) : compare(a, b)));
  for (const cell of head.parentElement.cells) cell.removeAttribute('aria-sort');
  head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
  body.append(...sorted, ...rows.filter((row) => !known(row)));
}
"""

_NUMBER = re.compile(r"[-+]?[\d,]*\.?\d+(?:e[-+]?\d+)?")


@dataclass(frozen=True)
class Column:
    """A printed column: its header, and the function that formats its cell for a row."""

    header: str
    cell: Callable[[Mapping[str, Any]], str]
    numeric: bool = True
    share: str = ""
    """The frame column shown as bars in HTML: shares from 0 to 1."""
    color: str = ""
    """The color of these bars, one of `table_html.BARS`."""


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """A Polars frame (`frame`) with formatted columns for people to read.

    Unknown values are null in the frame and printed as a dash. Printing stops after `limit` rows;
    the frame has all rows.

    >>> frame = pl.DataFrame({"voter": ["a", "b"], "precision": [0.75, None]})
    >>> print(Table(frame, (text("voter"), percent("precision"))))
     voter   precision
    ───────────────────
     a          75.0 %
     b               –
    """

    frame: pl.DataFrame
    """All values, for use in code."""
    columns: tuple[Column, ...]
    caption: str = ""
    """A sentence about the whole table, printed above the rows."""
    limit: int = 40
    """The number of printed rows; HTML shows more, because it can scroll and sort."""
    conclusion: str = ""
    """A sentence that follows from the rows, printed below them."""

    def __len__(self) -> int:
        return len(self.frame)

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_records(self) -> list[dict[str, Any]]:
        """Return the rows as dicts, ready for JSON; unknown values are None."""
        return self.frame.to_dicts()

    def to_pandas(self) -> Any:
        """Return all values as a pandas DataFrame; unknown values are None or NaN."""
        try:
            from pandas import DataFrame
        except ImportError:
            raise MissingExtraError(
                "to_pandas() needs pandas: pip install pandas. Without it, .frame is a Polars "
                "frame with the same values."
            ) from None
        return DataFrame(self.frame.to_dict(as_series=False))

    def to_text(self, width: int | None = None) -> str:
        """Return the table as text for a terminal, at most `width` characters wide."""
        if width is None:
            terminal = shutil.get_terminal_size(fallback=(100, 24)).columns
            width = min(max(terminal, _NARROWEST), _WIDEST)
        grid, cells = RichTable(box=SIMPLE_HEAD, show_edge=False, pad_edge=True), self._cells()
        by_column = list(zip(self.columns, zip(*cells, strict=True), strict=False))
        room = [_kept_width(column, values, _UNBROKEN) for column, values in by_column]
        if _total(room) > width:
            # If space is tight, numbers wrap between words; nothing is ever cut off.
            room = [_kept_width(column, values, 0) for column, values in by_column]
            width = max(width, _total(room))
        for (column, values), kept in zip(by_column, room, strict=True):
            grid.add_column(
                column.header,
                justify="right" if column.numeric else "left",
                no_wrap=column.numeric and kept == max(map(len, values)),
                min_width=kept,
                overflow="fold",
            )
        for row in cells:
            # Use Text objects, because a name in square brackets would be parsed as markup.
            grid.add_row(*(Text(cell) for cell in row))
        body = _rendered(grid, width) if len(self.frame) else ""
        parts = [self.caption, body, self._rest(self.limit), self.conclusion]
        return "\n".join(part for part in parts if part)

    def to_html(self) -> str:
        """Return the table as HTML with sortable columns; every name and value is escaped."""
        rows = self.frame.head(max(self.limit, _HTML_ROWS)).to_dicts()
        cells = [[Cell(c.cell(row), row.get(c.share)) for c in self.columns] for row in rows]
        heads = [Head(c.header, c.numeric, c.color) for c in self.columns]
        below = " ".join(part for part in (self._rest(len(rows)), self.conclusion) if part)
        return html_table(heads, cells, self.caption, below)

    def _cells(self) -> list[list[str]]:
        rows = self.frame.head(self.limit).to_dicts()
        return [[column.cell(row) for column in self.columns] for row in rows]

    def _rest(self, shown: int) -> str:
        hidden = len(self.frame) - shown
        rows = "row" if hidden == 1 else "rows"
        return f"{hidden:,} more {rows}{_REST.get()}" if hidden > 0 else ""


@contextmanager
def telling_rest(words: str) -> Iterator[None]:
    """Let tables say by other words than `in .frame` where the rows are that they do not show."""
    token = _REST.set(words)
    try:
        yield
    finally:
        _REST.reset(token)


def text(name: str, header: str | None = None) -> Column:
    """Return a column of text; for lists, the first few entries."""
    return Column(header or name, lambda row: _words(row[name]), numeric=False)


def count(name: str, header: str | None = None) -> Column:
    """Return a column of whole numbers."""
    return Column(header or name, lambda row: _known(row[name], "{:,}"))


def number(name: str, header: str | None = None) -> Column:
    """Return a column of numbers with two decimals."""
    return Column(header or name, lambda row: _known(row[name], "{:.2f}"))


def percent(name: str, header: str | None = None, color: str = "blue") -> Column:
    """Return a column of shares, printed as percentages, with colored bars in HTML."""

    def cell(row: Mapping[str, Any]) -> str:
        return _known(row[name], "{:.1%}").replace("%", " %")

    return Column(header or name, cell, share=name, color=color)


def interval(name: str, low: str, high: str, header: str | None = None) -> Column:
    """Return a column of shares with their intervals, as in `75.0 % (41–93)`."""
    share = percent(name)

    def cell(row: Mapping[str, Any]) -> str:
        if row[name] is None:
            return UNKNOWN
        return f"{share.cell(row)} ({100 * row[low]:.0f}{UNKNOWN}{100 * row[high]:.0f})"

    return Column(header or name, cell, share=name, color=share.color)


def _known(value: float | None, pattern: str) -> str:
    return UNKNOWN if value is None else pattern.format(value)


def _words(value: object) -> str:
    if isinstance(value, list):
        shown = ", ".join(map(str, value[:_LISTED])) or UNKNOWN
        return shown if len(value) <= _LISTED else f"{shown} and {len(value) - _LISTED} more"
    return UNKNOWN if value is None else str(value)


def _kept_width(column: Column, values: Sequence[str], unbroken: int) -> int:
    """The minimum width of a column: some for names, and enough that no number is cut off.

    No column is narrower than the longest word of its header.

    Numbers of up to `unbroken` characters stay on one line; longer ones wrap between words.
    """
    longest = max(map(len, values))
    if not column.numeric:
        return max((min(longest, _NAME), *map(len, column.header.split())))
    words = (word for value in (column.header, *values) for word in value.split())
    widest_word = max(map(len, words))
    return max(longest, widest_word) if longest <= unbroken else widest_word


def _total(room: Sequence[int]) -> int:
    """The width of a table with these column widths, plus two spaces and a gap per column."""
    return sum(room) + 3 * len(room)


def _rendered(grid: RichTable, width: int) -> str:
    page = io.StringIO()
    # A console that detects a notebook would display the table there and return no text.
    console = Console(
        file=page, width=width, color_system=None, legacy_windows=False, force_jupyter=False
    )
    console.print(grid)
    return "\n".join(line.rstrip() for line in page.getvalue().splitlines())


class Head(NamedTuple):
    """A column: its header, whether it is numeric, and the color of its bars."""

    header: str
    numeric: bool
    color: str = ""


class Cell(NamedTuple):
    """The text of a cell, and the share (0 to 1) drawn as a bar behind it."""

    text: str
    share: float | None = None


def html_table(
    heads: Sequence[Head], rows: Sequence[Sequence[Cell]], caption: str = "", rest: str = ""
) -> str:
    """Return an HTML fragment with its style. A click on a header sorts; unknown values come last.

    >>> html = html_table([Head("voter", False), Head("share", True)], [[Cell("<a>"), Cell("5 %")]])
    >>> "&lt;a&gt;" in html, 'data-key="5"' in html
    (True, True)
    """
    top = "".join(
        f'<th scope="col"{_class(head)}><button type="button">{escape(head.header)}</button></th>'
        for head in heads
    )
    body = "\n".join(
        "<tr>" + "".join(map(_cell, heads, row)) + "</tr>"  # one cell per column
        for row in rows
    )
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    more = f"<p>{escape(rest)}</p>" if rest else ""
    return (
        f'<div class="wiesel-table"><style>{_STYLE}</style><table>{title}\n'
        f'<thead onclick="{_SORT}"><tr>{top}</tr></thead>\n<tbody>\n{body}\n</tbody>\n'
        f"</table>{more}</div>"
    )


def _cell(head: Head, cell: Cell) -> str:
    key = f' data-key="{_sort_key(cell.text)}"' if head.numeric else ""
    return f"<td{_class(head)}{key}{_bar(head.color, cell.share)}>{escape(cell.text)}</td>"


def _class(head: Head) -> str:
    return ' class="number"' if head.numeric else ""


def _sort_key(shown: str) -> str:
    """The number at the start of a text, without commas; empty if there is none."""
    found = _NUMBER.match(shown)
    return found[0].replace(",", "") if found else ""


def _bar(color: str, share: float | None) -> str:
    if not color or share is None:
        return ""
    end = f"{100 * min(max(share, 0.0), 1.0):.1f}%"
    fill = f"rgba({BARS[color]},.28)"
    bar = f"linear-gradient(90deg,{fill} {end},transparent {end}) center/100% 76% no-repeat"
    return f' style="background:{bar}"'
