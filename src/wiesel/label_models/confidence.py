"""Confidences of labels from crowd answers that are right about as often as they say.

Label models multiply the evidence of the answers as if workers erred independently. On real items
they do not: what misleads one worker misleads others. So the evidence of n answers counts only as
much as that of

    n / (1 + (n - 1) * dependence)

independent ones. The most probable class stays the same. Without known answers nobody can see how
much workers err together; `DEPENDENCE` is the value with the best log loss on real crowds
(`python -m experiments crowd_confidence`). With some, `fit_dependence` learns it.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from wiesel.label_models.base import LabelModel, normalized_exp
from wiesel.labels import FloatArray
from wiesel.votes import VoteMatrix

__all__ = [
    "ASSUMED_ACCURACY",
    "DEPENDENCE",
    "DEPENDENCE_RANGE",
    "FEW_ANSWERS",
    "calibrated_proba",
    "comparable_answers",
    "fit_dependence",
]

Array = npt.NDArray[np.float64]

DEPENDENCE = 0.4
DEPENDENCE_RANGE = (0.1, 1.0)
"""Where the dependence of real crowds lies; intervals for workers cover both ends."""

ASSUMED_ACCURACY = 0.7
"""How often a worker is assumed to be right where no answers can be compared."""

FEW_ANSWERS = 20
"""With so many comparable answers, what the model learned counts half, the assumption half."""

_SPREAD = 0.8
"""The standard deviation of the logarithm of the dependence among real crowds."""


def comparable_answers(votes: VoteMatrix) -> float:
    """Return how many answers can be compared with another one to the same item.

    Two answers to one item are one comparison. Without any, nothing is known about the workers.

    >>> comparable_answers(votes)
    5.0
    """
    return float(np.maximum(_answers_per_item(votes) - 1, 0).sum())


def calibrated_proba(
    model: LabelModel, votes: VoteMatrix, proba: FloatArray, dependence: float = DEPENDENCE
) -> Array:
    """Return P(class) of every item, less certain than `proba`, the model's own.

    An item without answers keeps the class balance.

    >>> from wiesel import DawidSkene
    >>> model = DawidSkene().fit(votes)
    >>> proba = model.predict_proba(votes)
    >>> proba.max(axis=1).round(2), calibrated_proba(model, votes, proba).max(axis=1).round(2)
    (array([0.94, 0.61, 0.97, 0.61]), array([0.79, 0.52, 0.82, 0.52]))
    """
    n_answers = _answers_per_item(votes)
    independent = _independent_share(n_answers, dependence)
    known = normalized_exp(model.log_evidence(votes, proba) * independent[:, None])
    n_comparable = comparable_answers(votes)
    trust = n_comparable / (n_comparable + FEW_ANSWERS)
    odds = ASSUMED_ACCURACY / (1 - ASSUMED_ACCURACY) * (votes.n_classes - 1)
    assumed = normalized_exp(votes.counts() * (np.log(odds) * independent)[:, None])
    mixed = trust * known + (1 - trust) * assumed
    mixed[~votes.covered] = proba[~votes.covered]
    return mixed


def fit_dependence(
    model: LabelModel, votes: VoteMatrix, proba: FloatArray, gold: npt.NDArray[np.int64]
) -> float:
    """Return the dependence under which the known classes are most probable.

    `gold` is the class of every item, -1 if unknown. It is shrunk toward `DEPENDENCE`: its
    logarithm has a normal prior with the spread among real crowds. Items with one answer say
    nothing about it.
    """
    known = np.flatnonzero((gold >= 0) & votes.covered)
    if not len(known):
        return DEPENDENCE
    from scipy.optimize import minimize_scalar

    evidence = model.log_evidence(votes, proba)[known]
    n_answers, truth = _answers_per_item(votes)[known], gold[known]
    rows = np.arange(len(known))

    def loss(log_ratio: float) -> float:
        dependence = DEPENDENCE * float(np.exp(log_ratio))
        sure = normalized_exp(evidence * _independent_share(n_answers, dependence)[:, None])
        right = np.log(np.maximum(sure[rows, truth], 1e-300))
        return float(0.5 * (log_ratio / _SPREAD) ** 2 - right.sum())

    found: Any = minimize_scalar(loss, bounds=(-5.0, 3.0), method="bounded")
    return DEPENDENCE * float(np.exp(found.x))


def _independent_share(n_answers: FloatArray, dependence: float) -> Array:
    return np.asarray(1 / (1 + np.maximum(n_answers - 1, 0) * dependence))


def _answers_per_item(votes: VoteMatrix) -> Array:
    """The number of answers to every item, repeated ones included."""
    if votes.distribution is None:
        return votes.votes_per_item.astype(np.float64)
    return np.rint(votes.counts().sum(axis=1))
