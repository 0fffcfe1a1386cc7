"""Networks with an output for each label: what trains and validates them, and their average.

Logits are (n_items, 2, n_labels): absent, present; a stack has a first dimension of members.
`known` marks the cells that enter the loss: the labels of an item with a vote, and all items for
labels on which abstaining counts too.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from wiesel.evaluation import supported_threshold
from wiesel.evaluation.metrics import roc_auc
from wiesel.label_sets import Presence
from wiesel.nn.end_models import logits_of
from wiesel.training import Batch, Objective, Record, TrainingData, Validation
from wiesel.training.inputs import Batchable
from wiesel.training.loop import ENOUGH_GOLD, predict_logits
from wiesel.training.objective import rows_of

__all__ = [
    "LabelEnsemble",
    "MultiLabelValidation",
    "PresenceLogits",
    "SoftPresenceObjective",
    "presence_loss",
]

Array = npt.NDArray[np.float64]


class PresenceLogits(nn.Module):
    """Turns a network with one logit for each label into one with two logits for each label.

    >>> PresenceLogits(nn.Linear(3, 2))(torch.zeros(4, 3)).shape
    torch.Size([4, 2, 2])
    """

    stackable = True

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, inputs: Batchable) -> Tensor:
        """Return (n_items, 2, n_labels); the logit of absent is 0."""
        present = logits_of(self.network, inputs)
        return torch.stack([torch.zeros_like(present), present], dim=-2)


class SoftPresenceObjective(Objective):
    """One network, and the P(present) of every item and label from which it learns.

    Networks that learn different soft labels for the same items can form one stack. `one_sided`
    marks the labels whose votes all go one way.
    """

    stackable = True
    targets: Tensor
    known: Tensor

    def __init__(
        self,
        end_model: nn.Module,
        targets: Array,
        known: npt.NDArray[np.bool_],
        one_sided: npt.NDArray[np.bool_],
    ) -> None:
        super().__init__()
        self.end_model = PresenceLogits(end_model)
        self.one_sided = one_sided
        # These belong to the data and are not learned.
        for name, values in (("targets", targets), ("known", known)):
            self.register_buffer(name, torch.from_numpy(values).float(), persistent=False)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the cross-entropy to the soft labels, over the known cells."""
        logits = self.end_model(batch.inputs)
        known = rows_of(self.known, batch.rows)
        return {"end_model": presence_loss(logits, self._target(batch), known)}

    @torch.no_grad()
    def diagnose(self, data: TrainingData) -> Record:
        """Return how many items get each label, and how often that agrees with the soft labels."""
        batch = self.prepare(data.diagnosed(self.targets.device))
        predicted = self.end_model(batch.inputs).argmax(dim=1)
        known = self.known[batch.rows]
        wanted = (self._target(batch)[:, 1] >= 0.5).long()
        right = ((predicted == wanted) * known).sum() / known.sum().clamp_min(1)
        return {
            "agreement": float(right),
            "present": predicted.float().mean(dim=0).tolist(),
            "present_wanted": wanted.float().mean(dim=0).tolist(),
            "one_sided": self.one_sided.astype(int).tolist(),
        }

    def _target(self, batch: Batch) -> Tensor:
        """The targets of the end model: (n_items, 2, n_labels)."""
        present = rows_of(self.targets, batch.rows)
        return torch.stack([1 - present, present], dim=-2)


def presence_loss(logits: Tensor, targets: Tensor, known: Tensor) -> Tensor:
    """Return the cross-entropy of the known cells, summed over labels and averaged over items."""
    by_cell = -(targets * torch.log_softmax(logits, dim=-2)).sum(dim=-2)
    return (by_cell * known).sum(dim=(-2, -1)) / logits.shape[-3]


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


@dataclass(frozen=True)
class MultiLabelValidation(Validation):
    """Held-out items with gold labels; the score of an epoch is the labels' mean ROC-AUC."""

    presence: Presence
    """(n_items, n_labels): 1, 0, or -1 if unknown."""

    def of_rows(self, rows: npt.NDArray[np.int64]) -> Self:
        """Return some of the items."""
        return replace(super().of_rows(rows), presence=self.presence[rows])

    @property
    def judged(self) -> list[int]:
        """The labels that some of the items have and others do not."""
        known = [self.presence[:, k][self.presence[:, k] >= 0] for k in range(self.n_classes)]
        return [k for k, own in enumerate(known) if 0 < own.sum() < len(own)]

    def of_label(self, place: int) -> Validation:
        """Return the gold of one label, on the items where it is known."""
        gold = self.presence[:, place]
        return Validation(self.inputs, gold[gold >= 0], 2)

    @property
    def gold_array(self) -> Presence:
        """The gold labels of all items: (n_items, n_labels)."""
        return self.presence

    @property
    def can_choose(self) -> bool:
        """Whether the items can tell epochs apart: enough of them, and a label to judge."""
        return len(self.presence) >= ENOUGH_GOLD and bool(self.judged)

    @property
    def metric(self) -> str:
        """The metric of `score`."""
        return "mean_auc" if self.judged else "accuracy"

    def proba_by(self, module: nn.Module) -> Array:
        """Return P(present) by a network: (n_items, n_labels)."""
        from scipy.special import expit

        return np.asarray(expit(predict_logits(module, self.inputs).double().numpy()))

    def score(self, proba: Array) -> float:
        """Return the score of P(present), or of P(absent, present): (n_items, 2, n_labels)."""
        present = proba if proba.ndim == 2 else proba[:, 1]
        known = self.presence >= 0
        if not self.judged:
            right = (present >= 0.5) == (self.presence == 1)
            return float(right[known].mean()) if known.any() else 0.0
        areas = []
        for k in self.judged:
            own = present[known[:, k], k]
            areas.append(roc_auc(self.presence[known[:, k], k], np.stack([1 - own, own], axis=1)))
        return float(np.mean(areas))

    def log_loss(self, proba: Array) -> float:
        """Return the mean negative log-probability of the known gold labels."""
        known = self.presence >= 0
        own = np.where(self.presence == 1, proba, 1 - proba)[known]
        return float(-np.log(np.maximum(own, 1e-6)).mean()) if known.any() else float("nan")

    def best_threshold(self, proba: Array) -> Array:
        """Return the threshold of every label that gold supports; 1/2 if it cannot judge it."""
        found = np.full(self.n_classes, 0.5)
        for k in self.judged:
            known = self.presence[:, k] >= 0
            found[k] = supported_threshold(proba[known, k], self.presence[known, k])
        return found
