"""Findings about pairs of voters: duplicates, near-duplicates and conflicts."""

from collections.abc import Collection, Iterator

import numpy as np
import numpy.typing as npt
import polars as pl
import scipy.sparse as sp

from wiesel.analysis.agreement import PairCounts, agreement, pair_counts
from wiesel.analysis.counts import class_counts
from wiesel.analysis.finding import Finding, as_text
from wiesel.votes import VoteSource

__all__ = ["pair_findings"]

_SHARED_ITEMS = 10
_CONFLICTS = 5
_SURE = 3.5
"""Standard deviations beyond chance: high enough that none of hundreds of pairs passes by luck."""
_OPPOSED = 0.3
"""The minimum share of a voter's votes that another voter contradicts, to be worth a look."""
_ENOUGH_MEETINGS = 50
_HARDLY_AGREE = 0.1


def pair_findings(votes: VoteSource, suspects: Collection[str] = ()) -> Iterator[Finding]:
    """Return duplicate voters, and pairs that contradict each other more often than by chance.

    Two voters that never vote for the same class cannot agree, so their disagreement alone is not a
    finding. It becomes one if they vote on the same items far more often than independent voters
    would. Conflicts with `suspects` (voters with other findings) are left out.
    """
    pairs, voters = agreement(votes).frame, votes.voters
    for group in _groups(pairs.filter(pl.col("relation") == "duplicate"), voters):
        names = _members(group, voters)
        sentence = (
            f"{as_text(names)} always vote the same: they count {_times(names)} in a majority "
            "vote. Keep one of them."
        )
        yield Finding("duplicate", sentence, names, value=1.0)
    for group in _groups(pairs.filter(pl.col("relation") == "near-duplicate"), voters):
        names, same = _members(group, voters), float(group["same"].to_numpy().min())
        sentence = (
            f"{as_text(names)} nearly always vote the same (on {as_text(same)} of the items that "
            f"one of them votes on): they count about {_times(names)} in a majority vote."
        )
        yield Finding("near_duplicate", sentence, names, value=same)
    counts = pair_counts(votes)
    yield from _conflicts(votes, counts, suspects)
    yield from _no_agreement(counts)


def _groups(pairs: pl.DataFrame, voters: tuple[str, ...]) -> list[pl.DataFrame]:
    """The pairs, split into groups of connected voters."""
    from scipy.sparse.csgraph import connected_components

    if pairs.is_empty():
        return []
    position = {name: index for index, name in enumerate(voters)}
    first = np.array([position[name] for name in pairs["first"]])
    second = np.array([position[name] for name in pairs["second"]])
    shape = (len(voters), len(voters))
    graph = sp.coo_array((np.ones(len(first)), (first, second)), shape=shape)
    _, group = connected_components(graph, directed=False)
    return pairs.with_columns(group=group[first]).partition_by("group", maintain_order=True)


def _members(group: pl.DataFrame, voters: tuple[str, ...]) -> list[str]:
    linked = set(group["first"]) | set(group["second"])
    return [name for name in voters if name in linked]


def _times(names: list[str]) -> str:
    return "twice" if len(names) == 2 else f"{len(names)} times"


def _conflicts(
    votes: VoteSource, pairs: PairCounts, suspects: Collection[str]
) -> Iterator[Finding]:
    """The pairs with the most conflicts, among those with more conflicts than by chance."""
    apart = pairs.both - pairs.agree
    expected = pairs.both * (1 - pairs.chance)
    spread = np.sqrt(np.maximum(expected * pairs.chance, 1e-12))
    quarrel = (pairs.chance > 0) & (apart > expected + _SURE * spread)
    meeting, by_luck = _meetings(votes, pairs)
    opposed = (pairs.chance == 0) & meeting
    suspect = np.isin(votes.voters, list(suspects))
    known = suspect[pairs.first] | suspect[pairs.second]
    chosen = np.flatnonzero((quarrel | opposed) & (pairs.both >= _SHARED_ITEMS) & ~known)
    order = chosen[np.argsort(-apart[chosen], kind="stable")][:_CONFLICTS]
    for k in order:
        names = [votes.voters[pairs.first[k]], votes.voters[pairs.second[k]]]
        luck = by_luck[k] if opposed[k] else expected[k]
        sentence = (
            f"{as_text(names)} contradict each other on {int(apart[k]):,} items; about {luck:,.0f} "
            "are expected by chance. One of them is wrong there: look at these items."
        )
        yield Finding("conflict", sentence, names, value=float(apart[k] / pairs.both[k]))


def _meetings(
    votes: VoteSource, pairs: PairCounts
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
    """Which pairs share far more items than independent voters would, and the expected number."""
    n_votes = class_counts(votes).sum(axis=1).astype(np.float64)
    first, second = n_votes[pairs.first], n_votes[pairs.second]
    by_luck = first * second / max(votes.n_items, 1)
    surely = pairs.both > 2 * by_luck + _SURE * np.sqrt(by_luck + 1)
    return surely & (pairs.both >= _OPPOSED * np.minimum(first, second)), by_luck


def _no_agreement(pairs: PairCounts) -> Iterator[Finding]:
    """A finding if voters that could agree do so hardly more often than by chance."""
    can = pairs.chance > 0
    met, agree = float(pairs.both[can].sum()), float(pairs.agree[can].sum())
    chance = float((pairs.both * pairs.chance)[can].sum())
    if met < _ENOUGH_MEETINGS or agree - chance >= _HARDLY_AGREE * (met - chance):
        return
    sentence = (
        f"Two votes on the same item differ in {as_text(1 - agree / met)} of the cases; random "
        f"votes would differ in {as_text(1 - chance / met)}. Most of these voters are close to "
        "random."
    )
    yield Finding("high_conflict", sentence, value=1 - agree / met)
