"""What the loop is given to train."""

from typing import Any

from torch import Tensor, nn

from wiesel.training.batches import Batch, TrainingData

__all__ = ["Objective", "Record"]

Record = dict[str, Any]
"""What is known about one epoch: numbers and short lists of numbers by name."""


class Objective(nn.Module):
    """What is trained: the networks of a method, and the losses of one batch.

    Everything that must survive an interruption is a parameter or a buffer.

    A class that declares `stackable = True` can be trained as a stack of several: `losses` then
    gets tensors with a first dimension of members, (members, n_items, ...), and returns a loss
    for each member; buffers and parameters have that dimension too. Code that addresses
    dimensions from the last, and broadcasts a buffer over items with `unsqueeze(-2)`, serves one
    network and a stack alike.
    """

    end_model: nn.Module

    def prepare(self, batch: Batch) -> Batch:
        """Return a large batch with what every step would otherwise compute again, item by item."""
        return batch

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the losses of a batch by name; their sum is minimized."""
        raise NotImplementedError

    def start_epoch(self, epoch: int, data: TrainingData) -> None:
        """Do what the method does between epochs, such as an E-step."""

    def diagnose(self, data: TrainingData) -> Record:
        """Return what the history should tell about the networks as they are now."""
        return {}
