"""What the two networks of WeaSEL teach each other, where it is not simply their last answers."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

__all__ = ["Teacher"]

_SHARPENING = 2.0
"""The exponent of a prediction that is its own target, on items nobody voted on."""
_FORGETTING = 0.01
"""How much a batch changes the running class shares: they remember about a hundred batches."""
_SMALLEST_SHARE = 1e-3


class Teacher(nn.Module):
    """Makes the targets of both networks from what both say.

    The encoder learns the end model's prediction P_f. The end model learns::

        target = softmax(theta^T votes + prediction_weight * log P_f)

    With `prediction_weight` 0 that is the soft label of the paper. With 1 the prediction counts as
    a prior that the votes update, so that a vote against all that the features say is doubted.
    On an item without votes the target is the prediction, sharpened. Where targets are aligned,
    their class shares over recent batches are brought to the class balance: nothing else keeps
    both networks from drifting to the popular class together.

    >>> teacher = Teacher(np.array([0.5, 0.5]), prediction_weight=1.0, align=False)
    >>> label = torch.tensor([[2.0, 0.0]])
    >>> for_end_model, for_encoder = teacher(torch.tensor([[0.0, 2.0]]), label, torch.ones(1))
    >>> for_end_model
    tensor([[0.5000, 0.5000]])
    """

    stackable = True
    class_balance: Tensor
    class_shares: Tensor

    def __init__(
        self, class_balance: npt.NDArray[np.float64], *, prediction_weight: float, align: bool
    ) -> None:
        super().__init__()
        self.prediction_weight, self.align = prediction_weight, align
        self.register_buffer("class_balance", torch.from_numpy(class_balance).float())
        # Until it has seen targets the teacher takes them to be right.
        self.register_buffer("class_shares", torch.from_numpy(class_balance).float())

    @torch.no_grad()
    def forward(
        self, end_logits: Tensor, label_logits: Tensor, covered: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the targets of the end model and of the encoder; `covered` is 1 or 0 by item."""
        log_proba = torch.log_softmax(end_logits, dim=-1)
        weight = torch.where(covered > 0, self.prediction_weight, _SHARPENING).unsqueeze(-1)
        targets = torch.softmax(label_logits + weight * log_proba, dim=-1)
        if self.align:
            targets = self._aligned(targets)
        return targets, log_proba.exp()

    def _aligned(self, targets: Tensor) -> Tensor:
        self.class_shares.lerp_(targets.mean(dim=-2), _FORGETTING)
        factors = self.class_balance / self.class_shares.clamp_min(_SMALLEST_SHARE)
        scaled = targets * factors.unsqueeze(-2)
        return scaled / scaled.sum(dim=-1, keepdim=True)
