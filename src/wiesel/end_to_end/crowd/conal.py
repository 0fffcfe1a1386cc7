"""CoNAL: some confusions are common to all voters, others are specific to one voter."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from wiesel.end_to_end.crowd.crowd_layer import vote_cross_entropy
from wiesel.end_to_end.crowd.crowd_model import (
    CrowdModel,
    CrowdObjective,
    find_last_layer,
    represent,
    representation_width,
)
from wiesel.end_to_end.crowd.voter_models import VoterMatrices, VoterModel, check_rank, matrix_rank
from wiesel.end_to_end.plan import FitPlan
from wiesel.end_to_end.vote_payloads import VoteEntries
from wiesel.parameters import check_number
from wiesel.training import Batch, Objective

__all__ = ["CoNAL"]

_HIDDEN = 128
_SAMPLED_ITEMS = 512


@dataclass(eq=False, kw_only=True)
class CoNAL(CrowdModel):
    """Common noise adaptation layers (Chu, Ma, Wang, AAAI 2021).

    Two layers map the end model's probabilities z to a vote: one is shared by all voters, the
    other belongs to the voter. Their mixture depends on voter and item::

        w_j(x) = sigmoid( <u_j, v(x)> )        u_j, v(x): embeddings of length 1
        o_j    = w_j(x) W_0 z + (1 - w_j(x)) W_j z
        loss   = CE(o_j, vote) - separation * sum_j |W_j - W_0|

    v reads the input of the end model's last layer (in the paper: the raw features), so any end
    model works. Matrices start at twice the identity. If they would have more than 16 million
    numbers (or `rank` is given), the voters' matrices are low-rank.

    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> votes, gold = make_votes(200, 5, n_classes=3, coverage=0.6)
    >>> X = make_features(gold, n_features=4)
    >>> CoNAL(torch.nn.Linear(4, 3), epochs=1, lr=0.01).fit(X, votes).predict_proba(X).shape
    (200, 3)
    """

    separation: float = 1e-5
    """The weight of the term that separates the voters' matrices from the shared one."""
    embedding: int = 20
    """The length of the embeddings of voters and items."""
    rank: int | None = None
    """The rank of the per-voter part; None is a full matrix, unless there are too many."""

    def check_options(self) -> None:
        """Refuse invalid options."""
        super().check_options()
        check_number(self, "separation", self.separation, low=0)
        check_number(self, "embedding", self.embedding, low=1, whole=True)
        check_rank(self, self.rank)

    def _objective(self, end_model: nn.Module, plan: FitPlan) -> Objective:
        n_voters, n_classes = len(plan.voters), len(plan.labels)
        last_layer = find_last_layer(end_model, n_classes, plan.data)
        width = representation_width(end_model, last_layer, n_classes)
        layers = self._layers(n_voters, n_classes, width)
        return _SharedObjective(end_model, last_layer, layers, self.separation)

    def _layers(self, n_voters: int, n_classes: int, width: int) -> "_SharedLayers":
        own_rank = matrix_rank(n_voters, n_classes**2, self.rank)
        own = VoterMatrices(n_voters, 2 * torch.eye(n_classes), own_rank)
        return _SharedLayers(own, width, self.embedding)

    def _blank_voters(self, shapes: dict[str, list[int]]) -> VoterModel:
        width = shapes["item_embedding.0.weight"][1]
        return self._layers(len(self.voters_), len(self.labels_), width)

    def _keep(self, objective: Objective, plan: FitPlan) -> None:
        super()._keep(objective, plan)
        trained: _SharedObjective = objective  # type: ignore[assignment]
        with torch.no_grad():
            sample = plan.data.gather(plan.data.sample(_SAMPLED_ITEMS)).inputs
            _, represented = represent(trained.end_model, trained.last_layer, sample)
            trained.voters.keep_mean_shares(represented)


class _SharedLayers(VoterModel):
    """The common matrix, the voters' matrices, and their mixture weights."""

    mean_shares: Tensor

    def __init__(self, own: VoterMatrices, width: int, embedding: int) -> None:
        super().__init__()
        self.n_voters, self.n_classes = len(own.left), len(own.start)
        self.own = own
        self.shared = nn.Parameter(2 * torch.eye(self.n_classes))
        self.voter_embedding = nn.Parameter(torch.randn(self.n_voters, embedding))
        self.item_embedding = nn.Sequential(
            nn.Linear(width, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, embedding)
        )
        # The share of the common matrix for an average item, set after training.
        self.register_buffer("mean_shares", torch.full((self.n_voters,), 0.5))

    def forward(self, proba: Tensor, represented: Tensor, entries: VoteEntries) -> Tensor:
        """Return the logits of the votes: (n_votes, n_classes)."""
        items = nn.functional.normalize(self.item_embedding(represented), dim=1)
        voters = nn.functional.normalize(self.voter_embedding[entries.voters], dim=1)
        shares = torch.sigmoid((voters * items[entries.items]).sum(dim=1, keepdim=True))
        of_votes = proba[entries.items]
        own = torch.einsum("nlc,nc->nl", self.own(entries.voters), of_votes)
        return shares * (of_votes @ self.shared.t()) + (1 - shares) * own

    def keep_mean_shares(self, represented: Tensor) -> None:
        """Store the average weight of the common matrix for each voter."""
        items = nn.functional.normalize(self.item_embedding(represented), dim=1)
        voters = nn.functional.normalize(self.voter_embedding, dim=1)
        self.mean_shares = torch.sigmoid(voters @ items.t()).mean(dim=1)

    def distance(self, voters: Tensor) -> Tensor:
        """Return the sum of the distances of some voters' matrices to the common one."""
        # A square root has no gradient at zero, where all matrices start.
        squares = (self.own(voters) - self.shared).square().sum(dim=(1, 2))
        return (squares + 1e-12).sqrt().sum()

    def confusions(self, voters: Tensor) -> Tensor:
        """Return P(voted) of each voter if the end model is certain: (n, true, voted)."""
        shares = self.mean_shares[voters][:, None, None]
        mixed = shares * self.shared + (1 - shares) * self.own(voters)
        return torch.softmax(mixed.transpose(1, 2), dim=2)


class _SharedObjective(CrowdObjective):
    """The end model and the layers on top of it."""

    voters: _SharedLayers

    def __init__(
        self,
        end_model: nn.Module,
        last_layer: str | None,
        layers: _SharedLayers,
        separation: float,
    ) -> None:
        super().__init__()
        self.end_model, self.voters = end_model, layers
        self.last_layer, self.separation = last_layer, separation

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the cross-entropy of the votes, and the separation from the common matrix."""
        entries: VoteEntries = batch.payload
        logits, represented = represent(self.end_model, self.last_layer, batch.inputs)
        voted = self.voters(torch.softmax(logits, dim=1), represented, entries)
        distance = self.voters.distance(torch.unique(entries.voters))
        return {
            "votes": vote_cross_entropy(torch.log_softmax(voted, dim=1), entries),
            "separation": -self.separation * distance,
        }
