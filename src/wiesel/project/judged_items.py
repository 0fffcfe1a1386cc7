"""Report contents for single items and classes: errors, class balance, thresholds."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wiesel.evaluation.metrics import predicted_classes
from wiesel.io import Split
from wiesel.lfs.trying import matched_spans
from wiesel.project.slices import slice_rows
from wiesel.report import BalanceRow, ErrorItem, SliceRow

if TYPE_CHECKING:
    from wiesel.project.judging import Outcome

__all__ = ["balance_rows", "error_items", "outcome_slices", "shown_text", "threshold_points"]

_ERRORS = 30
_POINTS = 200


def error_items(outcome: "Outcome") -> tuple[list[ErrorItem], int]:
    """Return the most confident errors on the evaluated items, and the total number of errors."""
    split = outcome.judged_on
    if split is None:
        return [], 0
    data = outcome.data
    part, proba = data.splits[split], outcome.proba[split]
    predicted = predicted_classes(proba, outcome.main.model.threshold_)
    wrong = np.flatnonzero((part.gold >= 0) & (predicted != part.gold))
    sure = proba[wrong, predicted[wrong]]
    order = wrong[np.argsort(-sure, kind="stable")][:_ERRORS]
    return [_error(outcome, part, int(row), int(predicted[row])) for row in order], len(wrong)


def outcome_slices(outcome: "Outcome") -> list[SliceRow]:
    """Return the accuracy of the main model on slices of the evaluated items."""
    from wiesel.project.rows import part_of

    split = outcome.judged_on
    if split is None:
        return []
    data = outcome.data
    part = data.splits[split]
    known = np.flatnonzero(part.gold >= 0)
    predicted = predicted_classes(outcome.proba[split], outcome.main.model.threshold_)
    votes = outcome.prepared.votes.by_split.get(split)
    return slice_rows(
        predicted[known] == part.gold[known],
        part_of(part, known),
        None if votes is None else votes[known],
        data.project.features.column,
    )


def balance_rows(outcome: "Outcome") -> list[BalanceRow]:
    """Return the share of each class according to gold, the votes and the end model."""
    data, votes = outcome.data, outcome.prepared.votes.train
    counts = votes.counts()[votes.covered]
    by_votes = (counts / counts.sum(axis=1, keepdims=True)).mean(axis=0)
    predicted = predicted_classes(outcome.proba["train"], outcome.main.model.threshold_)
    by_model = np.bincount(predicted, minlength=len(data.labels)) / max(len(predicted), 1)
    gold = [part.gold for name, part in data.splits.items() if name != "train"]
    known = np.concatenate([part[part >= 0] for part in gold]) if gold else np.empty(0, np.int64)
    by_gold = np.bincount(known, minlength=len(data.labels)) / max(len(known), 1)
    known_shares = by_gold.tolist() if len(known) else [None] * len(data.labels)
    shares = zip(data.labels, known_shares, by_votes.tolist(), by_model.tolist(), strict=True)
    return [BalanceRow(*row) for row in shares]


def threshold_points(outcome: "Outcome") -> list[tuple[float, int, int, int, int]]:
    """Return the results of several thresholds on the evaluated items; for two classes."""
    data, split = outcome.data, outcome.judged_on
    if split is None or len(data.labels) != 2:
        return []
    gold = data.splits[split].gold
    known = gold >= 0
    scores, positive = outcome.proba[split][known, 1], gold[known] == 1
    used = outcome.main.model.threshold_
    levels = np.unique(
        np.concatenate([np.linspace(0.01, 0.99, 99), [0.5 if used is None else used]])
    )
    return [_point(float(level), scores >= level, positive) for level in levels[:_POINTS]]


def shown_text(row: dict[str, Any], column: str) -> str:
    """Return the text of an item, or its columns if it has no text.

    >>> shown_text({"id": 7, "age": 31, "city": "Bonn"}, "text")
    'age 31, city Bonn'
    """
    if row.get(column):
        return str(row[column])
    return ", ".join(f"{name} {value}" for name, value in row.items() if name != "id")


def _point(
    level: float, taken: npt.NDArray[np.bool_], positive: npt.NDArray[np.bool_]
) -> tuple[float, int, int, int, int]:
    return (
        level,
        int(np.sum(taken & positive)),
        int(np.sum(taken & ~positive)),
        int(np.sum(~taken & positive)),
        int(np.sum(~taken & ~positive)),
    )


def _error(outcome: "Outcome", part: Split, place: int, predicted: int) -> ErrorItem:
    data, split = outcome.data, outcome.judged_on
    row = part.rows.row(place, named=True)
    column, names = data.project.features.column, data.labels.names
    votes = outcome.prepared.votes.by_split.get(split or "")
    cast: list[tuple[str, str]] = []
    if votes is not None:
        own = votes[place]
        pairs = zip(own.voter_index, own.class_index, strict=True)
        cast = [(votes.voters[voter], names[label]) for voter, label in pairs]
    voters = {voter for voter, _ in cast}
    spans = {
        span
        for lf in outcome.prepared.lfs
        if lf.name in voters
        for span in matched_spans(lf, row).get(column, [])
    }
    return ErrorItem(
        item=str(row["id"]),
        text=shown_text(row, column),
        gold=names[int(part.gold[place])],
        predicted=names[predicted],
        proba=float(outcome.proba[split or ""][place, predicted]),
        spans=sorted(spans),
        votes=cast,
    )
