"""What ImplyLoss and ASTRA share: a network that estimates whether each rule holds on an item."""

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wiesel.end_to_end.base import ExplainedModel
from wiesel.end_to_end.checks import gold_items
from wiesel.end_to_end.crowd.crowd_model import (
    CrowdObjective,
    find_last_layer,
    represent,
    representation_width,
)
from wiesel.end_to_end.plan import FitInputs, FitPlan, GoldSet
from wiesel.end_to_end.storage import Saved
from wiesel.end_to_end.vote_payloads import EntryPayload, VoteEntries
from wiesel.labels import ABSTAIN
from wiesel.nn.end_models import Dropout
from wiesel.parameters import check_number
from wiesel.tasks import Task
from wiesel.tasks.one_label import VoteEffects
from wiesel.training import Batch, Objective, TrainingData
from wiesel.training.inputs import joined
from wiesel.votes import VoteMatrix

__all__ = ["RuleModel", "RuleNetwork", "RuleObjective", "RuleParts"]

_LABELED_SHARE = 0.25
"""Labeled items are repeated until they are about this share of the training items, or more."""
_ITEMS_AT_ONCE = 2048


class RuleNetwork(nn.Module):
    """The weight of each rule on an item, and of one more source: the end model itself.

    weight_j(x) = sigmoid( e_j . relu(W h(x)) + b_j ), where h(x) is the input of the end model's
    last layer, as a constant.

    >>> network = RuleNetwork(width=4, n_voters=3)
    >>> network(torch.zeros(2, 4), torch.tensor([0, 0, 1]), torch.tensor([0, 2, 3])).shape
    torch.Size([3])
    """

    def __init__(self, width: int, n_voters: int, hidden: int = 128, dropout: float = 0.3) -> None:
        super().__init__()
        self.hidden = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), Dropout(dropout))
        self.sources = nn.Parameter(torch.randn(n_voters + 1, hidden) / hidden)
        self.bias = nn.Parameter(torch.zeros(n_voters + 1))

    def forward(self, represented: Tensor, items: Tensor, sources: Tensor) -> Tensor:
        """Return the weight of each pair of a source and an item."""
        read = self.hidden(represented.detach())
        return torch.sigmoid((read[items] * self.sources[sources]).sum(dim=1) + self.bias[sources])


@dataclass(frozen=True)
class RuleParts:
    """What every method trains, and its training data."""

    end_model: nn.Module
    last_layer: str | None
    rules: RuleNetwork
    votes: VoteMatrix
    gold: npt.NDArray[np.int64]
    """The label of every item; -1 if unknown."""


class RuleObjective(CrowdObjective):
    """The end model, the rule network, and the known gold labels."""

    gold: Tensor

    def __init__(self, parts: RuleParts) -> None:
        super().__init__()
        self.end_model, self.rules = parts.end_model, parts.rules
        self.last_layer = parts.last_layer
        self.register_buffer("gold", torch.from_numpy(parts.gold), persistent=False)

    def weighed(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the end model's logits, and the weights of all sources on these items."""
        return _sources_weighed(self.end_model, self.last_layer, self.rules, batch)


@dataclass(eq=False, kw_only=True)
class RuleModel(ExplainedModel):
    """A method that weights every rule on every item, and may learn from a few gold labels.

    A subclass implements `_rule_objective`, and `_combined`, which combines rules and end model.
    """

    end_model: nn.Module = field(kw_only=False)
    """Your network: any module that returns logits. `fit` trains a copy."""
    hidden: int = 128
    """The number of hidden units of the rule network."""

    rules_: RuleNetwork = field(init=False, repr=False)
    """The trained rule network."""
    last_layer_: str | None = field(init=False, repr=False)
    """The end model's layer whose inputs the rule network reads; None if it has none."""

    def with_gold(self, given: FitInputs, gold: Any) -> FitInputs:
        """Return the arguments of `fit` with gold labels: the losses of the method read them.

        Labels of further items become items of the training set.
        """
        if gold is None:
            return given
        items = gold_items(gold, given, self._task(given))
        known = np.full(len(given.inputs), ABSTAIN, dtype=np.int64)
        if items.rows is not None:
            known[items.rows] = items.known.gold
            return replace(given, gold=known)
        votes = items.votes
        if votes is None:
            silent = np.full((len(items), given.votes.n_voters), ABSTAIN)
            votes = VoteMatrix.from_dense(silent, given.votes.labels, given.votes.voters)
        return replace(
            given,
            inputs=joined([given.inputs, items.known.inputs], "gold X"),
            votes=VoteMatrix.concatenate([given.votes, votes]),
            gold=np.concatenate([known, items.known.gold]),
        )

    def rule_weights(self, X: Any, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        """Return P(rule holds): (n_items, n_voters), 0 if the rule does not vote."""
        weighed = np.zeros((votes.n_items, votes.n_voters))
        weighed[votes.item_index, votes.voter_index] = self._weighed(X, votes)[1]
        return weighed

    def soft_labels(self, X: Any, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        """Return the combined prediction of rules and end model: (n_items, n_classes)."""
        return self._weighed(X, votes)[0]

    def vote_effects(self, one: Any, votes: VoteMatrix) -> VoteEffects:
        """Return the effects of the votes on one item; `one` is the item as a batch."""
        together, weights = self._weighed(one, votes)
        return VoteEffects(weights[:, None] * votes.vote_rows(), weights, together[0])

    def saved_modules(self) -> dict[str, nn.Module]:
        """Return the end model and the rule network."""
        return {"end_model": self.end_model_, "rules": self.rules_}

    def saved_values(self) -> dict[str, Any]:
        """Return the width of the rule network's input, and the layer it comes from."""
        return {"width": self.rules_.hidden[0].in_features, "last_layer": self.last_layer_}

    def restore_learned(self, saved: Saved) -> None:
        """Rebuild the rule network and load its weights."""
        width, self.last_layer_ = saved.values["width"], saved.values["last_layer"]
        self.rules_ = saved.restored(
            lambda: RuleNetwork(width, len(self.voters_), self.hidden), "rules", self.seed
        )

    def check_options(self) -> None:
        """Refuse invalid options."""
        super().check_options()
        check_number(self, "hidden", self.hidden, low=1, whole=True)

    @abstractmethod
    def _rule_objective(self, parts: RuleParts) -> RuleObjective:
        """Return the losses of this method."""

    @abstractmethod
    def _combined(self, proba: Tensor, entries: VoteEntries, weights: Tensor) -> Tensor:
        """Return the combined prediction of the end model and the weighted votes.

        `weights` are the weights of the votes, then those of the end model on every item.
        """

    def _items(self, given: FitInputs, task: Task) -> npt.NDArray[np.int64]:
        covered = super()._items(given, task)
        if given.gold is None:
            return covered
        labeled = np.flatnonzero(given.gold != ABSTAIN)
        rest = np.setdiff1d(covered, labeled)
        if not len(labeled):
            return covered
        wanted = _LABELED_SHARE / (1 - _LABELED_SHARE) * len(rest)
        times = max(1, round(wanted / len(labeled)))
        return np.sort(np.concatenate([rest, np.repeat(labeled, times)]))

    def _plan(
        self, given: FitInputs, validation: GoldSet | None, network: nn.Module | None
    ) -> FitPlan:
        plan = super()._plan(given, validation, network)
        votes: VoteMatrix = plan.votes
        unknown = np.full(votes.n_items, ABSTAIN, dtype=np.int64)
        gold = unknown if given.gold is None else given.gold
        # Gold labels are the targets known before training; the other rows are zero.
        targets = np.where(gold[:, None] == np.arange(len(plan.labels)), 1.0, 0.0)
        data = replace(plan.data, payload=EntryPayload(votes))
        return replace(plan, data=data, targets=targets)

    def _objective(self, end_model: nn.Module, plan: FitPlan) -> Objective:
        n_classes = len(plan.labels)
        last_layer = find_last_layer(end_model, n_classes, plan.data)
        width = representation_width(end_model, last_layer, n_classes)
        rules = RuleNetwork(width, len(plan.voters), self.hidden)
        votes: VoteMatrix = plan.votes
        targets: npt.NDArray[np.float64] = plan.targets  # type: ignore[assignment]
        gold = np.where(targets.any(axis=1), targets.argmax(axis=1), ABSTAIN)
        return self._rule_objective(RuleParts(end_model, last_layer, rules, votes, gold))

    def _keep(self, objective: Objective, plan: FitPlan) -> None:
        trained: RuleObjective = objective  # type: ignore[assignment]
        self.rules_, self.last_layer_ = trained.rules, trained.last_layer

    @torch.no_grad()
    def _weighed(
        self, X: Any, votes: VoteMatrix
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """The combined prediction, and the weight of every vote; means for an ensemble."""
        self.check_fitted()
        X = self.inputs_of(X, votes)
        if self.members_:
            parts = [member._weighed(X, votes) for member in self.members_]
            return np.mean([part[0] for part in parts], axis=0), np.mean(
                [part[1] for part in parts], axis=0
            )
        self.check_votes(votes)
        self.task_.check_items(FitInputs(X, votes))
        data = TrainingData(X, payload=EntryPayload(votes))
        together, weights = [np.empty((0, len(self.labels_)))], [np.empty(0)]
        for batch in data.batches(data.items, _ITEMS_AT_ONCE) if len(data.items) else ():
            entries: VoteEntries = batch.payload
            logits, own = _sources_weighed(self.end_model_, self.last_layer_, self.rules_, batch)
            proba = torch.softmax(logits.double(), dim=1)
            together.append(self._combined(proba, entries, own.double()).numpy())
            # A probabilistic vote has an entry for each class, all with the same weight.
            cast = entries.items * len(self.voters_) + entries.voters
            first = np.unique(cast.numpy(), return_index=True)[1]
            weights.append(own[: len(entries)].double().numpy()[first])
        return np.concatenate(together), np.concatenate(weights)


def _sources_weighed(
    end_model: nn.Module, last_layer: str | None, rules: RuleNetwork, batch: Batch
) -> tuple[Tensor, Tensor]:
    """The logits, and the weights of all votes, then those of the end model on all items."""
    entries: VoteEntries = batch.payload
    logits, represented = represent(end_model, last_layer, batch.inputs)
    everyone = torch.arange(entries.n_items, device=represented.device)
    itself = torch.full_like(everyone, len(rules.bias) - 1)
    items, sources = torch.cat([entries.items, everyone]), torch.cat([entries.voters, itself])
    return logits, rules(represented, items, sources)
