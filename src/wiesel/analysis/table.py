"""Table: a Polars frame that prints well in a terminal and as HTML."""

import io
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import polars as pl
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from wiesel.analysis.table_html import Cell, Head, html_table
from wiesel.errors import MissingExtraError

__all__ = [
    "UNKNOWN",
    "Column",
    "Table",
    "count",
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
