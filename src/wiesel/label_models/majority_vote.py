"""Majority vote: every voter counts the same. Its winners also give a class balance."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from wiesel.errors import VoteError
from wiesel.label_models.base import LabelModel
from wiesel.label_models.vote_products import class_shares, vote_totals
from wiesel.labels import class_prior
from wiesel.parameters import check_choice
from wiesel.votes import VoteMatrix, VoteSource

__all__ = ["MajorityVote", "vote_balance"]


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


def vote_balance(votes: VoteMatrix) -> npt.NDArray[np.float64]:
    """Return an estimate of the class balance from votes.

    For binary tasks it is the vote shares. For multi-class tasks it is the share of items on which
    a class has the most votes, because noise makes the vote shares more equal. One-sided voters,
    which vote for a single class or abstain, mostly show which classes are easy to write rules
    for. So the more such voters abstain, the closer the estimate is to equal shares, at most
    half-way on a logarithmic scale.

    >>> votes = VoteMatrix.from_dense([[0, 0], [0, 1], [2, 2], [1, 1]], ["a", "b", "c"])
    >>> vote_balance(votes).round(2)
    array([0.37, 0.37, 0.25])
    """
    if not votes.n_votes:
        raise VoteError("There are no votes to estimate the class balance from.")
    majority = MajorityVote(hard=votes.n_classes > 2).fit_predict_proba(votes)
    shares = majority[votes.covered].mean(axis=0) + 1e-3
    if votes.n_classes == 2:
        return class_prior(votes.labels, shares)
    totals = vote_totals(votes).reshape(votes.n_voters, votes.n_classes)
    one_sided = totals.max(axis=1) == totals.sum(axis=1)
    abstaining = 1 - votes.n_votes / (votes.covered.sum() * votes.n_voters)
    exaggerated = abstaining * totals[one_sided].sum() / totals.sum()
    return class_prior(votes.labels, shares ** (1 - exaggerated / 2))


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
