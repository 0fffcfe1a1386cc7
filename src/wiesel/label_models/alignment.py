"""Soft labels whose class shares are those of a given class balance."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from wiesel.label_models.vote_products import normalize_rows

__all__ = ["alignment_offsets", "mean_proba"]

_ROUNDS = 30
_STEP = 0.7
_SMALLEST = 1e-4

Array = npt.NDArray[np.float64]


def alignment_offsets(balance: Array, shares_with: Callable[[Array], Array]) -> Array:
    """Return offsets for the logits of soft labels that make the class shares match the balance.

    The match is approximate, by iterative proportional fitting. `shares_with(offsets)` returns the
    class shares with these offsets.

    >>> logits = np.log([[0.9, 0.1], [0.6, 0.4]])
    >>> offsets = alignment_offsets(np.array([0.5, 0.5]), mean_proba(logits))
    >>> mean_proba(logits)(offsets).round(3)
    array([0.5, 0.5])
    """
    offsets = np.zeros(len(balance))
    for _ in range(_ROUNDS):
        offsets += _STEP * np.log(balance / np.maximum(shares_with(offsets), _SMALLEST))
    return offsets


def mean_proba(logits: Array) -> Callable[[Array], Array]:
    """Return a function from logit offsets to the class shares of these items."""

    def shares(offsets: Array) -> Array:
        moved = logits + offsets
        normalize_rows(moved)
        return moved.mean(axis=0)

    return shares
