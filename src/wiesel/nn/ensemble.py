"""Several trained networks as one."""

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from wiesel.nn.logits import logits_of

__all__ = ["Ensemble"]


class Ensemble(nn.Module):
    """A network whose probabilities are the mean of its members' probabilities.

    >>> sure, unsure = nn.Identity(), nn.Threshold(10.0, 0.0)
    >>> logits = Ensemble([sure, unsure])(torch.tensor([[0.0, 9.0]]))
    >>> torch.softmax(logits, dim=1).round(decimals=2)
    tensor([[0.2500, 0.7500]])
    """

    def __init__(self, members: Iterable[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, inputs: Tensor | dict[str, Tensor]) -> Tensor:
        """Return the logarithm of the mean probability of every class."""
        answers = [torch.log_softmax(logits_of(member, inputs), -1) for member in self.members]
        return torch.logsumexp(torch.stack(answers), dim=0) - math.log(len(answers))
