"""Adam without work in Python for every parameter of every step."""

from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam

__all__ = ["FusedAdam"]


class FusedAdam(torch.optim.Adam):
    """`torch.optim.Adam(..., fused=True)` for parameters whose gradients stay where they are.

    torch collects parameters, gradients and moments anew in every step, which for small networks
    is a good part of the step.

    >>> weights = torch.ones(3)
    >>> weights.grad = torch.ones(3)
    >>> optimizer = FusedAdam([weights], lr=0.5, fused=True)
    >>> for _ in range(2):
    ...     optimizer.step()
    >>> weights.round(decimals=3)
    tensor([0., 0., 0.])
    """

    _collected: list[tuple[list[Tensor], ...]] | None = None

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Take a step along the gradients."""
        if self._collected is None:
            super().step(closure)
            self._collected = [self._collect(group["params"]) for group in self.param_groups]
            return
        for group, tensors in zip(self.param_groups, self._collected, strict=True):
            parameters, gradients, means, squares, steps = tensors
            adam(
                parameters,
                gradients,
                means,
                squares,
                [],
                steps,
                fused=True,
                amsgrad=False,
                maximize=False,
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                **{name: group[name] for name in ("lr", "weight_decay", "eps")},
            )

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a state that `state_dict` gave."""
        super().load_state_dict(state_dict)
        self._collected = None

    def _collect(self, parameters: list[Tensor]) -> tuple[list[Tensor], ...]:
        states = [self.state[parameter] for parameter in parameters]
        gradients: list[Tensor] = [parameter.grad for parameter in parameters]  # type: ignore[misc]
        first, second = ([state[name] for state in states] for name in ("exp_avg", "exp_avg_sq"))
        return parameters, gradients, first, second, [state["step"] for state in states]
