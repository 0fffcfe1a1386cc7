"""Adam without work in Python for every parameter of every step."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

__all__ = ["FusedAdam"]

_BETAS, _EPS = (0.9, 0.999), 1e-8


class FusedAdam:
    """`torch.optim.Adam(..., fused=True)` for parameters whose gradients stay where they are.

    torch collects parameters, gradients and moments again in every step, and counts it for each
    parameter; for small networks that is a good part of the step. Here its kernel is called. And
    the first optimizer of torch in a process imports its compiler, which takes two seconds.

    `groups` are parameters with their learning rate.

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

    def step(self) -> None:
        """Take a step along the gradients."""
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
                lr=block.rate,
                weight_decay=self.weight_decay,
                eps=_EPS,
            )

    @property
    def state(self) -> dict[int, dict[str, Tensor]]:
        """What is kept for every parameter, by its number; steps change these tensors."""
        kept = [
            {"step": block.count, "exp_avg": mean, "exp_avg_sq": square}
            for block in self._blocks
            for mean, square in zip(block.means, block.squares, strict=True)
        ]
        return dict(enumerate(kept))

    def load(self, state: Mapping[int, Mapping[str, Tensor]]) -> None:
        """Go on from a state."""
        for number, own in self.state.items():
            for name, tensor in own.items():
                tensor.copy_(state[number][name])


class _Block:
    """Parameters of one kind of number and one learning rate, which count steps together."""

    def __init__(self, parameters: list[Tensor], rate: float) -> None:
        self.parameters, self.rate = parameters, rate
        self.means = [torch.zeros_like(parameter) for parameter in parameters]
        self.squares = [torch.zeros_like(parameter) for parameter in parameters]
        self.count = torch.zeros((), device=parameters[0].device)
