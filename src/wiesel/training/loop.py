"""The training loop, on one page. Nothing in it is about weak supervision."""

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from wiesel.errors import TrainingError
from wiesel.training.batches import Batch, TrainingData
from wiesel.training.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from wiesel.training.flat import FlatParameters
from wiesel.training.history import History
from wiesel.training.options import TrainOptions, resolve_device
from wiesel.training.progress import progress_bar
from wiesel.training.threads import fitting_threads
from wiesel.training.validation import Validation, predict_logits

__all__ = ["Objective", "Record", "seeded", "train"]

Record = dict[str, Any]
"""What is known about one epoch: numbers and short lists of numbers by name."""


class Objective(nn.Module):
    """What is trained: the networks of a method, and the losses of one batch.

    Everything that must survive an interruption is a parameter or a buffer.
    """

    end_model: nn.Module

    def prepare(self, batch: Batch) -> Batch:
        """Return a large batch with what every step would otherwise compute again."""
        return batch

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the losses of a batch by name; their sum is minimized."""
        raise NotImplementedError

    def start_epoch(self, epoch: int, data: TrainingData) -> None:
        """Do what the method does between epochs, such as an E-step."""

    def diagnose(self, data: TrainingData) -> Record:
        """Return what the history should tell about the networks as they are now."""
        return {}


@dataclass
class _State:
    """Where training stands; exactly what a checkpoint holds."""

    objective: Objective
    parameters: FlatParameters
    optimizer: torch.optim.Optimizer
    history: History = field(default_factory=History)
    averages: list[Tensor] | None = None
    """Running averages of the parameters, where the options ask for them."""
    best_score: float = -math.inf
    best_weights: dict[str, Tensor] | None = None


def train(
    objective: Objective,
    data: TrainingData,
    options: TrainOptions,
    validation: Validation | None = None,
    fingerprint: str = "",
) -> History:
    """Train the objective's networks in place and return what happened.

    With a validation set the weights of its best epoch are kept, else those of the last.
    Interrupting (Ctrl-C) ends training with the best weights so far.
    """
    device = resolve_device(options.device)
    objective.to(device)
    flat = FlatParameters(p for p in objective.parameters() if p.requires_grad)
    if not flat.vectors:
        raise TrainingError(
            "There is nothing to train: the end model has no parameters, or all are frozen "
            "(requires_grad=False)."
        )
    optimizer = torch.optim.Adam(
        flat.vectors, lr=options.lr, weight_decay=options.weight_decay, fused=True
    )
    state = _State(objective, flat, optimizer)
    if options.weight_average is not None:
        state.averages = [vector.clone() for vector in flat.vectors]
    _resume(state, options, fingerprint)
    try:
        with (
            fitting_threads(objective),
            progress_bar(options.epochs, len(state.history), options.progress) as show,
        ):
            while not _is_finished(state, options):
                record = _run_epoch(state, data, options, device)
                with flat.showing(state.averages):
                    record |= objective.diagnose(data)
                    _finish_epoch(state, record, options, validation)
                _save(state, options, fingerprint)
                show(record)
    except KeyboardInterrupt:
        state.history.interrupted = True
    if state.best_weights is not None:
        objective.load_state_dict(state.best_weights)
    elif state.averages is not None:
        flat.set_to(state.averages)
    flat.release()
    objective.eval().to("cpu")
    return state.history


def _run_epoch(
    state: _State, data: TrainingData, options: TrainOptions, device: torch.device
) -> Record:
    objective, optimizer, epoch = state.objective, state.optimizer, len(state.history) + 1
    objective.start_epoch(epoch, data)
    objective.train()
    order = data.items[torch.randperm(len(data.items)).numpy()]
    totals: dict[str, Tensor] = {}
    n_batches = 0
    for batch in data.batches(order, options.batch_size, device, objective.prepare):
        losses = objective.losses(batch)
        state.parameters.zero_grad()
        # The loss of a network that is kept as it is has nothing to change.
        torch.autograd.backward([loss for loss in losses.values() if loss.requires_grad])
        optimizer.step()
        if state.averages is not None:
            state.parameters.average_into(state.averages, options.weight_average)  # type: ignore[arg-type]
        for name, loss in losses.items():
            value = loss.detach()
            totals[name] = totals[name] + value if name in totals else value
        n_batches += 1
    record: Record = {"epoch": epoch}
    record |= {f"loss_{name}": float(total) / n_batches for name, total in totals.items()}
    _refuse_divergence(record, options)
    objective.eval()
    return record


def _finish_epoch(
    state: _State, record: Record, options: TrainOptions, validation: Validation | None
) -> None:
    """Score the epoch, note it, and remember its weights if it is the best so far."""
    if validation is None:
        state.history.records.append(record)
        return
    logits = predict_logits(state.objective.end_model, validation.inputs)
    if not torch.isfinite(logits).all():
        raise _diverged("prediction for the validation set", "infinite or NaN", record, options)
    score = validation.score(torch.softmax(logits.double(), dim=1).numpy())
    record[f"validation_{validation.metric}"] = score
    # Noted first: an interruption from here on finds a record for the best epoch.
    state.history.records.append(record)
    if score > state.best_score:
        state.best_score = score
        state.best_weights = copy.deepcopy(state.objective.state_dict())
        state.history.best_epoch = int(record["epoch"])


def _is_finished(state: _State, options: TrainOptions) -> bool:
    done = len(state.history)
    best = state.history.best_epoch
    out_of_patience = (
        options.patience is not None and best is not None and done - best >= options.patience
    )
    return done >= options.epochs or out_of_patience


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


def _resume(state: _State, options: TrainOptions, fingerprint: str) -> None:
    found = read_checkpoint(options.checkpoint, fingerprint) if options.checkpoint else None
    if found is None:
        return
    state.objective.load_state_dict(found.weights)
    state.optimizer.load_state_dict(found.optimizer_state(state.optimizer))
    state.history, state.best_score = found.history, found.best_score
    state.best_weights = found.best_weights
    if state.averages is not None:
        state.averages = found.averages
    torch.set_rng_state(found.random_state)


def _save(state: _State, options: TrainOptions, fingerprint: str) -> None:
    if options.checkpoint is None:
        return
    checkpoint = Checkpoint(
        weights=state.objective.state_dict(),
        best_weights=state.best_weights,
        averages=state.averages or [],
        optimizer=state.optimizer.state_dict()["state"],
        random_state=torch.get_rng_state(),
        history=state.history,
        best_score=state.best_score,
    )
    write_checkpoint(options.checkpoint, checkpoint, fingerprint)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw everything inside from `seed`, and leave torch's global generator as it was.

    >>> before = torch.get_rng_state()
    >>> with seeded(3):
    ...     first = torch.rand(1).item()
    >>> with seeded(3):
    ...     first == torch.rand(1).item()
    True
    >>> torch.equal(before, torch.get_rng_state())
    True
    """
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        yield
