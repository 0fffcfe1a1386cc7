"""ConfusionNet: the end model's probabilities pass through stochastic confusion matrices."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from wiesel.end_to_end.crowd.crowd_model import CrowdModel, CrowdObjective
from wiesel.end_to_end.crowd.voter_models import (
    VoterMatrices,
    VoterModel,
    check_rank,
    in_parts,
    matrix_rank,
)
from wiesel.end_to_end.plan import FitPlan
from wiesel.end_to_end.vote_payloads import VoteEntries
from wiesel.nn.end_models import logits_of
from wiesel.parameters import check_choice, check_number
from wiesel.training import Batch, Objective

__all__ = ["ConfusionNet", "LikelihoodObjective", "StochasticMatrices", "starting_matrix"]

Structure = Literal["voters", "shared", "union"]
Regularizer = Literal["none", "trace", "volume_f", "volume_w"]
_STRUCTURES = ("voters", "shared", "union")
_REGULARIZERS = ("none", "trace", "volume_f", "volume_w")
_RIDGE = 1e-3


@dataclass(eq=False, kw_only=True)
class ConfusionNet(CrowdModel):
    """Learns P(vote | x) = sum_c f_c(x) A_j[c, vote] by maximum likelihood.

    A_j is voter j's confusion matrix, with rows that sum to 1. One family, several papers::

        structure="voters"                          a matrix for each voter
          regularizer="trace"     Tanno et al. 2019: loss + strength * mean trace(A_j)
          regularizer="volume_f"  GeoCrowdNet(F), Ibrahim et al. 2023: - strength * log det F'F
          regularizer="volume_w"  GeoCrowdNet(W): - strength * log det W'W, W the stacked A_j
        structure="shared"                          one matrix for all (a noise layer)
        structure="union"                           UnionNet-B, Wei et al. 2022: all votes of all
                                                    voters are one distribution given the class

    F are the predictions of a batch and W'W is summed over the voters in it; both get a small
    ridge, so that the logarithm stays finite. If the matrices would have more than 16 million
    numbers (or `rank` is given), the voters' logits are a shared start plus a low-rank part, and
    the sum over all votes of a union is computed in chunks of voters.

    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> votes, gold = make_votes(200, 5, n_classes=3, coverage=0.6)
    >>> X = make_features(gold, n_features=4)
    >>> model = ConfusionNet(torch.nn.Linear(4, 3), regularizer="trace", epochs=1, lr=0.01)
    >>> model.fit(X, votes).confusions(["voter_4"]).sum(axis=2).round(6)
    array([[1., 1., 1.]])
    """

    structure: Structure = "voters"
    """One matrix for each of the `voters`, one `shared` by all, or the `union` of votes."""
    regularizer: Regularizer = "none"
    """The penalty on the loss: `none`, `trace`, `volume_f` or `volume_w`."""
    strength: float = 0.01
    """The weight of the regularizer."""
    initial_accuracy: float = 0.8
    """The initial diagonal of the matrices."""
    rank: int | None = None
    """The rank of the per-voter part; None is a full matrix, unless there are too many."""

    def check_options(self) -> None:
        """Refuse invalid options."""
        super().check_options()
        check_choice(self, "structure", self.structure, _STRUCTURES)
        check_choice(self, "regularizer", self.regularizer, _REGULARIZERS)
        check_number(self, "strength", self.strength, low=0)
        check_number(self, "initial_accuracy", self.initial_accuracy, low=0.01, high=0.99)
        check_rank(self, self.rank)

    def _objective(self, end_model: nn.Module, plan: FitPlan) -> Objective:
        matrices = self._voter_model(len(plan.voters), len(plan.labels))
        return LikelihoodObjective(end_model, matrices, self.regularizer, self.strength)

    def _voter_model(self, n_voters: int, n_classes: int) -> "StochasticMatrices":
        start = starting_matrix(self.initial_accuracy, n_classes)
        rank = matrix_rank(n_voters, n_classes**2, self.rank)
        return StochasticMatrices(n_voters, start, self.structure, rank)


def starting_matrix(accuracy: float, n_classes: int) -> Tensor:
    """Return the logarithm of a confusion matrix with this diagonal: (n_classes, n_classes).

    >>> starting_matrix(0.8, 3).exp()[0]
    tensor([0.8000, 0.1000, 0.1000])
    """
    wrong = (1 - accuracy) / (n_classes - 1)
    right = torch.eye(n_classes)
    return (accuracy * right + wrong * (1 - right)).log()


class StochasticMatrices(VoterModel):
    """Confusion matrices, parametrized by logits."""

    def __init__(
        self,
        n_voters: int,
        start: Tensor,
        structure: Structure = "voters",
        rank: int | None = None,
    ) -> None:
        super().__init__()
        self.n_voters, self.n_classes, self.structure = n_voters, len(start), structure
        self.logits = VoterMatrices(1 if structure == "shared" else n_voters, start, rank)

    def confusions(self, voters: Tensor) -> Tensor:
        """Return P(voted | true class) of some voters: (len(voters), true, voted)."""
        return torch.softmax(self._logits(voters), dim=2)

    def log_likelihoods(self, entries: VoteEntries) -> Tensor:
        """Return log P(vote | true class) for every vote: (n_votes, true)."""
        logits = self._logits(entries.voters)
        if self.structure != "union":
            logits = torch.log_softmax(logits, dim=2)
        cast = logits[torch.arange(len(entries)), :, entries.classes]
        return cast - self._log_mass() if self.structure == "union" else cast

    def _log_mass(self) -> Tensor:
        """The logarithm of the sum over all votes of all voters, for each true class."""
        everyone = torch.arange(self.n_voters, device=self.logits.left.device)
        of_voters = in_parts(
            lambda voters: torch.logsumexp(self._logits(voters), dim=2),
            self.n_classes**2,
            everyone,
        )
        return torch.logsumexp(of_voters, dim=0)

    def _logits(self, voters: Tensor) -> Tensor:
        if self.structure == "shared":
            voters = torch.zeros_like(voters)
        logits: Tensor = self.logits(voters)
        return logits


class LikelihoodObjective(CrowdObjective):
    """The end model, the confusion matrices, and the likelihood of the votes."""

    voters: StochasticMatrices

    def __init__(
        self,
        end_model: nn.Module,
        matrices: StochasticMatrices,
        regularizer: Regularizer,
        strength: float,
    ) -> None:
        super().__init__()
        self.end_model, self.voters = end_model, matrices
        self.regularizer, self.strength = regularizer, strength

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return minus the mean log likelihood of a vote, and the regularizer."""
        entries: VoteEntries = batch.payload
        log_proba = torch.log_softmax(logits_of(self.end_model, batch.inputs), dim=1)
        cast = self.log_cast(log_proba, batch)
        losses = {"votes": -(entries.mass * cast).sum() / entries.mass.sum()}
        if self.regularizer != "none":
            losses["regularizer"] = self.strength * self._regularization(log_proba, entries)
        return losses

    def log_cast(self, log_proba: Tensor, batch: Batch) -> Tensor:
        """Return the log probability of every vote as it was cast: (n_votes,)."""
        entries: VoteEntries = batch.payload
        joint = log_proba[entries.items] + self.voters.log_likelihoods(entries)
        return torch.logsumexp(joint, dim=1)

    def _regularization(self, log_proba: Tensor, entries: VoteEntries) -> Tensor:
        if self.regularizer == "volume_f":
            predictions = log_proba.exp()
            return -_log_volume(predictions.t() @ predictions / len(predictions))
        matrices = self.voters.confusions(torch.unique(entries.voters))
        if self.regularizer == "trace":
            return torch.einsum("jcc->j", matrices).mean()
        return -_log_volume(torch.einsum("jcl,jdl->cd", matrices, matrices) / len(matrices))


def _log_volume(gram: Tensor) -> Tensor:
    """The log determinant of a Gram matrix, with a ridge that keeps it finite."""
    ridge = _RIDGE * torch.eye(len(gram), device=gram.device)
    return torch.linalg.slogdet(gram + ridge).logabsdet
