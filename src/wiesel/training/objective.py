"""What the training loop trains, and how: objectives and options.

`SoftLabelObjective` is the simplest objective, and the one that most methods use.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wiesel.errors import ParameterError, TrainingError
from wiesel.nn.end_models import logits_of
from wiesel.nn.losses import (
    mutual_information_loss,
    ranked_probability_loss,
    soft_cross_entropy,
)
from wiesel.training.batches import Batch, TrainingData

if TYPE_CHECKING:
    from torch.optim import Optimizer

__all__ = [
    "NO_HOOKS",
    "FlatParameters",
    "FusedAdam",
    "Groups",
    "Objective",
    "OwnOptimizer",
    "Record",
    "SoftLabelObjective",
    "TrainOptions",
    "TrainingHooks",
    "cosine",
    "name_of",
    "prediction_record",
    "resolve_device",
    "rows_of",
]

Record = dict[str, Any]
"""The results of one epoch: numbers and short lists of numbers by name."""
Groups = list[dict[str, Any]]
"""Parameters and their learning rates, in the form that torch's optimizers take."""
_BETAS, _EPS = (0.9, 0.999), 1e-8


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


class SoftLabelObjective(Objective):
    """One network, trained on a fixed soft label for every item.

    The loss `ce` is the cross-entropy to the soft labels, `mig` minus their mutual information, and
    `ordinal` the squared distance of their cumulative probabilities.
    Networks with different soft labels for the same items can form one stack.
    """

    stackable = True
    targets: Tensor
    class_balance: Tensor

    def __init__(
        self,
        end_model: nn.Module,
        targets: npt.NDArray[np.float64],
        loss: str = "ce",
        class_balance: npt.NDArray[np.float64] | None = None,
    ) -> None:
        super().__init__()
        self.end_model = end_model
        self.loss = loss
        n_classes = targets.shape[1]
        balance = np.full(n_classes, 1 / n_classes) if class_balance is None else class_balance
        # These are data, not learned state, so checkpoints leave them out.
        for name, values in (("targets", targets), ("class_balance", balance)):
            self.register_buffer(name, torch.from_numpy(values).float(), persistent=False)

    def outputs(self, batch: Batch) -> dict[str, Tensor]:
        """Return the end model's logits."""
        return {"end_model": logits_of(self.end_model, batch.inputs)}

    def compare(self, rows: Tensor, outputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the loss of the end model on the soft labels."""
        logits, targets = outputs["end_model"], rows_of(self.targets, rows)
        if self.loss == "ce":
            return {"end_model": soft_cross_entropy(logits, targets)}
        if self.loss == "ordinal":
            return {"end_model": ranked_probability_loss(logits, targets)}
        proba, prior = torch.softmax(logits, dim=-1), self.class_balance.unsqueeze(-2)
        return {"end_model": mutual_information_loss(proba, targets, prior)}

    @torch.no_grad()
    def diagnose(self, data: TrainingData) -> Record:
        """Return how often predictions and targets agree, on a fixed sample of items."""
        batch = data.diagnosed(self.targets.device)
        wanted = rows_of(self.targets, batch.rows).argmax(dim=1)
        predicted = logits_of(self.end_model, batch.inputs).argmax(dim=1)
        return prediction_record(predicted, wanted, wanted, self.targets.shape[1])


def check_losses(losses: Any, name: str, n_members: int) -> None:
    """Refuse losses, which may be of the user's own objective, that are not one number each."""
    kind = type(losses).__name__
    if not isinstance(losses, Mapping) or not losses:
        raise TrainingError(
            f"{name}.losses must return a dict of losses, such as {{'end_model': loss}}; got "
            f"{kind}."
        )
    for key, loss in losses.items():
        is_number = isinstance(loss, Tensor) and loss.is_floating_point()
        if not is_number or loss.numel() != n_members:
            given = f"the shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else repr(loss)
            raise TrainingError(
                f"The loss {key!r} of {name} must be a tensor with one number for each network "
                f"({n_members}), the mean over the batch; got {given:.80}."
            )


def rows_of(values: Tensor, rows: Tensor) -> Tensor:
    """Return some rows of (n_items, n); for a stack (members, n_items, n), those of each member.

    >>> rows_of(torch.tensor([[[1], [2]], [[3], [4]]]), torch.tensor([[1, 1], [0, 1]])).tolist()
    [[[2], [2]], [[3], [4]]]
    """
    if rows.ndim == 1:
        return values.index_select(0, rows)
    n_members, n_items, width = values.shape
    first = _first_rows(n_members, n_items, rows.device)
    taken = values.reshape(-1, width).index_select(0, (rows + first).reshape(-1))
    return taken.view(*rows.shape, width)


@lru_cache(maxsize=4)
def _first_rows(n_members: int, n_items: int, device: torch.device) -> Tensor:
    """The position of each member's first row if all members' rows are concatenated."""
    return torch.arange(n_members, device=device).unsqueeze(1) * n_items


def prediction_record(predicted: Tensor, wanted: Tensor, voted: Tensor, n_classes: int) -> Record:
    """Return the agreement of prediction and target, and the predicted and voted class shares.

    >>> ham, spam = torch.tensor([0, 0]), torch.tensor([0, 1])
    >>> prediction_record(ham, spam, spam, 2)
    {'agreement': 0.5, 'predicted_shares': [1.0, 0.0], 'voted_shares': [0.5, 0.5]}
    """
    return {
        "agreement": (predicted == wanted).float().mean().item(),
        "predicted_shares": _class_shares(predicted, n_classes),
        "voted_shares": _class_shares(voted, n_classes),
    }


def _class_shares(classes: Tensor, n_classes: int) -> list[float]:
    counts = torch.bincount(classes, minlength=n_classes)
    shares: list[float] = (counts / len(classes)).tolist()
    return shares


@dataclass(frozen=True, kw_only=True)
class TrainingHooks:
    """Functions that training calls; `fit(X, votes, hooks=...)` takes them.

    They apply while networks learn from votes, not to fine-tuning on gold labels. A committee
    trains its networks as one stack or two, and each calls `on_epoch`.

    >>> from functools import partial
    >>> hooks = TrainingHooks(
    ...     optimizer=partial(torch.optim.AdamW, weight_decay=0.01),
    ...     schedule=cosine,
    ...     on_epoch=lambda record: record["loss_end_model"] < 0.01,
    ... )
    >>> print(hooks)
    optimizer=AdamW(weight_decay=0.01), schedule=cosine, on_epoch=<lambda>
    """

    optimizer: "Callable[[Groups], Optimizer] | None" = None
    """Makes an optimizer from groups of parameters with their learning rates (`lr`), such as
    `torch.optim.AdamW`; None is Adam with `weight_decay`, an option that other optimizers ignore.
    Networks of a stack share parameters with one more dimension, so it has to be elementwise."""
    schedule: Callable[[float], float] | None = None
    """The factor of the learning rate, given which share of the steps is done, from 0 to 1; such as
    `cosine`."""
    on_epoch: Callable[[Mapping[str, Any]], Any] | None = None
    """Called after each epoch with its record: `epoch`, `epochs`, losses and validation score, of
    several networks the means. True ends training, as for early stopping."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not callable(value):
                raise ParameterError(
                    f"{field.name} of TrainingHooks is a function or None; got {value!r:.80}.",
                    option=field.name,
                )

    def __str__(self) -> str:
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return ", ".join(f"{k}={name_of(value)}" for k, value in given.items() if value is not None)

    def factor(self, done: float) -> float:
        """Return the factor of the learning rate when this share of the steps is done."""
        if self.schedule is None:
            return 1.0
        found = self.schedule(done)
        if isinstance(found, int | float) and math.isfinite(found) and found >= 0:
            return float(found)
        raise TrainingError(
            f"The schedule {name_of(self.schedule)} must return the factor of the learning rate, a "
            f"number from 0 on; for the share {done:g} it returned {found!r:.80}."
        )


NO_HOOKS = TrainingHooks()


def cosine(done: float) -> float:
    """Return a factor of the learning rate that falls from 1 to 0 as half a cosine wave.

    >>> [round(cosine(done), 2) for done in (0.0, 0.5, 1.0)]
    [1.0, 0.5, 0.0]
    """
    return (1 + math.cos(math.pi * done)) / 2


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """How long, how fast and where to train.

    >>> TrainOptions(epochs=3, lr=1e-3).batch_size
    64
    """

    epochs: int = 150
    first_epoch: int = 1
    """With a validation set, the best epoch is selected from this one on."""
    lr: float = 1e-4
    batch_size: int = 64
    epoch_size: int | None = None
    weight_decay: float = 7e-7
    weight_average: float | None = None
    pull: float = 0.0
    """The weight of the squared distance from the initial weights in the loss. If it is above 0,
    training fine-tunes: dropout is off, and statistics of BatchNorm stay."""
    patience: int | None = None
    device: str = "auto"
    checkpoint: str | Path | None = None
    progress: bool | None = None
    engine: Any = None
    """Which other processes train, such as `RayTrain(workers=2)`; None means this process."""
    hooks: TrainingHooks = NO_HOOKS
    """An optimizer, a schedule and a callback of the user's."""


def resolve_device(name: str) -> torch.device:
    """Return the torch device with this name; `auto` is the first accelerator, or the CPU."""
    if not isinstance(name, (str, int, torch.device)):
        raise ParameterError(
            f"device must be 'auto', 'cpu' or a device of torch; got {type(name).__name__}.",
            option="device",
        )
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=name).device
    # Torch raises the first or the second, depending on the build.
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).splitlines()[0]
        problem = f"The device {name!r} cannot be used here: {reason}"
        raise ParameterError(problem, option="device") from error


class FlatParameters:
    """Parameters and gradients stored in one long vector for each dtype.

    This avoids the overhead of a small network's many small tensors. Adam is elementwise, so
    parameters that a loss depends on get the same steps as before. (A parameter that no loss
    depends on has the gradient 0, so weight decay still applies to it.) `release` gives every
    parameter a separate tensor again.

    Networks that are trained as a stack share the vectors: each parameter of the stack is a block
    of a vector, and the members' parameters are the rows of the block.

    >>> layer = nn.Linear(3, 2)
    >>> flat = FlatParameters([layer])
    >>> [len(vector) for vector in flat.vectors]
    [8]
    """

    def __init__(self, members: Sequence[nn.Module], stack: nn.Module | None = None) -> None:
        self._members = [_trainable(member) for member in members]
        self._stack = [] if stack is None else _trainable(stack)
        self.vectors = [self._join(positions) for positions in _by_kind(self._members[0])]

    def rows(self, start: int, stop: int) -> list[Tensor]:
        """Return the parameters of some members, with their gradients, for an optimizer."""
        if stop - start == len(self._members):
            return self.vectors
        return self.tensors(start, stop)

    def tensors(self, start: int, stop: int) -> list[Tensor]:
        """Return the parameters of some members tensor by tensor, as modules have them."""
        if not self._stack:
            return list(self._members[0])
        parts = [parameter.data[start:stop] for parameter in self._stack]
        for part, parameter in zip(parts, self._stack, strict=True):
            part.grad = parameter.grad[start:stop]  # type: ignore[index]
        return parts

    def average_into(self, averages: list[Tensor], decay: float) -> None:
        """Move the running averages one step toward the current vectors."""
        for average, vector in zip(averages, self.vectors, strict=True):
            average.lerp_(vector, 1 - decay)

    @contextmanager
    def showing(self, averages: list[Tensor] | None) -> Iterator[None]:
        """Temporarily replace the parameters by their averages (None leaves them unchanged)."""
        if averages is None:
            yield
            return
        current = [vector.clone() for vector in self.vectors]
        self.set_to(averages)
        try:
            yield
        finally:
            self.set_to(current)

    def set_to(self, values: list[Tensor]) -> None:
        """Give all parameters these values."""
        for vector, value in zip(self.vectors, values, strict=True):
            vector.copy_(value)

    def differentiate(self, losses: Sequence[Tensor]) -> None:
        """Set all gradients to those of the sum of the losses."""
        for vector in self.vectors:
            vector.grad.zero_()  # type: ignore[union-attr]
        # Without explicit gradient arguments: torch imports SymPy to check them.
        torch.autograd.backward([loss if loss.ndim == 0 else loss.sum() for loss in losses])

    def release(self) -> None:
        """Give every parameter of the members a separate tensor without a gradient."""
        for parameters in self._members:
            for parameter in parameters:
                parameter.data = parameter.data.clone(memory_format=torch.contiguous_format)
                parameter.grad = None

    def _join(self, positions: list[int]) -> Tensor:
        """Move the parameters at these positions into one vector, in order."""
        columns = [[parameters[i] for parameters in self._members] for i in positions]
        sizes = [len(column) * column[0].numel() for column in columns]
        vector = torch.empty(sum(sizes), dtype=columns[0][0].dtype, device=columns[0][0].device)
        vector.grad = torch.zeros_like(vector)
        blocks = zip(torch.split(vector, sizes), torch.split(vector.grad, sizes), strict=True)
        for i, column, (values, gradients) in zip(positions, columns, blocks, strict=True):
            if self._stack:
                # A layer of a stack chooses its layout in memory, and its gradients have the same.
                size, stride = self._stack[i].shape, self._stack[i].stride()
                values, gradients = (
                    values.as_strided(size, stride),
                    gradients.as_strided(size, stride),
                )
                self._stack[i].data, self._stack[i].grad = values, gradients
            else:
                values, gradients = (
                    block.view(1, *column[0].shape) for block in (values, gradients)
                )
            for parameter, own, gradient in zip(column, values, gradients, strict=True):
                own.copy_(parameter.detach())
                parameter.data, parameter.grad = own, gradient
        return vector


class FusedAdam:
    """`torch.optim.Adam(..., fused=True)` for parameters whose gradient tensors stay the same.

    torch collects parameters, gradients and moments anew in every step, and counts the step for
    each parameter. For small networks that is a good part of the step. This class calls torch's
    kernel directly. It also saves two seconds: the first torch optimizer in a process imports
    torch's compiler.

    `groups` are lists of parameters, each with its learning rate.

    >>> weights = torch.ones(3)
    >>> weights.grad = torch.ones(3)
    >>> optimizer = FusedAdam([([weights], 0.5)])
    >>> for _ in range(2):
    ...     optimizer.step()
    >>> weights.round(decimals=3)
    tensor([0., 0., 0.])
    """

    def __init__(
        self, groups: Sequence[tuple[Sequence[Tensor], float]], weight_decay: float = 0.0
    ) -> None:
        self.weight_decay = weight_decay
        self._blocks = [
            _Block([p for p in parameters if p.dtype == kind], rate)
            for parameters, rate in groups
            for kind in dict.fromkeys(p.dtype for p in parameters)
        ]

    def step(self, factor: float = 1.0) -> None:
        """Take a step along the gradients, with the learning rates times a factor."""
        for block in self._blocks:
            block.count += 1
            torch._fused_adam_(
                block.parameters,
                [parameter.grad for parameter in block.parameters],  # type: ignore[misc]
                block.means,
                block.squares,
                [],
                [block.count] * len(block.parameters),
                amsgrad=False,
                maximize=False,
                beta1=_BETAS[0],
                beta2=_BETAS[1],
                lr=block.rate * factor,
                weight_decay=self.weight_decay,
                eps=_EPS,
            )

    @property
    def state(self) -> dict[int, dict[str, Tensor]]:
        """The optimizer's state by parameter index; steps change these tensors in place."""
        kept = [
            {"step": block.count, "exp_avg": mean, "exp_avg_sq": square}
            for block in self._blocks
            for mean, square in zip(block.means, block.squares, strict=True)
        ]
        return dict(enumerate(kept))

    def load(self, state: Mapping[int, Mapping[str, Tensor]]) -> None:
        """Continue from a state."""
        for number, own in self.state.items():
            for name, tensor in own.items():
                tensor.copy_(state[number][name])


class OwnOptimizer:
    """An optimizer of the user's, with the interface of `FusedAdam`."""

    def __init__(self, make: "Callable[[Groups], Optimizer]", groups: Groups) -> None:
        optimizer = make(groups)
        if not hasattr(optimizer, "param_groups") or not callable(getattr(optimizer, "step", None)):
            raise TrainingError(
                f"The hook {name_of(make)} must return a torch optimizer for the groups of "
                f"parameters that it is given; it returned {optimizer!r:.80}."
            )
        self._optimizer = optimizer
        self._rates = [group["lr"] for group in optimizer.param_groups]

    def step(self, factor: float = 1.0) -> None:
        """Take a step with the learning rates times a factor."""
        for group, rate in zip(self._optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * factor
        self._optimizer.step()

    @property
    def state(self) -> dict[int, dict[str, Tensor]]:
        """The optimizer's state by parameter index."""
        return {
            number: {k: torch.as_tensor(value) for k, value in own.items() if value is not None}
            for number, own in self._optimizer.state_dict()["state"].items()
        }

    def load(self, state: Mapping[int, Mapping[str, Tensor]]) -> None:
        """Continue from a state."""
        groups = self._optimizer.state_dict()["param_groups"]
        self._optimizer.load_state_dict({"state": dict(state), "param_groups": groups})


class _Block:
    """Parameters with the same dtype and learning rate, which share one step count."""

    def __init__(self, parameters: list[Tensor], rate: float) -> None:
        self.parameters, self.rate = parameters, rate
        self.means = [torch.zeros_like(parameter) for parameter in parameters]
        self.squares = [torch.zeros_like(parameter) for parameter in parameters]
        self.count = torch.zeros((), device=parameters[0].device)


def _trainable(module: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def _by_kind(parameters: list[nn.Parameter]) -> list[list[int]]:
    groups: dict[tuple[torch.dtype, torch.device], list[int]] = {}
    for position, parameter in enumerate(parameters):
        groups.setdefault((parameter.dtype, parameter.device), []).append(position)
    return list(groups.values())


def name_of(function: Any) -> str:
    """Return a function's name, which is the same in every process.

    >>> name_of(partial(round, ndigits=2))
    'round(ndigits=2)'
    """
    if isinstance(function, partial):
        values = [*map(repr, function.args), *(f"{k}={v!r}" for k, v in function.keywords.items())]
        return f"{name_of(function.func)}({', '.join(values)})"
    return getattr(function, "__name__", type(function).__name__)
