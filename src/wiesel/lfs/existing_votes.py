"""Votes that already exist, in columns of the table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl

from wiesel.errors import ParameterError, VoteError, listed
from wiesel.labels import ABSTAIN, LabelSpace
from wiesel.lfs.ballots import ColumnVotes, read_column
from wiesel.lfs.batch import Batch
from wiesel.lfs.rules import Rule, need_columns
from wiesel.vote_entries import without_blanks

__all__ = ["ColumnRule", "from_columns"]


@dataclass(frozen=True, repr=False)
class ColumnRule(Rule):
    """Votes with the values of a column; made by `from_columns`."""

    kind: ClassVar[str] = "column"
    column: str

    def default_name(self) -> str:
        """Return the name of the column."""
        return self.column

    @property
    def reads(self) -> tuple[str, ...]:
        """The column of votes."""
        return (self.column,)

    @classmethod
    def run_together(
        cls, lfs: Sequence[Self], batch: Batch, labels: LabelSpace
    ) -> list[ColumnVotes]:
        """Return the votes of every column."""
        return [lf._votes(batch, labels) for lf in lfs]

    def _votes(self, batch: Batch, labels: LabelSpace) -> ColumnVotes:
        need_columns(batch.frame, self)
        column = without_blanks(batch.frame[self.column])
        if not column.dtype.is_integer():
            return read_column(column, labels, self.name, batch)
        codes = column.cast(pl.Int64).fill_null(ABSTAIN).to_numpy()
        bad = np.flatnonzero((codes < ABSTAIN) | (codes >= len(labels)))
        if len(bad):
            raise VoteError(
                f"{self.name!r} holds {codes[bad[0]]} on {batch.item(int(bad[0]))}; allowed are "
                f"the classes {listed(labels)}, their index, or -1 to abstain."
            )
        return ColumnVotes.of_codes(codes)

    def __call__(self, row: Mapping[str, Any]) -> Any:
        """Return the vote of the column on one row; -1 and blank texts are None."""
        vote = row[self.column]
        is_blank = isinstance(vote, str) and not vote.strip()
        return None if is_blank or (isinstance(vote, int) and vote == ABSTAIN) else vote


def from_columns(*columns: str | Sequence[str]) -> list[ColumnRule]:
    """Return one labeling function for each column of votes that the table already has.

    A column holds class names (missing or blank abstains), class indices (missing or -1 abstains),
    or distributions (missing, zeros or NaN abstain).

    >>> from wiesel import apply_lfs
    >>> rows = {"lf_link": [1, -1], "worker": ["ham", None]}
    >>> apply_lfs(from_columns("lf_link", "worker"), rows, labels=["ham", "spam"]).dense()
    array([[ 1,  0],
           [-1, -1]], dtype=int16)
    """
    names = [name for each in columns for name in ([each] if isinstance(each, str) else list(each))]
    if not names:
        raise ParameterError("from_columns needs the names of the columns that hold votes.")
    return [ColumnRule(name) for name in names]
