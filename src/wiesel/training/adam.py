"""Adam without work in Python for every parameter of every step."""

from typing import Any

import torch
from torch import Tensor

__all__ = ["FusedAdam"]


class FusedAdam(torch.optim.Adam):
    """`torch.optim.Adam(..., fused=True)` for parameters whose gradients stay where they are.

    torch collects parameters, gradients and moments anew in every step, and counts it for each
    parameter; for small networks that is a good part of the step. Here its kernel is called.

    >>> weights = torch.ones(3)
    >>> weights.grad = torch.ones(3)
    >>> optimizer = FusedAdam([weights], lr=0.5, fused=True)
    >>> for _ in range(2):
    ...     optimizer.step()
    >>> weights.round(decimals=3)
    tensor([0., 0., 0.])
    """

    _collected: list[tuple[Any, ...]] | None = None

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Take a step along the gradients."""
        if self._collected is None:
            super().step(closure)
            self._collected = [self._collect(group) for group in self.param_groups]
            return
        for group, parameters, gradients, means, squares, counts in self._collected:
            counts[0] += 1
            torch._fused_adam_(
                parameters,
                gradients,
                means,
                squares,
                [],
                counts,
                amsgrad=False,
                maximize=False,
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                lr=group["lr"],
                weight_decay=group["weight_decay"],
                eps=group["eps"],
            )

    step.hooked = True  # type: ignore[attr-defined] # torch wraps it otherwise, to tell profilers

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a state that `state_dict` gave."""
        super().load_state_dict(state_dict)
        self._collected = None

    def _collect(self, group: dict[str, Any]) -> tuple[Any, ...]:
        """What the kernel needs of a group; its parameters count their steps together."""
        parameters: list[Tensor] = group["params"]
        states = [self.state[parameter] for parameter in parameters]
        for state in states:
            state["step"] = states[0]["step"]
        gradients = [parameter.grad for parameter in parameters]
        moments = ([state[name] for state in states] for name in ("exp_avg", "exp_avg_sq"))
        return group, parameters, gradients, *moments, [states[0]["step"]] * len(states)
