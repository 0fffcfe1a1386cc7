"""Findings about pairs of voters: duplicates, near-duplicates and conflicts."""

from collections.abc import Iterator

import numpy as np
import polars as pl
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from wiesel.analysis.counts import wilson_interval
from wiesel.analysis.finding import Finding, said
from wiesel.votes import VoteMatrix

__all__ = ["pair_findings"]

_SHARED_ITEMS = 10
_CONFLICTS = 5
_QUARREL = 0.8


def pair_findings(pairs: pl.DataFrame, votes: VoteMatrix) -> Iterator[Finding]:
    """Return the findings in `pairs`, the frame of `agreement(votes)`."""
    voters = votes.voters
    for group in _groups(pairs.filter(pl.col("relation") == "duplicate"), voters):
        names = _members(group, voters)
        sentence = (
            f"{said(names)} always vote the same: they count {_times(names)} in a majority vote."
        )
        yield Finding("duplicate", sentence, names, value=1.0)
    for group in _groups(pairs.filter(pl.col("relation") == "near-duplicate"), voters):
        names, same = _members(group, voters), float(group["same"].to_numpy().min())
        sentence = (
            f"{said(names)} nearly always vote the same (on {said(same)} of the items that one of "
            f"them votes on): they count about {_times(names)} in a majority vote."
        )
        yield Finding("near_duplicate", sentence, names, value=same)
    yield from _conflicts(pairs)
    met, agree = int(pairs["both"].sum()), int(pairs["agree"].sum())
    apart = 1 - agree / met if met else 0.0
    # Voters that draw classes at random disagree in 1 - 1/n_classes of the cases.
    if apart > _QUARREL * (1 - 1 / votes.n_classes):
        sentence = f"Two votes on the same item differ in {said(apart)} of the cases."
        yield Finding("high_conflict", sentence, value=apart)


def _groups(pairs: pl.DataFrame, voters: tuple[str, ...]) -> list[pl.DataFrame]:
    """The pairs, split into groups of voters that are linked to each other."""
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


def _conflicts(pairs: pl.DataFrame) -> Iterator[Finding]:
    """The pairs that disagree on most items, among those that surely disagree more than agree."""
    often = pairs.filter(pl.col("both") >= _SHARED_ITEMS)
    _, high = wilson_interval(often["agree"].to_numpy(), often["both"].to_numpy())
    opposed = often.filter(high < 0.5).with_columns(apart=pl.col("both") - pl.col("agree"))
    for row in opposed.sort("apart", descending=True).head(_CONFLICTS).iter_rows(named=True):
        names = [row["first"], row["second"]]
        sentence = (
            f"{said(names)} disagree on {row['apart']:,} of the {row['both']:,} items that both "
            f"vote on."
        )
        yield Finding("conflict", sentence, names, value=row["apart"] / row["both"])
