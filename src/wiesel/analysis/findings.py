"""Findings: what is odd about the votes, in plain sentences with the evidence beside them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from wiesel.analysis.agreement import agreement
from wiesel.analysis.counts import (
    class_counts,
    gold_counts,
    gold_indices,
    voter_counts,
    wilson_interval,
)
from wiesel.analysis.finding import Finding, said
from wiesel.analysis.pair_findings import pair_findings
from wiesel.analysis.peer_findings import peer_findings
from wiesel.analysis.table import Table, text
from wiesel.labels import IntArray
from wiesel.votes import VoteMatrix

__all__ = ["findings"]

FEW_VOTES = 10
"""Fewer votes than this do not tell how good a voter is."""

_LOW_COVERAGE = 0.5
_LOW_OVERLAP = 0.05
_RARE_VOTER = 0.1
_CONSTANT = 0.99
_SKEWED = 0.9


def findings(votes: VoteMatrix, gold: Any = None) -> Table:
    """Return what is worth knowing before these votes are trusted, gravest first.

    A row has `kind`, `sentence`, and as data the `voters` and `classes` it is about and the
    `value` behind it. `gold` (class names or indices, None where unknown) adds the voters that
    are worse than chance. `disagreements(votes, rows, finding=...)` lists the items behind a row.

    >>> votes = VoteMatrix.from_dense([[0, 0], [1, 1], [0, 0]] * 2, ["ham", "spam"], ["a", "b"])
    >>> print(findings(votes).frame["sentence"][0])
    'a' and 'b' always vote the same: they count twice in a majority vote.
    """
    found = [*_class_findings(votes), *_voter_findings(votes)]
    if gold is not None:
        found += _gold_findings(votes, gold_indices(votes, gold))
    found += pair_findings(agreement(votes).frame, votes)
    found += peer_findings(votes)
    found += _coverage_findings(votes)
    schema: dict[str, pl.DataType | type[pl.DataType]] = {
        "kind": pl.String,
        "sentence": pl.String,
        "voters": pl.List(pl.String),
        "classes": pl.List(pl.String),
        "value": pl.Float64,
    }
    frame = pl.DataFrame([finding._asdict() for finding in found], schema=schema, orient="row")
    caption = f"{len(found)} findings" if found else "Nothing odd was found in these votes."
    return Table(frame, (text("kind"), text("sentence")), caption)


def _class_findings(votes: VoteMatrix) -> Iterator[Finding]:
    """Classes without votes, with one voter only, or with nearly all votes."""
    by_class = class_counts(votes)
    total = by_class.sum(axis=0)
    if not votes.n_votes:
        yield Finding("no_votes", "No voter votes on any item.")
        return
    share, top = float(total.max() / total.sum()), votes.labels.names[int(total.argmax())]
    if share == 1:
        sentence = f"One-sided: all voters vote {top!r}; nothing ever speaks against it."
        yield Finding("one_sided", sentence, classes=[top], value=1.0)
        return
    if share >= _SKEWED:
        sentence = f"{said(share)} of the votes are for {top!r}."
        yield Finding("skewed", sentence, classes=[top], value=share)
    for label, name in enumerate(votes.labels):
        yield from _supporters(name, [votes.voters[j] for j in np.flatnonzero(by_class[:, label])])


def _supporters(name: str, voters: list[str]) -> Iterator[Finding]:
    if not voters:
        sentence = f"Nothing votes for the class {name!r}: no label model can predict it."
        yield Finding("missing_class", sentence, classes=[name], value=0.0)
    if len(voters) == 1:
        sentence = f"Only {voters[0]!r} votes for the class {name!r}: nothing can confirm it."
        yield Finding("single_voter_class", sentence, voters, [name], 1.0)


def _voter_findings(votes: VoteMatrix) -> Iterator[Finding]:
    """Voters that never vote, hardly vote, or always say the same."""
    counts, by_class = voter_counts(votes).votes, class_counts(votes)
    silent = [votes.voters[j] for j in np.flatnonzero(counts == 0)]
    if silent and votes.n_votes:
        yield Finding("never_votes", f"{said(silent)} never {_verb(silent)}.", silent, value=0.0)
    rare = (counts > 0) & (counts < FEW_VOTES) & (counts < _RARE_VOTER * votes.n_items)
    few = [votes.voters[j] for j in np.flatnonzero(rare)]
    if few:
        sentence = (
            f"{len(few)} of {votes.n_voters} voters cast fewer than {FEW_VOTES} votes: too few to "
            f"tell how good they are ({said(few)})."
        )
        yield Finding("few_votes", sentence, few, value=float(len(few)))
    constant = (by_class.max(axis=1) == counts) & (counts >= _CONSTANT * max(votes.n_items, 1))
    for j in np.flatnonzero(constant & (counts > 0)):
        label = votes.labels.names[int(by_class[j].argmax())]
        sentence = f"{votes.voters[j]!r} votes {label!r} on (nearly) every item: it tells nothing."
        share = float(counts[j] / votes.n_items)
        yield Finding("constant", sentence, [votes.voters[j]], [label], share)


def _gold_findings(votes: VoteMatrix, gold: IntArray) -> Iterator[Finding]:
    """Voters whose precision is surely below that of guessing by the class balance."""
    counts = gold_counts(votes, gold)
    support, correct = counts.support.sum(axis=1), counts.correct.sum(axis=1)
    low, high = wilson_interval(correct, support)
    chance = counts.support @ (counts.items / max(counts.items.sum(), 1)) / np.maximum(support, 1)
    for j in np.flatnonzero(high < chance):
        precision = float(correct[j] / support[j])
        sentence = (
            f"{votes.voters[j]!r} is worse than chance: right on {correct[j]:,} of {support[j]:,} "
            f"items with a known label ({said(precision)}, 95 % interval {said(low[j])} to "
            f"{said(high[j])}); guessing would be right on {said(chance[j])}."
        )
        yield Finding("worse_than_chance", sentence, [votes.voters[j]], value=precision)


def _coverage_findings(votes: VoteMatrix) -> Iterator[Finding]:
    """How much of the data the voters reach, alone and together."""
    n_covered = int(votes.covered.sum())
    if not n_covered:
        return
    covered = n_covered / votes.n_items
    if covered < _LOW_COVERAGE:
        sentence = f"Only {said(covered)} of the items have a vote; the others get the prior."
        yield Finding("low_coverage", sentence, value=covered)
    shared = int((votes.votes_per_item > 1).sum())
    if shared / n_covered < _LOW_OVERLAP:
        sentence = (
            f"Only {said(shared / n_covered)} of the covered items have two votes or more: label "
            "models learn from such items how good a voter is."
        )
        yield Finding("low_overlap", sentence, value=shared / n_covered)


def _verb(voters: list[str]) -> str:
    return "votes" if len(voters) == 1 else "vote"
