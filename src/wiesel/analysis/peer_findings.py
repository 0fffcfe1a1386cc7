"""Findings about a voter compared with all others: it votes at random, or against them."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import numpy.typing as npt

from wiesel.analysis.counts import class_counts, wilson_interval
from wiesel.analysis.finding import Finding, as_text
from wiesel.labels import FloatArray
from wiesel.votes import Statistics, VoteMatrix, VoteSource

__all__ = ["majority_agreement", "peer_findings"]

_PART = 2**18
_BARELY = 0.1
_SHARED_ITEMS = 30


def peer_findings(votes: VoteSource) -> Iterator[Finding]:
    """Return the voters that agree with the others no more than chance would.

    Chance is the agreement of a voter that casts the same votes on random items. The upper end of
    the 95 % interval counts, so that rare voters are not flagged. Votes for a class with a single
    voter are left out, because no other voter could agree. If most voters vote for one class only,
    such voters are not flagged; gold labels and features judge them.
    """
    agree, shared, chance = majority_agreement(votes)
    _, high = wilson_interval(agree, shared)
    # The agreement is almost certainly less than a tenth of the way from chance to perfect.
    suspect = (high < chance + _BARELY * (1 - chance)) & (shared >= _SHARED_ITEMS)
    one_sided = (class_counts(votes) > 0).sum(axis=1) == 1
    if 2 * one_sided.sum() > len(votes.voters):
        # If most voters vote for one class only, agreement depends on which voters share items: a
        # rule for a rare class shares items with rules for the common class, right or wrong.
        suspect &= ~one_sided
    for j in np.flatnonzero(suspect):
        name, rate = votes.voters[j], float(agree[j] / shared[j])
        evidence = (
            f"it votes with the majority of the others on {as_text(rate)} of {int(shared[j]):,} "
            f"items; {as_text(chance[j])} are expected by chance"
        )
        if high[j] < (1 - _BARELY) * chance[j]:
            sentence = f"{name!r} votes against the others: {evidence}. Fix it or turn it off."
            yield Finding("contrary", sentence, [name], value=rate)
        else:
            sentence = f"{name!r} agrees with the others no more than a random voter: {evidence}."
            yield Finding("spammer", sentence, [name], value=rate)


def majority_agreement(
    votes: VoteSource,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return per voter: agreements with the majority of the others, items, chance agreement.

    If k classes are tied for the majority, an agreement counts 1/k. Votes for a class that no other
    voter ever votes for are left out.
    """
    by_class = class_counts(votes)
    confirmable = (by_class > 0).sum(axis=0) > 1
    agree, shared, leading = votes.sum(partial(_sum_of_agreements, confirmable=confirmable))
    by_class = by_class * confirmable
    shares = by_class / np.maximum(by_class.sum(axis=1, keepdims=True), 1)
    leading = leading / np.maximum(leading.sum(axis=1, keepdims=True), 1e-12)
    return agree, shared, (shares * leading).sum(axis=1)


def _sum_of_agreements(votes: VoteMatrix, confirmable: npt.NDArray[np.bool_]) -> Statistics:
    """Agreements and items per voter, and how often each class leads among the other voters."""
    agree, shared = np.zeros(votes.n_voters), np.zeros(votes.n_voters)
    leading = np.zeros((votes.n_voters, votes.n_classes))
    for start in range(0, votes.n_items, _PART):
        part = votes[start : start + _PART]
        counts = _hard_counts(part)
        others, met = _others(part, counts)
        leading += _leading(part, counts, others)
        met &= confirmable[part.class_index]
        won = others[np.arange(part.n_votes), part.class_index] * met
        agree += np.bincount(part.voter_index, won, minlength=votes.n_voters)
        shared += np.bincount(part.voter_index, met, minlength=votes.n_voters)
    return agree, shared, leading


def _others(
    part: VoteMatrix, counts: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """For each vote: the leading classes among the item's other votes, and if there are any."""
    others = counts[part.item_index]
    others[np.arange(part.n_votes), part.class_index] -= 1
    met = others.sum(axis=1) > 0
    return _leaders(others) * met[:, None], met


def _leading(
    part: VoteMatrix,
    counts: npt.NDArray[np.float64],
    others: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """The leading classes among the others, summed over all items they vote on.

    The shape is (n_voters, n_classes). A voter's votes are subtracted on the items it votes on; on
    all other items, every vote is from others.
    """
    leaders = _leaders(counts) * (counts.sum(axis=1, keepdims=True) > 0)
    changed = others - leaders[part.item_index]
    own = np.stack(
        [
            np.bincount(part.voter_index, changed[:, k], minlength=part.n_voters)
            for k in range(part.n_classes)
        ],
        axis=1,
    )
    total: npt.NDArray[np.float64] = leaders.sum(axis=0) + own
    return total


def _hard_counts(part: VoteMatrix) -> npt.NDArray[np.float64]:
    """Votes per class; a probabilistic vote counts for its most probable class."""
    cells = part.item_index * part.n_classes + part.class_index
    size = part.n_items * part.n_classes
    return np.bincount(cells, minlength=size).reshape(-1, part.n_classes).astype(np.float64)


def _leaders(counts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """1 for the class with the most votes in each row, shared equally between ties."""
    leads = (counts == counts.max(axis=1, keepdims=True)).astype(np.float64)
    return leads / leads.sum(axis=1, keepdims=True)
