"""Training an end model on fixed soft labels: the second stage of two, and the gold reference."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wiesel.end_to_end.diagnosis import diagnosed_batch, prediction_record
from wiesel.nn.losses import mutual_information_loss, soft_cross_entropy
from wiesel.training import Batch, Objective, Record, TrainingData
from wiesel.training.validation import logits_of

__all__ = ["SoftLabelObjective", "soft_label_loss"]


def soft_label_loss(
    loss: str, logits: Tensor, targets: Tensor, class_balance: Tensor | None = None
) -> Tensor:
    """Return the cross-entropy of logits to soft labels, or minus their mutual information.

    >>> sure = torch.tensor([[9.0, 0.0], [0.0, 9.0]])
    >>> soft_label_loss("ce", sure, torch.softmax(sure, -1)).round(decimals=2)
    tensor(0.)
    """
    if loss == "ce":
        return soft_cross_entropy(logits, targets)
    prior = None if class_balance is None else class_balance.unsqueeze(-2)
    return mutual_information_loss(torch.softmax(logits, dim=-1), targets, prior)


class SoftLabelObjective(Objective):
    """One network and the targets that the data holds."""

    stackable = True
    class_balance: Tensor | None

    def __init__(
        self,
        end_model: nn.Module,
        loss: str = "ce",
        class_balance: npt.NDArray[np.float64] | None = None,
    ) -> None:
        super().__init__()
        self.end_model = end_model
        self.loss = loss
        balance = None if class_balance is None else torch.from_numpy(class_balance).float()
        self.register_buffer("class_balance", balance)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return how far the end model is from the soft labels."""
        targets: Tensor = batch.targets  # type: ignore[assignment]
        logits = logits_of(self.end_model, batch.inputs)
        return {"end_model": soft_label_loss(self.loss, logits, targets, self.class_balance)}

    @torch.no_grad()
    def diagnose(self, data: TrainingData) -> Record:
        """Return how far predictions and targets agree, on a fixed sample of items."""
        device = next(self.end_model.parameters()).device
        batch = diagnosed_batch(data, device)
        targets: Tensor = batch.targets  # type: ignore[assignment]
        predicted = logits_of(self.end_model, batch.inputs).argmax(dim=1)
        wanted = targets.argmax(dim=1)
        return prediction_record(predicted, wanted, wanted, targets.shape[1])
