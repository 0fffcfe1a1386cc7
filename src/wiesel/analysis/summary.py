"""Counts of votes, and a summary with one row per voter: what it votes for, and how well."""

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis.table import Column, Table, count, interval, percent, text
from wiesel.errors import DataError
from wiesel.labels import ABSTAIN, FloatArray, IntArray, LabelSpace
from wiesel.scikit_learn import require_model
from wiesel.tables import in_order_of
from wiesel.threads import check_polars_threads
from wiesel.vote_entries import check_voters
from wiesel.votes import Statistics, VoteMatrix, VoteSource, require_votes

__all__ = [
    "FittedModel",
    "GoldCounts",
    "ItemCounts",
    "VoterCounts",
    "class_counts",
    "conflicted",
    "gold_counts",
    "gold_indices",
    "item_counts",
    "ratio",
    "summarize",
    "voter_counts",
    "wilson_interval",
]

Counts = npt.NDArray[np.int64]


class VoterCounts(NamedTuple):
    """Numbers of votes, one entry per voter."""

    votes: Counts
    overlap: Counts
    """Votes on items that another voter votes on too."""
    conflict: Counts
    """Votes on items for which another voter votes for a different class."""


class ItemCounts(NamedTuple):
    """Numbers of items."""

    covered: int
    """Items with at least one vote."""
    shared: int
    """Items with at least two votes."""
    disputed: int
    """Items with votes for different classes."""


class GoldCounts(NamedTuple):
    """Votes compared with gold labels: (n_voters, n_classes), by the class voted for."""

    support: Counts
    """Votes on items with a gold label."""
    correct: Counts
    """Correct votes on these items."""
    items: Counts
    """The number of items of each class, (n_classes,)."""


def voter_counts(votes: VoteSource) -> VoterCounts:
    """Return per voter: all votes, votes with another voter, and votes in conflict with one."""
    return VoterCounts(*votes.sum(_sum_of_voters))


def item_counts(votes: VoteSource) -> ItemCounts:
    """Return the number of items with a vote, with several votes, and with conflicting votes."""
    (counts,) = votes.sum(_sum_of_items)
    return ItemCounts(*counts.astype(int).tolist())


def class_counts(votes: VoteSource) -> Counts:
    """Return how often each voter votes for each class: (n_voters, n_classes).

    A probabilistic vote counts for its most probable class.
    """
    (counts,) = votes.sum(_sum_of_classes)
    return counts.astype(np.int64)


def conflicted(votes: VoteMatrix) -> npt.NDArray[np.bool_]:
    """Return for each item whether two voters vote for different classes."""
    covered, lengths = votes.covered, votes.votes_per_item
    first = votes.class_index[votes.indptr[:-1][covered]]
    differs = votes.class_index != np.repeat(first, lengths[covered])
    disputed = np.zeros(votes.n_items, dtype=np.bool_)
    disputed[votes.item_index[differs]] = True
    return disputed


def gold_indices(votes: VoteSource, gold: Any) -> npt.NDArray[np.int64]:
    """Return gold labels (names or indices) as indices, in the order of the votes.

    -1 is unknown; without gold, every label is.
    """
    if gold is None:
        return np.full(votes.n_items, ABSTAIN, dtype=np.int64)
    known = votes.labels.indices(in_order_of(votes, gold, "gold"), allow_unknown=True)
    if len(known) != votes.n_items:
        raise DataError(
            f"There are {len(known):,} gold labels for {votes.n_items:,} items; give one for each "
            "item, None where it is not known."
        )
    return known


def gold_counts(votes: VoteSource, gold: IntArray) -> GoldCounts:
    """Return how often each voter is correct on items with a gold label."""
    shape = (len(votes.voters), len(votes.labels))
    support, correct = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    start = 0
    for part in votes.parts():
        truth = np.repeat(gold[start : start + part.n_items], part.votes_per_item)
        support += _by_voter_and_class(part, truth != ABSTAIN)
        correct += _by_voter_and_class(part, truth == part.class_index)
        start += part.n_items
    known = gold[gold != ABSTAIN]
    return GoldCounts(support, correct, np.bincount(known, minlength=shape[1]))


def ratio(part: IntArray, whole: IntArray | int) -> npt.NDArray[np.float64]:
    """Return part / whole; NaN (unknown) where `whole` is 0."""
    whole = np.broadcast_to(np.asarray(whole), part.shape)
    return np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0)


def wilson_interval(
    successes: FloatArray | IntArray, trials: FloatArray | IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return the 95 % Wilson score interval of a share; NaN if there are no trials.

    >>> low, high = wilson_interval(np.array([8, 0]), np.array([10, 0]))
    >>> low.round(3), high.round(3)
    (array([0.49,  nan]), array([0.943,   nan]))
    """
    z = 1.959964
    n = np.where(np.asarray(trials) > 0, trials, np.nan)
    share = np.asarray(successes) / n
    center = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    spread = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return np.clip(center - spread, 0, 1), np.clip(center + spread, 0, 1)


def _sum_of_voters(part: VoteMatrix) -> Statistics:
    lengths = part.votes_per_item
    shared = np.repeat(lengths > 1, lengths)
    disputed = np.repeat(conflicted(part), lengths)
    return (
        np.bincount(part.voter_index, minlength=part.n_voters),
        np.bincount(part.voter_index[shared], minlength=part.n_voters),
        np.bincount(part.voter_index[disputed], minlength=part.n_voters),
    )


def _sum_of_items(part: VoteMatrix) -> Statistics:
    shared = np.count_nonzero(part.votes_per_item > 1)
    counts = (part.covered.sum(), shared, conflicted(part).sum())
    return (np.array(counts, dtype=np.float64),)


def _sum_of_classes(part: VoteMatrix) -> Statistics:
    return (_by_voter_and_class(part, np.ones(part.n_votes, dtype=np.bool_)),)


def _by_voter_and_class(votes: VoteMatrix, chosen: npt.NDArray[np.bool_]) -> Counts:
    voter = votes.voter_index[chosen].astype(np.int64)
    cells = voter * votes.n_classes + votes.class_index[chosen]
    size = votes.n_voters * votes.n_classes
    return np.bincount(cells, minlength=size).reshape(votes.n_voters, votes.n_classes)


class FittedModel(Protocol):
    """The interface of a label model that `summarize` uses.

    The estimated accuracy of a voter, P(correct | votes), comes from the first of these that the
    model has: the method `voter_accuracies()`, the attribute `accuracies_` (n_voters,), or the
    attribute `confusions_` (n_voters, true, voted) with the class balance. Otherwise it is unknown.
    """

    labels_: LabelSpace
    voters_: tuple[str, ...]
    class_balance_: npt.NDArray[np.float64]

    def check_fitted(self) -> None:
        """Raise unless `fit` has run."""


def summarize(votes: VoteSource, gold: Any = None, label_model: FittedModel | None = None) -> Table:
    """Return a row per voter: polarity, coverage, overlap, conflict, precision.

    Coverage is the share of all items on which the voter votes. Overlap is the share on which
    another voter votes too, and conflict is the share on which another voter votes for a different
    class. With `gold` (class names or indices, None if unknown), precision is the share of its
    votes that are correct, with a 95 % Wilson interval; `frame` also has the recall of each class.
    With a fitted `label_model`, `learned` is the accuracy that the model estimates for the voter.

    >>> print(summarize(votes, gold=["ham", "spam", "spam", None]).to_text(width=100))
    4 items, 100.0 % covered, 100.0 % by at least two voters, 50.0 % in conflict
     voter     votes for   coverage   overlap   conflict   support          precision
    ──────────────────────────────────────────────────────────────────────────────────
     keyword   ham, spam     75.0 %    75.0 %     25.0 %         3     66.7 % (21–94)
     link      ham, spam    100.0 %   100.0 %     50.0 %         3   100.0 % (44–100)
     length    ham, spam     50.0 %    50.0 %     25.0 %         1   100.0 % (21–100)
    """
    require_votes(votes)
    check_polars_threads("summarize")
    frame = _vote_columns(votes)
    columns: list[Column] = [
        text("voter"),
        text("polarity", "votes for"),
        percent("coverage"),
        percent("overlap"),
        percent("conflict", color="orange"),
    ]
    if gold is not None:
        frame = frame.with_columns(_gold_columns(votes, gold_indices(votes, gold)))
        columns.append(count("support"))
        columns.append(interval("precision", "precision_low", "precision_high"))
    if label_model is not None:
        frame = frame.with_columns(_learned_column(votes, label_model))
        columns.append(percent("learned"))
    return Table(frame, tuple(columns), caption=_caption(votes))


def _vote_columns(votes: VoteSource) -> pl.DataFrame:
    counts, classes = voter_counts(votes), class_counts(votes)
    names = np.array(votes.labels.names, dtype=object)
    return pl.DataFrame(
        {
            "voter": pl.Series(votes.voters, dtype=pl.String),
            "polarity": pl.Series(
                [names[row > 0].tolist() for row in classes], dtype=pl.List(pl.String)
            ),
            "votes": counts.votes,
            "coverage": _shares(counts.votes, votes.n_items),
            "overlap": _shares(counts.overlap, votes.n_items),
            "conflict": _shares(counts.conflict, votes.n_items),
        }
    )


def _gold_columns(votes: VoteSource, gold: IntArray) -> list[pl.Series]:
    counts = gold_counts(votes, gold)
    support, correct = counts.support.sum(axis=1), counts.correct.sum(axis=1)
    low, high = wilson_interval(correct, support)
    columns = [
        pl.Series("support", support),
        pl.Series("correct", correct),
        _unknown_is_null("precision", ratio(correct, support)),
        _unknown_is_null("precision_low", low),
        _unknown_is_null("precision_high", high),
    ]
    for index, name in enumerate(votes.labels):
        recall = ratio(counts.correct[:, index], int(counts.items[index]))
        columns.append(_unknown_is_null(f"recall_{name}", recall))
    return columns


def _learned_column(votes: VoteSource, label_model: FittedModel) -> pl.Series:
    require_model(label_model, "label_model")
    expected = label_model.voters_, label_model.labels_
    check_voters((votes.voters, votes.labels), expected)
    n_voters = len(votes.voters)
    learned = _learned_accuracies(label_model, n_voters)
    if learned.shape != (n_voters,):
        raise DataError(
            f"The accuracies of {type(label_model).__name__} have the shape {learned.shape}; "
            f"there must be one number for each of the {n_voters} voters."
        )
    return _unknown_is_null("learned", learned)


def _learned_accuracies(label_model: FittedModel, n_voters: int) -> npt.NDArray[np.float64]:
    if hasattr(label_model, "voter_accuracies"):
        return np.asarray(label_model.voter_accuracies(), dtype=np.float64)
    if hasattr(label_model, "accuracies_"):
        return np.asarray(label_model.accuracies_, dtype=np.float64)
    if not hasattr(label_model, "confusions_"):
        return np.full(n_voters, np.nan)
    n_classes = len(label_model.labels_)
    # Ignore the last column if it stands for abstentions.
    joint = label_model.class_balance_[:, None] * label_model.confusions_[:, :, :n_classes]
    accuracies: npt.NDArray[np.float64] = joint.trace(axis1=1, axis2=2) / joint.sum(axis=(1, 2))
    return accuracies


def _caption(votes: VoteSource) -> str:
    if not votes.n_items:
        return "0 items"
    counts = item_counts(votes)
    covered, shared, disputed = (f"{100 * count / votes.n_items:.1f} %" for count in counts)
    return (
        f"{votes.n_items:,} items, {covered} covered, {shared} by at least two voters, "
        f"{disputed} in conflict"
    )


def _shares(counts: IntArray, n_items: int) -> pl.Series:
    return _unknown_is_null("", ratio(counts, n_items))


def _unknown_is_null(name: str, values: FloatArray) -> pl.Series:
    return pl.Series(name, values, dtype=pl.Float64).fill_nan(None)
