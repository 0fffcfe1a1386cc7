"""DeepLogic: votes as virtual evidence with learned weights around a network."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from wiesel.end_to_end.crowd.crowd_model import AlternatingModel, AlternatingObjective
from wiesel.end_to_end.crowd.voter_models import VoterModel
from wiesel.end_to_end.plan import FitPlan
from wiesel.end_to_end.vote_payloads import VoteEntries
from wiesel.parameters import check_number
from wiesel.training import Objective
from wiesel.votes import VoteMatrix

__all__ = ["DeepLogic"]


@dataclass(eq=False, kw_only=True)
class DeepLogic(AlternatingModel):
    """Deep probabilistic logic (Wang and Poon, EMNLP 2018), in its form for single items.

    Self-supervision is virtual evidence: a formula f_v about the labels Y holds with a weight
    w_v, and the end model f is one more factor. Here the formulas are the votes, "the label of
    item i is the vote of voter j", with one weight for each voter::

        P(Y | X, K = 1) ~ product over i of f(y_i | x_i) * exp( sum_j w_j [vote_ij = y_i] )
        E: q_i(y) ~ f(y | x_i) * exp( sum_j w_j [vote_ij = y] )   (exact)
        M: f learns q;  w_j = log( (C - 1) a_j / (1 - a_j) ),
           a_j = the share of j's votes that q expects to be right, with the first guess as a prior

    The weights start at the log odds of `confidence`. This is the part of the paper that applies
    to votes. Formulas over several items (equal labels, at least one of a group), for which the
    paper uses loopy belief propagation, are not implemented.

    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> votes, gold = make_votes(200, 5, n_classes=3, coverage=0.6)
    >>> X = make_features(gold, n_features=4)
    >>> model = DeepLogic(torch.nn.Linear(4, 3), epochs=5, lr=0.05).fit(X, votes)
    >>> model.voter_model_.weights.shape
    torch.Size([5])
    """

    confidence: float = 0.9
    """The initial accuracy of all voters."""
    smoothing: float = 10.0
    """The number of pseudo-votes behind that initial accuracy, per voter."""

    def check_options(self) -> None:
        """Refuse invalid options."""
        super().check_options()
        check_number(self, "confidence", self.confidence, low=0.01, high=0.99)

    def _objective(self, end_model: nn.Module, plan: FitPlan) -> Objective:
        votes: VoteMatrix = plan.votes
        evidence = VirtualEvidence(votes.n_voters, votes.n_classes, self.confidence, self.smoothing)
        return _LogicObjective(end_model, evidence, votes, self.m_epochs)

    def _blank_voters(self, shapes: dict[str, list[int]]) -> VoterModel:
        return VirtualEvidence(
            len(self.voters_), len(self.labels_), self.confidence, self.smoothing
        )


class VirtualEvidence(VoterModel):
    """One weight for each voter: the log odds that its vote is right."""

    weights: Tensor

    def __init__(self, n_voters: int, n_classes: int, confidence: float, strength: float) -> None:
        super().__init__()
        self.n_voters, self.n_classes = n_voters, n_classes
        self.confidence, self.strength = confidence, strength
        # Not a tensor that is repeated: for the shape of that, torch loads its compiler.
        log_odds = math.log((n_classes - 1) * confidence / (1 - confidence))
        self.register_buffer("weights", torch.full((n_voters,), log_odds))

    def confusions(self, voters: Tensor) -> Tensor:
        """Return P(voted | true class) of some voters: (len(voters), true, voted)."""
        right = torch.eye(self.n_classes, device=self.weights.device)
        return torch.softmax(self.weights[voters][:, None, None] * right, dim=2)

    @torch.no_grad()
    def count(self, entries: VoteEntries, soft_labels: Tensor) -> None:
        """Compute the weights from the expected accuracy of each voter."""
        right = soft_labels[entries.items, entries.classes] * entries.mass
        expected = torch.full_like(self.weights, self.strength * self.confidence)
        total = torch.full_like(self.weights, self.strength) + 1e-6
        expected.index_add_(0, entries.voters, right)
        total.index_add_(0, entries.voters, entries.mass)
        accuracy = (expected / total).clamp(1e-3, 1 - 1e-3)
        self.weights.copy_(((self.n_classes - 1) * accuracy / (1 - accuracy)).log())


class _LogicObjective(AlternatingObjective):
    """An end model trained on the posterior of its own predictions and the weighted votes."""

    voters: VirtualEvidence

    def __init__(
        self, end_model: nn.Module, evidence: VirtualEvidence, votes: VoteMatrix, m_epochs: int
    ) -> None:
        super().__init__(end_model, votes, m_epochs)
        self.voters = evidence
        self.register_buffer("soft_labels", self.vote_evidence(self.answers).softmax(dim=1))

    def vote_evidence(self, answers: VoteEntries) -> Tensor:
        """Return the sum of the weights of the votes for every class of every item."""
        voted = nn.functional.one_hot(answers.classes, self.voters.n_classes)
        return answers.sum_by_item(self.voters.weights[answers.voters][:, None] * voted)
