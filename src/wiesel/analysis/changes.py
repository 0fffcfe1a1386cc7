"""Changes: votes before and after, side by side, for example of a prompt that was edited."""

import numpy as np
import polars as pl

from wiesel.analysis.table import Table, count, text
from wiesel.errors import VoteError
from wiesel.labels import ABSTAIN
from wiesel.votes import VoteMatrix, require_votes

__all__ = ["changed_votes"]

_EXAMPLES = 3


def changed_votes(before: VoteMatrix, after: VoteMatrix) -> Table:
    """Return which votes changed: a row for each voter, class before and class after.

    Voters are matched by name and items by id; those that are in one of the two only do not count.
    No class is an abstention.

    >>> labels, ids = ["ham", "spam"], ["m1", "m2", "m3"]
    >>> before = VoteMatrix.from_dense([[0], [0], [1]], labels, ["ask"], ids)
    >>> after = VoteMatrix.from_dense([[1], [0], [-1]], labels, ["ask"], ids)
    >>> print(changed_votes(before, after).to_text(width=80))
    2 of 3 votes changed (ask: 2).
     voter   before   after     items   for instance
    ─────────────────────────────────────────────────
     ask     ham      spam          1   m1
     ask     spam     abstain       1   m3
    """
    require_votes(before)
    require_votes(after)
    if before.labels != after.labels:
        raise VoteError(f"The votes before have {before.labels!r}, those after {after.labels!r}.")
    voters = [name for name in after.voters if name in before.voters]
    places = {str(item): row for row, item in enumerate(before.ids)}
    shared = [row for row, item in enumerate(after.ids) if str(item) in places]
    old_rows = [places[str(after.ids[row])] for row in shared]
    new = after.select(voters)[shared].dense() if voters else np.empty((len(shared), 0))
    old = before.select(voters)[old_rows].dense() if voters else np.empty((len(shared), 0))
    ids = after.ids[shared]
    rows = []
    for place, voter in enumerate(voters):
        for first, second in np.unique(np.stack([old[:, place], new[:, place]]), axis=1).T.tolist():
            if first != second:
                found = ids[(old[:, place] == first) & (new[:, place] == second)]
                shown = ", ".join(str(item) for item in found[:_EXAMPLES].tolist())
                rows.append((voter, _name(after, first), _name(after, second), len(found), shown))
    names = ("voter", "before", "after", "items", "examples")
    kinds = {name: pl.Int64 if name == "items" else pl.String for name in names}
    frame = pl.DataFrame(rows, schema=kinds, orient="row").sort(
        "items", descending=True, maintain_order=True
    )
    by_voter = dict(frame.group_by("voter", maintain_order=True).agg(pl.sum("items")).iter_rows())
    shown = ", ".join(f"{voter}: {count:,}" for voter, count in by_voter.items())
    cast = int(((old != ABSTAIN) | (new != ABSTAIN)).sum())
    caption = f"{frame['items'].sum():,} of {cast:,} votes changed{f' ({shown})' if shown else ''}."
    columns = (text("voter"), text("before"), text("after"), count("items"))
    return Table(frame, (*columns, text("examples", "for instance")), caption)


def _name(votes: VoteMatrix, index: int) -> str:
    return "abstain" if index == ABSTAIN else votes.labels.names[index]
