"""Class shares of a whole collection, corrected for the errors that a labeled sample shows."""

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis.table import Table, percent, text
from wiesel.errors import DataError
from wiesel.labels import LabelSpace

__all__ = ["corrected_shares"]

Floats = npt.NDArray[np.float64]

_LEAST = 5
"""Labels of a class that are needed to know how it is predicted."""
_DOUBTFUL = 0.025
"""The largest probability that a class is predicted no better than by chance."""


def corrected_shares(
    predicted: Any,
    sample_predicted: Any,
    sample_gold: Any,
    labels: LabelSpace | Any,
    *,
    n_resamples: int = 1000,
    seed: int = 0,
) -> Table:
    """Return the share of each class in a collection, with 95 % intervals.

    `predicted` are the predictions (names or indices) for the collection, by a model or a judge.
    Counting them gives biased shares. How often each class is predicted as each other one is
    estimated on a labeled sample, and inverted (Rogan and Gladen 1978, American Journal of
    Epidemiology; for two classes, (share + specificity - 1) / (sensitivity + specificity - 1)).
    The sample may have other class shares than the collection, as long as each class is predicted
    in the same way. Intervals draw the error rates and the counts again (a Bayesian bootstrap).

    >>> said = ["spam"] * 30 + ["ham"] * 70
    >>> sample, gold = ["spam"] * 8 + ["ham"] * 12, ["spam"] * 10 + ["ham"] * 10
    >>> corrected_shares(said, sample, gold, ["ham", "spam"]).frame["corrected"].round(3).to_list()
    [0.625, 0.375]
    """
    space = LabelSpace.of(labels)
    collection, sample = space.indices(predicted), space.indices(sample_predicted)
    gold = space.indices(sample_gold)
    if len(sample) != len(gold):
        raise DataError(
            f"The sample has {len(sample)} predictions and {len(gold)} gold labels: give both for "
            "the same items."
        )
    n_gold = np.bincount(gold, minlength=len(space))
    if n_gold.min() < _LEAST:
        rare = space.names[int(n_gold.argmin())]
        raise DataError(
            f"The sample has {n_gold.min()} labels of {rare!r}: at least {_LEAST} of each class "
            "are needed to know how it is predicted."
        )
    confusion = np.array(
        [np.bincount(sample[gold == c], minlength=len(space)) for c in range(len(space))], float
    )
    counts = np.bincount(collection, minlength=len(space)).astype(float)
    rates = confusion / n_gold[:, None]
    found = _solved(rates, counts / counts.sum())
    rng = np.random.default_rng(seed)
    drawn_rates = [
        np.stack([rng.dirichlet(row + 0.5) for row in confusion]) for _ in range(n_resamples)
    ]
    _check_informative(drawn_rates, space)
    n_items = int(counts.sum())
    draws = [
        _solved(own, rng.multinomial(n_items, counts / n_items) / n_items) for own in drawn_rates
    ]
    low, high = np.quantile(draws, [0.025, 0.975], axis=0)
    frame = pl.DataFrame(
        {
            "class": list(space.names),
            "counted": counts / counts.sum(),
            "corrected": found,
            "low": np.minimum(low, found),
            "high": np.maximum(high, found),
        }
    )
    columns = (text("class"), percent("counted"), percent("corrected"))
    caption = f"Class shares of {len(collection):,} items, corrected by {len(gold):,} gold labels."
    return Table(frame, (*columns, percent("low", "from"), percent("high", "to")), caption)


def _check_informative(drawn_rates: list[Floats], labels: LabelSpace) -> None:
    """Refuse predictions that may not tell two classes apart: nothing could be inverted."""
    rates = np.array(drawn_rates)
    own = np.einsum("rcc->rc", rates)
    others = np.where(np.eye(len(labels), dtype=bool), -1.0, rates).max(axis=1)
    doubtful = (own <= others).mean(axis=0)
    if doubtful.max() > _DOUBTFUL:
        name = labels.names[int(doubtful.argmax())]
        raise DataError(
            f"On the sample, {name!r} is hardly predicted more often where it is right than where "
            "it is wrong, so shares cannot be corrected. Give more gold labels, or better "
            "predictions."
        )


def _solved(rates: Floats, shares: Floats) -> Floats:
    """The class shares that best explain the predicted ones: never negative, with the sum 1."""
    from scipy.optimize import nnls

    strict = 1e3  # the weight of the equation for the sum
    n_classes = len(shares)
    equations = np.vstack([rates.T, np.full((1, n_classes), strict)])
    found, _ = nnls(equations, np.append(shares, strict))
    solved: Floats = found / found.sum()
    return solved
