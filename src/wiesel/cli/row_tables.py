"""A table of rows on the command line: its columns, before there are any votes."""

from pathlib import Path
from typing import TYPE_CHECKING

from wiesel.cli.project_options import free_folder
from wiesel.cli.verb import Answer, command_line

if TYPE_CHECKING:
    import polars as pl

    from wiesel.analysis.table import Table

__all__ = ["describe_rows"]

_SHOWN = 48


def describe_rows(path: Path) -> Answer:
    """Describe the columns of a table that has neither votes nor answers."""
    from wiesel.io import read_rows

    rows = read_rows(path)
    table = column_table(rows)
    note = (
        "These are rows without votes: put them into a project and write labeling functions. If "
        "the cells are votes, name their classes with --labels ham,spam."
    )
    data = {"n_rows": len(rows), "columns": table.to_records()}
    text = f"{table.to_text()}\n\n{note}"
    return Answer(data, text, command_line("wiesel", "init", free_folder()))


def column_table(rows: "pl.DataFrame") -> "Table":
    """Return a row per column: its type, missing and different values, and the most frequent."""
    import polars as pl

    from wiesel.analysis.table import Table, count, text

    frame = pl.DataFrame(
        {
            "column": pl.Series(rows.columns, dtype=pl.String),
            "type": [_kind(kind) for kind in rows.dtypes],
            "missing": [column.null_count() for column in rows],
            "different": [column.drop_nulls().n_unique() for column in rows],
            "frequent": [_frequent(column) for column in rows],
        },
        schema_overrides={"type": pl.String, "frequent": pl.String},
    )
    columns = (text("column"), text("type"), count("missing"), count("different"))
    caption = f"{len(rows):,} rows, {len(rows.columns)} columns"
    return Table(frame, (*columns, text("frequent", "most frequent, or first")), caption)


def _kind(kind: "pl.DataType") -> str:
    import polars as pl

    if kind.is_numeric():
        return "number" if kind.is_float() else "whole number"
    known = {pl.String: "text", pl.Boolean: "yes or no", pl.Null: "empty"}
    return known.get(kind.base_type(), "date" if kind.is_temporal() else "other")


def _frequent(column: "pl.Series") -> str:
    """The three most frequent values with their numbers; the first one if none is repeated."""
    values = column.drop_nulls()
    if values.is_empty():
        return ""
    if values.dtype.is_nested() or values.n_unique() > len(values) / 2:
        return _short(str(values[0]))
    counts = values.value_counts(sort=True).head(3).rows()
    return _short(", ".join(f"{value} ({n:,})" for value, n in counts))


def _short(value: str) -> str:
    one_line = " ".join(value[: 10 * _SHOWN].split())
    return one_line if len(one_line) <= _SHOWN else f"{one_line[: _SHOWN - 1]}…"
