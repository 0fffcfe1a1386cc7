"""Findings from gold labels: bad voters, classes that the votes miss, a wrong class balance."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from wiesel.analysis.counts import class_counts, gold_counts, wilson_interval
from wiesel.analysis.finding import Finding, as_text
from wiesel.labels import ABSTAIN, IntArray
from wiesel.votes import Statistics, VoteMatrix, VoteSource

__all__ = ["balance_finding", "gold_findings"]

_FEW_ITEMS = 10
"""With fewer gold items of a class, its coverage cannot be judged."""
_REACHED = 0.1
"""A class counts as missed if a smaller share of its items has a vote for it."""
_NEAR, _TIMES = 0.03, 3.0
"""A share that the user gave is contradicted by votes with three times or a third of it."""
_FAR = 0.15
"""The difference between two estimates of a class share from which one is misleading."""


def gold_findings(votes: VoteSource, gold: IntArray) -> tuple[list[Finding], set[str]]:
    """Return the findings, and the voters that are better than guessing on the gold labels."""
    counts = gold_counts(votes, gold)
    support, correct = counts.support.sum(axis=1), counts.correct.sum(axis=1)
    low, high = wilson_interval(correct, support)
    chance = counts.support @ (counts.items / max(counts.items.sum(), 1)) / np.maximum(support, 1)
    found = []
    for j in np.flatnonzero(high < chance):
        precision = float(correct[j] / support[j])
        sentence = (
            f"{votes.voters[j]!r} is worse than the class balance: right on {correct[j]:,} of "
            f"{support[j]:,} items with a gold label ({as_text(precision)}, 95 % interval "
            f"{as_text(low[j])} to {as_text(high[j])}), where guessing by class frequency would be "
            f"right on {as_text(chance[j])}. Fix it or turn it off."
        )
        found.append(Finding("worse_than_chance", sentence, [votes.voters[j]], value=precision))
    found += _missed_classes(votes, gold)
    known = gold[gold != ABSTAIN]
    if len(known):
        shares = np.bincount(known, minlength=len(votes.labels)) / len(known)
        found += balance_finding(votes, shares, len(known))
    return found, {votes.voters[j] for j in np.flatnonzero(low > chance)}


def balance_finding(
    votes: VoteSource, shares: npt.NDArray[np.float64], n_known: int
) -> Iterator[Finding]:
    """Return a finding on the class whose share the votes get most wrong, if they are far off.

    `shares` is the class balance; `n_known` is the number of labels it was counted from, 0 if the
    user gave it. Of a share that the user gave, a factor of three is far off, too.
    """
    if (class_counts(votes).sum(axis=0) > 0).sum() < 2:
        return
    (total,) = votes.sum(_sum_of_shares)
    implied = total / total.sum()
    apart = np.abs(implied - shares)
    k = int(apart.argmax())
    low, high = shares[k], shares[k]
    if n_known:
        ends = wilson_interval(np.array([shares[k] * n_known]), np.array([n_known]))
        low, high = float(ends[0][0]), float(ends[1][0])
    if not n_known and apart[k] < _FAR:
        times = np.maximum(implied / shares, shares / np.maximum(implied, 1e-9))
        k = int(np.where(apart > _NEAR, times, 0).argmax())
        if apart[k] <= _NEAR or times[k] < _TIMES:
            return
    elif apart[k] < _FAR or low <= implied[k] <= high:
        return
    name = votes.labels.names[k]
    source = f"{n_known:,} gold labels" if n_known else "the class balance given"
    more = f"voters for {name!r}" if implied[k] < shares[k] else f"voters against {name!r}"
    advice = "or give the class balance to the method" if n_known else "or check the balance"
    sentence = (
        f"By the votes, {as_text(implied[k])} of the covered items are {name!r}; by {source}, "
        f"{as_text(shares[k])}. Add {more}, {advice}."
    )
    yield Finding("class_balance", sentence, classes=[name], value=float(implied[k] - shares[k]))


def _missed_classes(votes: VoteSource, gold: IntArray) -> Iterator[Finding]:
    """Classes that have voters, but hardly any votes on the gold items of the class."""
    reached = np.concatenate([_right_votes(part, own) for part, own in _beside(votes, gold)])
    named = class_counts(votes).sum(axis=0) > 0
    for k in np.flatnonzero(named):
        own = gold == k
        n_own, n_reached = int(own.sum()), int(reached[own].sum())
        if n_own >= _FEW_ITEMS and n_reached < _REACHED * n_own:
            name = votes.labels.names[k]
            sentence = (
                f"The voters miss most of the class {name!r}: of its {n_own:,} gold items, "
                f"{n_reached:,} have a vote for it. Look at the others and write voters for them."
            )
            yield Finding("uncovered_class", sentence, classes=[name], value=n_reached / n_own)


def _beside(votes: VoteSource, gold: IntArray) -> Iterator[tuple[VoteMatrix, IntArray]]:
    """The parts of the votes, each with the gold labels of its items."""
    start = 0
    for part in votes.parts():
        yield part, gold[start : start + part.n_items]
        start += part.n_items


def _right_votes(part: VoteMatrix, gold: IntArray) -> npt.NDArray[np.bool_]:
    """Whether each item has a vote for its true class."""
    right = np.repeat(gold, part.votes_per_item) == part.class_index
    return np.bincount(part.item_index[right], minlength=part.n_items) > 0


def _sum_of_shares(part: VoteMatrix) -> Statistics:
    """The class shares according to the votes; every covered item counts as one."""
    counts = part.counts()[part.covered]
    return ((counts / counts.sum(axis=1, keepdims=True)).sum(axis=0),)
