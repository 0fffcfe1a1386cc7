"""Explanations of single items, shared by all methods."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wiesel.end_to_end.base import EndToEndModel
from wiesel.end_to_end.checks import predicted_proba
from wiesel.errors import FeatureError
from wiesel.explain import Explanation, MemberView, Push, predicted_class
from wiesel.label_models.base import normalized_exp
from wiesel.votes import VoteMatrix

__all__ = [
    "ExplainedModel",
    "VoteEffects",
    "check_one_item",
    "explain_item",
    "log_proba",
    "mean_effects",
]


@dataclass(frozen=True)
class VoteEffects:
    """The effects of the votes on one item, according to a method."""

    added: npt.NDArray[np.float64]
    """(n_votes, n_classes): what each vote adds to the logit of each class."""
    weights: npt.NDArray[np.float64]
    """(n_votes,): the weight of each voter."""
    soft_label: npt.NDArray[np.float64]
    """(n_classes,): the soft label from all votes."""
    abstaining_share: float = 0.0
    """The share of the weight held by abstaining voters."""
    members: tuple[MemberView, ...] = ()
    """The soft label of each member of a committee."""


@dataclass(eq=False, kw_only=True)
class ExplainedModel(EndToEndModel):
    """A method that knows the effect of each vote on an item."""

    def explain(self, x: Any, votes: VoteMatrix) -> Explanation:
        """Return the effect of each vote on one item: `model.explain(X[17], votes[17])`."""
        self.check_fitted()
        one = self.input_of(x)
        return explain_item(self, one, votes, self.vote_effects(one, votes))

    @abstractmethod
    def vote_effects(self, one: Any, votes: VoteMatrix) -> VoteEffects:
        """Return the effects of the votes on one item; `one` is the item as a batch."""


def log_proba(proba: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the logarithm of probabilities, which is finite for those of zero, too."""
    return np.asarray(np.log(np.clip(proba, 1e-12, None)))


def mean_effects(parts: Mapping[str, VoteEffects], weights: Mapping[str, float]) -> VoteEffects:
    """Return the effects of the votes on the weighted mean of the members' soft labels.

    A member that is certain, such as a majority vote on unanimous votes, changes the mean no more
    than its weight allows. Its own log-odds are infinite, so their mean would say nothing.
    """
    soft_label = np.sum([weights[name] * part.soft_label for name, part in parts.items()], axis=0)
    without = np.sum([weights[name] * _without(part) for name, part in parts.items()], axis=0)
    added = log_proba(soft_label) - log_proba(without)
    members = [
        MemberView(name, weights[name], tuple(part.soft_label.tolist()))
        for name, part in parts.items()
    ]
    return VoteEffects(added, np.abs(added).max(axis=1), soft_label, members=tuple(members))


def _without(part: VoteEffects) -> npt.NDArray[np.float64]:
    """The soft labels without each of the votes: (n_votes, n_classes)."""
    return normalized_exp(log_proba(part.soft_label) - part.added)


def explain_item(
    model: EndToEndModel, one: Any, votes: VoteMatrix, effects: VoteEffects
) -> Explanation:
    """Return the explanation of one item; `one` is the item as a batch."""
    end_proba = predicted_proba(model, one, 1)[0]
    explained = predicted_class(end_proba.tolist(), model.threshold_)
    return Explanation(
        item=_plain(votes.ids[0]),
        labels=model.labels_,
        end_proba=tuple(end_proba.tolist()),
        soft_label=tuple(effects.soft_label.tolist()),
        pushes=_pushes(votes, effects.added, effects.weights, explained),
        n_abstaining=votes.n_voters - votes.n_votes,
        abstaining_share=effects.abstaining_share,
        threshold=model.threshold_,
        members=effects.members,
    )


def _plain(item: Any) -> Any:
    """A NumPy scalar as a Python value, which has the shorter repr."""
    return item.item() if isinstance(item, np.generic) else item


def check_one_item(votes: VoteMatrix) -> None:
    """Refuse to explain several items at once."""
    if votes.n_items != 1:
        raise FeatureError(
            f"explain() is about one item; got votes on {votes.n_items}. "
            "Call it as model.explain(X[17], votes[17])."
        )


def _pushes(
    votes: VoteMatrix,
    added: npt.NDArray[np.float64],
    weights: npt.NDArray[np.float64],
    explained: int,
) -> tuple[Push, ...]:
    """Return the votes and the direction in which each pushed the item, strongest first.

    `added` is what each vote adds to the logit of each class, `weights` the weight of its voter.
    """
    # Relative to the mean of the other classes, so a vote for another class pushes away.
    others = (added.sum(axis=1) - added[:, explained]) / (votes.n_classes - 1)
    effects = added[:, explained] - others
    pushes = [
        Push(
            votes.voters[voter],
            votes.labels.names[votes.class_index[k]],
            float(weights[k]),
            float(effects[k]),
        )
        for k, voter in enumerate(votes.voter_index)
    ]
    return tuple(sorted(pushes, key=lambda push: -abs(push.effect)))
