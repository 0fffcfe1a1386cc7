"""FeatureChecked: votes weighted by how well the features confirm them."""

from dataclasses import dataclass, field

import numpy as np

from wiesel.end_to_end.linear_models import CrossFit
from wiesel.end_to_end.readings.base import Array, FeatureReading, Gold, log_ratio
from wiesel.errors import WieselWarning, warn_user
from wiesel.label_models.vote_products import vote_totals
from wiesel.training import Inputs
from wiesel.votes import VoteMatrix

__all__ = ["FeatureChecked"]

_DOUBT = 10.0
"""Pseudo-votes of every voter on which the features carry no information."""
_GAIN = 0.5
"""How far an average vote moves the probability of its class from the class balance to 1."""


@dataclass(eq=False, kw_only=True)
class FeatureChecked(FeatureReading):
    """Votes weighted by how well a linear model of the features confirms them.

    Let l_jv(c) be the mean prediction of a linear model for class c on the items where voter j
    said v, minus its mean over all items, shrunk toward 0 by ten pseudo-votes. The linear model
    never predicts an item it was fitted on, so no voter confirms itself::

        P(c | j said v) = P(c) + s * l_jv(c)

    where s makes an average vote move its class half of the way from P(c) to 1. Voters need not
    overlap. Images and token ids are converted to vectors. Without vectors, or if
    they confirm the votes no better than chance, every vote counts the same, with a warning.

    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> votes, gold = make_votes(500, n_voters=4)
    >>> X = make_features(gold, n_features=4)
    >>> FeatureChecked().fit(votes, X=X).predict_proba(votes, X).shape
    (500, 2)
    """

    confirmed_: bool = field(init=False, repr=False)
    """Whether the features confirm the votes better than chance."""

    def _read(
        self,
        votes: VoteMatrix,
        class_balance: Array | None,
        inputs: Inputs | None,
        gold: Gold | None,
        linear: CrossFit | None,
    ) -> Array:
        soft_labels = super()._read(votes, class_balance, inputs, gold, linear)
        if not self.confirmed_:
            warn_user(
                "The features do not confirm the votes, so every vote counts the same.",
                WieselWarning,
            )
        return soft_labels

    def _vote_evidence(
        self, votes: VoteMatrix, soft_labels: Array, predicted: Array, shares: Array
    ) -> Array:
        counts = vote_totals(votes).ravel()
        seen = predicted[votes.covered]
        lift = votes.one_hot().T @ predicted - np.outer(counts, seen.mean(axis=0))
        lift /= (counts + _DOUBT)[:, None]
        named = np.tile(np.arange(votes.n_classes), votes.n_voters)
        confirmed = np.average(lift[np.arange(len(lift)), named], weights=counts)
        # Uninformative features confirm votes by chance.
        self.confirmed_ = bool(confirmed > 2 * seen.std() / np.sqrt(len(seen)))
        if not self.confirmed_:
            return log_ratio(np.eye(votes.n_classes)[named], shares)
        scale = _GAIN * (1 - np.average(shares[named], weights=counts)) / confirmed
        return log_ratio(shares + scale * lift, shares)
