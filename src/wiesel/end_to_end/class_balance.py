"""The class balance of a fit: given, uniform, or estimated from votes or gold."""

from typing import Any

import numpy as np
import numpy.typing as npt

from wiesel.errors import ParameterError
from wiesel.label_models import ClassBalance, MajorityVote, estimate_class_balance
from wiesel.label_models.pair_moments import vote_totals
from wiesel.labels import LabelSpace, class_prior
from wiesel.parameters import check_choice
from wiesel.training import Validation
from wiesel.votes import VoteMatrix

__all__ = ["check_class_balance", "chosen_class_balance", "vote_balance"]


_ESTIMATES = ("votes", "validation", "auto")
"""Where a class balance can be estimated."""


def check_class_balance(owner: Any) -> None:
    """Refuse an option `class_balance` that names no way to estimate it."""
    if isinstance(owner.class_balance, str):
        check_choice(owner, "class_balance", owner.class_balance, _ESTIMATES)


def chosen_class_balance(
    balance: ClassBalance | str,
    labels: LabelSpace,
    votes: VoteMatrix | None,
    validation: Validation | None,
) -> npt.NDArray[np.float64]:
    """Return P(y): given, uniform (None), or estimated as the option says.

    `votes` estimates it as label models do; `validation` counts the validation set; `auto` is the
    validation set if there is one, else the vote shares.

    >>> chosen_class_balance([0.2, 0.8], votes.labels, votes, None)
    array([0.2, 0.8])
    """
    if not isinstance(balance, str) or votes is None:
        return class_prior(labels, None if isinstance(balance, str) else balance)
    if balance == "votes":
        return class_prior(labels, estimate_class_balance(votes))
    if balance == "auto" and validation is None:
        return vote_balance(votes)
    if validation is None:
        raise ParameterError("class_balance='validation' needs fit(..., validation=(X, y)).")
    # Add one of each class, so that a class that is missing by chance is not ruled out.
    counts = np.bincount(validation.gold, minlength=len(labels)) + 1.0
    return class_prior(labels, counts)


def vote_balance(votes: VoteMatrix) -> npt.NDArray[np.float64]:
    """Return an estimate of the class balance from votes.

    For binary tasks it is the vote shares. For multi-class tasks it is the share of items on which
    a class has the most votes, because noise makes the vote shares more equal. One-sided voters,
    which vote for a single class or abstain, mostly show which classes are easy to write rules
    for. So the more such voters abstain, the closer the estimate is to equal shares, at most
    half-way on a logarithmic scale.
    """
    covered = votes[np.flatnonzero(votes.covered)]
    majority = MajorityVote(hard=votes.n_classes > 2).fit(covered)
    shares = majority.predict_proba(covered).mean(axis=0) + 1e-3
    if votes.n_classes == 2:
        return class_prior(votes.labels, shares)
    totals = vote_totals(votes).reshape(votes.n_voters, votes.n_classes)
    one_sided = totals.max(axis=1) == totals.sum(axis=1)
    abstaining = 1 - votes.n_votes / (votes.covered.sum() * votes.n_voters)
    exaggerated = abstaining * totals[one_sided].sum() / totals.sum()
    return class_prior(votes.labels, shares ** (1 - exaggerated / 2))
