"""Majority vote: every voter counts the same."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from wiesel.label_models.base import LabelModel
from wiesel.label_models.vote_products import class_shares
from wiesel.parameters import check_choice
from wiesel.votes import VoteMatrix, VoteSource

__all__ = ["MajorityVote"]


@dataclass(eq=False, kw_only=True)
class MajorityVote(LabelModel):
    """Each class gets its share of the votes, or the winner gets probability 1.

    Soft: P(class) = votes for the class / votes cast. Hard: the class with most votes has
    probability 1; `ties` decides between several such classes. Items without votes get
    the class balance.

    >>> MajorityVote().fit(votes).predict_proba(votes)[:2]
    array([[1. , 0. ],
           [0.5, 0.5]])
    """

    hard: bool = False
    """Return the winning class with probability 1 instead of vote shares."""
    ties: Literal["split", "lowest", "random"] = "split"
    """For `hard`: split a tie equally, take the first class, or draw one at random."""
    seed: int = 0
    """For `ties="random"`: with the same seed, ties are broken the same way."""

    def _check_options(self) -> None:
        check_choice(self, "ties", self.ties, ("split", "lowest", "random"))

    def _fit(self, votes: VoteSource, class_balance: npt.NDArray[np.float64] | None) -> None:
        """Nothing is learned except the class balance, which the base class stores."""

    def _predict_proba(self, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        shares = class_shares(votes, self.class_balance_, np.ones(votes.n_voters))
        if not self.hard:
            return shares
        rng = np.random.default_rng(self.seed)
        return np.where(votes.covered[:, None], _winners(shares, self.ties, rng), shares)


def _winners(
    shares: npt.NDArray[np.float64], ties: str, rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    """Give probability 1 to the class with the most votes; `ties` decides ties."""
    # Sums of float32 distributions carry rounding errors, hence the tolerance.
    winners = shares >= shares.max(axis=1, keepdims=True) - 1e-6
    if ties == "split":
        return winners / winners.sum(axis=1, keepdims=True)
    if ties == "lowest":
        chosen = winners.argmax(axis=1)
    else:
        chosen = (winners * rng.random(winners.shape)).argmax(axis=1)
    return np.eye(shares.shape[1])[chosen]
