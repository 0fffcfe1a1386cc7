"""The state of training: one network or a stack of them, and how far each has come."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Self

import torch
from torch import Tensor

from wiesel.errors import TrainingError
from wiesel.nn.stacking import RandomStreams, share_tensors, stack_modules
from wiesel.training.batches import Batch, StackedItems, TrainingData, shuffled
from wiesel.training.checkpoint import (
    Checkpoint,
    MemberProgress,
    read_checkpoint,
    write_checkpoint,
)
from wiesel.training.history import History, mean_record
from wiesel.training.objective import (
    FlatParameters,
    FusedAdam,
    Objective,
    OwnOptimizer,
    Record,
    TrainOptions,
    resolve_device,
)

__all__ = ["NOTHING_TO_TRAIN", "Member", "TrainingState", "single_state", "stacked_state"]

NOTHING_TO_TRAIN = (
    "There is nothing to train: the end model has no parameters, or all are frozen "
    "(requires_grad=False)."
)


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
        found = self._found(fingerprint)
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

    def _found(self, fingerprint: str) -> Checkpoint | None:
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
