"""Slices of the evaluated items on which a model may be better or worse than overall."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis.counts import conflicted, wilson_interval
from wiesel.io import Split
from wiesel.report import SliceRow
from wiesel.votes import VoteMatrix

__all__ = ["slice_rows"]

Mask = npt.NDArray[np.bool_]

_FEW_ITEMS = 5
_MOST_VALUES, _MOST_COLUMNS = 12, 8
_PATTERNS = 6
_NAMED = 3
_LONGEST_VALUE = 60


def slice_rows(
    right: Mask, split: Split, votes: VoteMatrix | None, text_column: str
) -> list[SliceRow]:
    """Return the accuracy on slices of a split: by column, by text length, by voters.

    `right` is True for every item the model gets right. The caller leaves out items without gold.

    >>> split = Split(pl.DataFrame({"id": range(10), "from": ["shop", "friend"] * 5}), np.ones(10))
    >>> rows = slice_rows(np.array([True, False] * 5), split, None, "text")
    >>> [(row.by, row.name, row.accuracy) for row in rows]
    [('from', 'friend', 0.0), ('from', 'shop', 1.0)]
    """
    named = [*_columns(split.rows, text_column), *_lengths(split.rows, text_column)]
    if votes is not None:
        named += [*_vote_kinds(votes), *_patterns(votes)]
    return [
        _row(by, name, right[mask]) for by, name, mask in named if int(mask.sum()) >= _FEW_ITEMS
    ]


def _row(by: str, name: str, right: Mask) -> SliceRow:
    n_right, n_items = int(right.sum()), len(right)
    low, high = wilson_interval(np.array([n_right]), np.array([n_items]))
    return SliceRow(by, name, n_items, n_right / n_items, float(low[0]), float(high[0]))


def _columns(rows: pl.DataFrame, text_column: str) -> Iterator[tuple[str, str, Mask]]:
    """Yield slices by columns with few values, such as a source or a language."""
    found = 0
    for name in rows.columns:
        column = rows[name]
        if name in ("id", text_column) or column.dtype.is_nested() or column.dtype.is_float():
            continue
        values = column.drop_nulls().unique().sort()
        if not 2 <= len(values) <= _MOST_VALUES or found == _MOST_COLUMNS:
            continue
        found += 1
        for value in values:
            mask = (column == value).fill_null(False).to_numpy()
            yield name, str(value)[:_LONGEST_VALUE], mask


def _lengths(rows: pl.DataFrame, text_column: str) -> Iterator[tuple[str, str, Mask]]:
    """Yield thirds of the items by number of words."""
    if text_column not in rows.columns or rows[text_column].dtype != pl.String:
        return
    words: Any = rows[text_column].fill_null("").str.split(" ").list.len().to_numpy()
    low, high = (int(np.quantile(words, share)) for share in (1 / 3, 2 / 3))
    if low == high:
        return
    between = f"{low + 1:,} to {high:,}" if low + 1 < high else f"{high:,}"
    yield "length", f"up to {low:,} {'word' if low == 1 else 'words'}", words <= low
    yield "length", f"{between} words", (words > low) & (words <= high)
    yield "length", f"more than {high:,} words", words > high


def _vote_kinds(votes: VoteMatrix) -> Iterator[tuple[str, str, Mask]]:
    n_votes, disputed = votes.votes_per_item, conflicted(votes)
    yield "votes", "no vote", n_votes == 0
    yield "votes", "one vote", n_votes == 1
    yield "votes", "several votes that agree", (n_votes > 1) & ~disputed
    yield "votes", "votes in conflict", disputed


def _patterns(votes: VoteMatrix) -> Iterator[tuple[str, str, Mask]]:
    """Yield slices by the most common sets of voters that vote on an item."""
    ends = votes.indptr
    sets = [tuple(votes.voter_index[ends[k] : ends[k + 1]].tolist()) for k in range(len(votes))]
    counts: dict[tuple[int, ...], int] = {}
    for voters in sets:
        if voters:
            counts[voters] = counts.get(voters, 0) + 1
    if len(counts) < 2:
        return
    for voters in sorted(counts, key=lambda own: -counts[own])[:_PATTERNS]:
        names = [votes.voters[voter] for voter in voters]
        shown = " + ".join(names[:_NAMED])
        shown += f" + {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield "voters", shown, np.array([own == voters for own in sets])
