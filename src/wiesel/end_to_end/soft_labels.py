"""Training an end model on fixed soft labels: the second stage of two, and the gold reference."""

import torch
from torch import Tensor, nn

from wiesel.end_to_end.diagnosis import DIAGNOSED_ITEMS, prediction_record
from wiesel.nn.losses import mutual_information_loss, soft_cross_entropy
from wiesel.training import Batch, Objective, Record, TrainingData
from wiesel.training.validation import logits_of

__all__ = ["SoftLabelObjective"]


class SoftLabelObjective(Objective):
    """One network and the targets that the data holds."""

    stackable = True

    def __init__(self, end_model: nn.Module, loss: str = "ce") -> None:
        super().__init__()
        self.end_model = end_model
        self.loss = loss

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return how far the end model is from the soft labels."""
        targets: Tensor = batch.targets  # type: ignore[assignment]
        logits = logits_of(self.end_model, batch.inputs)
        if self.loss == "mig":
            return {"end_model": mutual_information_loss(torch.softmax(logits, -1), targets)}
        return {"end_model": soft_cross_entropy(logits, targets)}

    @torch.no_grad()
    def diagnose(self, data: TrainingData) -> Record:
        """Return how far predictions and targets agree, on a fixed sample of items."""
        device = next(self.end_model.parameters()).device
        batch = data.gather(data.sample(DIAGNOSED_ITEMS), device)
        targets: Tensor = batch.targets  # type: ignore[assignment]
        predicted = logits_of(self.end_model, batch.inputs).argmax(dim=1)
        wanted = targets.argmax(dim=1)
        return prediction_record(predicted, wanted, wanted, targets.shape[1])
