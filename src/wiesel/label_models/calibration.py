"""Calibration of graded votes: what a voter's probabilities are worth, learned for each voter."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from wiesel.errors import ParameterError, VoteError
from wiesel.label_models.one_coin import OneCoin
from wiesel.parameters import check_number
from wiesel.tables import in_order_of
from wiesel.threads import one_thread
from wiesel.votes import VoteMatrix, require_votes

__all__ = ["calibrate_votes"]

Array = npt.NDArray[np.float64]

_SUREST = 0.995
"""The largest probability of a vote that is read: certain ones are at most so sure."""


def calibrate_votes(votes: VoteMatrix, gold: Any = None, *, shrinkage: float = 4.0) -> VoteMatrix:
    """Return the same votes with probabilities that are right as often as they say.

    A voter j that gives class c the probability q(c) gets::

        P(c) = softmax(a_j log q(c) + b_jc)

    `a_j` below 1 is a voter that is too sure; `b_j` is its habit. They are learned where `gold` is
    known (class names or indices, one per item, None if unknown). Without gold, they are learned
    from what the other voters say (`OneCoin`), so judges that share their errors stay too sure. All
    voters have a common `a` first, to which each is shrunk as if by `shrinkage` items.
    A class without probabilities becomes one with the voter's precision.

    >>> votes = VoteMatrix.from_proba([[[0.01, 0.99]], [[0.01, 0.99]]] * 20, ["ham", "spam"])
    >>> calibrate_votes(votes, ["ham", "spam", "spam", "spam"] * 10).distribution[0].round(2)
    array([0.25, 0.75], dtype=float32)
    """
    require_votes(votes)
    check_number(calibrate_votes, "shrinkage", shrinkage, low=1e-6)
    if not votes.n_votes:
        return votes
    rows = votes.vote_rows().astype(np.float64)
    rows /= rows.sum(axis=1, keepdims=True)
    logs = np.log(np.clip(rows, (1 - _SUREST) / (votes.n_classes - 1), _SUREST))
    with one_thread():
        targets = _targets(votes, gold)
        known = ~np.isnan(targets[:, 0])
        identity = np.concatenate([[1.0], np.zeros(votes.n_classes)])
        pooled = _fitted(logs[known], targets[known], identity, shrinkage)
        start = np.concatenate([pooled[:1], np.zeros(votes.n_classes)])
        calibrated = np.empty_like(logs)
        for voter in range(votes.n_voters):
            own = votes.voter_index == voter
            learned = _fitted(logs[own & known], targets[own & known], start, shrinkage)
            calibrated[own] = _softmax(learned[0] * logs[own] + learned[1:])
    proba = calibrated.astype(np.float32)
    return replace(votes, distribution=proba, class_index=proba.argmax(axis=1).astype(np.int16))


def _targets(votes: VoteMatrix, gold: Any) -> Array:
    """P(class) of the item of every vote, NaN where it is unknown: (n_votes, n_classes)."""
    if gold is None:
        return _of_others(votes)
    truth = votes.labels.indices(in_order_of(votes, gold, "gold"), allow_unknown=True)
    if len(truth) != votes.n_items:
        raise VoteError(
            f"There are {len(truth)} gold labels for {votes.n_items} items: give one for each, "
            "None where it is unknown."
        )
    if not (truth >= 0).any():
        raise ParameterError("All gold labels are unknown: leave gold out to calibrate without.")
    one_hot = np.eye(votes.n_classes)[truth]
    one_hot[truth < 0] = np.nan
    return np.asarray(one_hot[votes.item_index])


def _of_others(votes: VoteMatrix) -> Array:
    """For every vote, what the other voters say about its item; NaN if nothing."""
    found = np.full((votes.n_votes, votes.n_classes), np.nan)
    if votes.n_voters < 2:
        return found
    plain = replace(votes, distribution=None)
    for voter in range(votes.n_voters):
        own = votes.voter_index == voter
        others = plain.select([each for each in range(votes.n_voters) if each != voter])
        if others.n_votes:
            proba = OneCoin().fit_predict_proba(others)
            proba[~others.covered] = np.nan
            found[own] = proba[votes.item_index[own]]
    return found


def _fitted(logs: Array, targets: Array, start: Array, shrinkage: float) -> Array:
    """The slope and the offsets that explain the targets, shrunk toward the start."""
    if not len(logs):
        return start
    from scipy.optimize import minimize

    def loss(learned: Array) -> tuple[float, Array]:
        proba = _softmax(learned[0] * logs + learned[1:])
        away = learned - start
        errors = proba - targets
        gradient = np.concatenate([[float((errors * logs).sum())], errors.sum(axis=0)])
        value = -float((targets * np.log(np.maximum(proba, 1e-300))).sum())
        return value + shrinkage / 2 * float(away @ away), gradient + shrinkage * away

    bounds = [(0.0, None)] + [(None, None)] * (len(start) - 1)  # a voter is never turned around
    return np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x)


def _softmax(logits: Array) -> Array:
    proba = np.exp(logits - logits.max(axis=1, keepdims=True))
    normalized: Array = proba / proba.sum(axis=1, keepdims=True)
    return normalized
