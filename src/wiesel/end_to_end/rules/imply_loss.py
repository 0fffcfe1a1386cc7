"""ImplyLoss: if a rule holds, its class is the label."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wiesel.end_to_end.rules.rule_model import RuleModel, RuleObjective, RuleParts
from wiesel.end_to_end.vote_payloads import VoteEntries
from wiesel.labels import ABSTAIN
from wiesel.parameters import check_number
from wiesel.training import Batch
from wiesel.votes import VoteMatrix

__all__ = ["ImplyLoss"]

_POWER = 0.2
"""q of the generalized cross-entropy (1 - w^q) / q, which is robust to a few wrong targets."""
_SMALLEST = 1e-12


@dataclass(eq=False, kw_only=True)
class ImplyLoss(RuleModel):
    """Learning from rules that generalize exemplars (Awasthi et al., ICLR 2020).

    A rule network estimates the probability w_j(x) that rule j holds on an item. A soft implication
    ties the end model f to the rules: "if the rule holds, its class is correct"::

        loss = CE(f, gold)                                                      labeled items
             + - log(1 - w_j(x))  where rule j is wrong,  (1 - w_j(x)^q) / q  where it is right
             + gamma * sum_j - log(1 - w_j(x) (1 - f(vote_j | x)))              other items

    `fit(X, votes, gold=...)` gets the gold labels of the labeled items. In the paper every rule
    comes with one labeled item, its exemplar, on which it holds. A vote matrix does not contain
    this, so all labeled items on which a rule is right count as in the second line. Without gold
    labels, the rules could learn to never hold. Then items with two or more votes that all agree
    replace labeled items (if there are none, all items with their majority). This is our addition.

    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> votes, gold = make_votes(200, 5, n_classes=3, coverage=0.6)
    >>> X = make_features(gold, n_features=4)
    >>> few = np.where(np.arange(200) < 20, gold, -1)
    >>> model = ImplyLoss(torch.nn.Linear(4, 3), epochs=1, lr=0.01).fit(X, votes, gold=few)
    >>> model.rule_weights(X, votes).shape
    (200, 5)
    """

    gamma: float = 0.1
    """The weight of the implication on unlabeled items."""

    def check_options(self) -> None:
        """Refuse invalid options."""
        super().check_options()
        check_number(self, "gamma", self.gamma, low=0)

    def _rule_objective(self, parts: RuleParts) -> RuleObjective:
        if not (parts.gold != ABSTAIN).any():
            parts = replace(parts, gold=agreed_labels(parts.votes))
        return _ImplyObjective(parts, self.gamma)

    def _combined(self, proba: Tensor, entries: VoteEntries, weights: Tensor) -> Tensor:
        """The end model, averaged with the rules' classes, weighted by P(rule holds)."""
        held = weights[: len(entries), None]
        n_classes = proba.shape[1]
        voted = nn.functional.one_hot(entries.classes, n_classes)
        by_rule = held * voted + (1 - held) * (1 - voted) / (n_classes - 1)
        total = entries.sum_by_item(by_rule)
        n_votes = entries.counts(n_classes).sum(dim=1, keepdim=True).to(total.dtype)
        mixed = proba + torch.where(n_votes > 0, total / n_votes.clamp_min(_SMALLEST), 0)
        return mixed / mixed.sum(dim=1, keepdim=True)


def agreed_labels(votes: VoteMatrix) -> npt.NDArray[np.int64]:
    """Return the class of items on which at least two voters vote and all agree; else -1.

    If there are no such items, return the majority of every item with votes.

    >>> agreed_labels(VoteMatrix.from_dense([[0, 0], [0, 1], [1, -1]], ["no", "yes"]))
    array([ 0, -1, -1])
    """
    counts = votes.counts()
    most, total = counts.max(axis=1), counts.sum(axis=1)
    agreed = (total >= 2) & (most > total - 1e-6)
    chosen = agreed if agreed.any() else total > 0
    return np.where(chosen, counts.argmax(axis=1), ABSTAIN).astype(np.int64)


class _ImplyObjective(RuleObjective):
    """The losses of labeled items, of the rules on them, and the implication on the others."""

    def __init__(self, parts: RuleParts, gamma: float) -> None:
        super().__init__(parts)
        self.gamma = gamma

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the losses of labeled items, of the rules on them, and of the other items."""
        entries: VoteEntries = batch.payload
        logits, weights = self.weighed(batch)
        log_proba, gold = torch.log_softmax(logits, dim=1), self.gold[batch.rows]
        held = weights[: len(entries)]
        labeled = gold >= 0
        on_labeled = labeled[entries.items]
        right = log_proba.gather(1, gold.clamp_min(0)[:, None])[:, 0]
        proba = log_proba.exp()[entries.items, entries.classes]
        implied = -(1 - held * (1 - proba)).clamp_min(_SMALLEST).log()
        of_rules = _rule_loss(held, entries.classes == gold[entries.items]) * entries.mass
        return {
            "labeled": -_mean(right, labeled),
            "rules": _mean(of_rules, on_labeled),
            "implication": self.gamma * _mean(implied * entries.mass, ~on_labeled),
        }


def _rule_loss(held: Tensor, is_right: Tensor) -> Tensor:
    """The loss of a rule on labeled items: it should hold only where it is right."""
    generalized = (1 - held.clamp_min(_SMALLEST) ** _POWER) / _POWER
    return torch.where(is_right, generalized, -(1 - held).clamp_min(_SMALLEST).log())


def _mean(values: Tensor, chosen: Tensor) -> Tensor:
    """The mean of the chosen values; 0 if there are none."""
    return (values * chosen).sum() / chosen.sum().clamp_min(1)
