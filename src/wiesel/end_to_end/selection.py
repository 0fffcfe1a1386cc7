"""How much each member of a committee counts, chosen on a few gold labels."""

import numpy as np
import numpy.typing as npt

from wiesel.training import Validation

__all__ = ["greedy_weights"]

_ROUNDS = 12
_SHRINKAGE = 50.0
"""With so many gold items, choice and plain average count the same."""


def greedy_weights(
    probas: npt.NDArray[np.float64],
    validation: Validation,
    without_gold: npt.NDArray[np.float64] | None = None,
) -> npt.NDArray[np.float64]:
    """Return weights that sum to 1, by greedy selection (Caruana et al. 2004), shrunk.

    In every round the member is added, with replacement, whose addition gives the best score of
    the running average on the validation set. Few gold items cannot tell members apart: with n
    of them, a share of 50 / (n + 50) is given as it would be without gold.

    Parameters
    ----------
    probas
        The members' probabilities: (members, n_items, n_classes).
    validation
        The items and their gold labels.
    without_gold
        What the members would count without gold; None is equal.
    """
    counts = np.zeros(len(probas))
    total = np.zeros_like(probas[0])
    for _ in range(_ROUNDS):
        scores = [_score(total + own, validation) for own in probas]
        # Among equals the one that was taken least: ties are no reason to trust a single one.
        best = max(range(len(probas)), key=lambda k: (scores[k], -counts[k]))
        counts[best] += 1
        total += probas[best]
    kept = _SHRINKAGE / (_SHRINKAGE + len(validation.gold))
    equal = np.full(len(probas), 1 / len(probas)) if without_gold is None else without_gold
    weights: npt.NDArray[np.float64] = (1 - kept) * counts / counts.sum() + kept * equal
    return weights


def _score(total: npt.NDArray[np.float64], validation: Validation) -> float:
    return validation.score(total / total.sum(axis=1, keepdims=True))
