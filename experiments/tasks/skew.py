"""Class skew: sizes fall geometrically; the largest is `skew` times the smallest."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def class_shares(n_classes: int, skew: int) -> npt.NDArray[np.float64]:
    """Return the shares of the classes, largest first.

    >>> class_shares(3, 4).round(3).tolist()
    [0.571, 0.286, 0.143]
    """
    shares = float(skew) ** (-np.arange(n_classes) / (n_classes - 1))
    return shares / shares.sum()


def n_items_with_skew(sizes: Sequence[float], skew: int | None) -> float:
    """Return the number of items left after a skew, given the class sizes, largest first."""
    if skew is None:
        return float(np.sum(sizes))
    return float((np.asarray(sizes) / class_shares(len(sizes), skew)).min())
