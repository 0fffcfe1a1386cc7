"""The base class of label models that combine votes with a linear model of the features."""

from abc import abstractmethod
from dataclasses import dataclass, field

import numpy as np

from wiesel.end_to_end.class_balance import vote_balance
from wiesel.end_to_end.readings.base import Gold, Reading
from wiesel.end_to_end.readings.linear_models import Array, CrossFit, LinearModel
from wiesel.errors import FeatureError
from wiesel.label_models.alignment import alignment_offsets, mean_proba
from wiesel.label_models.vote_products import class_shares
from wiesel.labels import class_prior
from wiesel.parameters import check_number
from wiesel.training import Inputs
from wiesel.votes import VoteMatrix

__all__ = ["FeatureReading", "log_ratio"]

_LEAST = 0.1
"""The lower bound of a factor, so that neither a vote nor the features rule out a class."""
_SMALLEST_SHARE = 1e-4


@dataclass(eq=False, kw_only=True)
class FeatureReading(Reading):
    """A label model that learns from the votes and from the features of the same items.

    The soft labels q start from the vote shares. Every round fits a linear model f of q to the
    features, estimates the meaning of every vote again, and computes the next q from both::

        q(c | x, votes) = (1 + f_c(x) / P(c)) * prod_j (P(c | j said v) / P(c))^(n^-power) * e^b_c

    normalized, where n is the number of votes on the item. No factor is less than 0.1, and b_c
    makes the class shares equal the class balance.
    """

    rounds: int = 3
    """The number of rounds of fitting the linear model and the voters."""

    coefficients_: Array = field(init=False, repr=False)
    """(n_features, n_classes): the coefficients of the features in the first factor."""
    intercept_: Array = field(init=False, repr=False)
    """The first factor if all features are 0."""

    def _check_options(self) -> None:
        super()._check_options()
        check_number(self, "rounds", self.rounds, low=1, whole=True)

    @abstractmethod
    def _vote_evidence(
        self, votes: VoteMatrix, soft_labels: Array, predicted: Array, shares: Array
    ) -> Array:
        """Return log P(c | j said v) / P(c): (n_voters * voted, class).

        `predicted` are the out-of-fold predictions of the linear model, and `shares` are the class
        shares P(c) of the soft labels.
        """

    def _read(
        self,
        votes: VoteMatrix,
        class_balance: Array | None,
        inputs: Inputs | None,
        gold: Gold | None,
    ) -> None:
        if inputs is None:
            raise FeatureError(f"{type(self).__name__} needs the features: fit(votes, X=X).")
        self.class_balance_ = vote_balance(votes) if class_balance is None else class_balance
        covered = np.flatnonzero(votes.covered)
        linear = CrossFit.of(inputs, covered)
        soft_labels = class_shares(votes, class_prior(votes.labels, None), np.ones(votes.n_voters))
        for _ in range(self.rounds):
            soft_labels = self._learn(votes, inputs, linear, soft_labels)

    def _learn(
        self, votes: VoteMatrix, inputs: Inputs, linear: CrossFit | None, soft_labels: Array
    ) -> Array:
        """Fit the learned attributes to the soft labels; return the next soft labels."""
        n_classes = votes.n_classes
        shares = np.maximum(soft_labels[votes.covered].mean(axis=0), _SMALLEST_SHARE)
        predicted = np.zeros_like(soft_labels)
        self.coefficients_, self.intercept_ = np.zeros((0, n_classes)), np.ones(n_classes)
        if linear is not None:
            predicted, model = linear.fit(soft_labels - shares)
            self.coefficients_ = model.coefficients / shares
            self.intercept_ = 1 + model.intercept / shares
        evidence = self._vote_evidence(votes, soft_labels, predicted, shares)
        self.evidence_ = evidence.reshape(votes.n_voters, n_classes, n_classes)
        self.offsets_ = np.zeros(n_classes)
        scores = self._scores(votes, inputs)
        self.offsets_ = alignment_offsets(self.class_balance_, mean_proba(scores[votes.covered]))
        return self._normalized(votes, scores + self.offsets_)

    def _scores(self, votes: VoteMatrix, inputs: Inputs | None) -> Array:
        scores = super()._scores(votes, inputs)
        if inputs is not None and len(self.coefficients_):
            factor = LinearModel(self.coefficients_, self.intercept_).predict(inputs)
            scores += np.log(np.maximum(factor, _LEAST))
        return scores


def log_ratio(proba: Array, shares: Array) -> Array:
    """Return what a vote adds to the logits, from P(c | vote) and P(c), bounded from below."""
    evidence: Array = np.log(np.maximum(proba / shares, _LEAST))
    return evidence
