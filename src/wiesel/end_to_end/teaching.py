"""What the two networks of WeaSEL teach each other, where it is not simply their last answers."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wiesel.end_to_end.encoding import chosen_class_balance
from wiesel.label_models import ClassBalance
from wiesel.labels import class_prior
from wiesel.training import Validation
from wiesel.votes import VoteMatrix

__all__ = ["Teacher", "aligned_to", "balance_to_align_to"]

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


def balance_to_align_to(
    balance: ClassBalance | str, votes: VoteMatrix, validation: Validation | None
) -> npt.NDArray[np.float64]:
    """Return the class balance that `class_balance` names; `auto` is the best that is known.

    That is the validation set's. Without one it is what the votes say, for two classes. Of more
    classes voters that abstain cover some much better than others, so that their shares
    exaggerate: the more they abstain the closer to equal shares it is, at most half-way on a
    logarithmic scale.
    """
    if not isinstance(balance, str) or balance != "auto":
        return chosen_class_balance(balance, votes, validation)
    if validation is not None:
        return chosen_class_balance("validation", votes, validation)
    shares = _voted_shares(votes) + 1e-3
    abstaining = 1 - votes.n_votes / (votes.covered.sum() * votes.n_voters)
    power = 1.0 if votes.n_classes == 2 else 1 - abstaining / 2
    return class_prior(votes.labels, shares**power)


def aligned_to(
    balance: npt.NDArray[np.float64], proba: npt.NDArray[np.float64], rounds: int = 30
) -> npt.NDArray[np.float64]:
    """Return soft labels whose class shares are the class balance, as near as can be.

    Every class gets a factor, found by repeated proportional fitting.

    >>> aligned_to(np.array([0.5, 0.5]), np.array([[0.9, 0.1], [0.6, 0.4]])).mean(axis=0).round(3)
    array([0.5, 0.5])
    """
    factors = np.ones(proba.shape[1])
    for _ in range(rounds):
        scaled = proba * factors
        scaled /= scaled.sum(axis=1, keepdims=True)
        factors *= (balance / np.maximum(scaled.mean(axis=0), 1e-4)) ** 0.7
    scaled = proba * factors
    aligned: npt.NDArray[np.float64] = scaled / scaled.sum(axis=1, keepdims=True)
    return aligned


def _voted_shares(votes: VoteMatrix) -> npt.NDArray[np.float64]:
    """The mean over covered items of the shares of their votes that each class got."""
    from wiesel.label_models import MajorityVote

    covered = votes[np.flatnonzero(votes.covered)]
    shares: npt.NDArray[np.float64] = (
        MajorityVote().fit(covered).predict_proba(covered).mean(axis=0)
    )
    return shares
