"""What the training loop trains, and how: an objective and options."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from wiesel.errors import ParameterError
from wiesel.training.batches import Batch, TrainingData

__all__ = ["Objective", "Record", "TrainOptions", "resolve_device"]

Record = dict[str, Any]
"""The results of one epoch: numbers and short lists of numbers by name."""


class Objective(nn.Module):
    """What is trained: the networks of a method, and the losses of one batch.

    A subclass implements `losses`, or `outputs` and `compare` so that several workers can train it.

    Everything that must survive an interruption is a parameter or a buffer.

    Several objectives of a class that declares `stackable = True` can be trained as a stack.
    `losses` then gets tensors whose first dimension is members, (members, n_items, ...), and
    returns one loss for each member. Buffers and parameters have that dimension too. Code works
    for both a single network and a stack if it counts dimensions from the last and broadcasts
    buffers over items with `unsqueeze(-2)`.
    """

    end_model: nn.Module

    def prepare(self, batch: Batch) -> Batch:
        """Return a large batch with item-wise results that every step would otherwise recompute."""
        return batch

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the losses of a batch by name; their sum is minimized."""
        return self.compare(batch.rows, self.outputs(batch))

    def outputs(self, batch: Batch) -> dict[str, Tensor]:
        """Return the networks' outputs for every item, by name: (n_items, n_numbers) each."""
        raise NotImplementedError

    def compare(self, rows: Tensor, outputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the losses of the outputs for the items at `rows`.

        The losses may depend on parameters only through the outputs: each worker computes its
        part of the outputs, and all workers compare the whole batch.
        """
        raise NotImplementedError

    @property
    def is_divisible(self) -> bool:
        """Whether workers can share a batch: `losses` is computed by `outputs` and `compare`."""
        return type(self).losses is Objective.losses

    def start_epoch(self, epoch: int, data: TrainingData) -> None:
        """Do the method's work between epochs, such as an E-step."""

    def diagnose(self, data: TrainingData) -> Record:
        """Return what the history should record about the current networks."""
        return {}


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """How long, how fast and where to train.

    >>> TrainOptions(epochs=3, lr=1e-3).batch_size
    64
    """

    epochs: int = 150
    lr: float = 1e-4
    batch_size: int = 64
    epoch_size: int | None = None
    weight_decay: float = 7e-7
    weight_average: float | None = None
    patience: int | None = None
    device: str = "auto"
    checkpoint: str | Path | None = None
    progress: bool | None = None
    engine: Any = None
    """Which other processes train, such as `RayTrain(workers=2)`; None means this process."""


def resolve_device(name: str) -> torch.device:
    """Return the torch device with this name; `auto` is the first accelerator, or the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:  # torch raises either, depending on the build
        reason = str(error).splitlines()[0]
        raise ParameterError(f"The device {name!r} cannot be used here: {reason}") from error
