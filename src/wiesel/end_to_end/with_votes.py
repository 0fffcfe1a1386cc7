"""Predictions that use the votes on an item where there are any, and the model alone elsewhere."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from wiesel.end_to_end.base import EndToEndModel
from wiesel.end_to_end.committee import PRIOR_LABELS, learned_levels, with_votes
from wiesel.errors import NotFittedError, ParameterError
from wiesel.label_models import LabelModel
from wiesel.labels import ABSTAIN
from wiesel.parameters import check_number
from wiesel.votes import VoteMatrix

__all__ = ["WithVotes"]

Array = npt.NDArray[np.float64]

_LEVELS = (0.5, 1.0)


@dataclass(eq=False)
class WithVotes:
    """A fitted end-to-end model and a fitted label model, whose predictions are combined.

    On items with votes::

        P(class) = softmax(b + l_model log P_model(class | x) + l_votes log P_label(class | votes))

    `fit` learns b and both levels from a few gold labels, by logistic regression shrunk toward
    levels of 0.5 and 1. On items without votes it is the model's prediction.

    >>> import torch
    >>> from wiesel import MajorityVote, TwoStage
    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> votes, gold = make_votes(200, 5, coverage=0.6)
    >>> X = make_features(gold, n_features=4)
    >>> model = TwoStage(MajorityVote(), torch.nn.Linear(4, 2), epochs=1).fit(X, votes)
    >>> both = WithVotes(model, MajorityVote().fit(votes)).fit(X[:50], votes[:50], gold[:50])
    >>> both.predict_proba(X, votes).shape
    (200, 2)
    """

    model: EndToEndModel
    label_model: LabelModel
    prior_labels: float = PRIOR_LABELS
    """How many gold labels it takes to change the levels by much."""

    levels_: Array = field(init=False, repr=False)
    """How much the logits of the model and of the label model are worth."""
    offsets_: Array = field(init=False, repr=False)

    def fit(self, X: Any, votes: VoteMatrix, gold: Any) -> Self:
        """Learn how to combine both from items with gold labels (None where it is unknown).

        They should not be items that the model was trained on; gold that it has learned is
        predicted by networks that have not seen it.
        """
        check_number(self, "prior_labels", self.prior_labels, low=1e-6)
        truth = votes.labels.indices(gold, allow_unknown=True)
        known = np.flatnonzero((truth != ABSTAIN) & votes.covered)
        if not len(known):
            raise ParameterError("WithVotes learns from gold labels of items with votes: got none.")
        proba = self.model.out_of_fold_proba(X)
        if len(proba) != votes.n_items or len(truth) != votes.n_items:
            raise ParameterError(
                f"X has {len(proba)} items, the votes {votes.n_items}, gold {len(truth)}: give the "
                "same items in the same order."
            )
        soft = self.label_model.predict_proba(votes)
        self.levels_, self.offsets_ = learned_levels(
            proba[known], soft[known], truth[known], _LEVELS, self.prior_labels
        )
        return self

    def predict_proba(self, X: Any, votes: VoteMatrix | None = None) -> Array:
        """Return P(class) of every item; without `votes`, the model's own prediction."""
        if not hasattr(self, "levels_"):
            raise NotFittedError("WithVotes is not fitted: call fit(X, votes, gold) first.")
        proba: Array = np.array(self.model.predict_proba(X), dtype=np.float64)
        if votes is None:
            return proba
        if len(proba) != votes.n_items:
            raise ParameterError(f"X has {len(proba)} items, the votes have {votes.n_items}.")
        soft = self.label_model.predict_proba(votes)
        return with_votes(proba, soft, votes.covered, self.levels_, self.offsets_)

    def predict(self, X: Any, votes: VoteMatrix | None = None) -> npt.NDArray[Any]:
        """Return the name of the most probable class of every item."""
        names = np.array(self.label_model.labels_.names, dtype=object)
        found: npt.NDArray[Any] = names[self.predict_proba(X, votes).argmax(axis=1)]
        return found
