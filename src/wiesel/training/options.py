"""Options of the training loop, as frozen data."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from wiesel.errors import ParameterError

__all__ = ["TrainOptions", "resolve_device"]


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
