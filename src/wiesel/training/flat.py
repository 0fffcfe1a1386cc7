"""All parameters as one vector, so that an optimizer step is one operation instead of dozens."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

__all__ = ["FlatParameters"]


class FlatParameters:
    """Parameters that live in one long vector for each kind of number, and so do their gradients.

    Adam treats every number on its own, so parameters that a loss depends on get the same steps;
    what is saved is the overhead of the many small tensors of a small network. (A parameter that
    no loss depends on counts as having the gradient 0, so weight decay reaches it.) `release`
    gives every parameter a tensor of its own again.

    >>> layer = nn.Linear(3, 2)
    >>> flat = FlatParameters(layer.parameters())
    >>> [len(vector) for vector in flat.vectors]
    [8]
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        self._parameters = list(parameters)
        self.vectors = [self._join(group) for group in _by_kind(self._parameters)]

    def average_into(self, averages: list[Tensor], decay: float) -> None:
        """Move running averages of the vectors a step towards the vectors."""
        for average, vector in zip(averages, self.vectors, strict=True):
            average.lerp_(vector, 1 - decay)

    @contextmanager
    def showing(self, averages: list[Tensor] | None) -> Iterator[None]:
        """Let the parameters be their averages for a while (None: leave them as they are)."""
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

    def zero_grad(self) -> None:
        """Set all gradients to zero."""
        for vector in self.vectors:
            vector.grad.zero_()  # type: ignore[union-attr]

    def release(self) -> None:
        """Give every parameter a tensor of its own, and no gradient."""
        for parameter in self._parameters:
            parameter.data = parameter.data.clone()
            parameter.grad = None

    @staticmethod
    def _join(parameters: list[nn.Parameter]) -> Tensor:
        vector = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
        vector.grad = torch.zeros_like(vector)
        start = 0
        for parameter in parameters:
            stop = start + parameter.numel()
            parameter.data = vector[start:stop].view_as(parameter)
            parameter.grad = vector.grad[start:stop].view_as(parameter)
            start = stop
        return vector


def _by_kind(parameters: list[nn.Parameter]) -> list[list[nn.Parameter]]:
    groups: dict[tuple[torch.dtype, torch.device], list[nn.Parameter]] = {}
    for parameter in parameters:
        groups.setdefault((parameter.dtype, parameter.device), []).append(parameter)
    return list(groups.values())
