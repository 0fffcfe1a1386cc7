"""ASTRA: a student, and a teacher that pays attention to rules and to the student."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from wiesel.end_to_end.rules.rule_model import RuleModel, RuleObjective, RuleParts
from wiesel.end_to_end.vote_payloads import VoteEntries
from wiesel.labels import ABSTAIN
from wiesel.nn.end_models import evaluating
from wiesel.nn.losses import soft_cross_entropy
from wiesel.parameters import check_number
from wiesel.training import Batch, TrainingData

__all__ = ["ASTRA"]

_ITEMS_AT_ONCE = 2048
_SMALLEST = 1e-12


@dataclass(eq=False, kw_only=True)
class ASTRA(RuleModel):
    """Self-training with weak supervision (Karamanolakis et al., NAACL 2021).

    The end model f is the student. The teacher is a rule attention network that weights the rules
    that vote on an item, and the student itself. The remaining weight is spread over all
    classes::

        q(y | x) = ( sum over votes of a_j(x) [vote_j = y] + a_S(x) f(y | x) + u ) / R
        u = ( R - sum of all a ) / C,        R = the number of votes + 1
        teacher:  - sum_y q log q  on items without a label,  - log q(gold)  on labeled ones
        student:  CE(f, q)  with q from the start of the epoch,  CE(f, gold)  on labeled ones

    One epoch is one round of the paper's loop. In the first `warm_up` epochs the student learns
    the gold labels, and the vote shares of all other items (in the paper only the gold labels;
    here there may be none). Pass gold labels as `fit(X, votes, gold=...)`. Without them, only the
    entropy trains the teacher.

    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> votes, gold = make_votes(200, 5, n_classes=3, coverage=0.6)
    >>> X = make_features(gold, n_features=4)
    >>> few = np.where(np.arange(200) < 20, gold, -1)
    >>> model = ASTRA(torch.nn.Linear(4, 3), epochs=1, lr=0.01).fit(X, votes, gold=few)
    >>> model.soft_labels(X, votes).shape
    (200, 3)
    """

    warm_up: int = 2
    """The number of epochs before the teacher provides targets."""

    def check_options(self) -> None:
        """Refuse invalid options."""
        super().check_options()
        check_number(self, "warm_up", self.warm_up, low=0, whole=True)

    def _rule_objective(self, parts: RuleParts) -> RuleObjective:
        return _AstraObjective(parts, self.warm_up)

    def _combined(self, proba: Tensor, entries: VoteEntries, weights: Tensor) -> Tensor:
        return teacher_labels(proba, entries, weights)


def teacher_labels(proba: Tensor, entries: VoteEntries, weights: Tensor) -> Tensor:
    """Return q, the weighted mean of votes, student and filler.

    `weights` are the weights of the votes, then those of the student on every item.
    """
    n_classes = proba.shape[1]
    of_votes, of_student = weights[: len(entries)], weights[len(entries) :]
    voted = nn.functional.one_hot(entries.classes, n_classes).to(proba.dtype)
    by_votes = entries.sum_by_item(of_votes[:, None] * voted)
    present = entries.counts(n_classes).sum(dim=1, keepdim=True).to(proba.dtype) + 1
    weighted = by_votes + of_student[:, None] * proba
    filler = (present - weighted.sum(dim=1, keepdim=True)) / n_classes
    return (weighted + filler) / present


class _AstraObjective(RuleObjective):
    """The student's targets, recomputed for every epoch, and the teacher's losses."""

    soft_labels: Tensor

    def __init__(self, parts: RuleParts, warm_up: int) -> None:
        super().__init__(parts)
        self.warm_up = warm_up
        counts, gold = parts.votes.counts(), parts.gold[:, None]
        shares = (counts + 1e-9) / (counts + 1e-9).sum(axis=1, keepdims=True)
        start = np.where(gold == ABSTAIN, shares, gold == np.arange(counts.shape[1]))
        self.register_buffer("soft_labels", torch.from_numpy(start).float())

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the student's loss to its targets, and the teacher's losses."""
        entries: VoteEntries = batch.payload
        logits, weights = self.weighed(batch)
        proba = torch.softmax(logits.detach(), dim=1)
        taught = teacher_labels(proba, entries, weights).clamp_min(_SMALLEST)
        gold = self.gold[batch.rows]
        right = -taught.gather(1, gold.clamp_min(0)[:, None])[:, 0].log()
        entropy = -(taught * taught.log()).sum(dim=1)
        return {
            "student": soft_cross_entropy(logits, self.soft_labels[batch.rows]),
            "teacher": torch.where(gold >= 0, right, entropy).mean(),
        }

    @torch.no_grad()
    def start_epoch(self, epoch: int, data: TrainingData) -> None:
        """Set the student's targets from the teacher, except for labeled items."""
        if epoch <= self.warm_up:
            return
        device = self.soft_labels.device
        with evaluating(self.end_model), evaluating(self.rules):
            for batch in data.batches(np.unique(data.items), _ITEMS_AT_ONCE, device):
                logits, weights = self.weighed(batch)
                proba = torch.softmax(logits, dim=1)
                taught = teacher_labels(proba, batch.payload, weights)
                unknown = self.gold[batch.rows] < 0
                self.soft_labels[batch.rows[unknown]] = taught[unknown]
