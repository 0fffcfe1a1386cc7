"""Report contents for single items and classes: errors, class balance, thresholds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis.summary import conflicted, wilson_interval
from wiesel.evaluation.metrics import predicted_classes
from wiesel.guidance.terms import TermIndex, distinctive_terms
from wiesel.io import Split
from wiesel.lfs.apply import matched_spans
from wiesel.report import BalanceRow, ErrorItem, SliceRow
from wiesel.votes import VoteMatrix

if TYPE_CHECKING:
    from wiesel.project.judging import Outcome

__all__ = [
    "ErrorBucket",
    "balance_rows",
    "error_buckets",
    "error_items",
    "outcome_slices",
    "shown_text",
    "slice_rows",
    "threshold_points",
]

_ERRORS = 30
_POINTS = 200
Mask = npt.NDArray[np.bool_]

_FEW_ITEMS = 5
_MOST_VALUES, _MOST_COLUMNS = 12, 8
_PATTERNS = 6
_BUCKETS = 6
_NAMED = 3
_LONGEST_VALUE = 60


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


def slice_rows(
    right: Mask, split: Split, votes: VoteMatrix | None, text_column: str
) -> list[SliceRow]:
    """Return the accuracy on slices of a split: by column, by text length, by voters.

    `right` is True for every item the model gets right. The caller leaves out items without gold.

    >>> split = Split(pl.DataFrame({"id": range(10), "from": ["shop", "friend"] * 5}), np.ones(10))
    >>> rows = slice_rows(np.array([True, False] * 5), split, None, "text")
    >>> [(row.by, row.name, row.accuracy) for row in rows]
    [('from', 'friend', 0.0), ('from', 'shop', 1.0)]
    """
    return [
        _row(by, name, right[mask])
        for by, name, mask in _slices(split, votes, text_column)
        if int(mask.sum()) >= _FEW_ITEMS
    ]


@dataclass(frozen=True, eq=False)
class ErrorBucket:
    """Errors that have something in common."""

    by: str
    """What they have in common: `confusion`, `rule`, `words`, or the name of a column."""
    name: str
    rows: npt.NDArray[np.int64]
    """The errors."""
    n_items: int
    """The number of items with gold that have this in common, right or wrong."""


def error_buckets(
    gold: npt.NDArray[np.int64],
    predicted: npt.NDArray[np.int64],
    split: Split,
    votes: VoteMatrix | None,
    names: Sequence[str],
    text_column: str,
) -> list[ErrorBucket]:
    """Return groups of errors, the largest first: by confusion, rule, words, and column.

    A group by rule are the errors on which the rule votes for the predicted class. Groups by words
    and columns are those with a clearly higher share of errors than all items.

    >>> split = Split(pl.DataFrame({"id": range(12), "from": ["shop", "friend"] * 6}), np.ones(12))
    >>> gold, predicted = np.ones(12, np.int64), np.array([0, 1] * 6)
    >>> found = error_buckets(gold, predicted, split, None, ["ham", "spam"], "text")
    >>> [(bucket.by, bucket.name, len(bucket.rows)) for bucket in found]
    [('confusion', 'spam predicted as ham', 6), ('from', 'shop', 6)]
    """
    known = gold >= 0
    wrong = known & (predicted != gold)
    found = []
    cells, counts = np.unique(np.stack([gold[wrong], predicted[wrong]]), axis=1, return_counts=True)
    for place in np.argsort(-counts, kind="stable")[:_BUCKETS]:
        true, other = cells[:, place]
        rows = np.flatnonzero((gold == true) & (predicted == other))
        title = f"{names[true]} predicted as {names[other]}"
        found.append(ErrorBucket("confusion", title, rows, int((gold == true).sum())))
    found += _by_rule(wrong, known, predicted, votes)
    candidates = [*_columns(split.rows, text_column), *_lengths(split.rows, text_column)]
    candidates += [("words", *each) for each in _words(split, wrong, known, text_column)]
    share = wrong.sum() / max(known.sum(), 1)
    above = []
    for by, name, mask in candidates:
        n_items, rows = int((mask & known).sum()), np.flatnonzero(mask & wrong)
        if n_items >= _FEW_ITEMS and len(rows):
            low, _ = wilson_interval(np.array([len(rows)]), np.array([n_items]))
            if low[0] > share:
                above.append(ErrorBucket(by, name, rows, n_items))
    return [*found, *sorted(above, key=lambda bucket: -len(bucket.rows))[:_BUCKETS]]


def _by_rule(
    wrong: Mask, known: Mask, predicted: npt.NDArray[np.int64], votes: VoteMatrix | None
) -> list[ErrorBucket]:
    if votes is None or not votes.n_votes:
        return []
    items, names = votes.item_index, votes.voters
    guilty = wrong[items] & (votes.class_index == predicted[items])
    counts = np.bincount(votes.voter_index[guilty], minlength=votes.n_voters)
    voted = np.bincount(votes.voter_index[known[items]], minlength=votes.n_voters)
    return [
        ErrorBucket("rule", names[v], items[guilty & (votes.voter_index == v)], int(voted[v]))
        for v in np.argsort(-counts, kind="stable")[:_BUCKETS].tolist()
        if counts[v]
    ]


def _words(split: Split, wrong: Mask, known: Mask, text_column: str) -> Iterator[tuple[str, Mask]]:
    """Yield words that distinguish the errors from the other items with gold."""
    if text_column not in split.rows.columns or not wrong.any():
        return
    places = np.flatnonzero(known)
    index = TermIndex.of(split.rows[text_column].gather(places).fill_null("").to_list(), 2)
    for word in distinctive_terms(index, np.flatnonzero(wrong[places]), _BUCKETS):
        mask = np.zeros(len(split), dtype=bool)
        mask[places] = index.matrix[:, [index.terms.index(word)]].toarray()[:, 0] > 0
        yield word, mask


def _slices(
    split: Split, votes: VoteMatrix | None, text_column: str
) -> Iterator[tuple[str, str, Mask]]:
    yield from _columns(split.rows, text_column)
    yield from _lengths(split.rows, text_column)
    if votes is not None:
        yield from _vote_kinds(votes)
        yield from _patterns(votes)


def _row(by: str, name: str, right: Mask) -> SliceRow:
    n_right, n_items = int(right.sum()), len(right)
    low, high = wilson_interval(np.array([n_right]), np.array([n_items]))
    return SliceRow(by, name, n_items, n_right / n_items, float(low[0]), float(high[0]))


def _columns(rows: pl.DataFrame, text_column: str) -> Iterator[tuple[str, str, Mask]]:
    """Yield slices by columns with few values, such as a source or a language."""
    found = 0
    for name in rows.columns:
        column = rows[name]
        if name in ("id", text_column) or column.dtype.is_nested() or column.dtype.is_float():
            continue
        values = column.drop_nulls().unique().sort()
        if not 2 <= len(values) <= _MOST_VALUES or found == _MOST_COLUMNS:
            continue
        found += 1
        for value in values:
            mask = (column == value).fill_null(False).to_numpy()
            yield name, str(value)[:_LONGEST_VALUE], mask


def _lengths(rows: pl.DataFrame, text_column: str) -> Iterator[tuple[str, str, Mask]]:
    """Yield thirds of the items by number of words."""
    if text_column not in rows.columns or rows[text_column].dtype != pl.String:
        return
    words: Any = rows[text_column].fill_null("").str.split(" ").list.len().to_numpy()
    low, high = (int(np.quantile(words, share)) for share in (1 / 3, 2 / 3))
    if low == high:
        return
    between = f"{low + 1:,} to {high:,}" if low + 1 < high else f"{high:,}"
    yield "length", f"up to {low:,} {'word' if low == 1 else 'words'}", words <= low
    yield "length", f"{between} words", (words > low) & (words <= high)
    yield "length", f"more than {high:,} words", words > high


def _vote_kinds(votes: VoteMatrix) -> Iterator[tuple[str, str, Mask]]:
    n_votes, disputed = votes.votes_per_item, conflicted(votes)
    yield "votes", "no vote", n_votes == 0
    yield "votes", "one vote", n_votes == 1
    yield "votes", "several votes that agree", (n_votes > 1) & ~disputed
    yield "votes", "votes in conflict", disputed


def _patterns(votes: VoteMatrix) -> Iterator[tuple[str, str, Mask]]:
    """Yield slices by the most common sets of voters that vote on an item."""
    ends = votes.indptr
    sets = [tuple(votes.voter_index[ends[k] : ends[k + 1]].tolist()) for k in range(len(votes))]
    counts: dict[tuple[int, ...], int] = {}
    for voters in sets:
        if voters:
            counts[voters] = counts.get(voters, 0) + 1
    if len(counts) < 2:
        return
    for voters in sorted(counts, key=lambda own: -counts[own])[:_PATTERNS]:
        names = [votes.voters[voter] for voter in voters]
        shown = " + ".join(names[:_NAMED])
        shown += f" + {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield "voters", shown, np.array([own == voters for own in sets])
