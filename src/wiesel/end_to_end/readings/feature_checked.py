"""FeatureChecked: a vote counts as much as the features confirm it."""

from dataclasses import dataclass

import numpy as np

from wiesel.end_to_end.class_balance import alignment_offsets, vote_balance
from wiesel.end_to_end.readings.base import Gold, Reading
from wiesel.end_to_end.readings.linear_models import Array, cross_fitted, supports_linear_model
from wiesel.errors import FeatureError, WieselWarning, warn_user
from wiesel.label_models.pair_moments import vote_totals
from wiesel.label_models.vote_products import LogJoint, class_shares, posterior
from wiesel.labels import class_prior
from wiesel.training.inputs import Inputs
from wiesel.votes import VoteMatrix

__all__ = ["FeatureChecked"]

_DOUBT = 10.0
"""Every voter counts as having cast so many more votes, about which the features say nothing."""
_GAIN = 0.5
"""How far an average vote takes the probability of its class from the class balance to one."""
_SMALLEST = 0.03
"""No vote rules a class out."""


@dataclass(eq=False, kw_only=True)
class FeatureChecked(Reading):
    """Votes checked against the features: what features contradict counts little, or against.

    A linear model learns the vote shares from the features of some items, and predicts the
    others (five folds). Let l_jv(c) be what it predicts for class c, on average, where voter j
    said v, minus its mean over all items, shrunk towards 0 as if ten more votes had been cast.
    Then a vote says::

        P(c | j said v) = P(c) + s * l_jv(c)          at least 0.03, normalized
        P(c | votes)    = softmax(sum_j log P(c | j said v) / P(c) + b_c)

    where s makes an average vote take its class half-way from its prior to 1, and b_c brings the
    class shares to the class balance. Voters need not overlap for it. Where the features are no
    vectors, or confirm the votes no better than chance, every vote counts the same, and a
    warning says so.

    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> votes, gold = make_votes(500, n_voters=4)
    >>> FeatureChecked().fit(votes, X=make_features(gold, n_features=4)).predict(votes).shape
    (500,)
    """

    def _read(
        self,
        votes: VoteMatrix,
        class_balance: Array | None,
        inputs: Inputs | None,
        gold: Gold | None,
    ) -> None:
        if inputs is None:
            raise FeatureError("FeatureChecked needs the features: fit(votes, X=X).")
        balance = vote_balance(votes) if class_balance is None else class_balance
        self.class_balance_ = balance
        evidence = _evidence(votes, inputs, balance)
        if evidence is None:
            warn_user(
                "The features do not confirm the votes, so every vote counts the same.",
                WieselWarning,
            )
            evidence = np.tile(
                np.log(_smoothed(np.eye(votes.n_classes)) / balance), (votes.n_voters, 1)
            )
        proba = posterior(votes, LogJoint(evidence, np.log(balance)), balance)
        self.offsets_ = np.log(balance) + alignment_offsets(balance, proba[votes.covered])
        self.evidence_ = evidence.reshape(votes.n_voters, votes.n_classes, votes.n_classes)


def _evidence(votes: VoteMatrix, inputs: Inputs, balance: Array) -> Array | None:
    """What every vote says of every class, as a logarithm; None where features cannot tell."""
    covered = np.flatnonzero(votes.covered)
    if not supports_linear_model(inputs, covered):
        return None
    shares = class_shares(votes, class_prior(votes.labels, None), np.ones(votes.n_voters))
    predicted = cross_fitted(inputs, shares - shares[covered].mean(axis=0), covered)
    counts = vote_totals(votes).ravel()
    lift = votes.one_hot().T @ predicted - np.outer(counts, predicted[covered].mean(axis=0))
    lift /= (counts + _DOUBT)[:, None]
    chosen = np.tile(np.arange(votes.n_classes), votes.n_voters)
    confirmed = np.average(lift[np.arange(len(lift)), chosen], weights=counts)
    # Features that know nothing confirm votes by chance.
    if confirmed <= 2 * predicted[covered].std() / np.sqrt(len(covered)):
        return None
    scale = _GAIN * (1 - np.average(balance[chosen], weights=counts)) / confirmed
    evidence: Array = np.log(_smoothed(balance + scale * lift) / balance)
    return evidence


def _smoothed(proba: Array) -> Array:
    """Probabilities that rule nothing out, with rows that sum to 1."""
    kept = np.maximum(proba, _SMALLEST)
    return kept / kept.sum(axis=1, keepdims=True)
