"""How workers work: how fast, whether they get better or worse, and who answers like whom."""

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis.workers import skill_of
from wiesel.labels import FloatArray

__all__ = ["FAST", "worker_groups", "worker_pace"]

FAST = 1 / 3
"""A fast clicker takes less than this share of the time of others for the same items."""

LEAST_TIMED = 10
"""Pace and drift are known from so many answers on; drift needs as many in each half."""

DRIFT, FALSE_ALARM = 0.1, 0.01
"""A drift is a change of accuracy by at least this, which is chance in one of a hundred tables."""

LEAST_GROUPED, MOST_GROUPED = 20, 2000
"""Workers with fewer answers are in no group; of more workers, those with most answers are."""

APART = 0.3
"""Workers of a group are closer than this: the mean Hellinger distance of their confusions."""


def worker_pace(answers: pl.DataFrame) -> pl.DataFrame:
    """Return a row per worker: seconds, pace, early, late and drift; null if unknown.

    `answers` has the columns item, worker, right (the probability that the answer is right), and
    seconds, when, or both. `seconds` is the median time of an answer, and `pace` the median of its
    share of the item's median time: 0.2 is five times as fast as others. `early` and `late` are
    the accuracies in the first and second half of a worker's answers by `when`; `drift` is
    "better" or "worse" if they differ by more than chance explains.

    >>> rows = {"item": [k // 2 for k in range(40)], "worker": ["ann", "bob"] * 20,
    ...         "right": [0.9, 0.4] * 20, "seconds": [30.0, 2.0] * 20}
    >>> worker_pace(pl.DataFrame(rows)).select("worker", "seconds", "pace").rows()
    [('ann', 30.0, 1.875), ('bob', 2.0, 0.125)]
    """
    found = answers.select(pl.col("worker").unique(maintain_order=True))
    if "seconds" in answers.columns:
        timed = answers.drop_nulls("seconds").filter(pl.col("seconds") >= 0)
        usual = pl.col("seconds").median().over("item")
        pace = pl.when(usual > 0).then(pl.col("seconds") / usual)
        by_worker = timed.with_columns(pace=pace).group_by("worker", maintain_order=True)
        enough = pl.len() >= LEAST_TIMED
        own = by_worker.agg(
            seconds=pl.when(enough).then(pl.col("seconds").median()),
            pace=pl.when(enough).then(pl.col("pace").median()),
        )
        found = found.join(own, on="worker", how="left", maintain_order="left")
    if "when" in answers.columns:
        own = _drift(answers.drop_nulls("when").sort("when", maintain_order=True))
        found = found.join(own, on="worker", how="left", maintain_order="left")
    return found


def _drift(answers: pl.DataFrame) -> pl.DataFrame:
    place, n = pl.int_range(pl.len()).over("worker"), pl.len().over("worker")
    halves = answers.with_columns(late=place >= n // 2).filter(n >= 2 * LEAST_TIMED)
    right = pl.col("right")
    parts = {"early": right.filter(~pl.col("late")), "late": right.filter(pl.col("late"))}
    own = halves.group_by("worker", maintain_order=True).agg(
        *(part.mean().alias(name) for name, part in parts.items()),
        error=pl.sum_horizontal(part.var() / part.len() for part in parts.values()).sqrt(),
    )
    from scipy.special import ndtri  # `scipy.stats` is slow to load

    change = pl.col("late") - pl.col("early")
    # Of all workers together, one of a hundred tables shows a drift where there is none.
    bound = float(-ndtri(FALSE_ALARM / 2 / max(1, len(own))))
    is_drift = (change.abs() >= DRIFT) & (change.abs() > bound * pl.col("error"))
    words = pl.when(change > 0).then(pl.lit("better")).otherwise(pl.lit("worse"))
    return own.with_columns(drift=pl.when(is_drift).then(words)).drop("error")


def worker_groups(counts: FloatArray, names: Any) -> pl.DataFrame:
    """Return a row per group of workers who answer alike, the largest first.

    `counts` are the expected answers of each worker by true class (workers, true, answered).
    Workers are clustered by average linkage on the Hellinger distance of their confusions, which
    are shrunk toward those of all. A row has the workers, their number, answers, accuracy and
    skill, and the most frequent mistake of the group with its share of that class's answers.

    >>> good, swaps = 20 * np.eye(2), 20 * np.eye(2)[::-1]
    >>> found = worker_groups(np.stack([good, good, swaps]), ["ann", "bob", "eve"])
    >>> found.select("workers", "accuracy").rows()
    [(['ann', 'bob'], 1.0), (['eve'], 0.0)]
    """
    totals = counts.sum(axis=(1, 2))
    chosen = np.flatnonzero(totals >= LEAST_GROUPED)
    chosen = np.sort(chosen[np.argsort(-totals[chosen], kind="stable")[:MOST_GROUPED]])
    rows: list[dict[str, Any]] = []
    for group in _clusters(counts[chosen]):
        members = chosen[group]
        pooled = counts[members].sum(axis=0)
        shares = pooled / np.maximum(pooled.sum(axis=1, keepdims=True), 1e-300)
        wrong = np.where(np.eye(len(pooled), dtype=bool), -1.0, pooled)
        true, answered = divmod(int(wrong.argmax()), len(pooled))
        known = shares + (pooled.sum(axis=1, keepdims=True) == 0) / len(pooled)
        rows.append(
            {
                "workers": [names[member] for member in members],
                "n_workers": len(members),
                "answers": round(float(totals[members].sum())),
                "accuracy": float(np.trace(pooled) / pooled.sum()),
                "skill": float(skill_of(known[None])[0][0]),
                "true": true if wrong.max() > 0 else None,
                "answered": answered if wrong.max() > 0 else None,
                "share": float(shares[true, answered]) if wrong.max() > 0 else None,
                "confusion": shares.tolist(),
            }
        )
    schema: dict[str, Any] = {
        "workers": pl.List(pl.String),
        "n_workers": pl.Int64,
        "answers": pl.Int64,
        "accuracy": pl.Float64,
        "skill": pl.Float64,
        "true": pl.Int64,
        "answered": pl.Int64,
        "share": pl.Float64,
        "confusion": pl.List(pl.List(pl.Float64)),
    }
    frame = pl.DataFrame(rows, schema=schema)
    return frame.sort("n_workers", "answers", descending=True, maintain_order=True)


def _clusters(counts: FloatArray) -> list[npt.NDArray[np.int64]]:
    """The places of the workers of every cluster."""
    if len(counts) < 2:
        return [np.arange(len(counts))] if len(counts) else []
    from scipy.cluster.hierarchy import fcluster, linkage

    pooled = counts.sum(axis=0) + 1e-9
    typical = pooled / pooled.sum(axis=1, keepdims=True)
    confusions = counts + 2 * typical
    confusions /= confusions.sum(axis=2, keepdims=True)
    # Distances count by how often a class is true; each is at most one.
    balance = np.sqrt(pooled.sum(axis=1) / pooled.sum() / 2)
    places = (np.sqrt(confusions) * balance[:, None]).reshape(len(counts), -1)
    found = fcluster(linkage(places, "average"), APART, "distance")
    return [np.flatnonzero(found == number) for number in np.unique(found)]
