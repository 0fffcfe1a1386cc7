"""Vote counts: every vote multiplies the odds of its class by the same factor."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wiesel.label_models.base import LabelModel
from wiesel.label_models.vote_products import LogJoint, posterior
from wiesel.parameters import check_number
from wiesel.votes import VoteMatrix, VoteSource

__all__ = ["VoteCounts"]


@dataclass(eq=False, kw_only=True)
class VoteCounts(LabelModel):
    """All voters are equally reliable and independent: every vote adds the same evidence.

    With v_c votes for class c, and the class balance P(c), which is uniform unless given::

        P(c | votes) = softmax_c(log_odds * v_c + log P(c))

    Unlike majority vote, ten votes are more certain than one.

    >>> VoteCounts().fit(votes).predict_proba(votes)[:2].round(2)
    array([[0.98, 0.02],
           [0.5 , 0.5 ]])
    """

    log_odds: float = 2.0
    """The amount that one vote adds to the logit of its class."""

    def _check_options(self) -> None:
        check_number(self, "log_odds", self.log_odds, low=0)

    def _fit(self, votes: VoteSource, class_balance: npt.NDArray[np.float64] | None) -> None:
        """Nothing is learned from the votes."""

    def _predict_proba(self, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        weights = self.log_odds * np.tile(np.eye(votes.n_classes), (votes.n_voters, 1))
        joint = LogJoint(weights, np.log(np.maximum(self.class_balance_, 1e-12)))
        return posterior(votes, joint, self.class_balance_)
