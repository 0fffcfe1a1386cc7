"""What explanations of one item share, whatever the method."""

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from torch import Tensor

from wiesel.errors import FeatureError
from wiesel.explain import Push
from wiesel.votes import VoteMatrix

__all__ = ["as_batch", "check_one_item", "pushes_of"]


def check_one_item(votes: VoteMatrix) -> None:
    """Refuse to explain several items at once."""
    if votes.n_items != 1:
        raise FeatureError(
            f"explain() is about one item; got votes on {votes.n_items}. "
            "Call it as model.explain(X[17], votes[17])."
        )


def pushes_of(
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
