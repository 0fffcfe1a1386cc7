"""Diagnostics of the networks for the history, and warnings about collapsed networks."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from wiesel.errors import Argument, CollapseWarning, warn_user
from wiesel.tasks.one_label import COLLAPSED_SHARE
from wiesel.training import Record

__all__ = [
    "voter_record",
    "warn_if_collapsed",
    "warn_if_votes_are_ignored",
]


def voter_record(accuracies: Tensor, votes: Tensor) -> Record:
    """Return the effective number of voters, the largest share, and the share of those that vote.

    The number is the exponential of the entropy of the weights, averaged over items.
    `voting_share` is the weight of the voters that vote; weight on abstaining voters is lost.

    >>> voter_record(torch.tensor([[1.0, 1.0, 0.0]]), torch.tensor([[[1.0], [0.0], [1.0]]]))
    {'effective_voters': 2.0, 'largest_voter_share': 0.5, 'voting_share': 0.5}
    """
    weights = accuracies.clamp_min(0)
    if weights.ndim == 3:
        weights = weights.mean(dim=2)
    shares = weights / weights.sum(dim=1, keepdim=True).clamp_min(1e-12)
    entropy = torch.special.entr(shares).sum(dim=1)
    return {
        "effective_voters": entropy.exp().mean().item(),
        "largest_voter_share": shares.mean(dim=0).max().item(),
        "voting_share": (shares * (votes.amax(dim=2) > 0)).sum(dim=1).mean().item(),
    }


def warn_if_collapsed(models: Sequence[Any]) -> None:
    """Warn if at least half of the trained networks predict the same for nearly all items.

    A few collapsed networks do not spoil the average of an ensemble.
    """
    collapsed = [model for model in models if model.task_.collapsed(model.history_).any()]
    if not collapsed or 2 * len(collapsed) < len(models):
        return
    first = collapsed[0]
    message = first.task_.collapse_message(first.history_)
    if len(models) > 1:
        message = f"{len(collapsed)} of the {len(models)} networks have collapsed. {message}"
    warn_user(CollapseWarning(f"{message} ", *_advice(first)))


def warn_if_votes_are_ignored(model: Any) -> None:
    """Warn if one voter, or voters that abstain, have all the weight."""
    kept = model.history_.kept if len(model.history_) else {}
    if len(model.voters_) > 1 and kept.get("largest_voter_share", 0.0) >= COLLAPSED_SHARE:
        message = "One voter has all the weight, on all items."
        warn_user(CollapseWarning(f"{message} ", *_advice(model)))
    if kept.get("voting_share", 1.0) <= 1 - COLLAPSED_SHARE:
        message = "Nearly all the weight went to voters that abstain, so soft labels are vague."
        advice = "Use voting_only=True, which shares the weight among the voters that voted."
        warn_user(f"{message} {advice}", CollapseWarning)


def _advice(model: Any) -> Iterator[str | Argument]:
    """Advice in terms of the options that the method has."""
    yield "What helps: a validation set (its best epoch is kept), fewer epochs, a lower lr"
    balance = hasattr(model, "class_balance")
    if hasattr(model, "tau_1"):
        yield f",{'' if balance else ' or'} tau_1=1/3 or lower"
    if balance:
        yield from (", or ", Argument("class_balance", [...]), " if you know it")
    yield "."
