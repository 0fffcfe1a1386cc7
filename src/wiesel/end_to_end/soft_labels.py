"""Training an end model on fixed soft labels: the second stage of two, and the gold reference."""

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wiesel.end_to_end.diagnosis import diagnosed_batch, prediction_record
from wiesel.nn.end_models import logits_of
from wiesel.nn.losses import mutual_information_loss, soft_cross_entropy
from wiesel.training import Batch, Objective, Record, TrainingData

__all__ = ["SoftLabelObjective", "rows_of", "soft_label_loss"]

Array = npt.NDArray[np.float64]


def soft_label_loss(
    loss: str, logits: Tensor, targets: Tensor, class_balance: Tensor | None = None
) -> Tensor:
    """Return the cross-entropy of logits to soft labels, or minus their mutual information.

    >>> sure = torch.tensor([[9.0, 0.0], [0.0, 9.0]])
    >>> soft_label_loss("ce", sure, torch.softmax(sure, -1)).round(decimals=2)
    tensor(0.)
    """
    if loss == "ce":
        return soft_cross_entropy(logits, targets)
    prior = None if class_balance is None else class_balance.unsqueeze(-2)
    return mutual_information_loss(torch.softmax(logits, dim=-1), targets, prior)


class SoftLabelObjective(Objective):
    """One network, trained on a fixed soft label for every item.

    Networks with different soft labels for the same items can form one stack.
    """

    stackable = True
    targets: Tensor
    class_balance: Tensor

    def __init__(
        self,
        end_model: nn.Module,
        targets: Array,
        loss: str = "ce",
        class_balance: Array | None = None,
    ) -> None:
        super().__init__()
        self.end_model = end_model
        self.loss = loss
        n_classes = targets.shape[1]
        balance = np.full(n_classes, 1 / n_classes) if class_balance is None else class_balance
        # These are data, not learned state, so checkpoints leave them out.
        for name, values in (("targets", targets), ("class_balance", balance)):
            self.register_buffer(name, torch.from_numpy(values).float(), persistent=False)

    def outputs(self, batch: Batch) -> dict[str, Tensor]:
        """Return the end model's logits."""
        return {"end_model": logits_of(self.end_model, batch.inputs)}

    def compare(self, rows: Tensor, outputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the loss of the end model on the soft labels."""
        logits, targets = outputs["end_model"], self._targets_of(rows)
        return {"end_model": soft_label_loss(self.loss, logits, targets, self.class_balance)}

    @torch.no_grad()
    def diagnose(self, data: TrainingData) -> Record:
        """Return how often predictions and targets agree, on a fixed sample of items."""
        batch = diagnosed_batch(data, self.targets.device)
        wanted = self._targets_of(batch.rows).argmax(dim=1)
        predicted = logits_of(self.end_model, batch.inputs).argmax(dim=1)
        return prediction_record(predicted, wanted, wanted, self.targets.shape[1])

    def _targets_of(self, rows: Tensor) -> Tensor:
        """The soft labels of a batch; for a stack, those of each member."""
        return rows_of(self.targets, rows)


def rows_of(values: Tensor, rows: Tensor) -> Tensor:
    """Return some rows of (n_items, n); for a stack (members, n_items, n), those of each member.

    >>> rows_of(torch.tensor([[[1], [2]], [[3], [4]]]), torch.tensor([[1, 1], [0, 1]])).tolist()
    [[[2], [2]], [[3], [4]]]
    """
    if rows.ndim == 1:
        return values.index_select(0, rows)
    n_members, n_items, width = values.shape
    first = _first_rows(n_members, n_items, rows.device)
    taken = values.reshape(-1, width).index_select(0, (rows + first).reshape(-1))
    return taken.view(*rows.shape, width)


@lru_cache(maxsize=4)
def _first_rows(n_members: int, n_items: int, device: torch.device) -> Tensor:
    """The position of each member's first row if all members' rows are concatenated."""
    return torch.arange(n_members, device=device).unsqueeze(1) * n_items
