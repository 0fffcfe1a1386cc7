"""GoldWeighted: votes weighted by the precision of their voters on a few gold labels."""

from dataclasses import dataclass

import numpy as np

from wiesel.end_to_end.readings.base import Array, EvidenceLabelModel, SideInformation
from wiesel.errors import Advice, Argument, ParameterError
from wiesel.parameters import check_number
from wiesel.votes import VoteMatrix

__all__ = ["GoldWeighted"]


@dataclass(eq=False, kw_only=True)
class GoldWeighted(EvidenceLabelModel):
    """Votes weighted by their voters' precision on gold labels.

    On the items with gold, n_jv(c) counts how often the class is c where voter j votes v::

        P(c | j votes v) = (n_jv(c) + shrinkage * P(c | vote v)) / (n_jv + shrinkage)
        e_jv(c)          = log P(c | j votes v) - log P(c)
        P(c | votes)     = softmax(log P(c) + sum_j e_jv(c) / n_votes^power)

    P(c | vote v) is the estimate from all voters, itself shrunk toward the accuracy of all votes.
    With few gold labels the precision of a voter is close to that of all voters; with many, it is
    its own. `power` 1/2 assumes that voters depend on each other, 0 that they are independent.

    >>> from wiesel.datasets.synthetic import make_votes
    >>> votes, gold = make_votes(500, n_voters=4)
    >>> model = GoldWeighted().fit(votes, gold=(votes[:50], gold[:50]))
    >>> model.predict_proba(votes).shape
    (500, 2)
    """

    shrinkage: float = 10.0
    """The number of pseudo-votes that shrink a voter toward the average of all voters."""

    def _check_options(self) -> None:
        super()._check_options()
        check_number(self, "shrinkage", self.shrinkage, low=0.001)

    def _fit_evidence(
        self, votes: VoteMatrix, class_balance: Array | None, side: SideInformation
    ) -> Array:
        if side.gold is None or not len(side.gold[1]):
            raise ParameterError(
                "GoldWeighted needs votes on items with gold labels: give ",
                Argument("validation"),
                Advice(
                    " as (X, y, votes) to fit() of TwoStage or Committee, or its own fit() gold"
                ),
                ".",
            )
        labeled, truth = side.gold
        labeled.check_same_voters(votes.voters, votes.labels)
        one_hot = np.eye(votes.n_classes)[truth]
        # Add one of each class, so that a class that is missing by chance is not ruled out.
        counted = (one_hot.sum(axis=0) + 1) / (len(truth) + votes.n_classes)
        balance = counted if class_balance is None else class_balance
        cells = (votes.n_voters, votes.n_classes, votes.n_classes)
        counts = np.asarray(labeled.one_hot().T @ one_hot).reshape(cells)
        proba = _shrunk(
            counts, _pooled(counts.sum(axis=0), counted, self.shrinkage), self.shrinkage
        )
        self.evidence_ = np.log(proba / counted)
        self.class_balance_, self.offsets_ = balance, np.log(balance)
        return self._soft_labels(votes, self._scores(votes, None) + self.offsets_)


def _pooled(counts: Array, balance: Array, shrinkage: float) -> Array:
    """P(true | voted) of all voters together: (voted, true)."""
    n_classes = len(balance)
    accuracy = (np.trace(counts) + 1) / (counts.sum() + n_classes)
    others = np.tile(balance, (n_classes, 1)) * (1 - np.eye(n_classes))
    others *= (1 - accuracy) / others.sum(axis=1, keepdims=True)
    return _shrunk(counts, others + accuracy * np.eye(n_classes), shrinkage)


def _shrunk(counts: Array, towards: Array, shrinkage: float) -> Array:
    """Shares of counts over the last axis, shrunk by this number of pseudo-counts."""
    shares: Array = (counts + shrinkage * towards) / (
        counts.sum(axis=-1, keepdims=True) + shrinkage
    )
    return shares
