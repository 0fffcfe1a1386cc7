"""FeatureEM: EM over the voters and a linear model of the features."""

from dataclasses import dataclass

import numpy as np

from wiesel.end_to_end.readings.base import Array, FeatureReading, log_ratio
from wiesel.label_models.vote_products import vote_totals
from wiesel.votes import VoteMatrix

__all__ = ["FeatureEM"]

_SHRINKAGE = 10.0


@dataclass(eq=False, kw_only=True)
class FeatureEM(FeatureReading):
    """A few rounds of EM over the votes and a linear model of the features.

    As in Raykar et al. (2010), the features give a prior for the soft label of an item, and the
    meaning of a vote is estimated from the soft labels q of the items on which it was cast::

        P(c | j said v) = (sum_{i: j said v} q_i(c) + 10 P(c | anyone said v)) / (n_jv + 10)

    There are three differences: the linear model never predicts an item it was fitted on, voters
    with few votes are shrunk toward the average of all voters, and there are only three rounds.
    Images and token ids are converted to vectors. Without vectors only the voters
    are learned, as in Dawid and Skene's model.

    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> votes, gold = make_votes(500, n_voters=4)
    >>> X = make_features(gold, n_features=4)
    >>> FeatureEM().fit(votes, X=X).predict_proba(votes, X).shape
    (500, 2)
    """

    def _vote_evidence(
        self, votes: VoteMatrix, soft_labels: Array, predicted: Array, shares: Array
    ) -> Array:
        n_classes = votes.n_classes
        cast = vote_totals(votes).reshape(votes.n_voters, n_classes, 1)
        counts = np.asarray(votes.one_hot().T @ soft_labels).reshape(-1, n_classes, n_classes)
        # A class without votes carries no information: it gets the class shares.
        pooled = (counts.sum(axis=0) + shares) / (cast.sum(axis=0) + 1)
        proba = (counts + _SHRINKAGE * pooled) / (cast + _SHRINKAGE)
        return log_ratio(proba, shares).reshape(-1, n_classes)
