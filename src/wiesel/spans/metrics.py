"""Scores of spans, and the summary of span functions."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis.table import Table, count, percent, text
from wiesel.evaluation import Score, percentile_interval
from wiesel.evaluation.comparison import f1_parts
from wiesel.spans.documents import Documents
from wiesel.spans.reading import span_lists
from wiesel.spans.tags import SpanLabels
from wiesel.spans.votes import TokenVotes, check_token_votes

__all__ = ["SpanFigures", "SpanReport", "evaluate_spans", "voter_table"]

Spans = Sequence[Sequence[tuple[Any, ...]]]
"""The spans of every document: (start, end, label) and possibly more."""
_RESAMPLES = 1000
_MANY = 2000
"""With more documents, F1 is as good as normal."""
_COUNTED = ("spans", "documents", "tokens", "conflicts")


class SpanFigures(NamedTuple):
    """Precision, recall and F1 of some spans; NaN if there is nothing to measure."""

    precision: float
    recall: float
    f1: float
    n_gold: int
    n_predicted: int


@dataclass(frozen=True)
class SpanReport:
    """The result of `evaluate_spans`: scores by label, and over all spans under `all`."""

    exact: dict[str, SpanFigures]
    """A predicted span is correct if a gold span has the same start, end and label."""
    overlap: dict[str, SpanFigures]
    """A predicted span is correct if it shares a character with a gold span of the same label, and
    a gold span is found if it shares one with such a predicted span."""
    token_accuracy: float
    """The share of tokens with the correct BIO tag."""
    parts: npt.NDArray[np.float64]
    """The part of each document in the F1 of all exact spans (`f1_parts`)."""

    def to_dict(self) -> dict[str, Any]:
        """Return all scores as plain data."""
        return {
            "exact": {name: figures._asdict() for name, figures in self.exact.items()},
            "overlap": {name: figures._asdict() for name, figures in self.overlap.items()},
            "token_accuracy": self.token_accuracy,
        }

    @property
    def table(self) -> Table:
        """One row for each label, and one for all spans."""
        rows = [
            {"label": name, **own._asdict(), "overlap_f1": self.overlap[name].f1}
            for name, own in self.exact.items()
        ]
        figures = ("precision", "recall", "f1", "overlap_f1")
        frame = pl.DataFrame(rows).with_columns(pl.col(figures).fill_nan(None))
        shown = [text("label"), count("n_gold", "gold"), count("n_predicted", "found")]
        shown += [percent("precision"), percent("recall"), percent("f1", "F1")]
        return Table(frame, (*shown, percent("overlap_f1", "overlap F1")))

    def __str__(self) -> str:
        right = "unknown" if np.isnan(self.token_accuracy) else f"{100 * self.token_accuracy:.1f} %"
        return f"{self.table.to_text()}\nTokens with the right tag: {right}."


def evaluate_spans(
    gold: Spans, predicted: Spans, documents: Documents, labels: SpanLabels | Sequence[str]
) -> SpanReport:
    """Return how well predicted spans agree with gold spans.

    >>> documents = Documents.from_texts(["Ada Byron met Bob."])
    >>> gold = [[(0, 9, "PER"), (14, 17, "PER")]]
    >>> report = evaluate_spans(gold, [[(0, 3, "PER"), (14, 17, "PER")]], documents, ["PER"])
    >>> float(report.exact["all"].f1), report.overlap["all"].f1, report.token_accuracy
    (0.5, 1.0, 0.8)
    """
    space = SpanLabels.of(labels)
    gold = span_lists(gold, documents, "gold spans")
    predicted = span_lists(predicted, documents, "predicted spans")
    right = documents.tags_of(gold, space) == documents.tags_of(predicted, space, "predicted")
    accuracy = float(right.mean()) if len(right) else float("nan")
    wanted = [_by_label(spans, space) for spans in gold]
    found = [_by_label(spans, space) for spans in predicted]
    groups = {name: (name,) for name in space.names} | {"all": space.names}
    exact = {name: _figures(wanted, found, own, _is_equal) for name, own in groups.items()}
    overlap = {name: _figures(wanted, found, own, _overlaps) for name, own in groups.items()}
    counts = np.array([_counts(*both, space.names) for both in zip(wanted, found, strict=True)])
    hits, sizes = counts.reshape(-1, 2).T
    exact["all"] = exact["all"]._replace(f1=_score(exact["all"].f1, hits, sizes))
    return SpanReport(exact, overlap, accuracy, f1_parts(hits, sizes))


def _counts(gold: Any, predicted: Any, names: Sequence[str]) -> tuple[int, int]:
    """The exact spans of a document, and its gold and predicted spans together."""
    hits = sum(_is_equal(span, gold[name]) for name in names for span in predicted[name])
    return hits, sum(len(gold[name]) + len(predicted[name]) for name in names)


def _score(f1: float, hits: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]) -> Score:
    """F1 with its interval over resamples of the documents, and one document more.

    That one is a random document, all of whose spans are found, or none.
    """
    if np.isnan(f1):
        return Score(f1)
    rng, n = np.random.default_rng(0), len(hits)
    if n > _MANY:
        away = 1.96 * float(f1_parts(hits, sizes).std()) / n**0.5
        return Score(f1, max(f1 - away, 0.0), min(f1 + away, 1.0))
    draws = rng.multinomial(n, np.full(n, 1 / n), size=_RESAMPLES)
    size = sizes[rng.integers(n, size=_RESAMPLES)] * rng.gamma(1.0, size=_RESAMPLES)
    right = draws @ hits + rng.beta(0.5, 0.5, size=_RESAMPLES) * size / 2
    total = draws @ sizes + size
    samples = np.divide(2 * right, total, out=np.full(_RESAMPLES, np.nan), where=total > 0)
    low, high = percentile_interval(samples, n_items=n)
    return Score(f1, min(low, f1), max(high, f1))


def _by_label(
    spans: Sequence[tuple[Any, ...]], labels: SpanLabels
) -> dict[str, list[tuple[int, int]]]:
    """The spans of every label, sorted."""
    own: dict[str, list[tuple[int, int]]] = {name: [] for name in labels.names}
    for start, end, label, *_ in spans:
        own[label].append((int(start), int(end)))
    return {name: sorted(places) for name, places in own.items()}


def _is_equal(span: tuple[int, int], others: list[tuple[int, int]]) -> bool:
    place = bisect_left(others, span)
    return place < len(others) and others[place] == span


def _overlaps(span: tuple[int, int], others: list[tuple[int, int]]) -> bool:
    # None of the others overlap each other: only the last that starts before the end can touch it.
    place = bisect_left(others, (span[1],))
    return place > 0 and others[place - 1][1] > span[0]


def _figures(wanted: Any, found: Any, names: Sequence[str], agrees: Any) -> SpanFigures:
    hit_found = hit_wanted = n_found = n_wanted = 0
    for gold, predicted in zip(wanted, found, strict=True):
        for name in names:
            n_wanted += len(gold[name])
            n_found += len(predicted[name])
            hit_found += sum(agrees(span, gold[name]) for span in predicted[name])
            hit_wanted += sum(agrees(span, predicted[name]) for span in gold[name])
    precision = hit_found / n_found if n_found else float("nan")
    recall = hit_wanted / n_wanted if n_wanted else float("nan")
    return SpanFigures(precision, recall, _f1(precision, recall), n_wanted, n_found)


def _f1(precision: float, recall: float) -> float:
    """F1; 0 if no span is correct, NaN if there are neither gold nor predicted spans."""
    if np.isnan(precision) and np.isnan(recall):
        return float("nan")
    p, r = np.nan_to_num(precision), np.nan_to_num(recall)
    return float(2 * p * r / (p + r)) if p + r else 0.0


def voter_table(
    votes: TokenVotes, gold: Sequence[Sequence[tuple[Any, ...]]] | None = None
) -> Table:
    """Return a row for each span function: what it marked, and how much of that is correct.

    `conflicts` are tokens on which another voter disagrees. `precision` requires gold spans, and
    counts exact matches.

    >>> from wiesel.spans import Documents, apply_span_lfs, gazetteer
    >>> documents = Documents.from_texts(["Ada met Bob"])
    >>> names = gazetteer("PER", ["Ada", "met"], name="names")
    >>> votes = apply_span_lfs(names, documents, labels=["PER"])
    >>> print(voter_table(votes, [[(0, 3, "PER")]]))
     voter   spans   documents   tokens   conflicts   precision
    ────────────────────────────────────────────────────────────
     names       2           1        2           0      50.0 %
    """
    check_token_votes(votes, "voter_table")
    gold = None if gold is None else span_lists(gold, votes.documents, "gold spans")
    disagree = (votes.votes.counts() > 0).sum(axis=1) > 1
    rows = []
    for voter in votes.voters:
        own, found = votes.votes.select([voter]), votes.spans(voter)
        row: dict[str, Any] = {
            "voter": voter,
            "spans": sum(map(len, found)),
            "documents": sum(map(bool, found)),
            "tokens": own.n_votes,
            "conflicts": int(np.count_nonzero(own.covered & disagree)),
        }
        if gold is not None:
            report = evaluate_spans(gold, found, votes.documents, votes.labels)
            precision = report.exact["all"].precision
            row["precision"] = None if np.isnan(precision) else precision
        rows.append(row)
    shown = [] if gold is None else [percent("precision")]
    columns = (text("voter"), *map(count, _COUNTED), *shown)
    frame = pl.DataFrame(rows, schema_overrides={} if gold is None else {"precision": pl.Float64})
    return Table(frame, columns)
