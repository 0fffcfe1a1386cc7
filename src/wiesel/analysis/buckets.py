"""Buckets: rows grouped by gold label, prediction and votes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from wiesel.analysis.disagreements import class_names
from wiesel.analysis.table import Table, count, percent, text
from wiesel.errors import DataError, ParameterError, suggest
from wiesel.labels import LabelSpace
from wiesel.row_ids import in_order_of
from wiesel.tables import as_frame
from wiesel.threads import check_polars_threads
from wiesel.votes import VoteMatrix, require_votes

__all__ = ["Buckets", "label_buckets"]

GOLD, PREDICTED = "gold", "predicted"


@dataclass(frozen=True, eq=False, repr=False)
class Buckets:
    """Rows grouped by their labels; returned by `label_buckets`.

    It prints as a table of all combinations that occur. `rows(gold=..., predicted=...)` returns the
    rows of some of them.
    """

    frame: pl.DataFrame
    """The rows, preceded by the columns that they are grouped by."""
    by: Mapping[str, str]
    """The groupings (`gold`, `predicted`, voters), each with its column in `frame`."""

    @property
    def table(self) -> Table:
        """The number of rows for each combination that occurs, the most frequent first."""
        keys = list(self.by.values())
        number, share = (name if name not in keys else f"{name}_" for name in ("items", "share"))
        found = self.frame.select(keys).group_by(keys, maintain_order=True).len(number)
        found = found.sort(number, descending=True, maintain_order=True)
        found = found.with_columns((pl.col(number) / len(self.frame)).alias(share))
        columns = [text(column, name) for name, column in self.by.items()]
        shown = (count(number, "items"), percent(share, "share"))
        return Table(found, (*columns, *shown), f"{len(self.frame):,} rows")

    def rows(self, **wanted: Any) -> pl.DataFrame:
        """Return the rows with these labels: `rows(gold="spam", predicted="ham")`.

        Select a voter's votes by its name (`rows(**{"my voter": "spam"})`). None stands for an
        unknown label or an abstention.
        """
        mask = pl.lit(True)
        for name, value in wanted.items():
            if name not in self.by:
                raise ParameterError(
                    f"These rows are not grouped by {name!r}. {suggest(name, self.by)}"
                )
            column = pl.col(self.by[name])
            mask &= column.is_null() if value is None else column.eq_missing(pl.lit(str(value)))
        return self.frame.filter(mask)

    def __len__(self) -> int:
        return len(self.table)

    def __str__(self) -> str:
        return self.table.to_text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.table.to_html()


def label_buckets(
    rows: Any,
    *,
    gold: Any = None,
    predicted: Any = None,
    votes: VoteMatrix | None = None,
    labels: Any = None,
) -> Buckets:
    """Return rows grouped by gold label, prediction, and votes.

    `gold` and `predicted` have one label per row: a name or an index, None if unknown. The classes
    are those of `votes`, or `labels`. If there are many voters, select a few:
    `votes.select([...])`.

    >>> rows = {"text": ["hi", "see www", "win www", "www ok"]}
    >>> gold, found = ["ham", "ham", "spam", "spam"], ["ham", "spam", "spam", "spam"]
    >>> buckets = label_buckets(rows, gold=gold, predicted=found, votes=votes.select(["link"]))
    >>> print(buckets)
    4 rows
     gold   predicted   link   items    share
    ──────────────────────────────────────────
     spam   spam        spam       2   50.0 %
     ham    ham         ham        1   25.0 %
     ham    spam        spam       1   25.0 %
    >>> buckets.rows(gold="ham", predicted="spam")["text"].to_list()
    ['see www']
    """
    check_polars_threads("label_buckets")
    if votes is not None:
        require_votes(votes)
    rows = in_order_of(votes, rows, "rows")
    frame = as_frame(rows)
    space = LabelSpace.of(labels) if labels is not None else getattr(votes, "labels", None)
    if space is None:
        raise ParameterError("The classes are unknown: give votes=... or labels=[...].")
    given: dict[str, pl.Series] = {}
    for name, values in ((GOLD, gold), (PREDICTED, predicted)):
        if values is not None:
            values = in_order_of(rows if votes is None else votes, values, name)
            indices = space.indices(values, allow_unknown=True)
            _check_length(frame, len(indices), name)
            given[name] = class_names(name, space, indices)
    if votes is not None:
        _check_length(frame, votes.n_items, "votes")
        dense = votes.dense()
        given |= {v: class_names(v, space, dense[:, j]) for j, v in enumerate(votes.voters)}
    if not given:
        raise ParameterError("There is nothing to group by: give gold, predicted or votes.")
    # A column of the rows may have the same name as one of these.
    by = {name: f"label: {name}" if name in frame.columns else name for name in given}
    columns = [series.alias(by[name]) for name, series in given.items()]
    return Buckets(pl.DataFrame([*columns, *frame.get_columns()]), by)


def _check_length(frame: pl.DataFrame, found: int, what: str) -> None:
    if found != len(frame):
        raise DataError(f"There are {len(frame):,} rows, but {what} for {found:,}.")
