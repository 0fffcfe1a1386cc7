"""What WeaSEL trains: two networks, and the losses that make them agree."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wiesel.end_to_end.diagnosis import diagnosed_batch, prediction_record, voter_record
from wiesel.end_to_end.soft_labels import soft_label_loss
from wiesel.end_to_end.weasel.teaching import Teacher
from wiesel.nn.encoders import Encoding, VoteEncoder, encode_votes
from wiesel.nn.losses import AGREEMENT_LOSSES, soft_cross_entropy
from wiesel.training import Batch, Objective, Record, TrainingData
from wiesel.training.validation import logits_of

__all__ = ["Extras", "WeaSELObjective"]

_MEMORY = 0.7
"""How much of its earlier predictions the end model remembers of an item, for `early_learning`."""


@dataclass(frozen=True)
class Extras:
    """What the losses have beyond the paper's; nothing by default."""

    teacher: Teacher | None = None
    """Makes the targets; None: each network's answer is the other's target."""
    warm_up: int = 0
    """The number of first epochs in which both networks learn the fixed soft labels."""
    warm_loss: str = "ce"
    """How the end model learns them: `ce` or `mig`."""
    balance: npt.NDArray[np.float64] | None = None
    """The class balance of what `mig` learns; None is the prior of the soft labels."""
    pull: float = 0.0
    early_learning: float = 0.0
    n_items: int = 0


class WeaSELObjective(Objective):
    """The two networks of Algorithm 1 and the losses that make them agree."""

    stackable = True
    log_prior: Tensor
    balance: Tensor
    remembered: Tensor

    def __init__(
        self,
        end_model: nn.Module,
        encoder: VoteEncoder,
        encoding: Encoding,
        class_balance: npt.NDArray[np.float64],
        loss: str,
        extras: Extras | None = None,
    ) -> None:
        super().__init__()
        extras = extras or Extras()
        self.end_model = end_model
        self.encoder = encoder
        self.encoding: Encoding = encoding
        self.agreement = AGREEMENT_LOSSES[loss]
        self.class_balance = class_balance
        self.teacher = extras.teacher
        self.warm_up, self.warm_loss = extras.warm_up, extras.warm_loss
        self.pull = extras.pull
        self.early_learning = extras.early_learning
        self.warming = extras.warm_up > 0
        balance = class_balance if extras.balance is None else extras.balance
        self.register_buffer("balance", torch.from_numpy(balance).float())
        self.register_buffer("log_prior", torch.from_numpy(np.log(class_balance)).float())
        if extras.early_learning:
            remembered = torch.zeros(extras.n_items, len(class_balance))
            self.register_buffer("remembered", remembered)

    def start_epoch(self, epoch: int, data: TrainingData) -> None:
        """Note whether the networks still learn the soft labels they start from."""
        self.warming = epoch <= self.warm_up

    def prepare(self, batch: Batch) -> Batch:
        """Return the batch with the encoder's whole input, votes and features, in `features`."""
        votes: Tensor = batch.votes  # type: ignore[assignment]
        return replace(batch, features=encode_votes(votes, self.encoding, batch.features))

    def weigh(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the voters' shares and the logits of the soft labels of a prepared batch."""
        shares, logits = self.encoder.soft_label(batch.features, batch.votes)  # type: ignore[arg-type]
        return shares, logits + self.log_prior.unsqueeze(-2)

    def taught(self, batch: Batch) -> Batch:
        """Return the batch with the targets that the networks' averages give."""
        if self.teacher is None or self.warming:
            return batch
        _, label = self.weigh(batch)
        end_logits = logits_of(self.end_model, batch.inputs)
        return replace(batch, lessons=self.teacher(end_logits, label, _covered(batch)))

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the losses of the end model and of the encoder."""
        shares, label = self.weigh(batch)
        end_logits = logits_of(self.end_model, batch.inputs)
        if self.warming or self.teacher is not None:
            losses = self._taught_losses(batch, end_logits, label)
        else:
            losses = self.agreement(end_logits, label)
        if self.pull:
            losses["pull"] = self.pull * _distance_from_equal(shares, batch.votes)  # type: ignore[arg-type]
        if self.early_learning:
            losses["early_learning"] = self.early_learning * self._forgotten(batch, end_logits)
        return losses

    def _taught_losses(self, batch: Batch, end_logits: Tensor, label: Tensor) -> dict[str, Tensor]:
        covered = _covered(batch)
        heard = covered.unsqueeze(-1)
        if self.warming:
            return self._warm_losses(batch.targets, heard, end_logits, label)  # type: ignore[arg-type]
        wanted, believed = batch.lessons or self.teacher(end_logits, label, covered)  # type: ignore[misc]
        return {
            "end_model": soft_cross_entropy(end_logits, wanted),
            "encoder": soft_cross_entropy(label, believed * heard),
        }

    def _warm_losses(
        self, targets: Tensor, heard: Tensor, end_logits: Tensor, label: Tensor
    ) -> dict[str, Tensor]:
        """What both networks lose on fixed soft labels; items without votes say nothing."""
        known = targets * heard
        wanted, balance = known, None
        if self.warm_loss == "mig":
            balance = self.balance
            # The balance in place of a soft label pairs with every prediction alike.
            wanted = torch.where(heard > 0, targets, balance.unsqueeze(-2))
        return {
            "end_model": soft_label_loss(self.warm_loss, end_logits, wanted, balance),
            "encoder": soft_cross_entropy(label, known),
        }

    def _forgotten(self, batch: Batch, end_logits: Tensor) -> Tensor:
        """Early-learning regularization (Liu et al. 2020): log(1 - <remembered, predicted>)."""
        proba = torch.softmax(end_logits, dim=-1)
        rows = batch.rows.unsqueeze(-1).expand_as(proba)
        with torch.no_grad():
            now = torch.lerp(proba, self.remembered.gather(-2, rows), _MEMORY)
            self.remembered.scatter_(-2, rows, now)
        return torch.log1p(-(now * proba).sum(dim=-1).clamp_max(1 - 1e-4)).mean(dim=-1)

    @torch.no_grad()
    def diagnose(self, data: TrainingData) -> Record:
        """Return how far the two agree, and who has the say, on a fixed sample of items."""
        device = self.log_prior.device
        batch = self.prepare(diagnosed_batch(data, device))
        shares, label = self.weigh(batch)
        predicted = logits_of(self.end_model, batch.inputs).argmax(dim=1)
        voted = batch.votes.sum(dim=1).argmax(dim=1)  # type: ignore[union-attr]
        record = prediction_record(predicted, label.argmax(dim=1), voted, label.shape[1])
        return record | voter_record(shares, batch.votes)  # type: ignore[arg-type]


def _covered(batch: Batch) -> Tensor:
    """1 for the items that somebody voted on, else 0."""
    votes: Tensor = batch.votes  # type: ignore[assignment]
    return (votes.amax(dim=(-2, -1)) > 0).to(votes.dtype)


def _distance_from_equal(shares: Tensor, votes: Tensor) -> Tensor:
    """The mean Kullback-Leibler divergence of the voters' shares from equal ones."""
    voted = votes.amax(dim=-1) > 0
    shares = shares.clamp_min(0) * voted
    shares = shares / shares.sum(dim=-1, keepdim=True).clamp_min(1e-12)
    n_votes = voted.sum(dim=-1, keepdim=True)
    return torch.xlogy(shares, shares * n_votes + 1e-12).sum(dim=-1).mean(dim=-1)
