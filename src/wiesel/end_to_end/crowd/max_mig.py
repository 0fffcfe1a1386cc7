"""Max-MIG: a network and a vote aggregator, trained to maximize their mutual information."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wiesel.end_to_end.checks import check_class_balance
from wiesel.end_to_end.crowd.crowd_model import CrowdModel, CrowdObjective, all_entries
from wiesel.end_to_end.crowd.voter_models import CountedConfusions, VoterModel, VoteSlots
from wiesel.end_to_end.plan import FitPlan
from wiesel.end_to_end.vote_payloads import VoteEntries
from wiesel.label_models import ClassBalance, DawidSkene, MajorityVote
from wiesel.label_models.base import normalized_exp
from wiesel.nn.end_models import logits_of
from wiesel.nn.losses import DIVERGENCES, mutual_information_loss
from wiesel.parameters import check_choice
from wiesel.training import Batch, Objective
from wiesel.votes import VoteMatrix

__all__ = ["MaxMIG"]

_LEAST_CONFUSION = 0.01


@dataclass(eq=False, kw_only=True)
class MaxMIG(CrowdModel):
    """Max-MIG: a mutual-information game between data and votes (Cao et al., ICLR 2019).

    The end model f reads the item; the aggregator g sums a vector for every vote. Both are
    trained to maximize the f-mutual information between their predictions::

        g(votes) = softmax( sum over the votes of W_j[vote] + log p )
        K_ab     = sum_c f_c(x_a) g_c(votes_b) / p_c
        loss     = - mean_a f'(K_aa) + mean_{a != b} f*(f'(K_ab))

    Voters that copy each other or vote at random carry no information about the item, and lose
    their weight. The loss is invariant to a permutation of the classes, so W starts at the
    logarithm of estimated confusions. For voters that always give the same answer, it starts at the
    logarithm of its frequency in each class. The paper has a matrix for every voter; here W has a
    vector for every (voter, class) pair that occurs, so memory grows with the number of votes.

    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> votes, gold = make_votes(200, 5, n_classes=3, coverage=0.6)
    >>> X = make_features(gold, n_features=4)
    >>> model = MaxMIG(torch.nn.Linear(4, 3), epochs=1, lr=0.01).fit(X, votes)
    >>> model.joint_proba(X, votes).shape
    (200, 3)
    """

    divergence: str = "kl"
    """The f-divergence: `kl`, `reverse_kl`, `pearson`, `hellinger`, `total_variation` or
    `jensen_shannon`."""
    start: Literal["majority_vote", "dawid_skene"] = "majority_vote"
    """The label model that provides the initial confusions."""
    class_balance: ClassBalance | Literal["votes", "validation", "auto"] = None
    """P(class): None is uniform, numbers, or where to estimate it."""

    def soft_labels(self, X: Any, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        """Return the aggregator's soft labels (n_items, n_classes); the prior without votes."""
        log_votes = self._log_votes(X, votes)
        aggregator: _Aggregator = self.voter_model_  # type: ignore[assignment]
        return normalized_exp(aggregator.log_prior.double().numpy() + log_votes)

    def joint_proba(self, X: Any, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        """Return P(class | x, votes): the end model's prediction combined with the aggregator's."""
        X = self.inputs_of(X, votes)
        return normalized_exp(self._log_start(X) + self._log_votes(X, votes))

    def _blank_voters(self, shapes: dict[str, list[int]]) -> VoterModel:
        n_pairs, n_classes = shapes["weights"]
        return _Aggregator(len(self.voters_), torch.zeros(n_pairs, n_classes))

    def check_options(self) -> None:
        """Refuse invalid options."""
        super().check_options()
        check_choice(self, "divergence", self.divergence, tuple(DIVERGENCES))
        check_choice(self, "start", self.start, ("majority_vote", "dawid_skene"))
        check_class_balance(self)

    def _objective(self, end_model: nn.Module, plan: FitPlan) -> Objective:
        votes: VoteMatrix = plan.votes
        label_model = MajorityVote() if self.start == "majority_vote" else DawidSkene()
        proba = label_model.fit(votes).predict_proba(votes)
        aggregator = _Aggregator.of(all_entries(votes), proba, votes.n_voters)
        aggregator.log_prior.copy_(torch.from_numpy(np.log(plan.class_balance)))
        return _MutualInformationObjective(end_model, aggregator, self.divergence)


class _Aggregator(VoterModel):
    """A vector of log-odds for every (voter, class) pair that occurs."""

    log_prior: Tensor

    def __init__(self, n_voters: int, weights: Tensor) -> None:
        super().__init__()
        self.n_voters, self.n_classes = n_voters, weights.shape[1]
        self.slots = VoteSlots(n_voters, self.n_classes)
        self.weights = nn.Parameter(weights)
        self.register_buffer("log_prior", torch.zeros(self.n_classes))

    @classmethod
    def of(
        cls, entries: VoteEntries, proba: npt.NDArray[np.float64], n_voters: int
    ) -> "_Aggregator":
        """Return an aggregator that starts at the log confusions of these soft labels."""
        soft_labels = torch.from_numpy(proba).float()
        counted = CountedConfusions.of(entries, soft_labels, n_voters, smoothing=0.0)
        cast = (counted.slots.slots >= 0).view(n_voters, -1)
        voters, counts = cast.nonzero()[:, 0], counted.counts[:-1]
        # As in the paper's code: a class that a voter has never seen counts as never confused.
        confusions = counts / counted.totals[voters].clamp_min(1e-12)
        one_answer = cast.sum(dim=1)[voters] == 1
        confusions[one_answer] = _relative_frequencies(counts)[one_answer]
        aggregator = cls(n_voters, (confusions + _LEAST_CONFUSION).log())
        aggregator.slots = counted.slots
        return aggregator

    def forward(self, entries: VoteEntries) -> Tensor:
        """Return the logits of the aggregated votes: (n_items, n_classes)."""
        evidence = self.log_votes(entries.voters, entries.classes)
        return entries.sum_by_item(evidence) + self.log_prior

    def log_votes(self, voters: Tensor, classes: Tensor) -> Tensor:
        """Return what votes add to the logits; a pair that never occurred adds nothing."""
        slots = self.slots(voters, classes)
        return self.weights[slots] * (slots >= 0)[:, None]

    def confusions(self, voters: Tensor) -> Tensor:
        """Return P(voted | true class) implied by the weights; unseen pairs are improbable."""
        slots = self.slots.of_voters(voters)
        unseen = torch.full_like(self.weights[:1], _LEAST_CONFUSION).log()
        weights = torch.where((slots >= 0)[:, :, None], self.weights[slots], unseen)
        return torch.softmax(weights, dim=1).transpose(1, 2)


def _relative_frequencies(counts: Tensor) -> Tensor:
    """The relative frequency of a vote in each class, at most 1: (n_pairs, true).

    If a voter has only one answer, like a keyword LF, P(voted | class, it votes) is always 1 and
    carries no information. How often it votes in each class does.
    """
    in_class = counts / counts.sum(dim=0).clamp_min(1e-12)
    return in_class / in_class.max(dim=1, keepdim=True).values.clamp_min(1e-12)


class _MutualInformationObjective(CrowdObjective):
    """The end model, the aggregator, and their mutual information."""

    voters: _Aggregator

    def __init__(self, end_model: nn.Module, aggregator: _Aggregator, divergence: str) -> None:
        super().__init__()
        self.end_model, self.voters, self.divergence = end_model, aggregator, divergence

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return minus the mutual information of the two predictions."""
        entries: VoteEntries = batch.payload
        end_proba = torch.softmax(logits_of(self.end_model, batch.inputs), dim=1)
        label_proba = torch.softmax(self.voters(entries), dim=1)
        prior = self.voters.log_prior.exp()
        return {
            "agreement": mutual_information_loss(end_proba, label_proba, prior, self.divergence)
        }
