"""A class balance from the votes: a guess that needs neither gold labels nor overlapping voters."""

import numpy as np
import numpy.typing as npt

from wiesel.errors import VoteError
from wiesel.label_models.majority_vote import MajorityVote
from wiesel.label_models.vote_products import vote_totals
from wiesel.labels import class_prior
from wiesel.votes import VoteMatrix

__all__ = ["vote_balance"]


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
