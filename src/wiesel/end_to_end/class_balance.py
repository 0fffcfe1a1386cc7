"""How common the classes are: as given, or from what is known."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wiesel.errors import ParameterError
from wiesel.label_models import ClassBalance, MajorityVote, estimate_class_balance
from wiesel.labels import class_prior
from wiesel.training import Validation
from wiesel.votes import VoteMatrix

__all__ = ["aligned_to", "chosen_class_balance", "log_class_balance"]


def chosen_class_balance(
    balance: ClassBalance | str, votes: VoteMatrix, validation: Validation | None
) -> npt.NDArray[np.float64]:
    """Return P(y): given, uniform (None), or estimated where the option says.

    `votes` estimates it as label models do, `validation` counts the validation set; `auto` is the
    validation set if there is one, else what the votes say.

    >>> chosen_class_balance([0.2, 0.8], votes, None)
    array([0.2, 0.8])
    """
    if not isinstance(balance, str):
        return class_prior(votes.labels, balance)
    if balance == "votes":
        return class_prior(votes.labels, estimate_class_balance(votes))
    if balance == "auto" and validation is None:
        return _told_by(votes)
    if validation is None:
        raise ParameterError("class_balance='validation' needs fit(..., validation=(X, y)).")
    # One more of each class, so that none that is missing by chance is ruled out.
    counts = np.bincount(validation.gold, minlength=len(votes.labels)) + 1.0
    return class_prior(votes.labels, counts)


def log_class_balance(
    balance: ClassBalance | str, votes: VoteMatrix, validation: Validation | None
) -> Tensor:
    """Return log P(y) as a network adds it to its logits."""
    return torch.from_numpy(np.log(chosen_class_balance(balance, votes, validation))).float()


def aligned_to(
    balance: npt.NDArray[np.float64], proba: npt.NDArray[np.float64], rounds: int = 30
) -> npt.NDArray[np.float64]:
    """Return soft labels whose class shares are the class balance, as near as can be.

    Every class gets a factor, found by repeated proportional fitting.

    >>> aligned_to(np.array([0.5, 0.5]), np.array([[0.9, 0.1], [0.6, 0.4]])).mean(axis=0).round(3)
    array([0.5, 0.5])
    """
    factors = np.ones(proba.shape[1])
    for _ in range(rounds):
        scaled = proba * factors
        scaled /= scaled.sum(axis=1, keepdims=True)
        factors *= (balance / np.maximum(scaled.mean(axis=0), 1e-4)) ** 0.7
    scaled = proba * factors
    aligned: npt.NDArray[np.float64] = scaled / scaled.sum(axis=1, keepdims=True)
    return aligned


def _told_by(votes: VoteMatrix) -> npt.NDArray[np.float64]:
    """The class balance that votes suggest.

    For two classes it is the shares of the votes. Of more classes voters that abstain cover some
    much better than others, so that their shares exaggerate: the more they abstain the closer to
    equal shares it is, at most half-way on a logarithmic scale.
    """
    covered = votes[np.flatnonzero(votes.covered)]
    shares = MajorityVote().fit(covered).predict_proba(covered).mean(axis=0) + 1e-3
    abstaining = 1 - votes.n_votes / (votes.covered.sum() * votes.n_voters)
    power = 1.0 if votes.n_classes == 2 else 1 - abstaining / 2
    return class_prior(votes.labels, shares**power)
