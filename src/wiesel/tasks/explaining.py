"""Explanations of single items: the effects of votes, and what is made of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wiesel.errors import FeatureError
from wiesel.explain import Explanation, MemberView, Push, predicted_class
from wiesel.label_models import LabelModel
from wiesel.label_models.base import normalized_exp
from wiesel.labels import ABSTAIN, as_indices, checked_proba
from wiesel.training import as_inputs
from wiesel.votes import VoteMatrix

__all__ = [
    "VoteEffects",
    "check_one_item",
    "each_left_out",
    "explain_item",
    "label_model_effects",
    "log_proba",
    "mean_effects",
    "proba_of_votes",
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


def proba_of_votes(label_model: LabelModel, votes: VoteMatrix, X: Any) -> npt.NDArray[np.float64]:
    """Return the soft labels of a fitted label model; X counts if it learned from features."""
    given = (votes, X) if label_model.takes_inputs else (votes,)
    source = f"The soft labels by {type(label_model).__name__}"
    found = label_model.predict_proba(*given)
    return checked_proba(found, votes.labels, source, votes.n_items)


def label_model_effects(label_model: LabelModel, one: Any, votes: VoteMatrix) -> VoteEffects:
    """Return the effects of the votes on one item; `one` is the item as a batch.

    A vote's weight is the change of the label model's log-probabilities without this vote.
    """
    repeated = as_inputs(one).take(np.zeros(votes.n_votes + 1, dtype=np.int64))
    proba = proba_of_votes(label_model, each_left_out(votes), repeated)
    added = log_proba(proba[0]) - log_proba(proba[1:])
    return VoteEffects(added, np.abs(added).max(axis=1, initial=0), proba[0])


def each_left_out(votes: VoteMatrix) -> VoteMatrix:
    """Return one item's votes, followed by a copy for each vote with that vote removed."""
    repeated = votes[np.zeros(votes.n_votes + 1, dtype=np.int64)].vote_rows()
    cells = np.zeros((votes.n_votes + 1, votes.n_voters, votes.n_classes), dtype=np.float32)
    cells[:, votes.voter_index] = repeated.reshape(len(cells), votes.n_votes, votes.n_classes)
    cells[np.arange(1, len(cells)), votes.voter_index] = 0
    if votes.distribution is not None:
        return VoteMatrix.from_proba(cells, votes.labels, votes.voters)
    classes = np.where(cells.any(axis=2), cells.argmax(axis=2), ABSTAIN)
    return VoteMatrix.from_dense(as_indices(classes), votes.labels, votes.voters)


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


def explain_item(model: Any, one: Any, votes: VoteMatrix, effects: VoteEffects) -> Explanation:
    """Return the explanation of one item; `one` is the item as a batch."""
    source = f"The probabilities by {type(model).__name__}"
    end_proba = checked_proba(model.predict_proba(one), model.labels_, source, 1)[0]
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


def check_one_item(votes: Any) -> None:
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
