"""What is trained: one network with an output for each label, alone or with an encoder.

Logits are (n_items, 2, n_labels): absent, present; a stack has a first dimension of members.
`known` marks the cells that enter the loss: the labels of an item with a vote, and all items for
labels on which abstaining counts too.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wiesel.end_to_end.vote_payloads import DenseVotes
from wiesel.nn.encoders import VoteEncoder, encode_votes
from wiesel.nn.end_models import logits_of
from wiesel.training import Batch, Objective, Record, TrainingData
from wiesel.training.inputs import Batchable
from wiesel.training.objective import rows_of

__all__ = ["PresenceLogits", "SoftPresenceObjective", "WeaSELPresenceObjective"]

Array = npt.NDArray[np.float64]


class PresenceLogits(nn.Module):
    """Turns a network with one logit for each label into one with two logits for each label.

    >>> PresenceLogits(nn.Linear(3, 2))(torch.zeros(4, 3)).shape
    torch.Size([4, 2, 2])
    """

    stackable = True

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, inputs: Batchable) -> Tensor:
        """Return (n_items, 2, n_labels); the logit of absent is 0."""
        present = logits_of(self.network, inputs)
        return torch.stack([torch.zeros_like(present), present], dim=-2)


class SoftPresenceObjective(Objective):
    """One network, and the P(present) of every item and label from which it learns.

    Networks that learn different soft labels for the same items can form one stack.
    """

    stackable = True
    targets: Tensor
    known: Tensor

    def __init__(self, end_model: nn.Module, targets: Array, known: npt.NDArray[np.bool_]) -> None:
        super().__init__()
        self.end_model = PresenceLogits(end_model)
        # These belong to the data and are not learned.
        for name, values in (("targets", targets), ("known", known)):
            self.register_buffer(name, torch.from_numpy(values).float(), persistent=False)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the cross-entropy to the soft labels, over the known cells."""
        logits = self.end_model(batch.inputs)
        known = rows_of(self.known, batch.rows)
        return {"end_model": _loss(logits, self._target(batch), known)}

    @torch.no_grad()
    def diagnose(self, data: TrainingData) -> Record:
        """Return how many items get each label, and how often that agrees with the soft labels."""
        batch = self.prepare(data.diagnosed(self.targets.device))
        predicted = self.end_model(batch.inputs).argmax(dim=1)
        known = self.known[batch.rows]
        wanted = (self._target(batch)[:, 1] >= 0.5).long()
        right = ((predicted == wanted) * known).sum() / known.sum().clamp_min(1)
        return {
            "agreement": float(right),
            "present": predicted.float().mean(dim=0).tolist(),
            "present_wanted": wanted.float().mean(dim=0).tolist(),
        }

    def _target(self, batch: Batch) -> Tensor:
        """The targets of the end model: (n_items, 2, n_labels)."""
        present = rows_of(self.targets, batch.rows)
        return torch.stack([1 - present, present], dim=-2)


class WeaSELPresenceObjective(SoftPresenceObjective):
    """The end model, one encoder that reads all votes, and the losses that make them agree.

    Both learn `targets` in the first `warm_up` epochs. Labels marked by `fixed` are always learned
    from them: if nobody ever votes against a label, voter weights cannot express its absence.
    """

    log_prior: Tensor
    fixed: Tensor

    def __init__(
        self,
        end_model: nn.Module,
        encoder: VoteEncoder,
        soft: tuple[Array, npt.NDArray[np.bool_]],
        balance: Array,
        fixed: npt.NDArray[np.bool_],
        warm_up: int,
    ) -> None:
        super().__init__(end_model, *soft)
        self.encoder = encoder
        self.n_labels = len(balance)
        self.warm_up = warm_up
        self.is_warming_up = warm_up > 0
        prior = np.log(np.stack([1 - balance, balance]))
        self.register_buffer("log_prior", torch.from_numpy(prior).float())
        self.register_buffer("fixed", torch.from_numpy(fixed).float())

    def start_epoch(self, epoch: int, data: TrainingData) -> None:
        """Set whether the networks still learn the initial soft labels."""
        self.is_warming_up = epoch <= self.warm_up

    def prepare(self, batch: Batch) -> Batch:
        """Return the batch with the encoder's whole input: all votes and the features."""
        own: DenseVotes = batch.payload
        encoded = encode_votes(own.votes, "one_hot", own.features)
        return replace(batch, payload=DenseVotes(own.votes, encoded))

    def weigh(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the voters' shares (items, labels, voters) and the logits of the soft labels."""
        own: DenseVotes = batch.payload
        by_label = own.votes.unflatten(1, (self.n_labels, -1))  # type: ignore[no-untyped-call]
        shares, logits = self.encoder.soft_label(own.features, by_label)  # type: ignore[arg-type]
        return shares, logits.mT + self.log_prior

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the losses of the end model and of the encoder."""
        logits = self.end_model(batch.inputs)
        _, label = self.weigh(batch)
        known, start = self.known[batch.rows], super()._target(batch)
        voted = known * (1 - self.fixed)
        if self.is_warming_up:
            return {"end_model": _loss(logits, start, known), "encoder": _loss(label, start, voted)}
        wanted = torch.where(self.fixed.bool(), start, torch.softmax(label.detach(), dim=1))
        predicted = torch.softmax(logits.detach(), dim=1)
        return {
            "end_model": _loss(logits, wanted, known),
            "encoder": _loss(label, predicted, voted),
        }

    def _target(self, batch: Batch) -> Tensor:
        if self.is_warming_up:
            return super()._target(batch)
        soft = torch.softmax(self.weigh(batch)[1], dim=1)
        return torch.where(self.fixed.bool(), super()._target(batch), soft)


def _loss(logits: Tensor, targets: Tensor, known: Tensor) -> Tensor:
    """The cross-entropy of the known cells, summed over labels and averaged over items."""
    by_cell = -(targets * torch.log_softmax(logits, dim=-2)).sum(dim=-2)
    return (by_cell * known).sum(dim=(-2, -1)) / logits.shape[-3]
