"""Votes side by side: before and after a change, and with the options of a pair exchanged."""

import math

import numpy as np
import polars as pl

from wiesel.analysis.table import Table, count, percent, text
from wiesel.errors import VoteError
from wiesel.labels import ABSTAIN
from wiesel.votes import VoteMatrix, require_votes

__all__ = ["changed_votes", "consistent_votes", "position_bias"]

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


def position_bias(votes: VoteMatrix, swapped: VoteMatrix) -> Table:
    """Return how often judges prefer the option that is shown first, and contradict themselves.

    The two classes are the first and the second option as shown. `swapped` has the votes of the
    same judges on the same items with the options exchanged, so a judge that looks at the options
    only votes for the other class there. `p` is the probability of so many votes for one position
    among its contradictions, if it had no bias (a sign test, two-sided).

    >>> asked = VoteMatrix.from_dense([[0], [0], [1], [0]], ["first", "second"], ["llm"])
    >>> swapped = VoteMatrix.from_dense([[1], [0], [0], [0]], ["first", "second"], ["llm"])
    >>> print(position_bias(asked, swapped).to_text(width=80))
    Judges whose answers depend on the position: none for certain.
     judge   items   consistent   first of both     p
    ──────────────────────────────────────────────────
     llm         4       50.0 %          75.0 %   0.5
    """
    first, second = _both(votes, swapped)
    rows = []
    for place, voter in enumerate(votes.voters):
        known = (first[:, place] != ABSTAIN) & (second[:, place] != ABSTAIN)
        one, two = first[known, place], second[known, place]
        contradicts = one == two
        n_first = int((contradicts & (one == 0)).sum())
        n, n_contradictions = int(known.sum()), int(contradicts.sum())
        share = float(((one == 0).sum() + (two == 0).sum()) / (2 * n)) if n else None
        consistent = 1 - n_contradictions / n if n else None
        rows.append((voter, n, consistent, share, _sign_test(n_first, n_contradictions)))
    names = ("voter", "items", "consistent", "first", "p")
    kinds = [pl.String, pl.Int64, pl.Float64, pl.Float64, pl.Float64]
    frame = pl.DataFrame(rows, schema=dict(zip(names, kinds, strict=True)), orient="row")
    biased = frame.filter(pl.col("p") < 0.01)["voter"].to_list()
    shown = ", ".join(biased) if biased else "none for certain"
    columns = (text("voter", "judge"), count("items"), percent("consistent"))
    caption = f"Judges whose answers depend on the position: {shown}."
    frame = frame.with_columns(
        pl.col("p").map_elements(lambda p: f"{p:.2g}", pl.String).alias("shown")
    )
    return Table(frame, (*columns, percent("first", "first of both"), text("shown", "p")), caption)


def consistent_votes(votes: VoteMatrix, swapped: VoteMatrix) -> VoteMatrix:
    """Return the votes that a judge repeats when the options are exchanged; others abstain.

    >>> asked = VoteMatrix.from_dense([[0], [0]], ["first", "second"], ["llm"])
    >>> swapped = VoteMatrix.from_dense([[1], [0]], ["first", "second"], ["llm"])
    >>> consistent_votes(asked, swapped).dense().ravel()
    array([ 0, -1], dtype=int16)
    """
    first, second = _both(votes, swapped)
    repeated = (first != ABSTAIN) & (second != ABSTAIN) & (first != second)
    kept = np.where(repeated, first, ABSTAIN)
    return VoteMatrix.from_dense(kept, votes.labels, votes.voters, votes.ids)


def _both(votes: VoteMatrix, swapped: VoteMatrix) -> tuple[np.ndarray, np.ndarray]:
    require_votes(votes)
    require_votes(swapped)
    if votes.n_classes != 2 or votes.labels != swapped.labels:
        raise VoteError(
            f"Pairs have two classes, the first and the second option as shown, in both; got "
            f"{votes.labels!r} and {swapped.labels!r}."
        )
    if votes.voters != swapped.voters:
        raise VoteError(f"The judges differ: {votes.voters!r:.60} and {swapped.voters!r:.60}.")
    places = {str(item): row for row, item in enumerate(swapped.ids)}
    missing = [str(item) for item in votes.ids if str(item) not in places]
    if missing or len(places) != votes.n_items:
        raise VoteError("Both must have votes on the same items, matched by id.")
    return votes.dense(), swapped[[places[str(item)] for item in votes.ids]].dense()


def _sign_test(successes: int, n: int) -> float:
    """The two-sided p-value of a binomial test against one half."""
    if not n:
        return 1.0
    tail = min(successes, n - successes)
    logs = [
        math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in range(tail + 1)
    ]
    total = sum(math.exp(each - n * math.log(2)) for each in logs)
    return min(1.0, 2 * total)
