"""All parameters as one vector, and Adam on it: a step is one operation instead of dozens."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from wiesel.errors import TrainingError

if TYPE_CHECKING:
    from torch.optim import Optimizer

__all__ = ["FlatParameters", "FusedAdam", "Groups", "OwnOptimizer", "name_of"]

Groups = list[dict[str, Any]]
"""Parameters and their learning rates, in the form that torch's optimizers take."""
_BETAS, _EPS = (0.9, 0.999), 1e-8


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
