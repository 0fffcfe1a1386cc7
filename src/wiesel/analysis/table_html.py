"""A table as self-contained HTML: sortable columns, bars behind shares, escaped text."""

import re
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

__all__ = ["BARS", "Cell", "Head", "html_table"]

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
