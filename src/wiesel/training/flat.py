"""All parameters as one vector, so that an optimizer step is one operation instead of dozens."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

__all__ = ["FlatParameters"]


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
                parameter.data = parameter.data.clone()
                parameter.grad = None

    def _join(self, positions: list[int]) -> Tensor:
        """Move the parameters at these positions into one vector, in order."""
        columns = [[parameters[i] for parameters in self._members] for i in positions]
        values = [parameter.detach().reshape(-1) for column in columns for parameter in column]
        vector = torch.cat(values)
        vector.grad = torch.zeros_like(vector)
        start = 0
        for i, column in zip(positions, columns, strict=True):
            first = start
            for parameter in column:
                stop = start + parameter.numel()
                _place(parameter, vector[start:stop], vector.grad[start:stop])
                start = stop
            if self._stack:
                _place(self._stack[i], vector[first:start], vector.grad[first:start])
        return vector


def _place(parameter: nn.Parameter, values: Tensor, gradient: Tensor) -> None:
    parameter.data = values.view(parameter.shape)
    parameter.grad = gradient.view(parameter.shape)


def _trainable(module: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def _by_kind(parameters: list[nn.Parameter]) -> list[list[int]]:
    groups: dict[tuple[torch.dtype, torch.device], list[int]] = {}
    for position, parameter in enumerate(parameters):
        groups.setdefault((parameter.dtype, parameter.device), []).append(position)
    return list(groups.values())
