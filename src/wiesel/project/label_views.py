"""What a kept run predicts in tasks with several labels and with spans: figures, and their rows."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import DataError
from wiesel.evaluation import evaluate_presence
from wiesel.io.files import read_text
from wiesel.label_sets import MultiLabelSpace
from wiesel.project.runs import KeptRun, places_among
from wiesel.spans import SpanLabels, read_doccano

__all__ = [
    "LabelRow",
    "LabelSetView",
    "LabelView",
    "SpanView",
    "places_of_spans",
    "splits_of_run",
    "view_label_sets",
    "view_spans",
]

Rows = npt.NDArray[np.int64]


class LabelRow(NamedTuple):
    """How well a label is predicted, and the rows on which it is not."""

    name: str
    precision: float
    recall: float
    f1: float
    n_gold: int
    n_predicted: int
    missed: Rows
    """The rows that have it, or one more span of it, without its being predicted."""
    invented: Rows
    """The rows for which it is predicted, or one more span of it, although they lack it."""


@dataclass(frozen=True, eq=False)
class LabelView(ABC):
    """A run's predictions for the rows of a split, with what is known of these."""

    labels: Any
    split: str
    ids: pl.Series
    proba: Any
    predicted: Any
    gold: Any

    @property
    @abstractmethod
    def known(self) -> npt.NDArray[np.bool_]:
        """Whether the answer to each row is known."""

    @property
    def has_gold(self) -> bool:
        """Whether the answer to a row is known."""
        return bool(self.known.any())

    @abstractmethod
    def figures(self) -> list[tuple[str, float, float, float]]:
        """Return each figure over all labels with its 95 % interval, NaN where unknown."""

    @abstractmethod
    def per_label(self) -> list[LabelRow]:
        """Return how well each label is predicted."""

    @abstractmethod
    def is_wrong(self) -> npt.NDArray[np.bool_]:
        """Return whether the prediction of each row is known to be wrong."""

    @abstractmethod
    def certainty(self) -> npt.NDArray[np.float64]:
        """Return how sure the model is of the answer to each row; 0 where it does not say."""

    def among(self, train: "LabelView") -> Any:
        """Return the view of all training rows, of which these are a part; see `RunView.among`."""
        places = places_among(train.ids, self.ids)
        proba = None if train.proba is None else train.proba.copy()
        if proba is not None:
            proba[places] = self.proba
        predicted, gold = train.predicted.copy(), self.unknown(len(train.ids))
        for row, place in enumerate(places.tolist()):
            predicted[place], gold[place] = self.predicted[row], self.gold[row]
        return replace(train, proba=proba, predicted=predicted, gold=gold)

    @abstractmethod
    def unknown(self, n_rows: int) -> Any:
        """Return gold of rows of which nothing is known."""

    def wrong_rows(self) -> Rows:
        """Return the rows with a wrong prediction, the most confident first."""
        wrong = np.flatnonzero(self.is_wrong())
        return wrong[np.argsort(-self.certainty()[wrong], kind="stable")]

    def differs_from(self, other: "LabelView") -> Rows:
        """Return the rows that another run predicts differently."""
        apart = [one != two for one, two in zip(self.answers(), other.answers(), strict=True)]
        return np.flatnonzero(apart)

    @abstractmethod
    def answers(self) -> list[Any]:
        """Return the prediction of every row as a value that can be compared."""


class LabelSetView(LabelView):
    """Predicted sets: `proba` and `predicted` are (n_rows, n_labels), as is `gold` with -1."""

    labels: MultiLabelSpace

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """Whether all labels of each row are known."""
        return np.asarray((self.gold >= 0).all(axis=1))

    def unknown(self, n_rows: int) -> npt.NDArray[np.int64]:
        """Return -1 for every label."""
        return np.full((n_rows, len(self.labels)), -1)

    def figures(self) -> list[tuple[str, float, float, float]]:
        """Return F1, average precision, exact match and right cells."""
        # Where nothing is predicted, the threshold is above all probabilities.
        least = np.where(self.predicted, self.proba, 1.0).min(axis=0)
        report = evaluate_presence(
            self.proba, self.gold, self.labels, thresholds=least, n_resamples=200
        )
        return [(name, float(score), score.low, score.high) for name, score in report.scores()]

    def per_label(self) -> list[LabelRow]:
        """Return precision, recall and F1 of each label."""
        found = []
        for place, name in enumerate(self.labels):
            gold, predicted = (
                self.gold[:, place],
                self.predicted[:, place] & (self.gold[:, place] >= 0),
            )
            right = int((predicted & (gold == 1)).sum())
            n_gold, n_predicted = int((gold == 1).sum()), int(predicted.sum())
            missed = np.flatnonzero((gold == 1) & ~predicted)
            invented = np.flatnonzero((gold == 0) & predicted)
            found.append(_label_row(name, right, n_gold, n_predicted, missed, invented))
        return found

    def is_wrong(self) -> npt.NDArray[np.bool_]:
        """Return whether a known label of each row is predicted wrongly."""
        wrong = (self.gold >= 0) & (self.predicted != (self.gold == 1))
        return np.asarray(wrong.any(axis=1))

    def certainty(self) -> npt.NDArray[np.float64]:
        """Return the confidence in the wrong label that is surest."""
        sure = np.where(self.predicted, self.proba, 1 - self.proba)
        wrong = (self.gold >= 0) & (self.predicted != (self.gold == 1))
        return np.asarray(np.where(wrong, sure, 0.0).max(axis=1))

    def answers(self) -> list[tuple[str, ...]]:
        """Return the predicted labels of every row."""
        return self.labels.sets(self.predicted)


class SpanView(LabelView):
    """Predicted spans: `predicted` and `gold` are a list for each row; gold may be None."""

    labels: SpanLabels

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """Whether the spans of each document are known."""
        return np.array([own is not None for own in self.gold], dtype=bool)

    def unknown(self, n_rows: int) -> list[None]:
        """Return None for every document."""
        return [None] * n_rows

    def figures(self) -> list[tuple[str, float, float, float]]:
        """Return precision, recall and F1 of exact spans, and the F1 of overlapping ones."""
        rows, unknown = np.flatnonzero(self.known), float("nan")
        predicted, gold = [self.predicted[k] for k in rows], [self.gold[k] for k in rows]
        right = sum(
            len(places_of_spans(one) & places_of_spans(two))
            for one, two in zip(predicted, gold, strict=True)
        )
        n_found, n_gold = sum(map(len, predicted)), sum(map(len, gold))
        exact = _label_row("all", right, n_gold, n_found, rows, rows)
        return [
            (name, value, unknown, unknown)
            for name, value in (
                ("precision", exact.precision),
                ("recall", exact.recall),
                ("span_f1", exact.f1),
            )
        ]

    def per_label(self) -> list[LabelRow]:
        """Return precision, recall and F1 of exact spans of each label."""
        found = []
        for name in self.labels:
            right = n_gold = n_predicted = 0
            missed, invented = [], []
            for row in np.flatnonzero(self.known).tolist():
                wanted = {span for span in places_of_spans(self.gold[row]) if span[2] == name}
                marked = {span for span in places_of_spans(self.predicted[row]) if span[2] == name}
                right, n_gold = right + len(wanted & marked), n_gold + len(wanted)
                n_predicted += len(marked)
                missed += [row] if wanted - marked else []
                invented += [row] if marked - wanted else []
            rows = (np.array(own, dtype=np.int64) for own in (missed, invented))
            found.append(_label_row(name, right, n_gold, n_predicted, *rows))
        return found

    def is_wrong(self) -> npt.NDArray[np.bool_]:
        """Return whether the spans of each document are known to be wrong."""
        pairs = zip(self.predicted, self.gold, strict=True)
        return np.array(
            [
                gold is not None and places_of_spans(one) != places_of_spans(gold)
                for one, gold in pairs
            ]
        )

    def certainty(self) -> npt.NDArray[np.float64]:
        """Return how many spans of each document are wrong."""
        pairs = zip(self.predicted, self.gold, strict=True)
        return np.array(
            [
                0.0 if gold is None else float(len(places_of_spans(one) ^ places_of_spans(gold)))
                for one, gold in pairs
            ]
        )

    def answers(self) -> list[set[tuple[int, int, str]]]:
        """Return the predicted spans of every document."""
        return [places_of_spans(own) for own in self.predicted]


def splits_of_run(run: KeptRun) -> list[str]:
    """Return the splits of which a run has predictions, the first to look at first."""
    if (run.folder / "predictions.parquet").is_file():
        there = run.predictions()["split"].unique().to_list()
    else:
        there = [file.stem.removeprefix("spans_") for file in run.folder.glob("spans_*.jsonl")]
    found = [name for name in ("test", "dev", "train") if name in there]
    if not found:
        raise DataError(f"The run {run.name} has no predictions; train again.")
    return found


def view_label_sets(
    run: KeptRun, split: str, labels: MultiLabelSpace, gold: Any = None
) -> LabelSetView:
    """Return the view of a run's predictions for a split of a multi-label project."""
    frame = run.predictions().filter(pl.col("split") == split)
    columns = [f"p: {name}" for name in labels]
    if not len(frame) or not set(columns) <= set(frame.columns):
        raise DataError(
            f"The run {run.name} has no predictions on {split} rows for these labels; train again."
        )
    predicted = labels.presence([_names(text) for text in frame["prediction"]]) == 1
    if gold is None:
        gold = labels.presence([None if text is None else _names(text) for text in frame["gold"]])
    proba = frame.select(columns).to_numpy()
    return LabelSetView(labels, split, frame["id"], proba, predicted, gold)


def view_spans(run: KeptRun, split: str, labels: SpanLabels, gold: Mapping[str, Any]) -> SpanView:
    """Return the view of a run's spans in the documents of a split; `gold` are spans by id."""
    file = run.folder / f"spans_{split}.jsonl"
    if not file.is_file():
        raise DataError(f"The run {run.name} has no spans in {split} texts; train again.")
    documents, found = read_doccano(read_text(file))
    ids = pl.Series("id", [str(value) for value in documents.ids], dtype=pl.String)
    known = [gold.get(item) for item in ids]
    return SpanView(labels, split, ids, None, found, known)


def _label_row(
    name: str, right: int, n_gold: int, n_predicted: int, missed: Rows, invented: Rows
) -> LabelRow:
    unknown = float("nan")
    precision = right / n_predicted if n_predicted else unknown
    recall = right / n_gold if n_gold else unknown
    f1 = 2 * right / (n_gold + n_predicted) if n_gold + n_predicted else unknown
    return LabelRow(name, precision, recall, f1, n_gold, n_predicted, missed, invented)


def places_of_spans(found: Sequence[Any]) -> set[tuple[int, int, str]]:
    """Return spans without their confidence, as they are compared."""
    return {(int(start), int(end), str(label)) for start, end, label, *_ in found}


def _names(text: str) -> list[str]:
    return [name for name in text.split("|") if name != "-"]
