"""Networks with an output for each label: what trains them, and their average.

Logits are (n_items, 2, n_labels): absent, present; a stack has a first dimension of members.
`known` marks the cells that enter the loss: the labels of an item with a vote, and all items for
labels on which abstaining counts too.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from wiesel.nn.end_models import logits_of
from wiesel.training import Batch, Objective, Record, TrainingData
from wiesel.training.inputs import Batchable
from wiesel.training.objective import rows_of

__all__ = ["LabelEnsemble", "PresenceLogits", "SoftPresenceObjective", "presence_loss"]

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
