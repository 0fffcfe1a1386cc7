"""What the history tells about the networks, and the warning when they have collapsed."""

import torch
from torch import Tensor

from wiesel.errors import CollapseWarning, warn_user
from wiesel.labels import LabelSpace
from wiesel.training import Batch, History, Record, TrainingData

__all__ = [
    "diagnosed_batch",
    "prediction_record",
    "predicts_one_class",
    "voter_record",
    "warn_if_collapsed",
]

_DIAGNOSED_ITEMS = 512
_DIAGNOSED_BYTES = 32 * 2**20
"""Enough to see, too few to cost; fewer where the votes of thousands of voters would be dense."""

_ALL_OF_IT = 0.995
_TOLD_APART = 0.6
"""A ROC-AUC that a network without any knowledge does not reach."""
_ADVICE = (
    "What helps: a validation set (its best epoch is kept), fewer epochs, a lower lr, "
    "tau_1=1/3 or lower, or class_balance=[...] if you know it."
)


def diagnosed_batch(data: TrainingData, device: torch.device) -> Batch:
    """Return the training items that are looked at after every epoch, always the same."""
    affordable = max(64, _DIAGNOSED_BYTES // max(1, data.prepared_bytes))
    return data.sampled(min(_DIAGNOSED_ITEMS, affordable), device)


def prediction_record(predicted: Tensor, wanted: Tensor, voted: Tensor, n_classes: int) -> Record:
    """Return how often prediction and target agree, and which classes are predicted and voted.

    >>> ham, spam = torch.tensor([0, 0]), torch.tensor([0, 1])
    >>> prediction_record(ham, spam, spam, 2)
    {'agreement': 0.5, 'predicted_shares': [1.0, 0.0], 'voted_shares': [0.5, 0.5]}
    """
    return {
        "agreement": (predicted == wanted).float().mean().item(),
        "predicted_shares": _class_shares(predicted, n_classes),
        "voted_shares": _class_shares(voted, n_classes),
    }


def voter_record(accuracies: Tensor, votes: Tensor) -> Record:
    """Return how many voters share the weight, the largest share, and the share that is heard.

    The number is the exponential of the entropy of the weights, averaged over items. Heard is
    the weight of voters that voted; what those that abstain get is lost.

    >>> voter_record(torch.tensor([[1.0, 1.0, 0.0]]), torch.tensor([[[1.0], [0.0], [1.0]]]))
    {'effective_voters': 2.0, 'largest_voter_share': 0.5, 'heard_share': 0.5}
    """
    weights = accuracies.clamp_min(0)
    if weights.ndim == 3:
        weights = weights.mean(dim=2)
    shares = weights / weights.sum(dim=1, keepdim=True).clamp_min(1e-12)
    entropy = torch.special.entr(shares).sum(dim=1)
    return {
        "effective_voters": entropy.exp().mean().item(),
        "largest_voter_share": shares.mean(dim=0).max().item(),
        "heard_share": (shares * (votes.amax(dim=2) > 0)).sum(dim=1).mean().item(),
    }


def predicts_one_class(history: History) -> bool:
    """Whether the kept weights predict one class although the votes do not.

    Not where the validation set shows that the classes are separated: then only the threshold is
    off, and that is tuned.
    """
    kept = history.kept if len(history) else {}
    shares, voted = kept.get("predicted_shares"), kept.get("voted_shares")
    if not shares or not voted or kept.get("validation_auc", 0.0) >= _TOLD_APART:
        return False
    return bool(max(shares) >= _ALL_OF_IT and max(voted) < _ALL_OF_IT)


def warn_if_collapsed(history: History, labels: LabelSpace, n_voters: int) -> None:
    """Warn if one class or one voter has taken everything in the weights that were kept."""
    kept = history.kept if len(history) else {}
    if predicts_one_class(history):
        shares = kept["predicted_shares"]
        name = labels.names[shares.index(max(shares))]
        message = f"The end model predicts {name!r} for nearly all items although the votes do not."
        warn_user(f"{message} {_ADVICE}", CollapseWarning)
    if n_voters > 1 and kept.get("largest_voter_share", 0.0) >= _ALL_OF_IT:
        message = "One voter has taken all the weight, on all items."
        warn_user(f"{message} {_ADVICE}", CollapseWarning)
    if kept.get("heard_share", 1.0) <= 1 - _ALL_OF_IT:
        message = "Nearly all the weight went to voters that abstain, so soft labels are vague."
        advice = "Use voting_only=True, which shares the weight among the voters that voted."
        warn_user(f"{message} {advice}", CollapseWarning)


def _class_shares(classes: Tensor, n_classes: int) -> list[float]:
    counts = torch.bincount(classes, minlength=n_classes)
    shares: list[float] = (counts / len(classes)).tolist()
    return shares
