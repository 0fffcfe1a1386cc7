"""Which items a person should label next."""

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis.summary import conflicted, gold_indices
from wiesel.analysis.table import Table, number, text
from wiesel.errors import ParameterError, suggest
from wiesel.guidance.end_preview import features_of, preview_end_model
from wiesel.label_models import DawidSkene, MajorityVote
from wiesel.labels import ABSTAIN
from wiesel.parameters import check_number
from wiesel.threads import one_thread
from wiesel.vote_entries import id_series
from wiesel.votes import VoteMatrix, require_votes

__all__ = ["WAYS", "reading_disagreement", "rows_to_label", "typical_rows", "unsureness"]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]

WAYS = {
    "recommended": "one row of each kind, and a quarter at random",
    "random": "drawn at random",
    "conflict": "voters disagree",
    "uncertain": "the model is unsure",
}
"""Ways to choose items, with the reason shown for each; a voter's name is also a way."""

_SAMPLE = 20_000
"""Cluster centers are computed on at most this many items; then all items are assigned."""
_CLUSTERS = 500
"""The maximum number of clusters."""


def rows_to_label(
    votes: VoteMatrix,
    X: Any = None,
    *,
    n: int = 20,
    way: str = "recommended",
    gold: Any = None,
    random_share: float = 0.25,
    seed: int = 0,
) -> Table:
    """Return the items to label next, with the reason for each.

    `way="recommended"` clusters the features `X`, where items count the more, the less sure a
    linear model of the votes is, and takes the item nearest to the center of each cluster. Clusters
    without a label come first, and among them predicted classes without one. Without features, all
    items are drawn at random. `random`, `conflict`, `uncertain` and the name of a voter (items that
    it voted on) select such items, to look at. Items with known `gold` are not selected again.

    A share of the items (`random_share`) is drawn at random, and `chosen` says which: only a random
    sample estimates figures, shares and thresholds. `probability` is theirs to be drawn. Save both
    with the labels, as `Gold(y, chosen=..., probability=...)`. Every label is used to learn.

    >>> found = rows_to_label(votes, [[0.0], [0.1], [5.0], [5.1]], n=3, random_share=0.5, seed=1)
    >>> found.frame["chosen"].to_list()
    ['random', 'recommended', 'random']
    """
    require_votes(votes)
    check_number(VoteMatrix, "n", n, low=1, whole=True)
    check_number(VoteMatrix, "random_share", random_share, low=0, high=1)
    X = None if X is None else features_of(X, votes)
    known = gold_indices(votes, gold)
    open_items = np.flatnonzero(known == ABSTAIN)
    check_number(VoteMatrix, "seed", seed, low=0, whole=True)
    rng = np.random.default_rng(seed)
    n_random = n if way == "random" else round(n * random_share)
    drawn = rng.permutation(open_items)[:n_random]
    if way == "recommended":
        picked, scores, reasons = _recommended(votes, X, known, drawn, n - len(drawn), rng)
        if len(picked) < n - len(drawn):  # no features, or fewer kinds of items than wanted
            left = np.setdiff1d(open_items, [*drawn, *picked])
            drawn = np.concatenate([drawn, rng.permutation(left)[: n - len(drawn) - len(picked)]])
    else:
        wanted = _priority(votes, X, way, gold, rng)
        rest = np.setdiff1d(open_items, drawn)
        rest = rest[np.isfinite(wanted[rest])]
        picked = rest[np.argsort(-wanted[rest], kind="stable")][: n - len(drawn)]
        scores = wanted[picked]
        reasons = [WAYS.get(way, f"{way!r} voted on it")] * len(picked)
    frame = pl.DataFrame(
        {
            "item": id_series(votes.ids[np.concatenate([picked, drawn])]),
            "row": np.concatenate([picked, drawn]).astype(np.int64),
            "purpose": ["learn"] * len(picked) + ["evaluate"] * len(drawn),
            "chosen": [way] * len(picked) + ["random"] * len(drawn),
            "probability": [None] * len(picked)
            + [len(drawn) / max(len(open_items), 1)] * len(drawn),
            "score": [*scores.tolist(), *[None] * len(drawn)],
            "reason": [*reasons, *[WAYS["random"]] * len(drawn)],
        },
        schema_overrides={
            **dict.fromkeys(("probability", "score"), pl.Float64),
            **dict.fromkeys(("purpose", "chosen", "reason"), pl.String),
        },
    )
    # Who stops early has labeled random items, too: they are spread over the list.
    places = [(np.arange(len(part)) + 0.5) / max(len(part), 1) for part in (picked, drawn)]
    frame = frame[np.argsort(np.concatenate(places), kind="stable")]
    caption = f"{len(frame)} items to label, {len(drawn)} of them drawn at random"
    if not votes.n_votes:
        caption += ". There are no votes yet"
    columns = (text("item"), text("chosen"), number("probability", "probability"), text("reason"))
    return Table(frame, columns, caption)


@one_thread()
def typical_rows(
    X: Any, weights: Floats, n_clusters: int, rng: np.random.Generator, known: Rows
) -> tuple[Rows, Floats, npt.NDArray[np.bool_]]:
    """Return the item nearest to the center of each cluster, its share, and if it has a label.

    An item counts by its weight; `known` are the items with a label, which are not returned.

    >>> X, rng = np.array([[0.0], [0.2], [0.1], [9.0], [9.2], [9.1]]), np.random.default_rng(0)
    >>> rows, share, labeled = typical_rows(X, np.ones(6), 2, rng, known=np.array([3]))
    >>> sorted(rows.tolist()), sorted(labeled.tolist())
    ([2, 5], [False, True])
    """
    from sklearn.cluster import KMeans

    points = np.asarray(X, dtype=np.float32)
    sample = np.arange(len(points))
    if len(points) > _SAMPLE:
        sample = np.sort(rng.choice(len(points), _SAMPLE, replace=False))
    distinct = len(np.unique(points[sample], axis=0))
    n_clusters = min(n_clusters, distinct, _CLUSTERS)
    seed = int(rng.integers(2**31))
    found = KMeans(n_clusters, n_init=1, max_iter=50, random_state=seed)
    found.fit(points[sample], sample_weight=weights[sample] + 1e-3)
    group = found.predict(points)
    distance = np.linalg.norm(points - found.cluster_centers_[group], axis=1)
    distance[known] = np.inf
    order = np.lexsort((distance, group))
    first = order[np.unique(group[order], return_index=True)[1]]
    first = first[np.isfinite(distance[first])]
    mass = np.bincount(group, weights, minlength=n_clusters) / max(weights.sum(), 1e-9)
    labeled = np.bincount(group[known], minlength=n_clusters) > 0
    return first.astype(np.int64), mass[group[first]], labeled[group[first]]


def unsureness(proba: Any) -> Floats:
    """Return 1 minus the distance of the two largest probabilities of every item.

    >>> unsureness(np.array([[0.5, 0.5], [0.9, 0.1]])).round(2)
    array([1. , 0.2])
    """
    best = np.sort(np.asarray(proba, dtype=np.float64), axis=1)
    found: Floats = 1 - (best[:, -1] - best[:, -2])
    return found


def reading_disagreement(votes: VoteMatrix, X: Any = None, gold: Any = None) -> Floats:
    """Return how much label models disagree on every item, from 0 to 1.

    It is the mean total variation distance of their probabilities from the mean of all models.

    >>> reading_disagreement(votes).round(2).shape
    (4,)
    """
    estimates = [MajorityVote().fit(votes).predict_proba(votes)]
    if votes.n_voters > 2 and votes.covered.any():
        estimates.append(DawidSkene().fit(votes).predict_proba(votes))
    if X is not None and (votes.covered.any() or (gold_indices(votes, gold) != ABSTAIN).any()):
        preview = preview_end_model(X, votes, gold)
        estimates += [preview.proba, preview.soft_labels]
    stack = np.stack(estimates)
    apart: Floats = np.abs(stack - stack.mean(axis=0)).sum(axis=2).mean(axis=0) / 2
    return apart


def _recommended(
    votes: VoteMatrix,
    X: Any,
    gold: Rows,
    drawn: Rows,
    n: int,
    rng: np.random.Generator,
) -> tuple[Rows, Floats, list[str]]:
    """Typical items of clusters without a label, with their clusters' shares and the reasons."""
    if X is None or n < 1:
        return np.empty(0, np.int64), np.empty(0), []
    proba = _model_proba(votes, X, gold)
    labeled = np.flatnonzero(gold != ABSTAIN)
    seen = np.concatenate([labeled, drawn])
    n_clusters = n + len(seen)
    rows, shares, has_label = typical_rows(X, unsureness(proba), n_clusters, rng, seen)
    guessed = proba[rows].argmax(axis=1)
    first = np.zeros(len(rows), dtype=bool)  # the largest cluster of each class without a label
    for k in np.setdiff1d(guessed, gold[labeled]):
        own = np.flatnonzero(guessed == k)
        first[own[shares[own].argmax()]] = True
    order = np.lexsort((-shares, ~first, has_label))[:n]
    names = votes.labels.names
    reasons = [
        f"stands for {100 * shares[j]:.0f} % of what is unsure"
        + (f"; no row is labeled {names[guessed[j]]!r} yet" if first[j] else "")
        for j in order
    ]
    return rows[order], shares[order], reasons


def _priority(votes: VoteMatrix, X: Any, way: str, gold: Any, rng: np.random.Generator) -> Floats:
    """Return the priority of each item; NaN if not wanted. Ties are broken at random."""
    jitter = 1e-6 * rng.random(votes.n_items)
    if way == "random":
        return jitter
    if way == "conflict":
        return np.where(conflicted(votes), 1.0 + jitter, np.nan)
    if way == "uncertain":
        return 1 - _model_proba(votes, X, gold).max(axis=1) + jitter
    if way not in votes.voters:
        allowed = suggest(way, [*WAYS, *votes.voters])
        raise ParameterError(f"There is no order and no voter {way!r}. {allowed}")
    voted = votes.select([way]).covered
    return np.where(voted, jitter, np.nan)


def _model_proba(votes: VoteMatrix, X: Any, gold: Any) -> Floats:
    """Return what is known without training: equal probabilities if it is nothing."""
    if X is None:
        return MajorityVote().fit(votes).predict_proba(votes)
    if not votes.covered.any() and (gold_indices(votes, gold) == ABSTAIN).all():
        return np.full((votes.n_items, votes.n_classes), 1 / votes.n_classes)
    return preview_end_model(X, votes, gold).proba
