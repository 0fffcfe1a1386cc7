"""A fit is planned, then run: what is decided before training, as one value that never changes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from wiesel.end_to_end.fingerprints import data_fingerprint
from wiesel.labels import LabelSpace
from wiesel.training import (
    History,
    Inputs,
    Objective,
    TrainingData,
    TrainOptions,
    Validation,
    seeded,
)
from wiesel.training.engines import TrainingEngine
from wiesel.votes import VoteMatrix

if TYPE_CHECKING:
    from wiesel.end_to_end.base import EndToEndModel

__all__ = ["FitInputs", "FitPlan", "GoldSet", "PlannedFit"]

GoldSet = tuple[Any, Any] | tuple[Any, Any, VoteMatrix]
"""A few items with gold labels (names or indices): (X, y), or (X, y, votes on them)."""

SoftLabels = npt.NDArray[np.float64]


@dataclass(frozen=True)
class FitInputs:
    """What `fit` was given to learn from."""

    inputs: Inputs
    votes: VoteMatrix | None = None
    features: Inputs | None = None
    """What WeaSEL's encoder reads beside the votes."""
    gold: npt.NDArray[np.int64] | None = None
    """The gold label of every item, for methods that learn from it; -1 is unknown."""
    labels: LabelSpace | None = None
    """The classes, where there are no votes that name them."""
    engine: TrainingEngine | None = None
    """Which other processes train; None is this one."""


@dataclass(frozen=True)
class FitPlan:
    """Everything a fit is about to do; objective, training and `_keep` see nothing else."""

    data: TrainingData
    """The items to train on, with what every batch of them holds."""
    labels: LabelSpace
    voters: tuple[str, ...]
    votes: VoteMatrix | None
    """The votes to learn from."""
    class_balance: npt.NDArray[np.float64]
    """P(class), as the method's option says: given, estimated, or uniform."""
    features: Inputs | None = None
    """What an encoder reads beside the votes."""
    validation: Validation | None = None
    gold_votes: VoteMatrix | None = None
    """The votes on the validation items, if they were given."""
    targets: SoftLabels | None = None
    """The soft labels to learn (first), a row for every item; None where there are none."""
    learned: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Learned attributes that are known before training, by name."""

    @cached_property
    def fingerprint(self) -> str:
        """Equal for equal votes, gold and (sampled) inputs."""
        return data_fingerprint(self)


@dataclass(frozen=True)
class PlannedFit:
    """A fit that is ready to be trained."""

    model: "EndToEndModel"
    plan: FitPlan
    objective: Objective
    options: TrainOptions
    fingerprint: str
    """Equal for equal options and equal data: what a checkpoint belongs to."""
    random_state: Tensor
    """The state of the random numbers when training starts."""

    @property
    def data(self) -> TrainingData:
        """The items to train on."""
        return self.plan.data

    @property
    def validation(self) -> Validation | None:
        """What chooses the epoch."""
        return self.plan.validation

    def finish(self, history: History) -> None:
        """Let the model keep what was learned."""
        with seeded(self.model.seed):
            self.model.finish(self, history)
