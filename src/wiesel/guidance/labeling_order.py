"""Which items a person should label next."""

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis.counts import conflicted, gold_indices
from wiesel.analysis.table import Table, number, text
from wiesel.errors import ParameterError, suggest
from wiesel.guidance.end_preview import features_of, preview_end_model
from wiesel.label_models import DawidSkene, MajorityVote
from wiesel.labels import ABSTAIN
from wiesel.parameters import check_number
from wiesel.vote_entries import id_series
from wiesel.votes import VoteMatrix

__all__ = ["WAYS", "rows_to_label"]

Floats = npt.NDArray[np.float64]

WAYS = {
    "helpful": "the label models disagree",
    "random": "drawn at random",
    "conflict": "voters disagree",
    "uncertain": "the model is unsure",
}
"""Ways to choose items, with the reason shown for each; a voter's name is also a way."""

_AGREEMENT = 0.005
"""Up to this distance, which prints as 0.00, label models agree."""

_HONEST = "drawn at random, to evaluate on"


def rows_to_label(
    votes: VoteMatrix,
    X: Any = None,
    *,
    n: int = 20,
    way: str = "helpful",
    gold: Any = None,
    random_share: float = 0.25,
    seed: int = 0,
) -> Table:
    """Return the items whose label would help most, with the reason for each.

    `way` is `helpful` (majority vote, Dawid-Skene and a linear model on the features `X` disagree
    on the item, so its label decides between them; where all agree, items are drawn at random),
    `random`, `conflict`, `uncertain`, or the name of a voter (items that it voted on). Items with
    known `gold` are not selected again. A share of the items (`random_share`) is always drawn at
    random, with the purpose `evaluate`; only these give unbiased metrics.

    >>> print(rows_to_label(votes, n=2, way="conflict", random_share=0).to_text(width=80))
    2 items to label, 0 of them drawn at random to evaluate on
     item   purpose   score   reason
    ──────────────────────────────────────────
     1      learn      1.00   voters disagree
     3      learn      1.00   voters disagree
    """
    check_number(VoteMatrix, "n", n, low=1, whole=True)
    check_number(VoteMatrix, "random_share", random_share, low=0, high=1)
    X = None if X is None else features_of(X, votes)
    open_items = np.flatnonzero(gold_indices(votes, gold) == ABSTAIN)
    rng = np.random.default_rng(seed)
    scores = _scores(votes, X, way, gold, rng)
    n_random = n if way == "random" else round(n * random_share)
    if way == "helpful" and n_random:
        n_random = max(n_random, n - int(np.isfinite(scores[open_items]).sum()))
    drawn = rng.permutation(open_items)[:n_random]
    rest = np.setdiff1d(open_items, drawn)
    rest = rest[np.isfinite(scores[rest])]
    ranked = _spread_out(rest[np.argsort(-scores[rest], kind="stable")], scores, n - len(drawn), X)
    reason = WAYS.get(way, f"{way!r} voted on it")
    frame = pl.DataFrame(
        {
            "item": id_series(votes.ids[np.concatenate([ranked, drawn])]),
            "row": np.concatenate([ranked, drawn]).astype(np.int64),
            "purpose": ["learn"] * len(ranked) + ["evaluate"] * len(drawn),
            "score": [*scores[ranked].tolist(), *[None] * len(drawn)],
            "reason": [reason] * len(ranked) + [_HONEST] * len(drawn),
        },
        schema_overrides={"score": pl.Float64, "purpose": pl.String, "reason": pl.String},
    )
    caption = f"{len(frame)} items to label, {len(drawn)} of them drawn at random to evaluate on"
    if not votes.n_votes:
        caption += ". There are no votes yet"
    return Table(frame, (text("item"), text("purpose"), number("score"), text("reason")), caption)


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


def _scores(votes: VoteMatrix, X: Any, way: str, gold: Any, rng: np.random.Generator) -> Floats:
    """Return the priority of each item; NaN if not wanted. Ties are broken at random."""
    jitter = 1e-6 * rng.random(votes.n_items)
    if way == "random":
        return jitter
    if way == "conflict":
        return np.where(conflicted(votes), 1.0 + jitter, np.nan)
    if way == "helpful":
        apart = reading_disagreement(votes, X, gold)
        return np.where(apart > _AGREEMENT, apart + jitter, np.nan)
    if way == "uncertain":
        proba = _model_proba(votes, X, gold)
        return 1 - proba.max(axis=1) + jitter
    if way not in votes.voters:
        allowed = suggest(way, [*WAYS, *votes.voters])
        raise ParameterError(f"There is no order and no voter {way!r}. {allowed}")
    voted = votes.select([way]).covered
    return np.where(voted, jitter, np.nan)


def _model_proba(votes: VoteMatrix, X: Any, gold: Any) -> Floats:
    if X is None:
        return MajorityVote().fit(votes).predict_proba(votes)
    return preview_end_model(X, votes, gold).proba


def _spread_out(
    ranked: npt.NDArray[np.int64], scores: Floats, n: int, X: Any
) -> npt.NDArray[np.int64]:
    """Return the first items without near copies, for which one label is enough."""
    if X is None or len(ranked) <= n:
        return ranked[:n]
    pool = ranked[: 10 * n]
    features = np.asarray(X, dtype=np.float32)[pool]
    features = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-9)
    nearest = np.zeros(len(pool), dtype=np.float32)
    chosen: list[int] = []
    wanted = scores[pool].copy()
    for _ in range(n):
        best = int(np.argmax(wanted * (1 - np.maximum(nearest, 0))))
        chosen.append(best)
        wanted[best] = -1.0
        nearest = np.maximum(nearest, np.minimum(features @ features[best], 0.999))
    return pool[chosen]
