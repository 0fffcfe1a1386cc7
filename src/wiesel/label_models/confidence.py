"""Confidences of labels from crowd answers that are right about as often as they say.

Label models multiply the evidence of the answers as if workers erred independently. On real items
they do not: what misleads one worker misleads others. So the evidence of n answers counts only as
much as that of

    n / (1 + (n - 1) * dependence)

independent ones. The most probable class stays the same. Without known answers nobody can see how
much workers err together; `DEPENDENCE` is the value with the best log loss on real crowds
(`python -m experiments crowd_confidence`). With some, `fit_calibration` corrects what is left.
"""

from typing import NamedTuple

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
    "WITHOUT_GOLD",
    "Calibration",
    "calibrated_proba",
    "comparable_answers",
    "fit_calibration",
    "independent_share",
    "proba_of_evidence",
]

Array = npt.NDArray[np.float64]

DEPENDENCE = 0.4
DEPENDENCE_RANGE = (0.1, 1.0)
"""Where the dependence of real crowds lies; intervals for workers cover both ends."""

ASSUMED_ACCURACY = 0.7
"""How often a worker is assumed to be right where no answers can be compared."""

FEW_ANSWERS = 20
"""With so many comparable answers, what the model learned counts half, the assumption half."""

_SLOPE_SPREAD, _SHIFT_SPREAD = 0.4, 0.7
"""How far the slope and the shift of real crowds are from 1 and 0: standard deviations."""


class Calibration(NamedTuple):
    """How a model's own probabilities become confidences."""

    dependence: float = DEPENDENCE
    """How far workers err together: 0 is not at all, 1 makes all answers count as one."""
    slope: float = 1.0
    """The log-odds of the label, lessened by the dependence, are multiplied by this,"""
    shift: float = 0.0
    """and this is added. Both are learned from known classes."""


WITHOUT_GOLD = Calibration()


def comparable_answers(votes: VoteMatrix) -> float:
    """Return how many answers can be compared with another one to the same item.

    Two answers to one item are one comparison. Without any, nothing is known about the workers.

    >>> comparable_answers(votes)
    5.0
    """
    return float(np.maximum(_answers_per_item(votes) - 1, 0).sum())


def calibrated_proba(
    model: LabelModel,
    votes: VoteMatrix,
    proba: FloatArray,
    calibration: Calibration = WITHOUT_GOLD,
    expected: Array | None = None,
) -> Array:
    """Return P(class) of every item, less certain than `proba`, the model's own.

    The most probable class stays the same. An item without answers keeps the class balance.
    `expected` is P(class) of every item before its answers, as its features tell; it replaces the
    class balance, and may change the most probable class.

    >>> from wiesel import DawidSkene
    >>> model = DawidSkene().fit(votes)
    >>> proba = model.predict_proba(votes)
    >>> proba.max(axis=1).round(2), calibrated_proba(model, votes, proba).max(axis=1).round(2)
    (array([0.94, 0.61, 0.97, 0.61]), array([0.79, 0.52, 0.82, 0.52]))
    """
    counts = votes.counts() if votes.distribution is None else np.rint(votes.counts())
    evidence, before = model.log_evidence(votes, proba), None
    if expected is not None:
        evidence = evidence - np.log(np.maximum(model.class_balance_, 1e-300))
        before = np.log(np.maximum(expected, 1e-300))
    comparable = comparable_answers(votes)
    found = proba_of_evidence(evidence, counts, comparable, calibration, before)
    alone = ~votes.covered
    found[alone] = (proba if expected is None else expected)[alone]
    return found


def proba_of_evidence(
    evidence: Array,
    counts: Array,
    n_comparable: float,
    calibration: Calibration,
    before: Array | None = None,
) -> Array:
    """Return P(class) from log P(class, answers) and the answers of each class: (items, classes).

    The fewer answers can be compared, the more it is what answers say of which 70 % are right.
    With `before`, log P(class) of every item without its answers, the evidence is that of the
    answers alone.
    """
    n_classes = counts.shape[1]
    independent = independent_share(counts.sum(axis=1), calibration.dependence)[:, None]
    trust = n_comparable / (n_comparable + FEW_ANSWERS)
    odds = ASSUMED_ACCURACY / (1 - ASSUMED_ACCURACY) * (n_classes - 1)
    known, assumed = evidence * independent, counts * (np.log(odds) * independent)
    if before is not None:
        known, assumed = known + before, assumed + before
    mixed = trust * normalized_exp(known) + (1 - trust) * normalized_exp(assumed)
    return mixed if calibration[1:] == (1.0, 0.0) else _shifted(mixed, calibration)


def fit_calibration(
    model: LabelModel,
    votes: VoteMatrix,
    proba: FloatArray,
    gold: npt.NDArray[np.int64],
    expected: Array | None = None,
) -> Calibration:
    """Return the slope and shift under which labels of known items are right as often as they say.

    `gold` is the class of every item, -1 if unknown. It is a logistic regression (Platt 1999) of
    whether a label is right; slope and shift have normal priors with the spread of real crowds.
    """
    known = np.flatnonzero((gold >= 0) & votes.covered)
    if not len(known):
        return WITHOUT_GOLD
    from scipy.optimize import minimize

    sure = calibrated_proba(model, votes, proba, expected=expected)[known]
    right = (sure.argmax(axis=1) == gold[known]).astype(np.float64)
    log_odds = _log_odds(sure.max(axis=1))
    spread = np.array([_SLOPE_SPREAD, _SHIFT_SPREAD])

    def loss(values: Array) -> tuple[float, Array]:
        place = values[0] * log_odds + values[1]
        off = (values - (1.0, 0.0)) / spread
        total = np.logaddexp(0, place).sum() - right @ place + off @ off / 2
        error = 1 / (1 + np.exp(-place)) - right
        return float(total), np.array([error @ log_odds, error.sum()]) + off / spread

    found = minimize(
        loss, (1.0, 0.0), jac=True, method="L-BFGS-B", bounds=((0.0, None), (None,) * 2)
    )
    return Calibration(DEPENDENCE, float(found.x[0]), float(found.x[1]))


def _shifted(proba: Array, calibration: Calibration) -> Array:
    """Move the log-odds of the label of every item; the other classes keep their proportions."""
    rows, best = np.arange(len(proba)), proba.argmax(axis=1)
    top = proba[rows, best]
    rest = np.maximum(1 - top, 1e-300)
    moved = 1 / (1 + np.exp(-(calibration.slope * _log_odds(top) + calibration.shift)))
    others = proba.copy()
    others[rows, best] = 0
    # The label stays the most probable class: at least as probable as the next one.
    second = others.max(axis=1) / rest
    moved = np.maximum(moved, second / (1 + second))
    found = others * ((1 - moved) / rest)[:, None]
    found[rows, best] = moved
    return found


def _log_odds(share: Array) -> Array:
    share = np.clip(share, 1e-9, 1 - 1e-9)
    return np.asarray(np.log(share / (1 - share)))


def independent_share(n_answers: FloatArray, dependence: float) -> Array:
    """Return for how much each of n answers counts, compared with independent ones.

    >>> independent_share(np.array([1.0, 2.0, 11.0]), 0.4)
    array([1.   , 0.714..., 0.2  ])
    """
    return np.asarray(1 / (1 + np.maximum(n_answers - 1, 0) * dependence))


def _answers_per_item(votes: VoteMatrix) -> Array:
    """The number of answers to every item, repeated ones included."""
    if votes.distribution is None:
        return votes.votes_per_item.astype(np.float64)
    return np.rint(votes.counts().sum(axis=1))
