"""MBEM: EM that estimates the voters' confusions from the end model's hard predictions."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wiesel.end_to_end.crowd.crowd_model import AlternatingModel, CountedObjective
from wiesel.end_to_end.plan import FitPlan
from wiesel.end_to_end.vote_payloads import VoteEntries
from wiesel.training import Objective
from wiesel.votes import VoteMatrix

__all__ = ["MBEM"]


@dataclass(eq=False, kw_only=True)
class MBEM(AlternatingModel):
    """Model-bootstrapped EM (Khetan, Lipton, Anandkumar, ICLR 2018).

    For items with a single vote, where votes cannot be compared with each other: the network's
    hard predictions t take the place of the truth. Repeat::

        train f on q (at first the vote shares)
        t_i = argmax f(x_i)
        pi_j[c, l], p_c: counted from t
        q_ic ~ p_c * product over the votes of pi_j[c, vote]

    Made for voters that vote for all classes. With voters that vote for one class or abstain, as
    most labeling functions do, it fails: their votes are equally probable for every class.
    Memory grows with the number of votes.

    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> votes, gold = make_votes(200, 5, n_classes=3, coverage=0.6)
    >>> X = make_features(gold, n_features=4)
    >>> MBEM(torch.nn.Linear(4, 3), epochs=5, lr=0.05).fit(X, votes).soft_labels(X, votes).shape
    (200, 3)
    """

    m_epochs: int = 4
    """The number of epochs between E-steps; predictions of early epochs are unreliable. Training
    needs more epochs than these, or there is no E-step."""

    hard_balance_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """The class shares of the network's hard predictions: the prior of the soft labels."""

    _share_names = ("class_balance_", "hard_balance_")

    def _objective(self, end_model: nn.Module, plan: FitPlan) -> Objective:
        return _HardObjective(end_model, plan.votes, self.smoothing, self.m_epochs)

    def _keep(self, objective: Objective, plan: FitPlan) -> None:
        super()._keep(objective, plan)
        trained: _HardObjective = objective  # type: ignore[assignment]
        self.hard_balance_ = trained.class_balance.double().numpy()

    def _log_start(self, X: Any) -> npt.NDArray[np.float64]:
        return np.log(np.maximum(self.hard_balance_, 1e-12))[None, :]


class _HardObjective(CountedObjective):
    """Soft labels from confusions and a class balance counted from hard predictions."""

    class_balance: Tensor
    covered: Tensor

    def __init__(
        self, end_model: nn.Module, votes: VoteMatrix, smoothing: float, m_epochs: int
    ) -> None:
        super().__init__(end_model, votes, smoothing, m_epochs)
        self.register_buffer("covered", torch.from_numpy(votes.covered))
        balance = self.soft_labels[self.covered].mean(dim=0)
        self.register_buffer("class_balance", balance)

    def alternate(self, log_proba: Tensor, answers: VoteEntries) -> None:
        """Count confusions from the network's hard predictions, then update the soft labels."""
        n_classes = log_proba.shape[1]
        answered = nn.functional.one_hot(log_proba.argmax(dim=1), n_classes).to(log_proba.dtype)
        self.voters.count(answers, answered)
        # Add one of each class, so that a class the network no longer predicts can return.
        shares = answered[self.covered].sum(dim=0) + 1
        self.class_balance.copy_(shares / shares.sum())
        log_joint = self.class_balance.log() + self.vote_evidence(answers)
        self.soft_labels.copy_(torch.softmax(log_joint, dim=1))
