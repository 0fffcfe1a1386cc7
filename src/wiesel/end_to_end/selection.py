"""Weights of the members of a committee, selected on a few gold labels; a warning if too few."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from wiesel.end_to_end.base import EndToEndModel
from wiesel.end_to_end.checks import predicted_proba
from wiesel.end_to_end.supervised import Supervised
from wiesel.errors import WieselWarning, warn_user
from wiesel.tasks import OneLabelTask, Task
from wiesel.training import Validation
from wiesel.training.validation import ENOUGH_GOLD

__all__ = ["gold_share", "greedy_weights", "is_usable", "out_of_fold_probas"]

_ROUNDS = 12
_SHRINKAGE = 50.0
"""With this many gold items, selected and prior weights count the same."""


def gold_share(n_items: int) -> float:
    """Return how far gold items are relied on instead of what holds without gold, from 0 to 1.

    >>> [gold_share(n) for n in (0, 50, 450)]
    [0.0, 0.5, 0.9]
    """
    return n_items / (n_items + _SHRINKAGE)


def is_usable(validation: Validation, task: Task) -> bool:
    """Return whether gold items can weigh members and voters; warn if they cannot, or are few."""
    n_items, found = validation.n_gold, np.unique(validation.gold)
    of_one_class = task.kind == OneLabelTask.kind and len(found) == 1
    if of_one_class:
        # All voters for other classes look wrong, and a network that predicts one class is best.
        name = task.labels.names[found[0]]
        warn_user(
            f"All {n_items} validation items are {name!r}, so they cannot tell "
            "good networks from bad ones, and are ignored. Give items of several classes.",
            WieselWarning,
        )
    elif n_items < ENOUGH_GOLD:
        warn_user(
            f"With {n_items} validation items, a committee may be worse than without any. Give at "
            f"least {ENOUGH_GOLD}, or keep them to evaluate it.",
            WieselWarning,
        )
    return not of_one_class


def greedy_weights(
    probas: npt.NDArray[np.float64],
    validation: Validation,
    without_gold: npt.NDArray[np.float64] | None = None,
) -> npt.NDArray[np.float64]:
    """Return weights that sum to 1, by greedy selection (Caruana et al. 2004), shrunk.

    Every round adds, with replacement, the member that gives the running average its best score
    on the validation set. Few gold items cannot tell members apart. So with n gold items, a share
    of 50 / (n + 50) of the weight is assigned as without gold (see `gold_share`).

    Parameters
    ----------
    probas
        The members' probabilities: (members, n_items, n_classes).
    validation
        The items and their gold labels.
    without_gold
        The weights of the members without gold; None means equal weights.
    """
    counts = np.zeros(len(probas))
    total = np.zeros_like(probas[0])
    for _ in range(_ROUNDS):
        scores = [_score(total + own, validation) for own in probas]
        # Break ties in favor of the least selected member, so no single one collects them all.
        best = max(range(len(probas)), key=lambda k: (scores[k], -counts[k]))
        counts[best] += 1
        total += probas[best]
    kept = 1 - gold_share(validation.n_gold)
    equal = np.full(len(probas), 1 / len(probas)) if without_gold is None else without_gold
    weights: npt.NDArray[np.float64] = (1 - kept) * counts / counts.sum() + kept * equal
    return weights


def _score(total: npt.NDArray[np.float64], validation: Validation) -> float:
    return validation.score(total / total.sum(axis=1, keepdims=True))


def out_of_fold_probas(
    members: Sequence[EndToEndModel], X: Any, gold: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Return P(class) of gold items by every member: (members, n_items, n_classes).

    A member that learned from these items predicts each with networks that left it out.
    """
    return np.stack(
        [
            m.out_of_fold_proba(X, gold)
            if isinstance(m, Supervised)
            else predicted_proba(m, X, len(gold))
            for m in members
        ]
    )
