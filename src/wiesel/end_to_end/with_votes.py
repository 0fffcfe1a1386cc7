"""Predictions that use the votes on an item where there are any, and the model alone elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from wiesel.end_to_end.base import EndToEndModel
from wiesel.errors import NotFittedError, ParameterError, SavedModelError
from wiesel.label_models import LabelModel
from wiesel.labels import ABSTAIN
from wiesel.parameters import check_number
from wiesel.votes import VoteMatrix

__all__ = ["WithVotes", "check_vote_levels", "learned_levels", "with_votes"]

Array = npt.NDArray[np.float64]

_LEAST = 1e-6
_LEVELS = (0.5, 1.0)
_PRIOR_LABELS = 4.0


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
    prior_labels: float = _PRIOR_LABELS
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


def with_votes(
    proba: Array,
    soft_labels: Array,
    covered: npt.NDArray[np.bool_],
    levels: Sequence[float] | Array,
    offsets: Array | float = 0.0,
) -> Array:
    """Return P(class) from a model's and from soft labels, where there are votes.

    >>> with_votes(np.array([[0.5, 0.5]]), np.array([[0.8, 0.2]]), np.array([True]), (1.0, 1.0))
    array([[0.8, 0.2]])
    """
    found: Array = np.array(proba, dtype=np.float64)
    logits = offsets + np.tensordot(np.asarray(levels), _logs(proba, soft_labels), 1)
    found[covered] = np.exp(_log_softmax(logits[covered]))
    return found


def check_vote_levels(saved: Any, n_classes: int) -> tuple[Array, Array] | None:
    """Return the levels and offsets that were saved, checked; None if there are none."""
    if saved is None:
        return None
    levels, offsets = (np.asarray(part, dtype=np.float64) for part in saved)
    finite = np.isfinite(levels).all() and np.isfinite(offsets).all()
    if levels.shape != (2,) or offsets.shape != (n_classes,) or not finite:
        raise SavedModelError("The saved levels of model and votes do not fit its classes.")
    return levels, offsets


def _logs(*probas: Array) -> Array:
    return np.log(np.clip(np.stack(probas), _LEAST, 1))


def learned_levels(
    proba: Array,
    soft_labels: Array,
    truth: npt.NDArray[np.int64],
    prior: Sequence[float],
    prior_labels: float = _PRIOR_LABELS,
) -> tuple[Array, Array]:
    """Return the levels and offsets under which both together predict known classes best."""
    from scipy.optimize import minimize

    logs = _logs(proba, soft_labels)
    n_classes = logs.shape[2]
    one_hot = np.eye(n_classes)[truth]
    start = np.concatenate([prior, np.zeros(n_classes)])
    ridge = np.concatenate([[prior_labels] * 2, [prior_labels / 4] * n_classes])

    def loss(learned: Array) -> tuple[float, Array]:
        log_proba = _log_softmax(learned[2:] + np.tensordot(learned[:2], logs, 1))
        errors = np.exp(log_proba) - one_hot
        away = learned - start
        gradient = np.concatenate([(errors * logs).sum(axis=(1, 2)), errors.sum(axis=0)])
        return -float((one_hot * log_proba).sum()) + float(ridge @ away**2) / 2, (
            gradient + ridge * away
        )

    bounds = [(0.0, None)] * 2 + [(None, None)] * n_classes
    found = np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x)
    return found[:2], found[2:]


def _log_softmax(logits: Array) -> Array:
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_proba: Array = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return log_proba
