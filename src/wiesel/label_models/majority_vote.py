"""Majority vote: every voter counts the same. Its winners also give a class balance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from wiesel.errors import ParameterError, VoteError, listed, suggest
from wiesel.label_models.base import LabelModel
from wiesel.label_models.vote_products import (
    LogJoint,
    class_shares,
    one_hot_chunks,
    posterior,
    vote_totals,
    weighted_counts,
)
from wiesel.labels import FloatArray, by_name, class_prior
from wiesel.parameters import check_choice, check_number
from wiesel.votes import VoteMatrix, VoteSource

__all__ = ["MajorityVote", "VoteCounts", "WeightedVote", "vote_balance"]

_ENOUGH_ITEMS = 20
"""Fewer items with several votes do not tell how often voters agree."""
_LEAST_RELIABILITY = 0.5
"""Voters are believed to be right this much more often than wrong: on 75 of 100 items."""
_LEAST_SHARE = 1e-3
_BOUNDS = 0.02, 0.98
"""The limits of what votes without their errors can say of a class."""


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

    def check_options(self) -> None:
        """Refuse invalid options."""
        super().check_options()
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

    Voters that name several classes tell of the balance, one-sided ones, which vote for a single
    class or abstain, mostly of which classes are easy to write rules for. Each kind counts by its
    share of the votes.

    - Several classes, two in the task: the vote shares s without their errors. Two such voters
      agree on an item with probability a = (1 + r^2) / 2, where r is how much more often they are
      right than wrong; and s = 1/2 + r (P(class) - 1/2). More classes: the share of items on which
      a class has the most of their votes, because noise makes the vote shares more equal.
    - One-sided: the shares of all votes, or of items with three classes or more. There, the more
      one-sided voters abstain, the closer they are to equal shares, at most half-way on a
      logarithmic scale.

    >>> votes = VoteMatrix.from_dense([[0, 0], [0, 1], [2, 2], [1, 1]], ["a", "b", "c"])
    >>> vote_balance(votes).round(2)
    array([0.37, 0.37, 0.25])
    """
    if not votes.n_votes:
        raise VoteError("There are no votes to estimate the class balance from.")
    totals = vote_totals(votes).reshape(votes.n_voters, votes.n_classes)
    one_sided = totals.max(axis=1) == totals.sum(axis=1)
    shares = _voted_shares(votes, weighted_counts(votes, np.ones(votes.n_voters)))
    if votes.n_classes > 2:
        abstaining = 1 - votes.n_votes / (votes.covered.sum() * votes.n_voters)
        exaggerated = abstaining * totals[one_sided].sum() / totals.sum()
        shares **= 1 - exaggerated / 2
        shares /= shares.sum()
    if not one_sided.all():
        several = (~one_sided).astype(np.float64)
        counts = weighted_counts(votes, several)
        own = _voted_shares(votes, counts)
        if votes.n_classes == 2:
            own = np.clip(0.5 + (own - 0.5) / _reliability(votes, several, counts), *_BOUNDS)
        known = totals[~one_sided].sum() / totals.sum()
        shares = known * own + (1 - known) * shares
    return class_prior(votes.labels, shares)


def _voted_shares(votes: VoteMatrix, counts: FloatArray) -> npt.NDArray[np.float64]:
    """The class shares by the counted votes: shares of votes, or of items with three classes."""
    counts = counts[counts.any(axis=1)]
    if votes.n_classes > 2:
        counts = counts >= counts.max(axis=1, keepdims=True) - 1e-6
    shares = (counts / counts.sum(axis=1, keepdims=True)).mean(axis=0) + _LEAST_SHARE
    return np.asarray(shares / shares.sum())


def _reliability(votes: VoteMatrix, voter_weights: FloatArray, counts: FloatArray) -> float:
    """How much more often the votes of a binary task are right than wrong, by their agreement."""
    cast = counts.sum(axis=1)
    pairs = cast * (cast - 1)
    several = pairs > 0.5
    if several.sum() < _ENOUGH_ITEMS:
        return 1.0
    with_itself = counts
    if votes.distribution is not None:
        weights = np.kron(voter_weights[:, None], np.eye(2))
        parts = [chunk.one_hot.power(2) @ weights for chunk in one_hot_chunks(votes)]
        with_itself = np.concatenate(parts)
    agreeing = (counts**2 - with_itself).sum(axis=1)[several] / pairs[several]
    return float(np.sqrt(max(2 * agreeing.mean() - 1, _LEAST_RELIABILITY**2)))


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

    def check_options(self) -> None:
        """Refuse invalid options."""
        super().check_options()
        check_number(self, "log_odds", self.log_odds, low=0)

    def _fit(self, votes: VoteSource, class_balance: npt.NDArray[np.float64] | None) -> None:
        """Nothing is learned from the votes."""

    def _predict_proba(self, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        weights = self.log_odds * np.tile(np.eye(votes.n_classes), (votes.n_voters, 1))
        joint = LogJoint(weights, np.log(np.maximum(self.class_balance_, 1e-12)))
        return posterior(votes, joint, self.class_balance_)


@dataclass(eq=False, kw_only=True)
class WeightedVote(LabelModel):
    """Each class gets its share of the weights of the voters that voted for it.

    Without weights it is the soft majority vote. An item whose votes have zero weight gets the
    class balance, like an item without votes.

    >>> model = WeightedVote(weights={"keyword": 3, "link": 1, "length": 1}).fit(votes)
    >>> model.predict_proba(votes)[:2]
    array([[1.  , 0.  ],
           [0.75, 0.25]])
    """

    weights: Mapping[str, float] | Sequence[float] | FloatArray | None = None
    """The weight of every voter, by name or in the order of the voters; None gives all the same
    weight."""

    weights_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """The weight of each voter."""

    def _fit(self, votes: VoteSource, class_balance: npt.NDArray[np.float64] | None) -> None:
        self.weights_ = _weights_in_order(self.weights, votes.voters)

    def _predict_proba(self, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        return class_shares(votes, self.class_balance_, self.weights_)


def _weights_in_order(
    weights: Mapping[str, float] | Sequence[float] | FloatArray | None, voters: tuple[str, ...]
) -> npt.NDArray[np.float64]:
    if weights is None:
        return np.ones(len(voters))
    weights = by_name(weights)
    if isinstance(weights, Mapping):
        unknown = [name for name in weights if name not in voters]
        if unknown:
            raise ParameterError(
                f"The weights name {unknown[0]!r}, which is not a voter. "
                f"{suggest(unknown[0], voters)}",
                option="weights",
            )
        missing = [name for name in voters if name not in weights]
        if missing:
            problem = f"The weights leave out {listed(missing)}; every voter needs one."
            raise ParameterError(problem, option="weights")
        weights = [weights[name] for name in voters]
    try:
        array = np.array(weights, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)  # refused below
    if array.shape != (len(voters),) or not np.isfinite(array).all() or (array < 0).any():
        raise ParameterError(
            f"The weights must be {len(voters)} numbers of at least 0, one for each voter; "
            f"got {weights!r}.",
            option="weights",
        )
    return array
