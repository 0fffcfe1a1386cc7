"""Raykar: EM over a classifier and the confusions of the voters."""

from dataclasses import dataclass

from torch import nn

from wiesel.end_to_end.crowd.crowd_model import AlternatingModel, CountedObjective
from wiesel.end_to_end.plan import FitPlan
from wiesel.training import Objective

__all__ = ["AggNet", "Raykar"]


@dataclass(eq=False, kw_only=True)
class Raykar(AlternatingModel):
    """Learning from crowds (Raykar et al., JMLR 2010), for two classes and more.

    The end model gives the prior P(class | x); every voter j has confusions pi_j (for two classes:
    sensitivity and specificity). EM alternates::

        E: mu_ic ~ f_c(x_i) * product over the votes of pi_j[c, vote]
        M: pi_j[c, l] ~ sum of mu_ic over j's votes for l, plus pseudo-votes (a Dirichlet prior)
           f: some epochs of cross-entropy to mu

    The paper's f is logistic regression, refitted by Newton steps; here it is any end model,
    trained for `m_epochs` epochs. Confusions are kept only for (voter, class) pairs that occur, so
    memory grows with the number of votes.

    >>> import torch
    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> votes, gold = make_votes(200, 5, n_classes=3, coverage=0.6)
    >>> X = make_features(gold, n_features=4)
    >>> model = Raykar(torch.nn.Linear(4, 3), epochs=10, lr=0.05).fit(X, votes)
    >>> model.confusions(["voter_0"]).shape
    (1, 3, 3)
    """

    m_epochs: int = 2
    """The number of epochs between E-steps."""

    def _objective(self, end_model: nn.Module, plan: FitPlan) -> Objective:
        return CountedObjective(end_model, plan.votes, self.smoothing, self.m_epochs)


@dataclass(eq=False, kw_only=True)
class AggNet(Raykar):
    """Aggregation inside the training of a deep network (Albarqouni et al., TMI 2016).

    The model of `Raykar`, but soft labels and confusions are updated after every epoch of the
    network, so that network and labels change together. The paper starts from a network trained on
    gold labels; this one starts from the vote shares and needs no gold, as in the comparison of
    Cao et al. 2019. Memory grows with the number of votes.

    >>> import torch
    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> votes, gold = make_votes(200, 5, n_classes=3, coverage=0.6)
    >>> X = make_features(gold, n_features=4)
    >>> AggNet(torch.nn.Linear(4, 3), epochs=5, lr=0.05).fit(X, votes).predict_proba(X).shape
    (200, 3)
    """

    m_epochs: int = 1
    """The number of epochs between E-steps."""
