"""Reads the tables of result pages written earlier."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PageTable", "leading_number", "tables_of"]


@dataclass(frozen=True)
class PageTable:
    """A Markdown table and its heading."""

    heading: str
    columns: tuple[str, ...]
    rows: dict[str, tuple[str, ...]]
    """The cells of every row, by its first cell."""

    def cell(self, row: str, column: str) -> str | None:
        """Return a cell; None if the table does not have it."""
        if row not in self.rows or column not in self.columns:
            return None
        return self.rows[row][self.columns.index(column)]

    def number(self, row: str, column: str) -> float | None:
        """Return the number at the start of a cell; None if there is none."""
        return leading_number(self.cell(row, column))

    def deviation(self, row: str, column: str) -> float | None:
        """Return the number after ± in a cell; None if there is none."""
        return leading_number((self.cell(row, column) or "").partition("± ")[2])


def leading_number(text: str | None) -> float | None:
    """Return the number at the start of a text, or None.

    >>> leading_number("80.40 ± 0.11 (82.10)"), leading_number("- (-)"), leading_number("+0.98")
    (80.4, None, 0.98)
    """
    found = re.match(r"[+-]?\d+(?:\.\d+)?", text or "")
    return None if found is None else float(found[0])


def tables_of(page: Path) -> list[PageTable]:
    """Return all tables of a page, in order."""
    return list(_tables(page.read_text().splitlines()))


def _tables(lines: list[str]) -> Iterator[PageTable]:
    heading, block = "", []
    for line in [*lines, ""]:
        if line.startswith("|"):
            block.append([cell.strip() for cell in line.strip().strip("|").split("|")])
            continue
        if len(block) > 2:
            rows = {cells[0].strip("*"): tuple(cells[1:]) for cells in block[2:]}
            yield PageTable(heading, tuple(block[0][1:]), rows)
        block = []
        if line.startswith("#"):
            heading = line.lstrip("# ")
