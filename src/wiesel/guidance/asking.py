"""Which items to ask the crowd about again, whom, for how much, and when to stop.

The chance of a wrong label after k further answers is the mean of 1 - max P(class | drawn answers)
over answers drawn by P(answer | class) of all workers, with a class drawn from the calibrated
P(class). Workers err together, so that an answer to an item with n answers counts only as
1 / (1 + n / 5) of an independent one: about as much as accuracy gains on real crowds
(`python -m experiments ask_next`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis.table import Table, count, number, percent, text
from wiesel.errors import DataError, ParameterError
from wiesel.label_models.base import LabelModel, normalized_exp
from wiesel.label_models.confidence import (
    FEW_ANSWERS,
    Calibration,
    calibrated_proba,
    comparable_answers,
)
from wiesel.parameters import check_number
from wiesel.votes import VoteMatrix

__all__ = [
    "REDUNDANCY",
    "Answered",
    "AskNext",
    "Asking",
    "Source",
    "forecast_wrong",
    "information",
    "plan_answers",
    "pooled_confusions",
    "weight_after",
    "where_to_ask",
    "worker_confusions",
]

Array = npt.NDArray[np.float64]

REDUNDANCY = 0.2
"""An answer counts as 1 / (1 + REDUNDANCY * n) of an independent one after n others."""

_CELLS_AT_ONCE = 2**22
_FIRST_ITEMS, _FIRST_ANSWERS = 50, 2
"""Of how many items each gets how many answers first, to learn how good the workers are."""
_DRAWS, _FEWER_DRAWS, _MANY_ITEMS = 64, 16, 5000
_PSEUDO_ANSWERS = 5.0
"""Answers of the average worker that are added to those of each worker, for each class."""
_BEST_WORKERS = 300
"""Only so many workers are compared for every item: those that tell most on average."""
_MOST_SHARE, _LEAST_WORK = 3, 10
"""Nobody is asked for more than three times the mean of all workers, or ten answers."""
Floats = npt.NDArray[np.float64]

_PENALTY = 0.01
"""The penalty of the linear model, relative to the features' mean second moment."""


@dataclass(frozen=True)
class Asking:
    """What a label may be worth: the options of `wiesel.ask_next`."""

    target: float = 0.1
    """The chance of a wrong label that is small enough."""
    price: float = 1.0
    """The price of one answer."""
    budget: float | None = None
    """What may be spent, in the unit of `price`."""
    most: int = 10
    """The most further answers to one item."""

    def __post_init__(self) -> None:
        check_number(self, "target", self.target, low=0, high=1)
        check_number(self, "price", self.price, low=0)
        check_number(self, "most", self.most, low=1, whole=True)
        if self.budget is not None:
            check_number(self, "budget", self.budget, low=0)


class Answered(NamedTuple):
    """Answers, and what a fitted label model made of them."""

    model: LabelModel
    votes: VoteMatrix
    proba: Array
    """The model's own P(class)."""
    calibration: Calibration
    best: npt.NDArray[np.int64]
    """The label of every item."""
    expected: Array | None = None
    """P(class) of every item as its features tell, if it has any."""


@dataclass(frozen=True, eq=False, repr=False)
class AskNext:
    """Items to ask about, in this order, with what to expect from it."""

    table: Table
    """A row per item whose label may be wrong more often than the target: id, label, wrong (the
    chance that it is), answers, further answers, wrong after them, and whom to ask. Items without
    a number of further answers will not get below the target: decide these yourself."""
    workers: Table
    """Whom to ask for how many answers."""
    asking: Asking
    """The target, the price, the budget, and the most answers to an item."""
    n_items: int
    n_open: int
    """How many labels are wrong with a chance above the target."""
    n_answers: int
    """Further answers in all."""
    cost: float
    """What they cost."""
    wrong_now: float
    """The share of labels that are probably wrong, of all items."""
    forecast: tuple[tuple[int, float], ...]
    """That share after some of the answers, asked for in the order of the table."""
    is_first: bool = False
    """Whether too few answers can be compared to forecast anything: a first round is asked for."""

    @property
    def n_undecidable(self) -> int:
        """The number of items that further answers will not bring below the target."""
        return self.table.frame["further"].null_count()

    @property
    def n_of_new_workers(self) -> int:
        """Further answers for which no known worker is left: all have answered, or have enough."""
        return self.n_answers - int(self.workers.frame["answers"].sum())

    def sentences(self) -> list[str]:
        """Return what to do, what it costs, and when to stop, one sentence each."""
        n_more = len(self.table) - self.n_undecidable
        lines = [
            f"{self.n_open:,} of {self.n_items:,} labels are wrong with a chance above "
            f"{100 * self.asking.target:.0f} %; {100 * self.wrong_now:.1f} % of all labels are "
            "expected to be wrong"
        ]
        cost = "" if self.cost == self.n_answers else f", which cost {self.cost:,.2f},"
        if n_more and self.is_first:
            lines.append(
                "Too few answers can be compared to know how good the workers are: ask for "
                f"{self.n_answers:,} further answers{cost} to {n_more:,} items, and run it again"
            )
        elif n_more:
            after = ", ".join(f"{100 * wrong:.1f} % after {n:,}" for n, wrong in self.forecast[1:])
            later = self.n_open - len(self.table)
            rest = f" ({later:,} more items are beyond the budget)" if later else ""
            lines.append(
                f"Ask for {self.n_answers:,} further answers{cost} to {n_more:,} items: "
                f"{100 * self.wrong_now:.1f} % wrong labels become {after}{rest}"
            )
        if n_more and self.n_of_new_workers:
            lines.append(
                f"{self.n_of_new_workers:,} of these answers have to come from new workers: those "
                "known have answered the items, or are asked enough"
            )
        if self.n_undecidable:
            lines.append(
                f"For {self.n_undecidable:,} items, {self.asking.most} further answers each will "
                "not do: decide them yourself, or accept a higher target"
            )
        stop = "Aggregate the new answers, and ask again; stop when the list is empty"
        lines.append(stop if n_more else "Nothing is left to ask: stop")
        return lines

    def __str__(self) -> str:
        tables = [str(self.table), str(self.workers)] if len(self.table) else []
        return "\n".join([*self.sentences(), *(f"\n{table}" for table in tables)])

    def __repr__(self) -> str:
        return str(self)

    def to_record(self) -> dict[str, Any]:
        """Return everything as data for JSON, or for a page."""
        return {
            **asdict(self.asking),
            "n_items": self.n_items,
            "n_open": self.n_open,
            "n_answers": self.n_answers,
            "n_of_new_workers": self.n_of_new_workers,
            "n_undecidable": self.n_undecidable,
            "cost": self.cost,
            "wrong_now": self.wrong_now,
            "forecast": [{"answers": n, "wrong": wrong} for n, wrong in self.forecast],
            "notes": self.sentences(),
            "items": self.table.to_records(),
            "workers": self.workers.to_records(),
        }


def plan_answers(
    found: Answered, asking: Asking, left_out: frozenset[str] = frozenset(), item: str = "item"
) -> AskNext:
    """Return what to ask next; see `wiesel.ask_next`.

    Workers in `left_out` are not asked again; `item` is the name of the column of ids.
    """
    votes, best, target = found.votes, found.best, asking.target
    sure = calibrated_proba(found.model, votes, found.proba, found.calibration, found.expected)
    wrong = 1 - sure[np.arange(len(best)), best]
    shown = np.flatnonzero(votes.covered & (wrong > target))
    n_open, n_answers = len(shown), np.rint(votes.counts()).sum(axis=1)
    given = pooled_confusions(votes, sure)
    expected = forecast_wrong(sure[shown], given, n_answers[shown], asking.most)
    below = expected[:, 1:] <= target
    needed = np.where(below.any(axis=1), below.argmax(axis=1) + 1, 0)
    is_first = comparable_answers(votes) < FEW_ANSWERS
    if is_first:
        shown, expected = shown[:_FIRST_ITEMS], expected[:_FIRST_ITEMS]
        needed = np.full(len(shown), min(_FIRST_ANSWERS, asking.most))
    workers, told = _told(votes, sure, shown, left_out)
    value = told.max(axis=1, initial=-1.0) * weight_after(n_answers[shown])
    # Undecidable items come last, the least certain ones first.
    order = np.lexsort((-expected[:, 0], np.where(needed, -value, 0.0), needed == 0))
    if asking.budget is not None:
        cost = np.cumsum(needed[order]) * asking.price
        order = order[(cost <= asking.budget + 1e-9) | (needed[order] == 0)]
    shown, needed, expected = shown[order], needed[order], expected[order]
    asked = _whom(votes.voters, workers, told[order], needed)
    after = expected[np.arange(len(shown)), needed]
    frame = pl.DataFrame(
        {
            item: pl.Series(votes.ids[shown].tolist(), dtype=None if len(shown) else pl.String),
            "label": pl.Series([votes.labels.names[c] for c in best[shown]], dtype=pl.String),
            "wrong": wrong[shown],
            "answers": n_answers[shown].astype(np.int64),
            "further": pl.Series(needed).replace({0: None}),
            "wrong_after": pl.Series(after).set(pl.Series((needed == 0) | is_first), None),
            "ask": pl.Series(asked, dtype=pl.List(pl.String)),
        }
    )
    total = int(needed.sum())
    columns = (
        *(text(item), text("label"), percent("wrong"), count("answers"), count("further")),
        *(percent("wrong_after", "wrong after"), text("ask")),
    )
    steps = np.concatenate([[0.0], np.cumsum(wrong[shown] - after)])
    bounds = np.concatenate([[0], np.cumsum(needed)])
    marks = dict.fromkeys(round(total * share) for share in (0.0, 0.25, 0.5, 1.0))
    n_items = int(votes.covered.sum())
    wrong_now = float(wrong[votes.covered].mean())
    forecast = tuple((n, wrong_now - float(np.interp(n, bounds, steps)) / n_items) for n in marks)
    return AskNext(
        Table(frame, columns, "Ask about these items:" if total else "", limit=20),
        _workload(asked),
        asking,
        n_items,
        n_open,
        total,
        total * asking.price,
        wrong_now,
        forecast if total and not is_first else forecast[:1],
        is_first,
    )


def forecast_wrong(
    proba: Array, given: Array, n_answers: Array, most: int, redundancy: float = REDUNDANCY
) -> Array:
    """Return the chance of a wrong label after 0 to `most` further answers: (items, most + 1).

    `proba` is the calibrated P(class) of the items (items, classes), `given` P(answer | class).

    >>> sure, given = np.array([[0.5, 0.5]]), np.array([[0.8, 0.2], [0.2, 0.8]])
    >>> forecast_wrong(sure, given, np.zeros(1), 1).round(2)
    array([[0.5, 0.2]])
    """
    n_classes = proba.shape[1]
    n_draws = _FEWER_DRAWS if len(proba) > _MANY_ITEMS else _DRAWS
    # Classes are drawn evenly, and alike for every item: items do not differ by luck.
    of_class = (np.arange(n_draws) + 0.5) / n_draws
    of_answer = np.random.default_rng(0).random((most, n_draws))
    likelihood = np.log(given)
    independent = np.empty((len(proba), most + 1))
    step = max(1, _CELLS_AT_ONCE // (n_draws * n_classes))
    for start in range(0, len(proba), step):
        some = slice(start, start + step)
        chance = given[_drawn(proba[some][:, None], of_class)]
        told = np.log(np.maximum(proba[some], 1e-300))[:, None]
        for k in range(most + 1):
            if k:
                told = told + likelihood.T[_drawn(chance, of_answer[k - 1])]
            known = normalized_exp(told.reshape(-1, n_classes)).max(axis=1)
            independent[some, k] = 1 - known.reshape(len(told), -1).mean(axis=1)
    independent = np.minimum.accumulate(independent, axis=1)
    before = n_answers[:, None] + np.arange(most)
    counted = np.cumsum(weight_after(before, redundancy), axis=1)
    places = np.concatenate([np.zeros((len(proba), 1)), counted], axis=1)
    lower = np.minimum(places.astype(np.int64), most - 1)
    rows = np.arange(len(proba))[:, None]
    part = places - lower
    return np.asarray((1 - part) * independent[rows, lower] + part * independent[rows, lower + 1])


def weight_after(n_answers: npt.NDArray[Any], redundancy: float = REDUNDANCY) -> Array:
    """Return for how much of an independent answer one counts after n others.

    >>> weight_after(np.array([0, 5]))
    array([1. , 0.5])
    """
    return np.asarray(1 / (1 + redundancy * n_answers))


def pooled_confusions(votes: VoteMatrix, proba: Array) -> Array:
    """Return P(answer | class) of all workers together: (true, answered)."""
    totals = proba.T @ np.rint(votes.counts()) + 0.5
    return np.asarray(totals / totals.sum(axis=1, keepdims=True))


def _drawn(chance: Array, place: Array) -> npt.NDArray[np.int64]:
    """Draw classes by their chances (items, draws or 1, classes), at places from 0 to 1."""
    reached = np.cumsum(chance, axis=2)[:, :, :-1] <= place[None, :, None]
    return reached.sum(axis=2)


def _told(
    votes: VoteMatrix, sure: Array, items: npt.NDArray[np.int64], left_out: frozenset[str]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """The workers who may be asked, and how much each would tell: -1 if one has answered."""
    usable = np.array([name not in left_out for name in votes.voters])
    usable &= np.bincount(votes.voter_index, minlength=votes.n_voters) > 0
    workers = np.flatnonzero(usable)
    confusions = worker_confusions(votes, sure)[workers]
    mean = sure[votes.covered].mean(axis=0, keepdims=True)
    kept = np.argsort(-information(mean, confusions)[0], kind="stable")[:_BEST_WORKERS]
    workers, confusions = workers[kept], confusions[kept]
    place = np.full(votes.n_voters, -1)
    place[workers] = np.arange(len(workers))
    told = np.empty((len(items), len(workers)), dtype=np.float32)
    step = max(1, _CELLS_AT_ONCE // (max(1, len(workers)) * votes.n_classes))
    for start in range(0, len(items), step):
        some = slice(start, start + step)
        told[some] = information(sure[items[some]], confusions)
    for row, i in enumerate(items.tolist()):
        before = place[votes.voter_index[votes.indptr[i] : votes.indptr[i + 1]]]
        told[row, before[before >= 0]] = -1.0
    return workers, told


def _whom(
    names: Sequence[str],
    workers: npt.NDArray[np.int64],
    told: npt.NDArray[np.float32],
    needed: npt.NDArray[np.int64],
) -> list[list[str]]:
    """The workers to ask about every item, in turn: those who tell most, until they have enough."""
    share = math.ceil(_MOST_SHARE * needed.sum() / max(1, len(workers)))
    left = np.full(len(workers), max(_LEAST_WORK, share))
    asked: list[list[str]] = []
    for row, n in zip(told, needed, strict=True):
        value = np.where(left > 0, row, -1.0)
        chosen = np.argsort(-value, kind="stable")[:n]
        chosen = chosen[value[chosen] >= 0]
        left[chosen] -= 1
        asked.append([names[worker] for worker in workers[chosen]])
    return asked


def worker_confusions(votes: VoteMatrix, proba: Array) -> Array:
    """Return P(answer | class) of each worker, shrunk to that of all: (workers, true, answered)."""
    n_classes = votes.n_classes
    totals = np.zeros((votes.n_voters * n_classes, n_classes))
    cells = votes.voter_index.astype(np.int64) * n_classes + votes.class_index
    np.add.at(totals, cells, proba[votes.item_index])
    by_answer = totals.reshape(votes.n_voters, n_classes, n_classes).transpose(0, 2, 1)
    by_answer = by_answer + _PSEUDO_ANSWERS * pooled_confusions(votes, proba)
    return np.asarray(by_answer / by_answer.sum(axis=2, keepdims=True))


def information(proba: Array, confusions: Array) -> Array:
    """Return how much an answer of each worker tells about the class of each item, in nats.

    >>> coin, perfect = np.full((2, 2), 0.5), np.array([[1.0, 1e-300], [1e-300, 1.0]])
    >>> information(np.array([[0.5, 0.5]]), np.stack([coin, perfect])).round(2)
    array([[0.  , 0.69]])
    """
    n_items, n_classes = proba.shape
    answers = proba @ confusions.transpose(1, 0, 2).reshape(n_classes, -1)
    answers = answers.reshape(n_items, len(confusions), n_classes)
    known = (confusions * np.log(confusions)).sum(axis=2)
    return np.asarray(proba @ known.T - (answers * np.log(answers)).sum(axis=2))


def _workload(asked: list[list[str]]) -> Table:
    names = pl.Series("worker", [name for each in asked for name in each], dtype=pl.String)
    frame = names.value_counts(sort=True, name="answers").sort(
        "answers", "worker", descending=(True, False)
    )
    return Table(frame, (text("worker"), count("answers")), "How many answers of whom:", limit=10)


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
