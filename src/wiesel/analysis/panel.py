"""Panels of judges: how many they are worth, whether the best one is better, which one to drop."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis.summary import gold_indices
from wiesel.analysis.table import Table, number, percent, text
from wiesel.errors import DataError, ParameterError
from wiesel.label_models import CorrelatedVoters, MajorityVote
from wiesel.labels import ABSTAIN
from wiesel.votes import VoteMatrix, require_votes

__all__ = ["PanelReport", "judge_panel"]

Floats = npt.NDArray[np.float64]

_DRAWS = 500
"""Bootstrap samples of items."""
_LEAST_GOLD = 20
_CLOSE = 0.005
"""A judge whose loss costs less accuracy than this may be dropped."""


@dataclass(frozen=True, eq=False)
class PanelReport:
    """What `judge_panel` found; printing it shows the findings and the table of judges."""

    judges: Table
    """A row for each judge: accuracy, what the panel is without it, price."""
    findings: tuple[str, ...]
    n_effective: float
    """How many independent judges the panel is worth."""
    error_correlations: Floats
    """(n_voters, n_voters): the correlation of the errors of each pair."""
    accuracies: Mapping[str, float]
    """On gold: of the majority, of `CorrelatedVoters`, and of the best judge; else empty."""

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            "n_effective": self.n_effective,
            "findings": list(self.findings),
            "accuracies": dict(self.accuracies),
            "judges": self.judges.to_records(),
            "error_correlations": self.error_correlations.tolist(),
        }

    def __str__(self) -> str:
        return "\n".join([*self.findings, "", self.judges.to_text()])

    __repr__ = __str__


def judge_panel(
    votes: VoteMatrix, gold: Any = None, prices: Mapping[str, float] | None = None
) -> PanelReport:
    """Return what a panel of judges is worth, and what each judge adds to it.

    With `gold` (names or indices, one per item, None if unknown), errors are known. Without, their
    correlations are estimated from the votes (`CorrelatedVoters`): errors that most judges share
    cannot be seen, so the panel may be worth less. `prices` are those of the judges, in any unit.

    The effective number of judges is `n / (1 + (n - 1) r)`, where r is the mean correlation of two
    judges' errors: that many independent ones would have a majority of the same variance.

    >>> from wiesel.datasets import make_panel
    >>> votes, gold = make_panel(500, 9)
    >>> report = judge_panel(votes, gold)
    >>> report.n_effective < 4
    True
    """
    require_votes(votes)
    if votes.n_voters < 2:
        raise ParameterError(f"A panel has two judges or more; got {votes.n_voters}.")
    truth = None if gold is None else np.asarray(gold_indices(votes, gold), np.int64)
    if truth is not None and (truth != ABSTAIN).sum() < _LEAST_GOLD:
        raise DataError(
            f"A panel is judged on at least {_LEAST_GOLD} gold labels; there are "
            f"{int((truth != ABSTAIN).sum())}. Leave gold out to judge it from the votes."
        )
    known = None if prices is None else _prices(votes, prices)
    correlations = _of_votes(votes) if truth is None else _of_gold(votes, truth)
    n_effective = _effective(correlations)
    whole = _Panel(votes, truth)
    findings = [_worth(votes.n_voters, n_effective, truth is not None)]
    accuracies: dict[str, float] = {}
    if truth is not None:
        accuracies, sentences = _best_judge(whole)
        findings += sentences
    judges = _judge_table(whole, correlations, known)
    findings += _to_drop(judges.frame, known)
    return PanelReport(judges, tuple(findings), n_effective, correlations, accuracies)


class _Panel:
    """The votes on the items that are judged, and the classes they should have."""

    def __init__(self, votes: VoteMatrix, truth: npt.NDArray[np.int64] | None) -> None:
        self.has_gold = truth is not None
        self.all = votes
        self.rows = np.flatnonzero(votes.covered if truth is None else truth != ABSTAIN)
        proba = CorrelatedVoters().fit_predict_proba(votes)
        self.correlated = proba.argmax(axis=1)[self.rows]
        self.truth = self.correlated if truth is None else truth[self.rows]
        self.votes = votes[self.rows]
        self.dense = self.votes.dense()

    def right(self, voters: list[int]) -> Floats:
        """Whether the majority of some judges is right, on every item; ties count in part."""
        proba = MajorityVote().fit_predict_proba(self.votes.select(voters))
        best = proba >= proba.max(axis=1, keepdims=True) - 1e-9
        own: Floats = best[np.arange(len(self.truth)), self.truth] / best.sum(axis=1)
        return own

    def right_of_judge(self, judge: int) -> Floats:
        """Whether a judge is right, on every item; NaN where it abstains."""
        own = (self.dense[:, judge] == self.truth).astype(float)
        return np.where(self.dense[:, judge] == ABSTAIN, np.nan, own)


def _of_gold(votes: VoteMatrix, truth: npt.NDArray[np.int64]) -> Floats:
    """The correlations of being wrong, over the items with gold on which both vote."""
    known = np.flatnonzero(truth != ABSTAIN)
    dense = votes[known].dense()
    cast = (dense != ABSTAIN).astype(float)
    wrong = ((dense != truth[known][:, None]) & (dense != ABSTAIN)).astype(float)
    both = np.maximum(cast.T @ cast, 1)
    mean = wrong.T @ cast / both  # of the first voter, where both vote
    covariance = wrong.T @ wrong / both - mean * mean.T
    spread = mean * (1 - mean)
    units = np.sqrt(spread * spread.T)
    return _with_ones(np.where(units > 0, covariance / np.where(units > 0, units, 1), 0))


def _of_votes(votes: VoteMatrix) -> Floats:
    """The correlations of errors that the votes show, averaged over the classes."""
    model = CorrelatedVoters().fit(votes)
    found = []
    for c, weight in enumerate(model.class_balance_):
        covariance = model.error_covariance_[c]
        spread = np.sqrt(np.diag(covariance))
        found.append(weight * covariance / np.outer(spread, spread))
    return _with_ones(np.sum(found, axis=0))


def _with_ones(correlations: Floats) -> Floats:
    np.fill_diagonal(correlations, 1.0)
    return np.clip(correlations, -1, 1)


def _effective(correlations: Floats) -> float:
    n = len(correlations)
    mean = (correlations.sum() - n) / (n * (n - 1))
    return float(n / (1 + (n - 1) * max(0.0, mean)))


def _worth(n_judges: int, n_effective: float, has_gold: bool) -> str:
    how = "on gold labels" if has_gold else "judged by the votes alone, so at most"
    return (
        f"{n_judges} judges are worth about {n_effective:.1f} independent ones ({how}): their "
        "errors are correlated."
    )


def _best_judge(panel: _Panel) -> tuple[dict[str, float], list[str]]:
    """The accuracies of the panel and of its best judge, and a finding if that one is better."""
    everyone = list(range(panel.all.n_voters))
    majority = panel.right(everyone)
    correlated = (panel.correlated == panel.truth).astype(float)
    by_judge = np.stack([panel.right_of_judge(judge) for judge in everyone])
    means = np.nanmean(by_judge, axis=1)
    best = int(np.nanargmax(means))
    name = panel.all.voters[best]
    accuracies = {
        "majority": float(majority.mean()),
        "correlated_voters": float(correlated.mean()),
        "best_judge": float(means[best]),
    }
    away = _beyond(by_judge, majority)
    low, high = _interval(away)
    share = (
        f"{name!r} ({100 * means[best]:.1f} %) and the majority of the panel "
        f"({100 * majority.mean():.1f} %)"
    )
    if low > 0:
        sentence = (
            f"Your best judge beats the panel: {share} differ by "
            f"{100 * away.mean():.1f} points [{100 * low:.1f}, {100 * high:.1f}] on items "
            "that did not choose it. Use it alone, or CorrelatedVoters "
            f"({100 * correlated.mean():.1f} %), or Stacked with these gold labels."
        )
    elif high < 0:
        sentence = f"The panel beats its best judge: {share}."
    else:
        sentence = f"The panel is about as good as its best judge: {share}."
    return accuracies, [sentence]


def _beyond(by_judge: Floats, majority: Floats) -> Floats:
    """How much better the best judge is, on items that did not choose it: two halves in turn."""
    half = np.arange(by_judge.shape[1]) % 2 == 0
    found = []
    for chosen_on, used in ((half, ~half), (~half, half)):
        with np.errstate(all="ignore"):
            means = np.array([_mean(own[chosen_on]) for own in by_judge])
        best = by_judge[int(np.nanargmax(means))]
        found.append((best - majority)[used & ~np.isnan(best)])
    return np.concatenate(found)


def _interval(values: Floats) -> tuple[float, float]:
    """A 95 % interval of a mean, by the bootstrap over items."""
    rng = np.random.default_rng(0)
    means = [values[rng.integers(0, len(values), len(values))].mean() for _ in range(_DRAWS)]
    return float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))


def _judge_table(panel: _Panel, correlations: Floats, prices: Floats | None) -> Table:
    n = panel.all.n_voters
    everyone = list(range(n))
    all_right = panel.right(everyone).mean()
    without = [
        panel.right([other for other in everyone if other != judge]).mean() for judge in everyone
    ]
    mean_correlation = (correlations.sum(axis=1) - 1) / (n - 1)
    others = [correlations[j] - 2 * np.eye(n)[j] for j in everyone]
    closest = [panel.all.voters[int(np.argmax(own))] for own in others]
    columns: dict[str, Any] = {
        "voter": list(panel.all.voters),
        "accuracy": [float(_mean(panel.right_of_judge(judge))) for judge in everyone],
        "error_correlation": mean_correlation.tolist(),
        "closest": closest,
        "gain": [float(all_right - own) for own in without],
        "price": [None] * n if prices is None else prices.tolist(),
    }
    right = "accuracy" if panel.has_gold else "agrees with panel"
    shown = (text("voter", "judge"), percent("accuracy", right))
    more = (number("error_correlation", "errors shared"), text("closest", "most with"))
    last = (percent("gain", "panel gains"), *(() if prices is None else (number("price"),)))
    frame = pl.DataFrame(columns, schema_overrides={"price": pl.Float64})
    return Table(frame, (*shown, *more, *last))


def _mean(values: Floats) -> float:
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")


def _to_drop(judges: pl.DataFrame, prices: Floats | None) -> list[str]:
    """The judge that is missed least for its price."""
    candidates = judges.filter(pl.col("gain") < _CLOSE)
    if not len(candidates):
        return ["Every judge is missed: without any one, the majority is worse."]
    if prices is None:
        found = candidates.sort(["gain", "error_correlation"], descending=[False, True]).row(
            0, named=True
        )
        saved = ""
    else:
        found = candidates.sort(["price", "gain"], descending=[True, False]).row(0, named=True)
        saved = (
            f", and saves {100 * (found['price'] / max(prices.sum(), 1e-300)):.0f} % of the price"
        )
    change = f"{-100 * found['gain']:+.1f} points"
    return [f"Drop {found['voter']!r} first: without it the majority changes by {change}{saved}."]


def _prices(votes: VoteMatrix, prices: Mapping[str, float]) -> Floats:
    missing = [name for name in votes.voters if name not in prices]
    if missing:
        raise ParameterError(f"There is no price of {missing[0]!r}: give one for every judge.")
    found = np.array([float(prices[name]) for name in votes.voters])
    if not np.isfinite(found).all() or (found < 0).any():
        raise ParameterError(f"Prices are numbers of 0 or more; got {dict(prices)!r:.80}.")
    return found
