"""Reference tables whose rows are cards on a phone, where five columns do not fit."""

import re

__all__ = ["with_cards"]

_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
_ROW = re.compile(r"<tr>.*?</tr>", re.DOTALL)
_HEADER = re.compile(r"<th[^>]*>(.*?)</th>", re.DOTALL)


def with_cards(content: str) -> str:
    """Return the HTML with every cell but the first named after its column.

    >>> table = "<table><tr><th>key</th><th>type</th></tr><tr><td>a</td><td>int</td></tr></table>"
    >>> with_cards(table).partition("</tr>")[2]
    '<tr><td>a</td><td data-title="type">int</td></tr></table></div>'
    """
    return _TABLE.sub(lambda table: f'<div class="cards">{_titled(table[0])}</div>', content)


def _titled(table: str) -> str:
    titles = [title.strip() for title in _HEADER.findall(table)]
    return _ROW.sub(lambda row: _titled_row(row[0], titles), table)


def _titled_row(row: str, titles: list[str]) -> str:
    first, *cells = row.split("<td>")
    named = [f'<td data-title="{title}">' for title in titles[1:]]
    start = [f"<td>{cells[0]}"] if cells else []
    return "".join([first, *start, *(a + b for a, b in zip(named, cells[1:], strict=False))])
