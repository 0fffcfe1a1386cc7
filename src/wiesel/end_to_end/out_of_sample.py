"""Out-of-sample predictions for all items, by cross-fitting."""

from typing import Any

import numpy as np
import numpy.typing as npt

from wiesel.end_to_end.base import EndToEndModel
from wiesel.end_to_end.checks import predicted_proba
from wiesel.errors import ParameterError
from wiesel.training import as_inputs
from wiesel.votes import VoteMatrix

__all__ = ["out_of_sample_proba"]


def out_of_sample_proba(
    model: EndToEndModel, X: Any, votes: VoteMatrix, folds: int = 5, seed: int = 0
) -> npt.NDArray[np.float64]:
    """Return P(class) of every item, by a copy of the model trained on the other folds.

    Tools that look for wrong labels need such predictions (`pred_probs` of cleanlab): a model
    trained on an item's votes would repeat them. The model itself is not fitted.

    >>> import torch
    >>> from wiesel import MajorityVote, TwoStage
    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> votes, gold = make_votes(60, 5, coverage=0.6)
    >>> model = TwoStage(MajorityVote(), torch.nn.Linear(4, 2), lr=0.01)
    >>> out_of_sample_proba(model, make_features(gold, n_features=4), votes, folds=3).shape
    (60, 2)
    """
    inputs = as_inputs(X, votes=votes)
    if len(inputs) != len(votes):
        raise ParameterError(f"X has {len(inputs)} items, the votes have {len(votes)}.")
    if not 2 <= folds <= len(votes):
        raise ParameterError(
            f"Out-of-sample predictions need at least two folds, and at most one for each item "
            f"({len(votes)}); got folds={folds!r}."
        )
    from sklearn.base import clone

    order = np.random.default_rng(seed).permutation(len(votes))
    proba = np.empty((len(votes), votes.n_classes))
    for number in range(folds):
        held_out = np.sort(order[number::folds])
        kept = np.setdiff1d(order, held_out)
        fitted = clone(model, safe=False).fit(inputs.take(kept), votes[kept])
        proba[held_out] = predicted_proba(fitted, inputs.take(held_out), len(held_out))
    return proba
