"""The plan of a fit: an immutable record of all decisions that precede training."""

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
    """The arguments of `fit`."""

    inputs: Inputs
    votes: VoteMatrix | None = None
    features: Inputs | None = None
    """The features that WeaSEL's encoder reads in addition to the votes."""
    gold: npt.NDArray[np.int64] | None = None
    """The gold label of every item, for methods that learn from it; -1 is unknown."""
    labels: LabelSpace | None = None
    """The classes, if there are no votes to define them."""
    engine: TrainingEngine | None = None
    """The engine that trains in other processes; None trains in this one."""


@dataclass(frozen=True)
class FitPlan:
    """All decisions of a fit; objective, training and `_keep` use nothing else."""

    data: TrainingData
    """The items to train on, with the payload of every batch."""
    labels: LabelSpace
    voters: tuple[str, ...]
    votes: VoteMatrix | None
    """The votes to learn from."""
    class_balance: npt.NDArray[np.float64]
    """P(class), as the method's option says: given, estimated, or uniform."""
    features: Inputs | None = None
    """The features that an encoder reads in addition to the votes."""
    validation: Validation | None = None
    gold_votes: VoteMatrix | None = None
    """The votes on the validation items, if they were given."""
    targets: SoftLabels | None = None
    """The (initial) soft-label targets, a row for every item; None if there are none."""
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
    """Equal for equal options and equal data; it identifies the run of a checkpoint."""
    random_state: Tensor
    """The state of the random numbers when training starts."""

    @property
    def data(self) -> TrainingData:
        """The items to train on."""
        return self.plan.data

    @property
    def validation(self) -> Validation | None:
        """The validation set that selects the epoch."""
        return self.plan.validation

    def finish(self, history: History) -> None:
        """Store the results in the model."""
        with seeded(self.model.seed):
            self.model.finish(self, history)
