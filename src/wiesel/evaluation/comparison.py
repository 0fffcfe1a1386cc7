"""Compares two models on the same items, and the class shares of a whole collection."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis.table import Table, percent, text
from wiesel.errors import DataError, FeatureError, ParameterError
from wiesel.evaluation.intervals import (
    check_resampling,
    difference_interval,
    figure_intervals,
    paired_interval,
    resampled_figures,
)
from wiesel.evaluation.metrics import figures, predicted_classes
from wiesel.evaluation.report import (
    TITLES,
    Classifier,
    Score,
    html_fragment,
    known,
    labels_of,
    model_proba,
    score_text,
    string_table,
)
from wiesel.labels import LabelSpace, checked_proba
from wiesel.tables import in_order_of

__all__ = [
    "LABELS_ALONE",
    "Comparison",
    "compare_paired",
    "compare_paired_proba",
    "corrected_shares",
    "differences_to_first",
    "f1_parts",
    "holm",
    "verdict",
    "without_labels",
]

Right = npt.NDArray[np.bool_] | npt.NDArray[np.float64]
"""Whether each prediction is right, or the part of each item in F1 (`f1_parts`): (seeds, items)."""

LABELS_ALONE = "labels alone"
"""How the names of baselines begin that learn gold labels and no votes."""
_ALPHA = 0.05
_Z = 1.959963984540054
_TELLING = 0.03
"""A smaller difference in accuracy is not worth labeling rows for."""
Floats = npt.NDArray[np.float64]

_LEAST = 5
"""Labels of a class that are needed to know how it is predicted."""
_DOUBTFUL = 0.025
"""The largest probability that a class is predicted no better than by chance."""


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """The difference between two models on the same items: the first minus the second.

    >>> proba = np.array([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6], [0.3, 0.7]])
    >>> gold = ["ham", "spam", "spam", "spam"]
    >>> result = compare_paired_proba(proba, proba[:, ::-1], gold, ["ham", "spam"])
    >>> float(result.differences["accuracy"]), result.only_first, result.p_value
    (1.0, 4, 0.125)
    """

    n_items: int
    differences: Mapping[str, Score]
    """The difference in each metric, with a 95 % interval from paired resamples."""
    only_first: int
    """The number of items that only the first model predicts correctly."""
    only_second: int
    """The number of items that only the second model predicts correctly."""
    p_value: float
    """McNemar's exact test: the probability of such a difference by chance alone."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data for JSON; NaN becomes None."""
        return {
            "n_items": self.n_items,
            "differences": {
                name: {"value": known(score), "low": known(score.low), "high": known(score.high)}
                for name, score in self.differences.items()
            },
            "only_first": self.only_first,
            "only_second": self.only_second,
            "p_value": self.p_value,
        }

    def __repr__(self) -> str:
        return "\n".join([*self._sentences(), self._table().to_text()])

    def _repr_html_(self) -> str:
        return html_fragment("wiesel-comparison", list(self._sentences()), self._table())

    def _table(self) -> Table:
        rows = [[TITLES[name], score_text(score)] for name, score in self.differences.items()]
        return string_table(["", "difference"], rows)

    def _sentences(self) -> Iterator[str]:
        known = any(not np.isnan(score.low) for score in self.differences.values())
        intervals = ", with 95 % intervals" if known else ""
        yield f"First minus second on {self.n_items:,} items{intervals}"
        yield (
            f"Right only by the first: {self.only_first:,}, only by the second: "
            f"{self.only_second:,} (McNemar p = {self.p_value:.3g})"
        )


def compare_paired(
    first: Classifier,
    second: Classifier,
    X: Any,
    y: Any,
    *,
    n_resamples: int = 1000,
    seed: int = 0,
) -> Comparison:
    """Return how much better the first model is than the second on the same items.

    Both are resampled together, so that the difficulty of the items cancels out. Items without a
    gold label are left out. `n_resamples=0` omits the intervals.

    >>> from wiesel import MajorityVote
    >>> soft, hard = MajorityVote().fit(votes), MajorityVote(hard=True).fit(votes)
    >>> compare_paired(soft, hard, votes, ["ham", "spam", "spam", "spam"]).p_value
    1.0
    """
    labels = labels_of(first)
    if labels_of(second) != labels:
        raise ParameterError(
            f"The models have different classes: {labels!r} and {labels_of(second)!r}."
        )
    return compare_paired_proba(
        model_proba(first, X),
        model_proba(second, X),
        in_order_of(X, y, "y", "X"),
        labels,
        thresholds=(getattr(first, "threshold_", None), getattr(second, "threshold_", None)),
        n_resamples=n_resamples,
        seed=seed,
    )


def compare_paired_proba(
    first: Any,
    second: Any,
    y: Any,
    labels: LabelSpace | Sequence[str],
    *,
    thresholds: tuple[float | None, float | None] = (None, None),
    n_resamples: int = 1000,
    seed: int = 0,
) -> Comparison:
    """Return the comparison of two sets of predicted probabilities; see `compare_paired`."""
    check_resampling(n_resamples, seed)
    labels = LabelSpace.of(labels)
    second = in_order_of(first, second, "The second model", "the first")
    y = in_order_of(first, y, "y", "the probabilities")
    pair = [checked_proba(proba, labels, "The probabilities") for proba in (first, second)]
    gold = labels.indices(y, allow_unknown=True)
    if not len(pair[0]) == len(pair[1]) == len(gold):
        raise FeatureError(
            f"The models predict {len(pair[0])} and {len(pair[1])} items, and there are "
            f"{len(gold)} gold labels; all must be of the same items."
        )
    is_known = gold >= 0
    if not is_known.any():
        raise FeatureError("None of the gold labels is known; there is nothing to compare on.")
    gold, pair = gold[is_known], [proba[is_known] for proba in pair]
    predicted = [
        predicted_classes(proba, threshold)
        for proba, threshold in zip(pair, thresholds, strict=True)
    ]
    right = [classes == gold for classes in predicted]
    only_first, only_second = int(np.sum(right[0] & ~right[1])), int(np.sum(right[1] & ~right[0]))
    return Comparison(
        n_items=len(gold),
        differences=_differences(gold, pair, predicted, n_resamples, seed),
        only_first=only_first,
        only_second=only_second,
        p_value=mcnemar(only_first, only_second),
    )


def differences_to_first(right: Sequence[Right]) -> list[tuple[Score, float]]:
    """Return each method's accuracy minus the first one's, and the p-value of the difference.

    `right` has an array (seeds, items) for each method: whether its predictions for the same items
    are right. Intervals (95 %) are over items and seeds. P-values are corrected for the number of
    methods (`holm`). The first method has neither.

    >>> good, poor = np.ones((1, 40), dtype=bool), np.arange(40)[None] % 4 > 0
    >>> found = differences_to_first([good, poor, good])
    >>> [(round(score, 2), round(p, 3)) for score, p in found[1:]]
    [(-0.25, 0.004), (0.0, 1.0)]
    """
    found = [_difference(own, right[0]) for own in right[1:]]
    p_values = holm([p for _, p in found])
    both = [(score, p) for (score, _), p in zip(found, p_values, strict=True)]
    return [(Score(np.nan), float("nan")), *both]


def f1_parts(right: Any, size: Any) -> npt.NDArray[np.float64]:
    """Return a number for each item, whose mean is F1 and varies over items as F1 does.

    `right` counts the right answers of each item, `size` its gold and predicted ones; with a column
    for each label, it is the mean F1 of the labels. The numbers are F1's derivatives by the weights
    of the items (the infinitesimal jackknife, Efron 1982). Empty if there is nothing to measure.

    >>> parts = f1_parts([1, 0, 1], [2, 1, 3])
    >>> round(float(parts.mean()), 3), round(2 * 2 / 6, 3)
    (0.667, 0.667)
    """
    hits, sizes = (np.asarray(each, np.float64).reshape(len(each), -1) for each in (right, size))
    total = sizes.sum(axis=0)
    hits, sizes, total = hits[:, total > 0], sizes[:, total > 0], total[total > 0]
    if not len(total):
        return np.empty(0)
    f1 = 2 * hits.sum(axis=0) / total
    parts: npt.NDArray[np.float64] = f1 + len(hits) / total * (2 * hits - f1 * sizes)
    return parts.mean(axis=1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number (Holm 1979, Scandinavian J. of Statistics 6).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    times = len(order) - np.arange(len(order))
    corrected = np.empty(len(order))
    corrected[order] = np.maximum.accumulate(times * np.asarray(p_values)[order])
    return [float(p) for p in np.minimum(corrected, 1)]


def verdict(votes: Right, labels: Sequence[Right], figure: str = "accuracy") -> str:
    """Return a sentence: whether a model of votes and labels beats models of the labels alone.

    The arguments say which predictions for the same random items are right, (seeds, items), or are
    the items' parts in another `figure`. If the items are too few to tell, the sentence says how
    many more to label.

    >>> votes, labels = np.arange(100)[None] % 10 > 0, np.arange(100)[None] % 4 > 0
    >>> verdict(votes, [labels])
    'Your votes beat your labels by 5 to 24 points of accuracy.'
    >>> verdict(votes[:, :40], [labels[:, :40]]).partition(": ")[2]
    'label 10 more random rows.'
    """
    if not labels or not votes.size:
        return ""
    found = [_difference(votes, own) for own in labels]
    best = min((score for score, _ in found), key=float)
    low, high = (round(100 * limit) for limit in (best.low, best.high))
    if all(score.low > 0 for score, _ in found):
        return f"Your votes beat your labels by {low} to {high} points of {figure}."
    p_values = holm([p for _, p in found])
    if any(score.high < 0 and p < _ALPHA for (score, _), p in zip(found, p_values, strict=True)):
        return (
            "Your votes do not beat your labels yet: a model of the labels alone is "
            f"{-high} to {-low} points of {figure} better. Mend the votes, or label more "
            "rows."
        )
    between = f"({low:+} to {high:+} points of {figure})"
    # The interval shrinks with the root of the number of items: until it leaves out zero.
    half, telling = (best.high - best.low) / 2, max(abs(float(best)), _TELLING)
    if half <= _TELLING:
        return f"Your votes and your labels alone are equally good {between}."
    more = votes.shape[1] * ((half / telling) ** 2 - 1)
    return (
        f"Cannot tell yet whether your votes beat your labels {between}: label "
        f"{10 * max(1, int(np.ceil(more / 10))):,} more random rows."
    )


def without_labels(method: str) -> str:
    """Return the name of a method as a baseline that learns votes only.

    >>> without_labels("committee")
    'committee without labels'
    """
    return f"{method} without labels"


def _difference(first: Right, second: Right) -> tuple[Score, float]:
    """The accuracy of the first minus that of the second with its interval, and the p-value."""
    if len(first) == len(second) == 1 and first.dtype == second.dtype == np.bool_:
        one, other = first.astype(bool), second.astype(bool)
        only = int(np.sum(one & ~other)), int(np.sum(other & ~one))
        value = (only[0] - only[1]) / first.shape[1]
        return Score(value, *paired_interval(*only, first.shape[1])), mcnemar(*only)
    from scipy.special import ndtr

    apart = first.mean(axis=0) - second.mean(axis=0)
    variance = (apart.var() + 1 / len(apart)) / len(apart)
    for own in (first, second):
        variance += own.mean(axis=1).var(ddof=1) / len(own) if len(own) > 1 else 0.0
    value, error = float(apart.mean()), float(np.sqrt(variance))
    limits = (max(value - _Z * error, -1.0), min(value + _Z * error, 1.0))
    return Score(value, *limits), float(2 * ndtr(-abs(value) / error))


def mcnemar(only_first: int, only_second: int) -> float:
    """Return the p-value of McNemar's exact test; 1 if the models never differ.

    >>> mcnemar(0, 5)
    0.0625
    """
    from scipy.special import bdtr  # `scipy.stats` takes half a second to load

    # Both tails of a fair coin are alike; they overlap if both models win equally often.
    tail = bdtr(min(only_first, only_second), only_first + only_second, 0.5)
    return min(1.0, 2 * float(tail))


def _differences(
    gold: npt.NDArray[np.int64],
    pair: Sequence[npt.NDArray[np.float64]],
    predicted: Sequence[npt.NDArray[np.int64]],
    n_resamples: int,
    seed: int,
) -> dict[str, Score]:
    values = [figures(gold, *both) for both in zip(pair, predicted, strict=True)]
    apart = {name: values[0][name] - values[1][name] for name in values[0]}
    if n_resamples == 0:
        return {name: Score(value) for name, value in apart.items()}
    if np.array_equal(pair[0], pair[1]) and np.array_equal(predicted[0], predicted[1]):
        return {name: Score(value, value, value) for name, value in apart.items()}
    # The same seed draws the same items for both models, which makes the comparison paired.
    samples, limits = [], []
    for proba, named in zip(pair, predicted, strict=True):
        samples.append(resampled_figures(gold, proba, named, n_resamples, seed))
        limits.append(figure_intervals(gold, proba, named, samples[-1], seed))
    found = {}
    for name, value in apart.items():
        first, second = ((values[k][name], *limits[k][name]) for k in (0, 1))
        low, high = difference_interval(first, second, samples[0][name], samples[1][name])
        found[name] = Score(value, low, high)
    right = [classes == gold for classes in predicted]
    wins = int(np.sum(right[0] & ~right[1])), int(np.sum(right[1] & ~right[0]))
    found["accuracy"] = Score(apart["accuracy"], *paired_interval(*wins, len(gold)))
    return found


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
