"""The training loop, its state and its validation. Nothing is specific to weak supervision.

It trains one network or a stack of several; `TrainingState` handles the difference.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wiesel.errors import TrainingError
from wiesel.nn.end_models import evaluating, fused_logits, logits_of
from wiesel.nn.stacking import RandomStreams, share_tensors, stack_modules
from wiesel.threads import fitting_threads, one_thread
from wiesel.training.batches import Batch, StackedItems, TrainingData, shuffled
from wiesel.training.history import (
    Checkpoint,
    History,
    MemberProgress,
    mean_record,
    progress_bar,
    read_checkpoint,
    write_checkpoint,
)
from wiesel.training.inputs import Inputs, as_inputs, move
from wiesel.training.objective import (
    FlatParameters,
    FusedAdam,
    Objective,
    OwnOptimizer,
    Record,
    TrainOptions,
    check_losses,
    resolve_device,
)

__all__ = [
    "ENOUGH_GOLD",
    "NOTHING_TO_TRAIN",
    "Member",
    "TrainingEngine",
    "TrainingJob",
    "TrainingState",
    "Validation",
    "predict_logits",
    "proba_of",
    "run",
    "single_state",
    "stacked_state",
    "stratified_folds",
    "train",
    "train_together",
]

NOTHING_TO_TRAIN = (
    "There is nothing to train: the end model has no parameters, or all are frozen "
    "(requires_grad=False)."
)
ENOUGH_GOLD = 30
"""Fewer gold items give many epochs the same score, and would choose one that is hardly trained.
They harm as often as they help."""

_PREDICTED_ITEMS = 2048
_FEW_ITEMS = 16
"""So many items are predicted by all networks of a committee at once."""
_LEAST = 1e-6
"""The smallest probability in a log loss."""


@dataclass(frozen=True)
class Validation:
    """Held-out items with gold labels."""

    inputs: Inputs
    gold: npt.NDArray[np.int64]
    n_classes: int

    @cached_property
    def metric(self) -> str:
        """The metric of `score`: ROC-AUC for two classes, else accuracy."""
        two_classes = self.n_classes == 2 and len(np.unique(self.gold)) == 2
        return "auc" if two_classes else "accuracy"

    @property
    def gold_array(self) -> npt.NDArray[np.int64]:
        """The gold labels as one array, of any shape."""
        return self.gold

    def of_rows(self, rows: npt.NDArray[np.int64]) -> Self:
        """Return some of the items."""
        return replace(self, inputs=as_inputs(self.inputs.take(rows)), gold=self.gold[rows])

    @property
    def can_choose(self) -> bool:
        """Whether the items can tell epochs apart: enough of them, and of several classes."""
        return len(self.gold) >= ENOUGH_GOLD and len(np.unique(self.gold)) > 1

    def proba_by(self, module: nn.Module) -> npt.NDArray[np.float64]:
        """Return P(class) of the items by a network."""
        return proba_of(predict_logits(module, self.inputs))

    def score(self, proba: npt.NDArray[np.float64]) -> float:
        """Return the score of these probabilities."""
        from wiesel.evaluation.metrics import roc_auc

        if self.metric == "auc":
            return roc_auc(self.gold, proba)
        return float((proba.argmax(axis=1) == self.gold).mean())

    def log_loss(self, proba: npt.NDArray[np.float64]) -> float:
        """Return the mean negative log-probability of the gold labels."""
        own = proba[np.arange(len(self.gold)), self.gold]
        return float(-np.log(np.maximum(own, _LEAST)).mean())

    def best_threshold(self, proba: npt.NDArray[np.float64]) -> Any:
        """Return the decision threshold that gold supports, for two classes; None for 1/2."""
        from wiesel.evaluation import supported_threshold

        threshold = supported_threshold(proba[:, 1], self.gold) if self.metric == "auc" else 0.5
        return None if threshold == 0.5 else threshold


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


@torch.no_grad()
def predict_logits(
    module: nn.Module, inputs: Inputs, rows: npt.NDArray[np.int64] | None = None
) -> Tensor:
    """Return the module's logits for items, in evaluation mode, on the CPU."""
    rows = np.arange(len(inputs)) if rows is None else rows
    device = next((p.device for p in module.parameters()), torch.device("cpu"))
    chunks = max(1, min(_PREDICTED_ITEMS, 2**28 // max(1, inputs.item_bytes)))
    with fitting_threads(module):
        if 0 < len(rows) <= min(_FEW_ITEMS, chunks):
            logits = fused_logits(module, move(inputs.take(rows), device))
            if logits is not None:
                return logits.cpu().float()
    with fitting_threads(module), evaluating(module):
        parts = [
            logits_of(module, move(inputs.take(rows[start : start + chunks]), device)).cpu()
            for start in range(0, len(rows), chunks)
        ]
        return torch.cat(parts).float() if parts else torch.empty(0, 0)


@one_thread()
def proba_of(logits: Tensor) -> npt.NDArray[np.float64]:
    """Return the probabilities of logits, in double precision.

    >>> proba_of(torch.zeros(1, 2))
    array([[0.5, 0.5]])
    """
    return torch.softmax(logits.double(), dim=1).numpy()


def stratified_folds(
    gold: npt.NDArray[np.int64], n_folds: int, seed: int = 0
) -> list[npt.NDArray[np.int64]]:
    """Return the items of each fold; all folds have about the same class shares.

    >>> [np.bincount(np.array([0, 0, 0, 0, 1, 1])[fold]).tolist() for fold in
    ...  stratified_folds(np.array([0, 0, 0, 0, 1, 1]), n_folds=2)]
    [[2, 1], [2, 1]]
    """
    shuffled = np.random.default_rng(seed).permutation(len(gold))
    by_class = shuffled[np.argsort(gold[shuffled], kind="stable")]
    return [np.sort(by_class[start::n_folds]) for start in range(n_folds)]


@dataclass
class Member:
    """One of the networks in training, and how far it has come."""

    objective: Objective
    options: TrainOptions
    progress: MemberProgress = field(default_factory=MemberProgress)

    @property
    def is_finished(self) -> bool:
        """Whether all epochs are done, or patience has run out."""
        done, best = len(self.progress.history), self.progress.history.best_epoch
        patience = self.options.patience
        if patience is not None and best is not None and done - best >= patience:
            self.progress.stopped = True
        return self.progress.stopped or done >= self.options.epochs


@dataclass
class TrainingState:
    """What the loop changes; a checkpoint contains all of it.

    Steps use `objective`: the objective of the only member, or the stack of all members. Between
    epochs each member is evaluated with its own objective, whose tensors are views of the stack's.
    """

    members: list[Member]
    objective: Objective
    parameters: FlatParameters
    optimizer: FusedAdam | OwnOptimizer
    streams: RandomStreams | None = None
    """Random numbers of the members of a stack; a single network uses torch's global generator."""
    averages: list[Tensor] | None = None
    """Running averages of the parameters, if the options request them."""
    initial: Sequence[Tensor] = ()
    """The parameters before training, if the options pull toward them."""
    items: StackedItems | None = None

    @property
    def options(self) -> TrainOptions:
        """The options that all members share: everything but the learning rate."""
        return self.members[0].options

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        return self.parameters.vectors[0].device

    @property
    def epochs_done(self) -> int:
        """How many epochs the members that are still training have finished."""
        return max(len(member.progress.history) for member in self.members)

    def mean_records(self) -> list[Record]:
        """Return the record of every finished epoch, each the mean over the members."""
        return History.of_members([member.progress.history for member in self.members]).records

    def latest_record(self) -> Record:
        """Return the mean record of the last epoch, in which finished members keep theirs."""
        last = self.epochs_done - 1
        return mean_record([member.progress.history.at(last) for member in self.members])

    def unfinished(self) -> list[Member]:
        """Return the members that are still training."""
        return [member for member in self.members if not member.is_finished]

    def batches(self, data: TrainingData) -> Iterator[Batch]:
        """Yield the batches of an epoch, in a new random order for each member."""
        size, n_items = self.options.batch_size, len(data.items)
        epoch_size = self.options.epoch_size or n_items
        if self.streams is None:
            order = data.items[shuffled(torch.randperm, n_items, epoch_size).numpy()]
            return data.batches(order, size, self.device, self.objective.prepare)
        if self.items is None:
            self.items = StackedItems(data, self.objective.prepare)
        return self.items.batches(shuffled(self.streams.permutations, n_items, epoch_size), size)

    def share_done(self, data: TrainingData, n_batches: int) -> float:
        """Return which share of all steps is done, after some batches of the current epoch."""
        size = self.options.epoch_size or len(data.items)
        per_epoch = math.ceil(size / self.options.batch_size)
        return (self.epochs_done + n_batches / per_epoch) / self.options.epochs

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the losses of a batch by name."""
        return self.objective.losses(batch)

    def differentiate(self, losses: Sequence[Tensor]) -> None:
        """Set all gradients to those of the sum of the losses, and of the pull to the start."""
        self.parameters.differentiate(losses)
        for vector, initial in zip(self.parameters.vectors, self.initial, strict=False):
            vector.grad.add_(vector - initial, alpha=2 * self.options.pull)  # type: ignore[union-attr]

    def finish_epoch(self, finish: Callable[[list[Record]], None], records: list[Record]) -> None:
        """Call `finish`, which evaluates the members and changes their progress."""
        finish(records)

    def call_user(self) -> None:
        """Call the user's `on_epoch` with the record of the last epoch; True ends training."""
        call = self.options.hooks.on_epoch
        record = {**self.latest_record(), "epochs": self.options.epochs}
        if call is not None and bool(call(record)):
            for member in self.members:
                member.progress.stopped = True

    def release(self) -> None:
        """Give every member separate tensors again, on the CPU and in evaluation mode."""
        self.parameters.release()
        for member in self.members:
            for buffer in member.objective.buffers():
                buffer.data = buffer.data.clone()
            member.objective.eval().to("cpu")

    def resumed(self, fingerprint: str) -> Self:
        """Continue from the checkpoint, if there is one."""
        found = self._stored_checkpoint(fingerprint)
        if found is None:
            return self
        self.objective.load_state_dict(found.weights)
        self.optimizer.load(found.optimizer)
        for member, progress in zip(self.members, found.progress, strict=True):
            member.progress = progress
        if self.averages is not None:
            self.averages = found.averages
        if self.streams is None:
            torch.set_rng_state(found.random_states[0])
        else:
            self.streams.set_states(found.random_states)
        return self

    def _stored_checkpoint(self, fingerprint: str) -> Checkpoint | None:
        path = self.options.checkpoint
        return read_checkpoint(path, fingerprint) if path else None

    def save(self, fingerprint: str) -> None:
        """Write the checkpoint, if the options request one."""
        if self.options.checkpoint is None:
            return
        checkpoint = Checkpoint(
            weights=self.objective.state_dict(),
            progress=[member.progress for member in self.members],
            averages=self.averages or [],
            optimizer=self.optimizer.state,
            random_states=[torch.get_rng_state()] if self.streams is None else self.streams.states,
        )
        write_checkpoint(self.options.checkpoint, checkpoint, fingerprint)


def single_state(objective: Objective, options: TrainOptions) -> TrainingState:
    """Return the initial state for training a single network."""
    objective.to(resolve_device(options.device))
    return _state([Member(objective, options)], objective, FlatParameters([objective]))


def stacked_state(
    objectives: Sequence[Objective], options: Sequence[TrainOptions], states: Sequence[Tensor]
) -> TrainingState:
    """Return the initial state for training several networks as one stack.

    `states` are the random states of the networks. Members with the same learning rate must be
    adjacent. Raises `NotStackable` if the networks cannot be stacked.
    """
    streams = RandomStreams(states)
    stack: Objective = stack_modules(objectives, streams)  # type: ignore[assignment]
    flat = FlatParameters(objectives, stack)
    share_tensors(stack, objectives)
    for objective in objectives:
        objective.eval()  # the stack is trained, and its members are only evaluated
    members = [Member(*pair) for pair in zip(objectives, options, strict=True)]
    state = _state(members, stack, flat)
    state.streams = streams
    return state


def _state(members: list[Member], objective: Objective, flat: FlatParameters) -> TrainingState:
    if not flat.vectors:
        raise TrainingError(NOTHING_TO_TRAIN)
    optimizer = _optimizer(flat, [member.options for member in members])
    state = TrainingState(members, objective, flat, optimizer)
    if state.options.weight_average is not None:
        state.averages = [vector.clone() for vector in flat.vectors]
    if state.options.pull:
        state.initial = [vector.clone() for vector in flat.vectors]
    return state


def _optimizer(flat: FlatParameters, options: Sequence[TrainOptions]) -> FusedAdam | OwnOptimizer:
    """One optimizer; the rows of members with the same learning rate form one parameter."""
    make, groups, start = options[0].hooks.optimizer, [], 0
    rows = flat.rows if make is None else flat.tensors
    for rate, same in groupby(option.lr for option in options):
        stop = start + len(list(same))
        groups.append((rows(start, stop), rate))
        start = stop
    if make is None:
        return FusedAdam(groups, options[0].weight_decay)
    return OwnOptimizer(make, [{"params": tensors, "lr": rate} for tensors, rate in groups])


def train(
    objective: Objective,
    data: TrainingData,
    options: TrainOptions,
    validation: Validation | None = None,
    fingerprint: str = "",
) -> History:
    """Train the objective's networks in place and return what happened.

    With a validation set, the weights of the best epoch are kept, otherwise those of the last.
    Interrupting (Ctrl-C) ends training with the best weights so far. If the options contain an
    engine, it does the same in other processes.
    """
    if options.engine is not None:
        states = [torch.get_rng_state()]
        job = TrainingJob([objective], states, data, [options], validation, fingerprint)
        return _trained_by(options.engine, job)[0]
    state = single_state(objective, options).resumed(fingerprint)
    return run(state, data, validation, fingerprint)[0]


def train_together(
    objectives: Sequence[Objective],
    random_states: Sequence[Tensor],
    data: TrainingData,
    options: Sequence[TrainOptions],
    validation: Validation | None = None,
    fingerprint: str = "",
) -> list[History]:
    """Train several objectives with the same architecture as one stack.

    Each is trained as `train` would train it alone. Only the learning rate may differ between
    options. `random_states` are the results of `torch.get_rng_state` for each objective before
    training. Raises `NotStackable` and changes nothing if there is no stacked form.
    """
    # Members with the same learning rate are adjacent, so that Adam sees them as one parameter.
    order = sorted(range(len(objectives)), key=lambda k: options[k].lr)
    own = [objectives[k] for k in order]
    own_options, states = [options[k] for k in order], [random_states[k] for k in order]
    engine = options[0].engine
    if engine is not None:
        job = TrainingJob(own, states, data, own_options, validation, fingerprint)
        found = _trained_by(engine, job)
    else:
        with fitting_threads(own[0]):
            state = stacked_state(own, own_options, states).resumed(fingerprint)
            found = run(state, data, validation, fingerprint)
    histories = dict(zip(order, found, strict=True))
    return [histories[k] for k in range(len(order))]


def _trained_by(engine: TrainingEngine, job: TrainingJob) -> list[History]:
    """The histories of an engine, which may be the user's own."""
    found = engine.train(job)
    n_networks = len(job.objectives)
    is_list = isinstance(found, list) and all(isinstance(each, History) for each in found)
    if not is_list or len(found) != n_networks:
        raise TrainingError(
            f"{type(engine).__name__}.train must return a list with the History of each network "
            f"({n_networks} here); got {found!r:.80}."
        )
    return found


def run(
    state: TrainingState, data: TrainingData, validation: Validation | None, fingerprint: str
) -> list[History]:
    """Train until all members of the state are finished, and return their histories."""
    options = state.options
    try:
        with (
            fitting_threads(state.members[0].objective),
            progress_bar(options.epochs, state.epochs_done, options.progress) as show,
        ):

            def finish_epoch(records: list[Record]) -> None:
                with state.parameters.showing(state.averages):
                    _evaluate_all(state.members, records, data, validation)
                state.call_user()
                state.save(fingerprint)
                show(state.latest_record())

            while state.unfinished():
                state.finish_epoch(finish_epoch, _run_epoch(state, data))
    except KeyboardInterrupt:
        for member in state.unfinished():
            member.progress.history.interrupted = True
    if state.averages is not None:
        state.parameters.set_to(state.averages)
    for member in state.members:
        if member.progress.best_weights is not None:
            member.objective.load_state_dict(member.progress.best_weights)
    state.release()
    return [member.progress.history for member in state.members]


def _run_epoch(state: TrainingState, data: TrainingData) -> list[Record]:
    """Go through all items once, and return the mean losses of every member."""
    objective, optimizer, epoch = state.objective, state.optimizer, state.epochs_done + 1
    hooks = state.options.hooks
    objective.start_epoch(epoch, data)
    objective.train(not state.options.pull)
    totals: dict[str, Tensor] = {}
    n_batches = 0
    for batch in state.batches(data):
        losses = state.losses(batch)
        if not n_batches:
            check_losses(losses, type(objective).__name__, len(state.members))
        # The loss of a frozen network has no gradient.
        state.differentiate([loss for loss in losses.values() if loss.requires_grad])
        optimizer.step(hooks.factor(state.share_done(data, n_batches)))
        if state.averages is not None:
            state.parameters.average_into(state.averages, state.options.weight_average)  # type: ignore[arg-type]
        for name, loss in losses.items():
            value = loss.detach()
            totals[name] = totals[name] + value if name in totals else value
        n_batches += 1
    objective.eval()
    means = {name: (total / n_batches).reshape(-1).tolist() for name, total in totals.items()}
    return [
        {"epoch": epoch, **{f"loss_{name}": means[name][k] for name in means}}
        for k in range(len(state.members))
    ]


def _evaluate_all(
    members: Sequence[Member],
    records: list[Record],
    data: TrainingData,
    validation: Validation | None,
) -> None:
    for member, record in zip(members, records, strict=True):
        if not member.is_finished:
            _evaluate(member, record, data, validation)


def _evaluate(
    member: Member, record: Record, data: TrainingData, validation: Validation | None
) -> None:
    """Score and record the epoch, and keep its weights if it is the best so far."""
    progress, objective = member.progress, member.objective
    _refuse_divergence(record, member.options)
    record |= objective.diagnose(data)
    if validation is None:
        progress.history.records.append(record)
        return
    logits = predict_logits(objective.end_model, validation.inputs)
    if not torch.isfinite(logits).all():
        what = "prediction for the validation set"
        raise _diverged(what, "infinite or NaN", record, member.options)
    score = validation.score(proba_of(logits))
    record[f"validation_{validation.metric}"] = score
    # Recorded first, so that after an interruption the best epoch always has a record.
    progress.history.records.append(record)
    # Until the first epoch that may be selected, the latest is kept, in case of an interruption.
    if score > progress.best_score or record["epoch"] <= member.options.first_epoch:
        progress.best_score = score
        weights = objective.state_dict()
        progress.best_weights = {name: value.clone() for name, value in weights.items()}
        progress.history.best_epoch = int(record["epoch"])


def _refuse_divergence(record: Record, options: TrainOptions) -> None:
    for name, value in record.items():
        if name.startswith("loss") and not math.isfinite(value):
            what = name.replace("loss_", "loss of the ").replace("_", " ")
            raise _diverged(what, value, record, options)


def _diverged(what: str, value: object, record: Record, options: TrainOptions) -> TrainingError:
    return TrainingError(
        f"The {what} became {value} in epoch {record['epoch']}. Lower the learning rate "
        f"(lr={options.lr:g} now) and check that the features are standardized."
    )
