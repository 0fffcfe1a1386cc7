"""CrowdLayer: a small layer for every voter on top of the end model."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from wiesel.end_to_end.crowd.crowd_model import CrowdModel, CrowdObjective
from wiesel.end_to_end.crowd.voter_models import VoterMatrices, VoterModel, check_rank, matrix_rank
from wiesel.end_to_end.plan import FitPlan
from wiesel.end_to_end.vote_payloads import VoteEntries
from wiesel.nn.end_models import logits_of
from wiesel.parameters import check_choice
from wiesel.training import Batch, Objective

__all__ = ["CrowdLayer", "CrowdLayerObjective", "VoterLayer", "vote_cross_entropy"]

Variant = Literal["MW", "VW", "VB", "VW+B", "SW"]
_VARIANTS = ("MW", "VW", "VB", "VW+B", "SW")


@dataclass(eq=False, kw_only=True)
class CrowdLayer(CrowdModel):
    """Deep learning from crowds (Rodrigues and Pereira, AAAI 2018).

    The end model's probabilities z = softmax(f(x)) are the bottleneck. A layer for each voter j
    maps them to the logits of j's vote. All is trained jointly by the cross-entropy to the votes
    that were cast::

        MW    o_j = W_j z            (starts at the identity)
        VW    o_j = w_j * z          (ones)
        VB    o_j = z + b_j          (zeros)
        VW+B  o_j = w_j * z + b_j
        SW    o_j = s_j z            (one number for each voter)

    Predictions are z. MW has n_voters * n_classes^2 numbers. If these are more than 16 million (or
    `rank` is given), W_j is the identity plus a low-rank matrix whose right factor is shared by
    all voters; the paper has no such form.

    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> votes, gold = make_votes(200, 5, n_classes=3, coverage=0.6)
    >>> X = make_features(gold, n_features=4)
    >>> model = CrowdLayer(torch.nn.Linear(4, 3), variant="VW", epochs=1, lr=0.01).fit(X, votes)
    >>> model.voter_accuracies().shape
    (5,)
    """

    variant: Variant = "MW"
    """The kind of layer: `MW`, `VW`, `VB`, `VW+B` or `SW`."""
    rank: int | None = None
    """MW: the rank of the per-voter part; None is a full matrix, unless there are too many."""

    def check_options(self) -> None:
        """Refuse invalid options."""
        super().check_options()
        check_choice(self, "variant", self.variant, _VARIANTS)
        check_rank(self, self.rank)

    def _objective(self, end_model: nn.Module, plan: FitPlan) -> Objective:
        layer = self._voter_model(len(plan.voters), len(plan.labels))
        return CrowdLayerObjective(end_model, layer)

    def _voter_model(self, n_voters: int, n_classes: int) -> "VoterLayer":
        return VoterLayer(n_voters, n_classes, self.variant, self.rank)


class VoterLayer(VoterModel):
    """Maps the end model's probabilities to the logits of a voter's vote."""

    def __init__(
        self, n_voters: int, n_classes: int, variant: Variant, rank: int | None = None
    ) -> None:
        super().__init__()
        self.n_voters, self.n_classes = n_voters, n_classes
        self.matrices: VoterMatrices | None = None
        if variant == "MW":
            identity = torch.eye(n_classes)
            rank = matrix_rank(n_voters, n_classes**2, rank)
            self.matrices = VoterMatrices(n_voters, identity, rank)
        width = 1 if variant == "SW" else n_classes
        has_scale, has_shift = variant in ("VW", "VW+B", "SW"), variant in ("VB", "VW+B")
        self.scale = nn.Parameter(torch.ones(n_voters, width)) if has_scale else None
        self.shift = nn.Parameter(torch.zeros(n_voters, n_classes)) if has_shift else None

    def forward(self, proba: Tensor, voters: Tensor) -> Tensor:
        """Return the logits of one voter's vote for each row of probabilities."""
        if self.matrices is not None:
            return torch.einsum("nlc,nc->nl", self.matrices(voters), proba)
        scaled = proba if self.scale is None else self.scale[voters] * proba
        return scaled if self.shift is None else scaled + self.shift[voters]

    def confusions(self, voters: Tensor) -> Tensor:
        """Return P(voted) of each voter if the end model is certain: (n, true, voted)."""
        if self.matrices is not None:
            return torch.softmax(self.matrices(voters).transpose(1, 2), dim=2)
        certain = torch.eye(self.n_classes, device=voters.device).expand(len(voters), -1, -1)
        scaled = certain if self.scale is None else certain * self.scale[voters][:, None]
        shifted = scaled if self.shift is None else scaled + self.shift[voters][:, None]
        return torch.softmax(shifted, dim=2)


class CrowdLayerObjective(CrowdObjective):
    """The end model and the voters' layers on top of it."""

    voters: VoterLayer

    def __init__(self, end_model: nn.Module, layer: VoterLayer) -> None:
        super().__init__()
        self.end_model, self.voters = end_model, layer

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the cross-entropy of the votes that were cast."""
        entries: VoteEntries = batch.payload
        proba = torch.softmax(logits_of(self.end_model, batch.inputs), dim=1)
        logits = self.voters(proba[entries.items], entries.voters)
        return {"votes": vote_cross_entropy(torch.log_softmax(logits, dim=1), entries)}


def vote_cross_entropy(log_proba: Tensor, entries: VoteEntries) -> Tensor:
    """Return the mean over votes of -log P(the class voted for); rows are votes."""
    cast = log_proba.gather(1, entries.classes[:, None]).squeeze(1)
    return -(entries.mass * cast).sum() / entries.mass.sum()
