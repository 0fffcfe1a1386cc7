"""Several trained networks with an output for each label, as one."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from wiesel.nn.end_models import logits_of

__all__ = ["LabelEnsemble"]


class LabelEnsemble(nn.Module):
    """A network whose P(present) of each label is the (weighted) mean of its members'.

    `weights` are (members, labels): a member may count for one label and not for another.

    >>> sure, unsure = nn.Identity(), nn.Threshold(10.0, 0.0)
    >>> both = LabelEnsemble([sure, unsure], np.array([[0.5, 0.0], [0.5, 1.0]]))
    >>> torch.sigmoid(both(torch.tensor([[9.0, 9.0]]))).round(decimals=2)
    tensor([[0.7500, 0.5000]])
    """

    def __init__(
        self, members: Iterable[nn.Module], weights: npt.NDArray[np.float64] | None = None
    ) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.weights = None if weights is None else torch.from_numpy(weights)

    def forward(self, inputs: Tensor | dict[str, Tensor]) -> Tensor:
        """Return the logit of the mean probability of every label."""
        logits = torch.stack([logits_of(member, inputs) for member in self.members])
        shares = torch.zeros(len(logits), 1) if self.weights is None else torch.log(self.weights)
        shares = shares.to(logits.device).unsqueeze(1)
        present = torch.logsumexp(logsigmoid(logits) + shares, dim=0)
        return (present - torch.logsumexp(logsigmoid(-logits) + shares, dim=0)).to(logits.dtype)
