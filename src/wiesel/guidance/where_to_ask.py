"""Which items to show to which model or person, for a budget."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis.table import Table, number, text
from wiesel.errors import DataError, ParameterError
from wiesel.parameters import check_number

__all__ = ["Source", "where_to_ask"]

Floats = npt.NDArray[np.float64]

_PENALTY = 0.01
"""The penalty of the linear model, relative to the features' mean second moment."""


@dataclass(frozen=True)
class Source:
    """Somebody who can be asked: a dear model, or a person.

    >>> Source(price=0.02, accuracy=0.9)
    Source(price=0.02, accuracy=0.9)
    """

    price: float
    """The price of one answer."""
    accuracy: float
    """P(right), on the items that are hard for others."""

    def __post_init__(self) -> None:
        check_number(self, "price", self.price, low=1e-12)
        check_number(self, "accuracy", self.accuracy, low=0, high=1)


def where_to_ask(
    proba: Any,
    sources: Mapping[str, Source],
    budget: float,
    X: Any = None,
    *,
    asked: Any = None,
    ids: Any = None,
) -> Table:
    """Return whom to ask about which items, the most useful for its price first.

    `proba` is P(class) of every item as far as it is known: from the votes of a cheap model
    everywhere, calibrated (`Stacked`, or `calibrate_votes` and a label model). An answer of a
    source moves it; the expected move is the benefit. With features `X`, it is multiplied by how
    much a linear model on them would follow: the square root of the item's leverage. An item gets
    the source whose benefit per price is highest, and a dearer one if what it adds is worth its
    price more than answers elsewhere. `asked` are items (a mask) that are not asked about again.

    >>> sources = {"big model": Source(1.0, 0.9), "person": Source(5.0, 0.99)}
    >>> table = where_to_ask([[0.5, 0.5], [0.99, 0.01], [0.6, 0.4]], sources, budget=2)
    >>> table.frame.select("item", "source").rows()
    [(0, 'big model'), (2, 'big model')]
    """
    known = np.asarray(proba, dtype=np.float64)
    if known.ndim != 2 or not np.allclose(known.sum(axis=1), 1, atol=1e-3) or (known < 0).any():
        raise DataError(
            f"proba is P(class) of every item, (items, classes) with rows that sum to 1; got an "
            f"array of the shape {known.shape}."
        )
    if not sources or not all(isinstance(own, Source) for own in sources.values()):
        raise ParameterError(
            "sources names who can be asked: {'big model': Source(price, accuracy)}."
        )
    check_number(where_to_ask, "budget", budget, low=0)
    open_items = np.ones(len(known), bool) if asked is None else ~np.asarray(asked, bool)
    weights = np.ones(len(known)) if X is None else np.sqrt(_leverage(np.asarray(X, float)))
    if len(weights) != len(known) or len(open_items) != len(known):
        raise DataError(f"There are {len(known)} items: X and asked need a row for each of them.")
    names = sorted(sources, key=lambda name: sources[name].price)
    benefits = np.stack(
        [_expected_move(known, sources[name].accuracy) * weights * open_items for name in names]
    )
    prices = np.array([sources[name].price for name in names])
    chosen = _chosen(benefits, prices, budget)
    return _table(chosen, benefits, prices, names, ids, len(known))


def _expected_move(proba: Floats, accuracy: float) -> Floats:
    """How far an answer is expected to move P(class): half the sum of absolute changes."""
    n_classes = proba.shape[1]
    wrong = (1 - accuracy) / (n_classes - 1)
    moved = np.zeros(len(proba))
    for said in range(n_classes):
        likelihood = np.full(n_classes, wrong)
        likelihood[said] = accuracy
        joint = proba * likelihood
        moved += np.abs(joint - proba * joint.sum(axis=1, keepdims=True)).sum(axis=1) / 2
    return moved


def _leverage(X: Floats) -> Floats:
    """X (X'X + penalty)^-1 x' of every item, relative to its mean."""
    centered = np.hstack([X - X.mean(axis=0), np.ones((len(X), 1))])
    moments = centered.T @ centered
    moments += _PENALTY * np.trace(moments) / len(moments) * np.eye(len(moments))
    found = np.einsum("ij,ji->i", centered, np.linalg.solve(moments, centered.T))
    return np.asarray(found / found.mean())


def _chosen(benefits: Floats, prices: Floats, budget: float) -> npt.NDArray[np.int64]:
    """The source of every item, -1 for none: steps of the best benefit per price, in order.

    A step is an item's first source, or a change to a dearer one. Steps of an item have falling
    ratios, so the first ones come first.
    """
    of_items = [_steps(own, prices) for own in benefits.T]
    steps = [step for own in of_items for step in own]
    items = np.repeat(np.arange(len(of_items)), [len(own) for own in of_items])
    ratios = np.array([ratio for ratio, _, _ in steps])
    chosen = np.full(benefits.shape[1], -1)
    left = budget
    for place in np.argsort(-ratios, kind="stable") if steps else ():
        _, price, source = steps[place]
        if price <= left + 1e-9:
            chosen[items[place]] = source
            left -= price
        elif left < prices[0]:
            break
    return chosen


def _steps(benefits: Floats, prices: Floats) -> list[tuple[float, float, int]]:
    """(benefit per price, price, source) of the steps worth taking, on the upper hull."""
    steps: list[tuple[float, float, int]] = []
    at_price = at_benefit = 0.0
    source = -1
    while True:
        dearer = np.flatnonzero((prices > at_price) & (benefits > at_benefit)).tolist()
        if not dearer:
            return steps
        ratios = [(benefits[k] - at_benefit) / (prices[k] - at_price) for k in dearer]
        source = dearer[int(np.argmax(ratios))]
        steps.append((float(max(ratios)), float(prices[source] - at_price), source))
        at_price, at_benefit = float(prices[source]), float(benefits[source])


def _table(
    chosen: npt.NDArray[np.int64],
    benefits: Floats,
    prices: Floats,
    names: list[str],
    ids: Any,
    n_items: int,
) -> Table:
    items = np.flatnonzero(chosen >= 0)
    worth = benefits[chosen[items], items] / prices[chosen[items]]
    order = items[np.argsort(-worth, kind="stable")]
    named = np.arange(n_items) if ids is None else np.asarray(ids)
    if len(named) != n_items:
        raise DataError(f"There are {len(named)} ids for {n_items} items.")
    frame = pl.DataFrame(
        {
            "item": named[order].tolist(),
            "source": [names[source] for source in chosen[order]],
            "price": prices[chosen[order]],
            "benefit": benefits[chosen[order], order],
        },
        schema_overrides={"source": pl.String},
    )
    counts = ", ".join(f"{name} {int((chosen == k).sum()):,}" for k, name in enumerate(names))
    total = f"{frame['price'].sum():,.6g}"
    caption = f"{len(order):,} of {n_items:,} items to ask about ({counts}), for {total}."
    return Table(frame, (text("item"), text("source"), number("price"), number("benefit")), caption)
