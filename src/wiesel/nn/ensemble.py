"""Several trained networks as one."""

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from wiesel.nn.logits import logits_of

__all__ = ["Ensemble"]


class Ensemble(nn.Module):
    """A network whose probabilities are the (weighted) mean of its members' probabilities.

    >>> sure, unsure = nn.Identity(), nn.Threshold(10.0, 0.0)
    >>> logits = Ensemble([sure, unsure])(torch.tensor([[0.0, 9.0]]))
    >>> torch.softmax(logits, dim=1).round(decimals=2)
    tensor([[0.2500, 0.7500]])
    """

    def __init__(
        self, members: Iterable[nn.Module], weights: Sequence[float] | None = None
    ) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.weights = None if weights is None else tuple(weights)

    def forward(self, inputs: Tensor | dict[str, Tensor]) -> Tensor:
        """Return the logarithm of the mean probability of every class."""
        weights = self.weights or (1 / len(self.members),) * len(self.members)
        # Members with weight 0 are not run.
        answers = [
            torch.log_softmax(logits_of(member, inputs), -1) + math.log(weight)
            for member, weight in zip(self.members, weights, strict=True)
            if weight > 0
        ]
        return torch.logsumexp(torch.stack(answers), dim=0)
