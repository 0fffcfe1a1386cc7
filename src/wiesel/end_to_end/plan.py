"""The plan of a fit, which is immutable, and fits of several models, as stacks if possible.

Its class balance and the number of epochs are decided here. Its fingerprint is made here, too: a
hash of options, votes and a sample of the inputs.
"""

import hashlib
import json
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from wiesel.end_to_end.linear_models import CrossFit
from wiesel.errors import (
    Argument,
    CollapseWarning,
    ParameterError,
    WieselWarning,
    as_list,
    warn_user,
)
from wiesel.label_models import MajorityVote
from wiesel.labels import LabelSpace
from wiesel.nn.stacking import NotStackable, reseeded
from wiesel.parameters import Parameterized
from wiesel.tasks import Task
from wiesel.tasks.one_label import COLLAPSED_SHARE
from wiesel.threads import one_thread
from wiesel.training import (
    History,
    Inputs,
    Objective,
    Record,
    TrainingData,
    TrainOptions,
    Validation,
    seeded,
    train,
    train_together,
)
from wiesel.training.history import one_line
from wiesel.training.inputs import Batchable, joined
from wiesel.training.loop import TrainingEngine
from wiesel.training.objective import NO_HOOKS, TrainingHooks, resolve_device
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
    "default_epochs",
    "fit_together",
    "inputs_digest",
    "options_key",
    "plan_all",
    "short_hash",
    "split_networks",
    "started",
    "train_all",
    "train_options",
    "voter_record",
    "votes_fingerprint",
    "warn_if_collapsed",
    "warn_if_votes_are_ignored",
]

GoldSet = tuple[Any, Any] | tuple[Any, Any, Any]
"""A few items with gold labels: (X, y), or (X, y, votes on them)."""

SoftLabels = npt.NDArray[np.float64]

_IRRELEVANT = {"checkpoint", "progress", "epochs", "patience"}
"""Options that do not change the result."""
_SAMPLED_ITEMS = 64
_BLIND_EPOCHS, _CHOSEN_EPOCHS = 8, 20
"""The epochs of `epochs=None`: trained too long, networks learn the voters' mistakes."""
Model = TypeVar("Model", bound="EndToEndModel")


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
        labels = np.concatenate([self.known.gold_array, other.known.gold_array])
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
        gold = None if known is None else known.gold_array
        learned = () if self.learned_gold is None else (self.learned_gold.gold_array,)
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


def voter_record(accuracies: Tensor, votes: Tensor) -> Record:
    """Return the effective number of voters, the largest share, and the share of those that vote.

    The number is the exponential of the entropy of the weights, averaged over items.
    `voting_share` is the weight of the voters that vote; weight on abstaining voters is lost.

    >>> voter_record(torch.tensor([[1.0, 1.0, 0.0]]), torch.tensor([[[1.0], [0.0], [1.0]]]))
    {'effective_voters': 2.0, 'largest_voter_share': 0.5, 'voting_share': 0.5}
    """
    weights = accuracies.clamp_min(0)
    if weights.ndim == 3:
        weights = weights.mean(dim=2)
    shares = weights / weights.sum(dim=1, keepdim=True).clamp_min(1e-12)
    entropy = torch.special.entr(shares).sum(dim=1)
    return {
        "effective_voters": entropy.exp().mean().item(),
        "largest_voter_share": shares.mean(dim=0).max().item(),
        "voting_share": (shares * (votes.amax(dim=2) > 0)).sum(dim=1).mean().item(),
    }


def warn_if_collapsed(models: Sequence[Any]) -> None:
    """Warn if at least half of the trained networks predict the same for nearly all items.

    A few collapsed networks do not spoil the average of an ensemble.
    """
    collapsed = [model for model in models if model.task_.collapsed(model.history_).any()]
    if not collapsed or 2 * len(collapsed) < len(models):
        return
    first = collapsed[0]
    message = first.task_.collapse_message(first.history_)
    if len(models) > 1:
        message = f"{len(collapsed)} of the {len(models)} networks have collapsed. {message}"
    warn_user(CollapseWarning(f"{message} ", *_advice(first)))


def warn_if_votes_are_ignored(model: Any) -> None:
    """Warn if one voter, or voters that abstain, have all the weight."""
    kept = model.history_.kept if len(model.history_) else {}
    if len(model.voters_) > 1 and kept.get("largest_voter_share", 0.0) >= COLLAPSED_SHARE:
        message = "One voter has all the weight, on all items."
        warn_user(CollapseWarning(f"{message} ", *_advice(model)))
    if kept.get("voting_share", 1.0) <= 1 - COLLAPSED_SHARE:
        message = "Nearly all the weight went to voters that abstain, so soft labels are vague."
        advice = "Use voting_only=True, which shares the weight among the voters that voted."
        warn_user(f"{message} {advice}", CollapseWarning)


def _advice(model: Any) -> Iterator[str | Argument]:
    """Advice in terms of the options that the method has."""
    yield "What helps: a validation set (its best epoch is kept), fewer epochs, a lower lr"
    balance = hasattr(model, "class_balance")
    if hasattr(model, "tau_1"):
        yield f",{'' if balance else ' or'} tau_1=1/3 or lower"
    if balance:
        yield from (", or ", Argument("class_balance", [...]), " if you know it")
    yield "."


class Separable(Protocol):
    """A model that `split_networks` and `train_all` can turn into an ensemble."""

    seed: int
    members: Any
    history_: History

    @property
    def fits_itself(self) -> bool: ...

    @property
    def network(self) -> torch.nn.Module: ...

    def get_params(self, deep: bool = True) -> dict[str, Any]: ...


Part = TypeVar("Part", bound=Separable)


def fit_together(
    models: Sequence[Model],
    X: Any,
    votes: Any,
    validation: "GoldSet | None" = None,
    encoder_X: Any = None,
    quiet: bool = False,
) -> list[Model]:
    """Fit models on the same data, as one stack if possible, and return them.

    Models are stacked if they differ only in seed, learning rate, initial weights or soft labels. A
    stack of small networks trains several times as fast as the networks one by one. Each model has
    its own random numbers, best epoch and threshold, so the result equals that of its own `fit`
    within floating-point tolerance. Networks that cannot be stacked are trained one by one, and a
    warning gives the reason unless `quiet`.

    >>> from wiesel import WeaSEL
    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> votes, gold = make_votes(200, n_voters=5)
    >>> X = make_features(gold, n_features=4)
    >>> net = torch.nn.Linear(X.shape[1], 2)
    >>> models = [WeaSEL(net, epochs=2, warm_up=1, lr=lr) for lr in (0.01, 0.001)]
    >>> [model.predict_proba(X).shape for model in fit_together(models, X, votes)]
    [(200, 2), (200, 2)]
    """
    models = as_list(models, "Models", "[WeaSEL(net), WeaSEL(net, lr=0.01)]", ParameterError)
    for model in models:
        if not hasattr(model, "fit_inputs"):
            raise ParameterError(
                f"fit_together trains end-to-end methods, such as WeaSEL(net); got "
                f"{type(model).__name__}."
            )
    if models:
        given = models[0].fit_inputs(X, votes, encoder_X)
        train_all(plan_all(models, given, validation), quiet)
        for model in models:
            model.recover(given, validation)
    return models


def split_networks(model: Part) -> list[Part]:
    """Return the parts of an ensemble: models with one network and one seed each."""
    if model.members == 1 or model.fits_itself:
        return [model]
    parts = []
    for number in range(model.members):
        seed = model.seed + number
        options = {**model.get_params(deep=False), "seed": seed, "members": 1}
        if number:
            options["end_model"] = reseeded(model.network, seed)
        parts.append(type(model)(**options))
    return parts


def plan_all(
    models: "Sequence[EndToEndModel]", given: "FitInputs", validation: "GoldSet | None"
) -> "list[PlannedFit]":
    """Return the fits of models on the same data, ready to be trained.

    Models without a single network to train, such as ensembles, are fitted at once.
    """
    plans: dict[str, FitPlan] = {}
    fits = []
    for model in models:
        if model.fits_itself or model.members != 1:
            model.fit_given(given, validation)
            continue
        same = model.plan_key()
        fits.append(model.planned(given, validation, plans.get(same)))
        plans.setdefault(same, fits[-1].plan)
    return fits


def train_all(fits: Sequence[ReadyFit], quiet: bool = False) -> None:
    """Train planned fits, as one stack where possible, and store the results in their models.

    An interruption (Ctrl-C) stops the training in progress. Later fits are not started, and
    their histories have no epochs.
    """
    groups: dict[str, list[ReadyFit]] = {}
    for fit in fits:
        groups.setdefault(fit.model.stack_key(), []).append(fit)
    interrupted = False
    with one_line(fit=True):
        for group in groups.values():
            histories = _not_begun(group) if interrupted else _train_group(group, quiet)
            interrupted = interrupted or any(history.interrupted for history in histories)
            for fit, history in zip(group, histories, strict=True):
                fit.finish(history)
    warn_if_collapsed([fit.model for fit in fits])


def started(models: Sequence[Part]) -> list[Part]:
    """Return the models whose training started before an interruption; at least one."""
    return [model for model in models if len(model.history_)] or list(models[:1])


def _not_begun(fits: Sequence[ReadyFit]) -> list[History]:
    return [History([]) for _ in fits]


def _train_group(fits: Sequence[ReadyFit], quiet: bool) -> list[History]:
    if len(fits) > 1:
        try:
            return _train_stack(fits)
        except NotStackable as reason:
            if not quiet:
                name = type(fits[0].model).__name__
                # The objective is internal: the user knows the method.
                why = str(reason).replace(type(fits[0].objective).__name__, name)
                message = f"The {len(fits)} networks of {name} are trained one by one: {why}."
                warn_user(message, WieselWarning)
    histories: list[History] = []
    for number, fit in enumerate(fits):
        if histories and histories[-1].interrupted:
            return histories + _not_begun(fits[number:])
        histories.append(_train_alone(number, fit, len(fits)))
    return histories


def _train_stack(fits: Sequence[ReadyFit]) -> list[History]:
    options = fits[0].options
    device = resolve_device(options.device) if options.engine is None else options.engine.device
    if device.type != "cpu":
        raise NotStackable(f"stacks are trained on the CPU, not on {device}")
    return train_together(
        [fit.objective for fit in fits],
        [fit.random_state for fit in fits],
        fits[0].data,
        [fit.options for fit in fits],
        fits[0].validation,
        short_hash("".join(fit.fingerprint for fit in fits)),
    )


def _train_alone(number: int, fit: ReadyFit, n_fits: int) -> History:
    options = fit.options
    if options.checkpoint is not None and n_fits > 1:
        options = replace(options, checkpoint=f"{options.checkpoint}.{number}")
    with seeded(fit.model.seed):
        torch.set_rng_state(fit.random_state)
        return train(fit.objective, fit.data, options, fit.validation, fit.fingerprint)
