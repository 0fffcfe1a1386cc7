"""Finds items on which the class balance outweighs all voters, and warns about them."""

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from wiesel.errors import WieselWarning
from wiesel.labels import FloatArray
from wiesel.votes import VoteMatrix

__all__ = ["overruled_items", "trusted_votes", "warn_of_overruled"]

LOOKED_AT = 2**16
"""With more items, a regular sample is checked, so that prediction stays cheap."""

CLEARLY = 0.01

BY_THE_WAY = 0.05
"""The share of items that a class balance may overrule without a warning, if it was learned from
the votes or if items have a single vote. On skewed data this corrects a few wrong votes."""


def warn_of_overruled(model: Any, votes: VoteMatrix, proba: FloatArray, given: bool) -> None:
    """Warn if the class balance outweighs voters that agree and are better than chance."""
    if votes.n_items == 0 or np.ptp(model.class_balance_) < 1e-9:
        return
    step = -(-votes.n_items // LOOKED_AT)
    seen, proba = (votes[::step], proba[::step]) if step > 1 else (votes, proba)
    # Under an absurd given balance, accurate voters look as if they were guessing.
    trusted = trusted_votes(model, margin=0.0 if given else CLEARLY)
    # If abstaining is a vote, it may outweigh the others: then use only items without abstains.
    least_votes = votes.n_voters if getattr(model, "silence_counts_", False) else 1
    agreed, overruled = overruled_items(seen, proba, trusted, least_votes)
    if overruled and overruled <= BY_THE_WAY * agreed:
        agreed, overruled = overruled_items(seen, proba, trusted, max(2, least_votes))
        overruled = overruled if given else 0
    if overruled:
        _warn(model, agreed, overruled, given)


def overruled_items(
    votes: VoteMatrix, proba: FloatArray, trusted: npt.NDArray[np.bool_], least_votes: int = 1
) -> tuple[int, int]:
    """Return the number of items on which trusted voters agree, and of those overruled.

    >>> agreed = VoteMatrix.from_dense([[0, 0], [1, 1], [0, 1]], ["a", "b"])
    >>> overruled_items(agreed, np.array([[0.9, 0.1]] * 3), np.ones((2, 2), dtype=bool))
    (2, 1)
    """
    item, voter, voted = votes.item_index, votes.voter_index, votes.class_index
    n_votes = votes.votes_per_item
    first = np.zeros(votes.n_items, dtype=np.int64)
    first[votes.covered] = voted[votes.indptr[:-1][votes.covered]]
    apart = (voted != first[item]) | ~trusted[voter, voted]
    agreed = (np.bincount(item, apart, minlength=votes.n_items) == 0) & (n_votes >= least_votes)
    # A tie does not count: the class that was voted for is as probable as the winner.
    own = proba[np.arange(votes.n_items), first]
    lost = agreed & (own < proba.max(axis=1) - 1e-9)
    return int(agreed.sum()), int(lost.sum())


def trusted_votes(model: Any, margin: float = 0.0) -> npt.NDArray[np.bool_]:
    """Return which votes raise the probability of their own class: (n_voters, n_classes).

    This uses P(vote | class) if the model has it, else whether a voter is better than chance.
    `margin` is the required relative difference.
    """
    n_voters, n_classes = len(model.voters_), len(model.labels_)
    elsewhere = ~np.eye(n_classes, dtype=bool)
    given_class = getattr(model, "confusions_", getattr(model, "conditionals_", None))
    if given_class is not None:
        given_class = given_class[:, :, :n_classes]
        own = np.einsum("jcc->jc", given_class)
        other = np.where(elsewhere, given_class, 0).max(axis=1)
        trusted: npt.NDArray[np.bool_] = own >= other * (1 + margin) - 1e-12
        return trusted
    weights = getattr(model, "weights_", None)
    if weights is not None and weights.ndim == 1:
        return np.repeat((weights > 0)[:, None], n_classes, axis=1)
    if weights is not None:
        other = np.where(elsewhere, weights, -np.inf).max(axis=2)
        speaks_for: npt.NDArray[np.bool_] = np.einsum("jcc->jc", weights) >= other + margin
        return speaks_for
    accuracies = getattr(model, "accuracies_", None)
    if accuracies is None:
        return np.ones((n_voters, n_classes), dtype=bool)
    return np.repeat((accuracies >= (1 + margin) / n_classes)[:, None], n_classes, axis=1)


def _warn(model: Any, agreed: int, overruled: int, given: bool) -> None:
    balance = model.class_balance_
    largest = int(np.argmax(balance))
    kind = "given" if given else "estimated"
    cure = (
        "Give the class balance of these items, or none."
        if given
        else "Give the class balance to fit() if you know it."
    )
    warnings.warn(
        f"{type(model).__name__}: on {overruled:,} of {agreed:,} items all votes agree, but the "
        f"label differs: the {kind} class balance, with {model.labels_.names[largest]!r} at "
        f"{balance[largest]:.6g}, outweighs all votes. {cure} MajorityVote never does that.",
        WieselWarning,
        stacklevel=4,
    )
