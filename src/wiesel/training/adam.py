"""Adam without per-parameter Python work in every step."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

__all__ = ["FusedAdam"]

_BETAS, _EPS = (0.9, 0.999), 1e-8


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


class _Block:
    """Parameters with the same dtype and learning rate, which share one step count."""

    def __init__(self, parameters: list[Tensor], rate: float) -> None:
        self.parameters, self.rate = parameters, rate
        self.means = [torch.zeros_like(parameter) for parameter in parameters]
        self.squares = [torch.zeros_like(parameter) for parameter in parameters]
        self.count = torch.zeros((), device=parameters[0].device)
