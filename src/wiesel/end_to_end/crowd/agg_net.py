"""AggNet: EM over a deep network and the voters, with an E-step after every epoch."""

from dataclasses import dataclass

from wiesel.end_to_end.crowd.raykar import Raykar

__all__ = ["AggNet"]


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
