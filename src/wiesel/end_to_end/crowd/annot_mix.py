"""annot-mix: mixup over triples of item, voter and vote."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from wiesel.end_to_end.crowd.confusion_net import starting_matrix
from wiesel.end_to_end.crowd.crowd_model import CrowdModel, CrowdObjective
from wiesel.end_to_end.crowd.voter_models import VoterModel
from wiesel.end_to_end.plan import FitPlan
from wiesel.end_to_end.vote_payloads import VoteEntries
from wiesel.nn.end_models import logits_of
from wiesel.parameters import check_number
from wiesel.training import Batch, Objective
from wiesel.training.inputs import Batchable

__all__ = ["AnnotMix"]

_HIDDEN = 64


@dataclass(eq=False, kw_only=True)
class AnnotMix(CrowdModel):
    """Mixup for votes of many voters (Herde, Lührs, Huseljic, Sick 2024, "Annot-Mix", ECAI).

    Each voter has an embedding u_j, from which its confusion matrix is computed, so voters that
    vote alike share information. Two votes are mixed, with their items and voters::

        P(vote | x, u)  = sum_c f_c(x) A(u)[c, vote]
        x~, u~, z~      = s (x, u, z) + (1 - s) (x', u', z')      s ~ Beta(alpha, alpha)
        loss            = - sum over classes of z~ log P(. | x~, u~)

    z is the one-hot vote. Every vote of a batch is mixed with another, drawn at random from the
    batch. If inputs cannot be mixed (token ids, dicts without floating-point tensors), nothing is
    mixed. We made two changes, because a network shared by all voters can permute the classes:
    matrices are relative to that of the average voter, and they learn no faster than free matrices
    would. A network of 64 units changes them up to 64 times as fast, so they would explain the
    votes before the end model separates the classes.

    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> votes, gold = make_votes(200, 5, n_classes=3, coverage=0.6)
    >>> X = make_features(gold, n_features=4)
    >>> AnnotMix(torch.nn.Linear(4, 3), epochs=1, lr=0.01).fit(X, votes).predict_proba(X).shape
    (200, 3)
    """

    alpha: float = 1.0
    """The parameter of the Beta distribution of the mixing share: 1 is uniform, 0 does not mix."""
    embedding: int = 16
    """The length of a voter's embedding."""
    initial_accuracy: float = 0.8
    """The initial diagonal of the confusion matrices."""

    def check_options(self) -> None:
        """Refuse invalid options."""
        super().check_options()
        check_number(self, "alpha", self.alpha, low=0)
        check_number(self, "embedding", self.embedding, low=1, whole=True)
        check_number(self, "initial_accuracy", self.initial_accuracy, low=0.01, high=0.99)

    def _objective(self, end_model: nn.Module, plan: FitPlan) -> Objective:
        voters = self._voter_model(len(plan.voters), len(plan.labels))
        return _MixedObjective(end_model, voters, self.alpha)

    def _voter_model(self, n_voters: int, n_classes: int) -> "_EmbeddedVoters":
        start = starting_matrix(self.initial_accuracy, n_classes)
        return _EmbeddedVoters(n_voters, start, self.embedding)


class _EmbeddedVoters(VoterModel):
    """An embedding of every voter, and a network that maps it to a confusion matrix."""

    start: Tensor

    def __init__(self, n_voters: int, start: Tensor, width: int) -> None:
        super().__init__()
        self.n_voters, self.n_classes = n_voters, len(start)
        self.register_buffer("start", start)
        self.embedding = nn.Parameter(torch.randn(n_voters, width))
        last = nn.Linear(_HIDDEN, self.n_classes**2)
        # All voters start with the same matrix, in which the true class is the most probable vote.
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.matrix = nn.Sequential(nn.Linear(width, _HIDDEN), nn.ReLU(), last)

    def confusions(self, voters: Tensor) -> Tensor:
        """Return P(voted | true class) of some voters: (len(voters), true, voted)."""
        return self.of(self.embedding[voters])

    def of(self, embedded: Tensor) -> Tensor:
        """Return the confusion matrices of embeddings: (n, true, voted)."""
        # Relative to the average voter: a common change of all matrices could permute the classes.
        average = self.embedding.mean(dim=0, keepdim=True)
        own = self.matrix(embedded) - self.matrix(average)
        square = own.reshape(-1, self.n_classes, self.n_classes)
        # An Adam step changes every weight; scaling makes the sum of all units as slow as one.
        return torch.softmax(self.start + square / _HIDDEN, dim=2)


class _MixedObjective(CrowdObjective):
    """The end model, the voters, and the likelihood of mixed votes."""

    voters: _EmbeddedVoters

    def __init__(self, end_model: nn.Module, voters: _EmbeddedVoters, alpha: float) -> None:
        super().__init__()
        self.end_model, self.voters, self.alpha = end_model, voters, alpha

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the cross-entropy of mixed votes."""
        entries: VoteEntries = batch.payload
        wanted = nn.functional.one_hot(entries.classes, self.voters.n_classes).float()
        embedded = self.voters.embedding[entries.voters]
        if self.alpha > 0 and _can_be_mixed(batch.inputs):
            order = torch.randperm(len(entries), device=embedded.device)
            share = self._share().to(embedded.device)
            embedded = torch.lerp(embedded[order], embedded, share)
            wanted = torch.lerp(wanted[order], wanted, share)
            inputs = _mixed(batch.inputs, entries.items, entries.items[order], share)
            proba = torch.softmax(logits_of(self.end_model, inputs), dim=1)
        else:
            proba = torch.softmax(logits_of(self.end_model, batch.inputs), dim=1)[entries.items]
        voted = torch.einsum("nc,ncl->nl", proba, self.voters.of(embedded))
        lost = -(wanted * voted.clamp_min(1e-12).log()).sum(dim=1)
        return {"votes": (entries.mass * lost).sum() / entries.mass.sum()}

    def _share(self) -> Tensor:
        """A draw from Beta(alpha, alpha), at least 1/2, so the vote itself is the larger part."""
        drawn = torch._sample_dirichlet(torch.full((2,), float(self.alpha)))[0]
        return torch.maximum(drawn, 1 - drawn)


def _can_be_mixed(inputs: Batchable) -> bool:
    tensors = [inputs] if isinstance(inputs, Tensor) else list(inputs.values())
    return all(tensor.is_floating_point() for tensor in tensors)


def _mixed(inputs: Batchable, items: Tensor, others: Tensor, share: Tensor) -> Batchable:
    """The inputs of votes' items, mixed with those of other votes' items."""
    if isinstance(inputs, Tensor):
        return torch.lerp(inputs[others], inputs[items], share)
    return {key: torch.lerp(value[others], value[items], share) for key, value in inputs.items()}
