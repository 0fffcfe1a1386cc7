"""A project whose items may have several labels, or none."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.compare import Judged, logistic_proba
from wiesel.errors import DataError, ParameterError, listed
from wiesel.evaluation import MultiLabelReport, evaluate, evaluate_presence
from wiesel.evaluation.comparison import LABELS_ALONE, f1_parts
from wiesel.io import Split, explained, read_rows, write_rows
from wiesel.labels import ABSTAIN
from wiesel.multilabel import (
    MultiLabelSpace,
    MultiLabelVotes,
    write_multilabel_votes,
)
from wiesel.multilabel.files import LoadedMultiLabelLFs
from wiesel.project.bundle import Bundle
from wiesel.project.judged_items import shown_text
from wiesel.project.kinds import GoldFile, ProjectKind
from wiesel.project.labels import gold_of, with_labeled_dev
from wiesel.project.one_label import simple_inputs
from wiesel.project.outputs import joined_labels, prediction_frame, proba_columns, soft_labels_of
from wiesel.project.reporting import paragraphs, reproduce, training
from wiesel.project.rows import SPLITS, ProjectRows, refuse_equal_test, with_ids
from wiesel.project.settings import Project, located
from wiesel.project.training import Trained, TrainingSet
from wiesel.report import charts
from wiesel.tables import Gold
from wiesel.tasks import SeveralLabelsTask

if TYPE_CHECKING:
    from wiesel.project.judging import Outcome

__all__ = ["SeveralLabelsProject", "gold_labels"]

_SEPARATORS = "|;"
_NONE = "-"
_EXPLAINED = 3
_SHOWN = 500
"""How many characters of a text the report shows."""


class SeveralLabelsProject(ProjectKind):
    """Rows of tables, each of which has any number of labels."""

    task = SeveralLabelsTask.kind
    best_by = "macro_f1"
    best_in_words = "macro F1"
    networks = 1

    def read_gold(self, bundle: Bundle, data: Path, column: str, gold: Path | None) -> GoldFile:
        """Return the rows of a table, and their labels."""
        rows, inputs = bundle.file_inputs(data)
        if rows is None:
            raise ParameterError("A multi-label model is evaluated on a table with gold labels.")
        if "id" in rows.columns:
            with explained(data):
                with_ids(rows, None)
        return GoldFile(rows, inputs, gold_labels(rows, column, bundle.labels))

    def evaluated(self, model: Any, found: GoldFile, covered: Any = None) -> MultiLabelReport:
        """Return the report on every label."""
        report: MultiLabelReport = evaluate(model, found.inputs, found.gold)
        return report

    def check(self, project: Project) -> None:
        """Refuse data sets and crowd answers."""
        if project.data.dataset or project.data.module or project.votes.answers:
            raise ParameterError(
                f"{project.file}: with multi = true rows come from files (train, dev, test), and "
                "votes from lfs or from a file of (item, voter, label, present)."
            )

    def read(self, project: Project, lfs: LoadedMultiLabelLFs | None = None) -> ProjectRows:
        """Return the rows and the labels that each of them is known to have or to lack."""
        labels = _labels(project, None if lfs is None else lfs.labels)
        splits, truth = {}, {}
        for name in SPLITS:
            if getattr(project.data, name) is not None:
                splits[name], gold = _split(project, name, labels)
                if (gold != ABSTAIN).any():
                    truth[name] = gold
        refuse_equal_test(project, splits)
        return ProjectRows(labels, splits, truth, lfs)

    def with_labels_of_people(self, project: Project, rows: ProjectRows) -> ProjectRows:
        """Return the rows with the labels from the workbench: dev rows, and what models learn."""
        found, train = with_labeled_dev(project, rows), rows.splits["train"]
        unknown = np.full((len(train), len(rows.labels)), ABSTAIN)
        of_file = rows.truth.get("train", unknown)
        gold = gold_of(project, train, rows.labels, found is not rows, of_file)
        return replace(found, train_gold=gold)

    def described_votes(self, votes: MultiLabelVotes) -> str:
        """Return the number of voters and of votes."""
        return f"{votes.n_voters:,} voters, {votes.n_votes:,} votes on train"

    def report(
        self, data: TrainingSet, run: Trained, split: str, proba: Any, n_resamples: int
    ) -> MultiLabelReport:
        """Return the report on a split."""
        return evaluate_presence(
            proba,
            data.truth[split],
            data.labels,
            thresholds=run.model.threshold_,
            n_resamples=n_resamples,
        )

    def can_learn(self, gold: Gold) -> bool:
        """Return whether some label is known to be there and not to be there."""
        return bool(((gold.y == 0).any(axis=0) & (gold.y == 1).any(axis=0)).any())

    def right(self, data: TrainingSet, run: Trained, split: str, proba: Any) -> Any:
        """Return the part of each row with gold in macro F1."""
        return _parts(data.truth[split], proba, run.model.threshold_)

    def references(self, data: TrainingSet, main: Trained, split: str) -> list[tuple[Judged, Any]]:
        """Return logistic regressions on the labels alone."""
        start = time.perf_counter()
        proba = _logistic(data, split)
        if proba is None:
            return []
        report = evaluate_presence(proba, data.truth[split], data.labels)
        seconds, right = time.perf_counter() - start, _parts(data.truth[split], proba, None)
        title = f"{LABELS_ALONE}: logistic"
        return [(Judged(title, main.seed, seconds, self.figures(report), right), report)]

    def more_results(
        self, data: TrainingSet, first_runs: Mapping[str, Any], *_: Any
    ) -> dict[str, Any]:
        """Return the soft labels of the main method."""
        main, _predicted = next(iter(first_runs.values()))
        return {"soft_labels": soft_labels_of(main.model, data)}

    def about_data(self, outcome: "Outcome") -> dict[str, Any]:
        """Return labels, sizes of splits, and how many items have votes on each label."""
        data, votes = outcome.data, outcome.data.votes
        covered = zip(votes.labels, votes.covered.mean(axis=0).tolist(), strict=True)
        return {
            "multi": True,
            "leaks": self.leaks(data),
            "labels": list(data.labels),
            "items": {name: len(part) for name, part in data.splits.items()},
            "votes": {
                "voters": votes.n_voters,
                "votes": votes.n_votes,
                "covered": dict(covered),
            },
        }

    def write(self, outcome: "Outcome", folder: Path) -> None:
        """Write votes, predictions and soft labels."""
        data, parts = outcome.data, []
        write_multilabel_votes(data.votes, folder / "votes.parquet")
        for name, split in data.splits.items():
            ids = split.ids.cast(pl.String)
            frame = prediction_frame(ids, outcome.main.model, outcome.proba[name])
            frame = frame.insert_column(1, pl.lit(name).alias("split"))
            gold = data.truth.get(name, np.full((len(split), len(data.labels)), ABSTAIN))
            known = np.asarray((gold >= 0).all(axis=1)).tolist()
            names = [joined_labels(own) for own in data.labels.sets(gold == 1)]
            texts = [text if there else None for text, there in zip(names, known, strict=True)]
            parts.append(frame.with_columns(pl.Series("gold", texts, pl.String)))
        write_rows(pl.concat(parts), folder / "predictions.parquet")
        columns = [
            data.splits["train"].ids.alias("id"),
            *proba_columns(outcome.soft_labels, data.labels),
        ]
        write_rows(pl.DataFrame(columns), folder / "soft_labels.parquet")

    def sections(self, outcome: "Outcome") -> Mapping[str, str]:
        """Return the sections of the report."""
        data = outcome.data
        votes, known = _judged_votes(data)
        methods = [run.method for run in outcome.trained]
        return {
            "Summary": _summary(outcome) + paragraphs(self.leaks(data)),
            "Evaluation": _quality(outcome),
            "Labels": votes.overview(known).to_html(),
            "Voters": votes.summary(known).to_html(),
            "Training": training(outcome.main.model.history_, ("agreement", "validation_mean_auc")),
            "Why three items got their labels": _explained(outcome),
            "How to reproduce": reproduce(data.project, methods, "new.jsonl"),
        }

    def shown(self, outcome: "Outcome") -> list[str]:
        """Return tables of labels and methods, and the explanation of one item."""
        split, table = outcome.judged_on, outcome.table
        votes, known = _judged_votes(outcome.data)
        parts = [votes.overview(known).to_text()]
        if split is None or table is None:
            parts.append("Not evaluated: there are no gold labels.")
        else:
            parts += self.leaks(outcome.data)
            parts += [table.to_text(), str(outcome.reports[outcome.main.method][split])]
        return [*parts, *map(str, outcome.explanations(1))]


def gold_labels(rows: pl.DataFrame, column: str, labels: MultiLabelSpace) -> npt.NDArray[np.int64]:
    """Return the gold labels of rows: a column of lists or of texts, or a column for each label.

    A text separates labels with `|` or `;`; `-` means no label.

    >>> rows = pl.DataFrame({"label": ["sports|money", "-", None]})
    >>> gold_labels(rows, "label", MultiLabelSpace("sports", "money")).tolist()
    [[1, 1], [0, 0], [-1, -1]]
    """
    if column not in rows.columns:
        missing = [label for label in labels if label not in rows.columns]
        if missing:
            raise DataError(
                f"There are no gold labels: neither a column {column!r} nor one for each label "
                f"(there is none for {listed(missing)}). The columns are {listed(rows.columns)}."
            )
        return labels.presence(rows.select(labels.names))
    values = rows[column]
    if values.dtype.is_integer():  # labels that are numbers, one for each row
        values = values.cast(pl.String)
    if values.dtype != pl.String:
        return labels.presence(values)
    _refuse_unwritable(labels)
    return labels.presence([None if text is None else _named(text) for text in values])


def _refuse_unwritable(labels: Iterable[str]) -> None:
    """Refuse labels that a text such as `sports|money` cannot name."""
    for name in labels:
        if name != name.strip() or name == _NONE or any(sign in name for sign in _SEPARATORS):
            raise ParameterError(
                f"{name!r} cannot be the name of a label: in tables, '|' and ';' separate labels, "
                f"'-' means none of them, and white space around them does not count. Rename it."
            )


def _named(text: str) -> list[str]:
    for separator in _SEPARATORS:
        text = text.replace(separator, _SEPARATORS[0])
    names = [name.strip() for name in text.split(_SEPARATORS[0])]
    return [name for name in names if name and name != _NONE]


def _labels(project: Project, found: MultiLabelSpace | None) -> MultiLabelSpace:
    if not project.classes and found is None:
        raise ParameterError(
            f"{project.file} does not say what the labels are: add classes = [...] at its top."
        )
    with located(project, "classes"):
        labels = MultiLabelSpace(*project.classes) if project.classes else found
        _refuse_unwritable(labels or ())
    if found is not None and labels != found:
        raise ParameterError(
            f"{project.file} names the labels {listed(labels or ())}; the labeling functions name "
            f"{listed(found)}. Both must agree, in the same order."
        )
    return labels  # type: ignore[return-value]


def _split(
    project: Project, name: str, labels: MultiLabelSpace
) -> tuple[Split, npt.NDArray[np.int64]]:
    path = project.path(getattr(project.data, name))
    rows = read_rows(path)
    with explained(path):
        rows = with_ids(rows, project.data.id, f"{name}-")
        column = project.data.label
        there = column in rows.columns or all(label in rows.columns for label in labels)
        gold = np.full((len(rows), len(labels)), ABSTAIN)
        if there or name != "train":
            gold = gold_labels(rows, column, labels)
        if name != "train" and (gold == ABSTAIN).all():
            raise DataError(f"None of the {name} rows has gold labels in {column!r}.")
    # Labeling functions must not see the labels they are evaluated on. A label may have the name
    # of another column.
    needed = {"id", project.features.column}
    answers = {*labels} - needed if column not in rows.columns else set()
    hidden = [column, *sorted(answers)]
    return Split(rows.drop(hidden, strict=False), np.full(len(rows), ABSTAIN)), gold


def _judged_votes(data: TrainingSet) -> tuple[MultiLabelVotes, npt.NDArray[np.int64] | None]:
    """Return the votes that gold can judge, else those on train, and the gold if there is any."""
    name = "dev" if "dev" in data.votes_by_split else "train"
    return data.votes_by_split[name], data.truth.get(name)


def _summary(outcome: "Outcome") -> str:
    data, main, votes = outcome.data, outcome.main, outcome.data.votes
    chosen = main.model.selection_
    epochs = _flat(chosen["epoch"])
    sentences = [
        f"{votes.n_voters:,} voters cast {votes.n_votes:,} votes on {votes.n_items:,} items, each "
        f"of which may have several of the labels {', '.join(data.labels)}. {main.method} trained "
        f"{_networks(len(epochs))} with an output for each label ({data.project.end_model.name} on "
        f"features: {data.vectors.description})."
    ]
    if "score" in chosen:
        sentences.append(
            f"{_kept(epochs)}, selected by the mean ROC-AUC over labels on the dev rows "
            f"({chosen['score']:.3f}). The dev rows also set the threshold of each label."
        )
    else:
        sentences.append("No rows were held out to choose an epoch: each network kept its last.")
    one_sided = [label for label, way in votes.directions.items() if way != "both"]
    if one_sided:
        sentences.append(
            f"All votes on {', '.join(one_sided)} are in one direction, so the shares of these "
            "labels were taken from class_balance."
        )
    return paragraphs(sentences)


def _parts(gold: npt.NDArray[np.int64], proba: Any, thresholds: Any) -> Any:
    """The parts of the rows in macro F1; None if no label is there or predicted."""
    known = (gold >= 0).any(axis=1)
    predicted = (np.asarray(proba) >= (0.5 if thresholds is None else thresholds)) & (gold >= 0)
    right, size = predicted & (gold == 1), predicted.astype(int) + (gold == 1)
    parts = f1_parts(right[known], size[known])
    return parts if len(parts) else None


def _logistic(data: TrainingSet, split: str) -> Any:
    """P(label) of test rows by one logistic regression for each label, on the labels alone.

    None without labels, or if there are no test rows.
    """
    gold = data.gold()
    if gold is None or split == "dev":
        return None
    labeled_dev = np.ones(len(data.splits["dev"]), dtype=bool) if "dev" in data.splits else None
    known, new = simple_inputs(data, gold, split, labeled_dev)
    if known is None:
        return None
    proba = np.zeros((len(data.splits[split]), len(data.labels)))
    for k in range(len(data.labels)):
        rows = np.flatnonzero(gold.y[:, k] != ABSTAIN)
        if len(rows):
            proba[:, k] = logistic_proba(known[rows], gold.y[rows, k], new, 2)[:, 1]
    return proba


def _flat(epochs: Any) -> list[int]:
    """Return the epochs of all networks as one list; nested committees give nested lists."""
    if not isinstance(epochs, list):
        return [epochs]
    return [each for part in epochs for each in _flat(part)]


def _networks(count: int) -> str:
    return "one network" if count == 1 else f"{count:,} networks"


def _kept(epochs: list[int]) -> str:
    first, last = min(epochs), max(epochs)
    if first == last:
        return f"Epoch {first} was kept"
    return f"Each network kept one of the epochs {first} to {last}"


def _quality(outcome: "Outcome") -> str:
    split = outcome.judged_on
    if split is None:
        return ""
    reports: dict[str, Any] = {name: own[split] for name, own in outcome.reports.items()}
    figures = ""
    if len(reports) > 1:
        titles = {"micro_f1": "Micro F1 of every method", "macro_f1": "Macro F1 of every method"}
        shown = "".join(charts.intervals(reports, name, title) for name, title in titles.items())
        figures = f'<div class="figures">{shown}</div>'
    main = reports[outcome.main.method]
    intro = f"<p>Evaluated on {main.n_items:,} {escape(split)} items with gold labels.</p>"
    methods = "" if outcome.table is None else outcome.table.to_html()
    return intro + figures + methods + main.totals.to_html() + main.table.to_html()


def _explained(outcome: "Outcome") -> str:
    data = outcome.data
    rows, column = data.splits["train"].rows, data.project.features.column
    parts = []
    for row, why in zip(outcome.voted, outcome.explanations(_EXPLAINED), strict=False):
        text = escape(shown_text(rows.row(int(row), named=True), column)[:_SHOWN])
        parts.append(f"<p>{text}</p>{why.to_html()}")
    return "<hr>".join(parts)
