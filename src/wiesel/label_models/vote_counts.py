"""Vote counts: every further vote makes its class more certain by the same factor."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from wiesel.label_models.base import LabelModel
from wiesel.label_models.vote_products import LogJoint, posterior
from wiesel.labels import class_prior
from wiesel.parameters import check_number
from wiesel.votes import VoteMatrix, VoteSource

__all__ = ["VoteCounts"]

_ROUNDS = 30
_STEP = 0.7
_SMALLEST = 1e-4


@dataclass(eq=False, kw_only=True)
class VoteCounts(LabelModel):
    """Voters that are all equally good and independent: the soft label grows with the count.

    With v_c votes for class c::

        P(c | votes) = softmax_c(log_odds * v_c + b_c)

    Majority vote looks at shares, so that one vote is as sure as ten; counts are not. If the
    class balance is given, the b_c are chosen such that the soft labels of the covered items have
    these class shares; else they are zero.

    >>> VoteCounts().fit(votes).predict_proba(votes)[:2].round(2)
    array([[0.98, 0.02],
           [0.5 , 0.5 ]])
    """

    log_odds: float = 2.0
    """How much one vote adds to the logit of its class."""

    offsets_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """What brings the class shares to the class balance: one number for each class."""

    def _check_options(self) -> None:
        check_number(self, "log_odds", self.log_odds, low=0)

    def _fit(self, votes: VoteSource, class_balance: npt.NDArray[np.float64] | None) -> None:
        self.offsets_ = np.zeros(len(votes.labels))
        if class_balance is None:
            return
        for _ in range(_ROUNDS):
            (total,) = votes.sum(self._class_totals)
            shares = np.maximum(total / max(total.sum(), 1.0), _SMALLEST)
            self.offsets_ += _STEP * np.log(class_balance / shares)

    def _predict_proba(self, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        return self._posterior(votes, self.class_balance_)

    def _class_totals(self, votes: VoteMatrix) -> tuple[npt.NDArray[np.float64]]:
        """The sum of the soft labels of the covered items."""
        proba = self._posterior(votes, class_prior(votes.labels, None))
        return (proba[votes.covered].sum(axis=0),)

    def _posterior(
        self, votes: VoteMatrix, prior: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        weights = self.log_odds * np.tile(np.eye(votes.n_classes), (votes.n_voters, 1))
        return posterior(votes, LogJoint(weights, self.offsets_), prior)
