"""Findings about a voter beside all others: votes at random, or against them."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from wiesel.analysis.counts import class_counts, wilson_interval
from wiesel.analysis.finding import Finding, said
from wiesel.labels import FloatArray
from wiesel.votes import VoteMatrix

__all__ = ["majority_agreement", "peer_findings"]

_PART = 2**18
_BARELY = 0.1
_SHARED_ITEMS = 30


def peer_findings(votes: VoteMatrix) -> Iterator[Finding]:
    """Return the voters that agree with the others no more than chance would.

    Chance is the agreement of somebody who casts the same votes without looking at the items.
    Each is judged by the end of the 95 % interval that speaks for it, so that rare voters are
    not accused.
    """
    agree, shared, chance = majority_agreement(votes)
    _, high = wilson_interval(agree, shared)
    # Agreement that is all but sure to stay within a tenth of the way from chance to perfect.
    suspect = (high < chance + _BARELY * (1 - chance)) & (shared >= _SHARED_ITEMS)
    for j in np.flatnonzero(suspect):
        name, rate = votes.voters[j], float(agree[j] / shared[j])
        evidence = (
            f"it votes with the majority of the others on {said(rate)} of {int(shared[j]):,} "
            f"items, by chance it would on {said(chance[j])}"
        )
        if high[j] < (1 - _BARELY) * chance[j]:
            sentence = f"{name!r} votes against the others: {evidence}."
            yield Finding("contrary", sentence, [name], value=rate)
        else:
            sentence = f"{name!r} agrees with the others no more than a random voter: {evidence}."
            yield Finding("spammer", sentence, [name], value=rate)


def majority_agreement(
    votes: VoteMatrix,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return per voter: agreements with the majority of the others, items, chance agreement.

    Where several classes lead, an agreement counts for one in as many.
    """
    agree, shared = np.zeros(votes.n_voters), np.zeros(votes.n_voters)
    leading = np.zeros(votes.n_classes)
    for start in range(0, votes.n_items, _PART):
        part = votes[start : start + _PART]
        counts = _hard_counts(part)
        leading += _leaders(counts[part.votes_per_item > 1]).sum(axis=0)
        won, met = _others_agree(part, counts)
        agree += np.bincount(part.voter_index, won, minlength=votes.n_voters)
        shared += np.bincount(part.voter_index, met, minlength=votes.n_voters)
    by_class = class_counts(votes)
    shares = by_class / np.maximum(by_class.sum(axis=1, keepdims=True), 1)
    return agree, shared, shares @ (leading / max(leading.sum(), 1))


def _others_agree(
    part: VoteMatrix, counts: npt.NDArray[np.float64]
) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """For every vote: agreement with the majority of the other votes, and whether there are any."""
    others = counts[part.item_index]
    vote = np.arange(part.n_votes), part.class_index
    others[vote] -= 1
    met = others.sum(axis=1) > 0
    return _leaders(others)[vote] * met, met


def _hard_counts(part: VoteMatrix) -> npt.NDArray[np.float64]:
    """Votes per class, a probabilistic vote counting for its most probable class."""
    cells = part.item_index * part.n_classes + part.class_index
    size = part.n_items * part.n_classes
    return np.bincount(cells, minlength=size).reshape(-1, part.n_classes).astype(np.float64)


def _leaders(counts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Each row shares 1 among the classes with most votes."""
    leads = (counts == counts.max(axis=1, keepdims=True)).astype(np.float64)
    return leads / leads.sum(axis=1, keepdims=True)
