"""Agreement of workers as papers report it: Krippendorff's alpha, Fleiss' and Cohen's kappa."""

from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from wiesel.analysis.agreement import pair_counts
from wiesel.errors import ParameterError, VoteError, listed
from wiesel.labels import LabelSpace
from wiesel.parameters import check_number
from wiesel.votes import VoteMatrix, require_votes

__all__ = ["Level", "Reliability", "reliability"]

Level = Literal["nominal", "ordinal", "interval"]
Array = npt.NDArray[np.float64]

RESAMPLES, FEWER_RESAMPLES, MANY_PATTERNS = 1000, 200, 2**14
"""Draws of the bootstrap; fewer if items have many different combinations of answers."""


class Reliability(NamedTuple):
    """How far workers agree; NaN where it cannot be computed."""

    level: Level
    """How classes differ: in name only, in rank, or by their numbers."""
    alpha: float
    """Krippendorff's alpha: 1 is perfect agreement, 0 is chance."""
    low: float
    """The lower end of its 95 % bootstrap interval over items."""
    high: float
    """The upper end."""
    fleiss: float
    """Fleiss' kappa, for items with any number of answers."""
    cohen: float
    """Cohen's kappa of pairs of workers, weighted by their common items."""
    agreement: float
    """The share of pairs of answers to an item that are equal, as a mean over items."""
    n_items: int
    """Items with at least two answers; only these count."""

    def to_record(self) -> dict[str, Any]:
        """Return the values as a dict for JSON; unknown ones are None."""
        return {name: None if value != value else value for name, value in self._asdict().items()}

    def sentence(self) -> str:
        """Return what is known in one sentence, for a report.

        >>> reliability(votes).sentence()
        "Agreement: Krippendorff's alpha 0.20 (nominal, 95 % interval -0.75 to 1.00), ..."
        """
        if not self.n_items:
            return "Agreement: unknown, because no item has two answers"
        return (
            f"Agreement: Krippendorff's alpha {self.alpha:.2f} ({self.level}, 95 % interval "
            f"{self.low:.2f} to {self.high:.2f}), Fleiss' kappa {self.fleiss:.2f}, mean Cohen's "
            f"kappa {self.cohen:.2f}; two answers to an item are equal in "
            f"{100 * self.agreement:.1f} %"
        )


def reliability(votes: VoteMatrix, level: Level | None = None, *, seed: int = 0) -> Reliability:
    """Return how far workers agree beyond chance, over items with at least two answers.

    `ordinal` counts a disagreement of neighboring classes for less than of distant ones; classes
    have to be in order. `interval` compares the numbers that the classes are. The default is
    `ordinal` for ordered classes, else `nominal`. The interval comes from `seed`ed bootstrap
    samples of items. `agreement` has each pair of workers with its kappa.

    Krippendorff 2019, "Content Analysis", 4th edition, chapter 12; Fleiss 1971, "Measuring nominal
    scale agreement among many raters"; Cohen 1960, "A coefficient of agreement for nominal scales".

    >>> rows = [["a", "a"], ["b", "b"], ["a", "b"], ["b", "b"]]
    >>> found = reliability(VoteMatrix.from_dense(rows, ["a", "b"]))
    >>> round(found.alpha, 3), round(found.fleiss, 3), found.agreement
    (0.533, 0.467, 0.75)
    """
    require_votes(votes)
    level = level or ("ordinal" if votes.labels.ordered else "nominal")
    if level not in get_args(Level):
        raise ParameterError(f"level must be one of {listed(get_args(Level))}; got {level!r}.")
    counts = votes.counts().astype(np.float64)
    counts = counts[counts.sum(axis=1) >= 2]
    unknown = float("nan")
    values = (
        _values(votes.labels) if level == "interval" else np.arange(votes.n_classes, dtype=float)
    )
    if not len(counts):
        return Reliability(level, unknown, unknown, unknown, unknown, unknown, unknown, 0)
    patterns, times = np.unique(counts, axis=0, return_counts=True)
    n_draws = FEWER_RESAMPLES if len(patterns) > MANY_PATTERNS else RESAMPLES
    check_number(VoteMatrix, "seed", seed, low=0, whole=True)
    rng, n_items = np.random.default_rng(seed), len(counts)
    drawn = np.array(
        [
            _alpha(patterns, draw.astype(np.float64), level, values)
            for draw in (rng.multinomial(n_items, times / n_items) for _ in range(n_draws))
        ]
    )
    low, high = _interval(drawn)
    equal = _equal_pairs(patterns)
    agreement = float(times @ equal / n_items)
    shares = times @ patterns / (times @ patterns).sum()
    chance = float(np.square(shares).sum())
    fleiss = (agreement - chance) / (1 - chance) if chance < 1 else unknown
    alpha = _alpha(patterns, times.astype(np.float64), level, values)
    return Reliability(level, alpha, low, high, fleiss, _cohen(votes), agreement, n_items)


def _alpha(patterns: Array, times: Array, level: Level, values: Array) -> float:
    """1 - observed / expected disagreement; items with the same answers are one pattern."""
    n_answers = patterns.sum(axis=1)
    totals = times @ patterns
    if level == "nominal":
        observed = np.square(n_answers) - np.square(patterns).sum(axis=1)
        expected = totals.sum() ** 2 - np.square(totals).sum()
    else:
        # An ordinal distance is the number of answers from the middle of one class to the other's.
        places = values if level == "interval" else np.cumsum(totals) - totals / 2
        # sum_ck n_c n_k (x_c - x_k)^2 = 2 (n sum_c n_c x_c^2 - (sum_c n_c x_c)^2)
        first, second = patterns @ places, patterns @ np.square(places)
        observed = 2 * (n_answers * second - np.square(first))
        expected = 2 * (totals.sum() * (totals @ np.square(places)) - (totals @ places) ** 2)
    if expected <= 0:
        return float("nan")
    return float(1 - (totals.sum() - 1) * (times @ (observed / (n_answers - 1))) / expected)


def _interval(drawn: Array) -> tuple[float, float]:
    known = drawn[~np.isnan(drawn)]
    if not len(known):
        return float("nan"), float("nan")
    low, high = np.quantile(known, (0.025, 0.975))
    return float(low), float(high)


def _equal_pairs(patterns: Array) -> Array:
    n_answers = patterns.sum(axis=1)
    same = (patterns * (patterns - 1)).sum(axis=1)
    return np.asarray(same / (n_answers * (n_answers - 1)))


def _cohen(votes: VoteMatrix) -> float:
    """The mean kappa of pairs, weighted by common items; NaN if there are too many pairs."""
    try:
        pairs = pair_counts(votes)
    except VoteError:
        return float("nan")
    known = pairs.chance < 1 - 1e-12
    if not known.any():
        return float("nan")
    both, chance = pairs.both[known], pairs.chance[known]
    kappa = (pairs.agree[known] / both - chance) / (1 - chance)
    return float(both @ kappa / both.sum())


def _values(labels: LabelSpace) -> Array:
    """The numbers that the classes are."""
    try:
        return np.array([float(name) for name in labels.names])
    except ValueError:
        raise ParameterError(
            f"level='interval' needs classes that are numbers; got {listed(labels.names)}. "
            "level='ordinal' needs only their order."
        ) from None
