"""A summary with one row per voter: which classes it votes for, how often, and how well."""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis.counts import (
    class_counts,
    gold_counts,
    gold_indices,
    item_counts,
    ratio,
    voter_counts,
    wilson_interval,
)
from wiesel.analysis.table import Column, Table, count, interval, percent, text
from wiesel.errors import DataError
from wiesel.labels import FloatArray, IntArray, LabelSpace
from wiesel.threads import check_polars_threads
from wiesel.vote_entries import check_voters
from wiesel.votes import VoteSource, require_votes

__all__ = ["FittedModel", "summarize"]


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
    label_model.check_fitted()
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
