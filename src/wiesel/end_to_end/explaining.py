"""What the explanations of all methods share."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from torch import Tensor

from wiesel.errors import FeatureError
from wiesel.explain import Explanation, MemberView, Push, predicted_class
from wiesel.votes import VoteMatrix

if TYPE_CHECKING:
    from wiesel.end_to_end.base import EndToEndModel

__all__ = ["VoteEffects", "as_batch", "check_one_item", "explain_item"]


@dataclass(frozen=True)
class VoteEffects:
    """What the votes on one item did, as a method sees it."""

    added: npt.NDArray[np.float64]
    """(n_votes, n_classes): what each vote adds to the logit of each class."""
    weights: npt.NDArray[np.float64]
    """(n_votes,): how much each voter counts."""
    soft_label: npt.NDArray[np.float64]
    """(n_classes,): what the votes say together."""
    abstaining_share: float = 0.0
    """The share of the weight that voters hold who did not vote."""
    members: tuple[MemberView, ...] = ()
    """What each member of a committee says."""


def explain_item(
    model: "EndToEndModel", one: Any, votes: VoteMatrix, effects: VoteEffects
) -> Explanation:
    """Return which voter pushed one item which way; `one` is the item as a batch."""
    end_proba = model.predict_proba(one)[0]
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
    """Return who pushed one item where, strongest first.

    `added` is what each vote adds to the logit of each class, `weights` how much its voter counts.
    """
    # Against the mean of the other classes: a vote for another class pushes away.
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


def as_batch(x: Any) -> Any:
    """One item, as `X[17]` gives it, as a batch of one; a matrix of one row is one already."""
    if isinstance(x, tuple):
        x = x[0]
    if isinstance(x, dict):
        return {key: np.asarray(value)[None] for key, value in x.items()}
    if sp.issparse(x):
        x = x.toarray()  # type: ignore[attr-defined]
    array = x if isinstance(x, Tensor) else np.asarray(x)
    return array if array.ndim == 2 and array.shape[0] == 1 else array[None]
