"""The plan of a fit: an immutable record of all decisions that precede training.

Its class balance and the number of epochs are decided here. Its fingerprint is made here, too: a
hash of options, votes and a sample of the inputs.
"""

import hashlib
import json
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from wiesel.end_to_end.linear_models import CrossFit
from wiesel.errors import ParameterError
from wiesel.label_models import MajorityVote
from wiesel.labels import LabelSpace, says_nothing
from wiesel.parameters import Parameterized, check_choice
from wiesel.tasks import Task
from wiesel.threads import one_thread
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
from wiesel.training.inputs import Batchable, joined
from wiesel.training.objective import NO_HOOKS, TrainingHooks
from wiesel.votes import VoteMatrix

if TYPE_CHECKING:
    from wiesel.end_to_end.base import EndToEndModel

__all__ = [
    "FitInputs",
    "FitPlan",
    "GoldItems",
    "GoldSet",
    "PlannedFit",
    "ReadyFit",
    "check_class_balance",
    "default_epochs",
    "inputs_digest",
    "options_key",
    "short_hash",
    "train_options",
    "votes_fingerprint",
]

GoldSet = tuple[Any, Any] | tuple[Any, Any, Any]
"""A few items with gold labels: (X, y), or (X, y, votes on them)."""

SoftLabels = npt.NDArray[np.float64]

_IRRELEVANT = {"checkpoint", "progress", "epochs", "patience"}
"""Options that do not change the result."""
_SAMPLED_ITEMS = 64
_BLIND_EPOCHS, _CHOSEN_EPOCHS = 8, 20
"""The epochs of `epochs=None`: trained too long, networks learn the voters' mistakes."""
_ESTIMATES = ("votes", "validation", "auto")
"""Where a class balance can be estimated."""


@dataclass(frozen=True)
class GoldItems:
    """Items with gold labels: all of them to learn from, the random ones to estimate by."""

    known: Validation
    """The items and their labels."""
    random: npt.NDArray[np.bool_]
    """Whether each of them belongs to a random sample."""
    votes: Any = None
    """The votes on them, if they are at hand."""
    rows: npt.NDArray[np.int64] | None = None
    """Their positions among the items of `fit`; None if they are further items."""

    def __len__(self) -> int:
        return len(self.random)

    @property
    def sample(self) -> Validation | None:
        """The random items; None without any."""
        rows = np.flatnonzero(self.random)
        if len(rows) == len(self):
            return self.known
        return self.known.of_rows(rows) if len(rows) else None

    def joined(self, other: "GoldItems | None", task: Task) -> "GoldItems":
        """Return the items of both; their votes are kept if both have some."""
        if other is None:
            return self
        votes = None
        if self.votes is not None and other.votes is not None:
            votes = task.joined_votes([self.votes, other.votes])
        labels = np.concatenate([self.known.labels_given, other.known.labels_given])
        inputs = joined([self.known.inputs, other.known.inputs], "gold X")
        random = np.concatenate([self.random, other.random])
        return GoldItems(task.held_out(inputs, labels), random, votes)


@dataclass(frozen=True)
class FitInputs:
    """The arguments of `fit`."""

    inputs: Inputs
    votes: Any = None
    """A `VoteMatrix`, or the votes of another kind of task."""
    features: Inputs | None = None
    """The features that WeaSEL's encoder reads in addition to the votes."""
    gold: Any = None
    """The gold label of every item, for methods whose loss reads it; -1 is unknown. For tasks other
    than one label for each item, a `Validation`."""
    labeled: "GoldItems | None" = None
    """The items with gold labels that networks are fine-tuned on."""
    labels: Any = None
    """The classes, if there are no votes to define them."""
    engine: TrainingEngine | None = None
    """The engine that trains in other processes; None trains in this one."""
    hooks: TrainingHooks | None = None
    """An optimizer, a schedule and a callback of the user's."""

    def __post_init__(self) -> None:
        # `apply_lfs` takes the name of an engine, so one is tried here, too.
        if self.engine is not None and not callable(getattr(self.engine, "train", None)):
            raise ParameterError(
                "engine is a training engine such as wiesel.training.RayTrain(workers=2); got "
                f"{self.engine!r:.80}. Leave it out to train in this process."
            )
        if self.hooks is not None and not isinstance(self.hooks, TrainingHooks):
            raise ParameterError(
                "hooks are functions that training calls, such as "
                f"TrainingHooks(schedule=cosine) of wiesel.training; got {self.hooks!r:.80}."
            )
        if self.hooks is not None and self.engine is not None:
            raise ParameterError("Hooks are called in this process: leave engine out, or hooks.")

    @cached_property
    def linear_models(self) -> CrossFit | None:
        """Linear models of the items with votes, made once for all label models that use them."""
        votes: VoteMatrix = self.votes
        with one_thread():
            vote_shares = MajorityVote().fit_predict_proba(votes)
            return CrossFit.of(self.inputs, np.flatnonzero(votes.covered), vote_shares)


@dataclass(frozen=True)
class FitPlan:
    """All decisions of a fit; objective, training and `_keep` use nothing else."""

    data: TrainingData
    """The items to train on, with the payload of every batch."""
    task: Task
    labels: LabelSpace
    voters: tuple[str, ...]
    votes: Any
    """The votes to learn from; None for a method that learns from gold."""
    class_balance: npt.NDArray[np.float64]
    """P(class), as the method's option says: given, estimated, or uniform."""
    features: Inputs | None = None
    """The features that an encoder reads in addition to the votes."""
    validation: Validation | None = None
    gold: GoldItems | None = None
    """The items with gold labels, for the balance and for label models that learn from gold."""
    learned_gold: Any = None
    """A `Validation` to learn from, of a method that learns from nothing else."""
    targets: SoftLabels | None = None
    """The (initial) soft-label targets, a row for every item; None if there are none."""
    learned: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Learned attributes that are known before training, by name."""

    @cached_property
    @one_thread()
    def fingerprint(self) -> str:
        """Equal for equal votes, gold and (sampled) inputs."""
        digest = hashlib.sha256()
        known = self.validation if self.gold is None else self.gold.known
        held_out = None if known is None else known.inputs
        for inputs in (self.data.inputs, self.features, held_out):
            # Hash missing parts, too; otherwise features could pass for a validation set.
            digest.update(b"none" if inputs is None else inputs_digest(inputs))
        gold_votes = None if self.gold is None else self.gold.votes
        for votes in (self.votes, gold_votes):
            parts = () if votes is None else self.task.matrices(votes)
            digest.update("".join(map(votes_fingerprint, parts)).encode() or b"none")
        gold = None if known is None else known.labels_given
        learned = () if self.learned_gold is None else (self.learned_gold.labels_given,)
        for array in (self.data.items, self.targets, gold, *learned):
            digest.update(b"none" if array is None else np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:16]


@dataclass(frozen=True)
class ReadyFit:
    """A fit that is ready to be trained, of any kind of model."""

    model: Any
    plan: Any
    objective: Objective
    data: TrainingData
    options: TrainOptions
    random_state: Tensor = field(default_factory=torch.get_rng_state)
    """The state of the random numbers when training starts."""

    @property
    def validation(self) -> Validation | None:
        """The validation set that selects the epoch."""
        found: Validation | None = self.plan.validation
        return found

    @cached_property
    def fingerprint(self) -> str:
        """Equal for equal options and equal data; it identifies the run of a checkpoint."""
        options = self.model.get_params(deep=True).items()
        described = {key: _text(value) for key, value in options if key not in _IRRELEVANT}
        if changed := str(replace(self.options.hooks, on_epoch=None)):
            described["hooks"] = changed
        return short_hash(json.dumps(described, sort_keys=True) + self.plan.fingerprint)

    def finish(self, history: History) -> None:
        """Store the results in the model."""
        with seeded(self.model.seed):
            self.model.finish(self, history)


@dataclass(frozen=True)
class PlannedFit(ReadyFit):
    """A fit of an end-to-end method that is ready to be trained."""

    model: "EndToEndModel"
    plan: FitPlan


def train_options(model: Any, plan: FitPlan, given: FitInputs | None = None) -> TrainOptions:
    """Return the training options of a model, with the number of epochs if it is left open.

    Enough validation items choose the epoch; otherwise the last is kept.
    """
    n_classes = plan.task.n_classes
    gold_chooses = plan.validation is not None and plan.validation.can_choose
    names = TrainOptions.__dataclass_fields__
    options = {name: getattr(model, name) for name in names if hasattr(model, name)}
    if model.epochs is None:
        options["epochs"] = default_epochs(n_classes, gold_chooses)
        options["first_epoch"] = 1 if gold_chooses else options["epochs"]
    if given is None:
        return TrainOptions(**options)
    return TrainOptions(**options, engine=given.engine, hooks=given.hooks or NO_HOOKS)


def default_epochs(n_classes: int, gold_chooses: bool) -> int:
    """Return the number of epochs if it is left open: at least one for each class.

    >>> default_epochs(2, gold_chooses=False), default_epochs(77, gold_chooses=False)
    (8, 77)
    """
    return max(n_classes, _CHOSEN_EPOCHS if gold_chooses else _BLIND_EPOCHS)


def check_class_balance(owner: Any) -> None:
    """Refuse an option `class_balance` that names no way to estimate it; shares have numbers."""
    named = isinstance(owner.class_balance, str) and not says_nothing(owner.class_balance)
    if named and not any(map(str.isdigit, owner.class_balance)):
        check_choice(owner, "class_balance", owner.class_balance, _ESTIMATES)


def options_key(model: Parameterized, but: Collection[str]) -> str:
    """Return a text that is equal for models of one class with equal options, `but` some."""
    options = {k: v for k, v in model.get_params(deep=False).items() if k not in but}
    # Long arrays in full: models that differ in the middle of one are different.
    with np.printoptions(threshold=sys.maxsize, floatmode="unique"):
        return f"{type(model).__name__}{options!r}"


def votes_fingerprint(votes: VoteMatrix) -> str:
    """Return a short hash of all votes, with voters and items."""
    digest = hashlib.sha256(repr((votes.voters, votes.labels.names)).encode())
    for array in (votes.indptr, votes.voter_index, votes.class_index, votes.distribution):
        if array is not None:
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def short_hash(text: str) -> str:
    """Return a hash of a text, with the length of a fingerprint."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _text(value: Any) -> str:
    if isinstance(value, nn.Module):
        digest = hashlib.sha256(str(value).encode())
        for tensor in value.state_dict().values():
            if is_lazy(tensor):
                continue
            digest.update(tensor.detach().cpu().contiguous().numpy(force=True).tobytes())
        return digest.hexdigest()
    return type(value).__name__ if isinstance(value, Parameterized) else repr(value)


def inputs_digest(inputs: Inputs) -> bytes:
    """Return a hash of the number of inputs and of a sample of them."""
    rows = np.linspace(0, len(inputs) - 1, min(_SAMPLED_ITEMS, len(inputs))).astype(np.int64)
    digest = hashlib.sha256(str(len(inputs)).encode())
    for tensor in _tensors(inputs.take(rows)):
        digest.update(tensor.contiguous().numpy(force=True).tobytes())
    return digest.digest()


def _tensors(batch: Batchable) -> list[Tensor]:
    return [batch] if isinstance(batch, Tensor) else [batch[key] for key in sorted(batch)]
