"""Where training runs: in this process, or elsewhere through an engine."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from wiesel.training.batches import TrainingData
from wiesel.training.history import History
from wiesel.training.objective import Objective, TrainOptions
from wiesel.training.validation import Validation

__all__ = ["TrainingEngine", "TrainingJob"]


@dataclass(frozen=True)
class TrainingJob:
    """One network to train, or several as a stack, with everything that training needs."""

    objectives: Sequence[Objective]
    random_states: Sequence[Tensor]
    """The state of each network's random number generator."""
    data: TrainingData
    options: Sequence[TrainOptions]
    """The options of each network; members with the same learning rate are adjacent."""
    validation: Validation | None
    fingerprint: str


class TrainingEngine(Protocol):
    """Trains in other processes; the result is that of this process, within rounding."""

    def train(self, job: TrainingJob) -> list[History]:
        """Train the networks of the job in place, and return what happened."""
        ...
