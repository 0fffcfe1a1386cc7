"""`wiesel run` for items with several labels: the same stages, on sets of labels."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.end_to_end import Committee
from wiesel.end_to_end.base import ExplainedModel
from wiesel.errors import DataError, ParameterError, listed
from wiesel.evaluation import MultiLabelReport, evaluate_presence
from wiesel.io import Split, explained, read_rows, write_rows
from wiesel.labels import ABSTAIN
from wiesel.lfs import VoteCache
from wiesel.multilabel import (
    MultiLabelSpace,
    MultiLabelVotes,
    apply_multilabel_lfs,
    load_multilabel_lfs,
    read_multilabel_votes,
    write_multilabel_votes,
)
from wiesel.multilabel.files import LoadedMultiLabelLFs
from wiesel.nn.names import end_model_by_name
from wiesel.project.bundle import save_bundle
from wiesel.project.outputs import (
    joined_labels,
    one_at_a_time,
    prediction_frame,
    proba_columns,
)
from wiesel.project.rows import SPLITS, places_of, with_ids
from wiesel.project.run_results import (
    FittedRun,
    RunResults,
    built_method,
    chosen_methods,
    fit_all,
    methods_for,
    timed,
)
from wiesel.project.settings import Project, located, option_tables
from wiesel.project.training import Say, end_model_name
from wiesel.project.vectors import Vectors, make_vectors
from wiesel.saving import write_json
from wiesel.tasks import SeveralLabelsTask

__all__ = [
    "LabeledRows",
    "MultiLabelOutcome",
    "compare_labels",
    "gold_labels",
    "labeled_splits",
    "run_labels",
    "votes_on",
]

_SEPARATORS = "|;"
_NONE = "-"
_RESAMPLES = 1000


@dataclass(frozen=True)
class LabeledRows:
    """Rows, votes, gold labels and end-model inputs of a multi-label project."""

    project: Project
    labels: MultiLabelSpace
    splits: Mapping[str, Split]
    gold: Mapping[str, npt.NDArray[np.int64]]
    """(n_items, n_labels) for every split; -1 is unknown."""
    votes: Mapping[str, MultiLabelVotes]
    vectors: Vectors


@dataclass(frozen=True)
class MultiLabelOutcome(RunResults[LabeledRows, ExplainedModel, MultiLabelReport]):
    """The results of a multi-label run."""

    best_by = "macro_f1"

    @property
    def first_voted(self) -> int:
        """The position of the first training item with a vote."""
        return int(np.argmax(self.data.votes["train"].covered.any(axis=1)))

    def _figures(self, report: MultiLabelReport) -> Mapping[str, float]:
        return dict(report.scores())

    def _about_data(self) -> dict[str, Any]:
        votes = self.data.votes["train"]
        covered = zip(votes.labels, votes.covered.mean(axis=0).tolist(), strict=True)
        return {
            "project": self.data.project.name,
            "multi": True,
            "labels": list(self.data.labels),
            "items": {name: len(part) for name, part in self.data.splits.items()},
            "votes": {
                "voters": votes.n_voters,
                "votes": votes.n_votes,
                "covered": dict(covered),
            },
        }


def run_labels(
    project: Project, methods: Sequence[str] | None = None, say: Say | None = None
) -> MultiLabelOutcome:
    """Run all stages of a multi-label project, and write the results into its output folder."""
    from wiesel.project.multilabel_report import write_labels_report

    tell = say or (lambda stage, text: None)
    outcome = compare_labels(project, methods, project.method.seeds, tell)
    file = project.output_folder / "report.html"
    with one_at_a_time(project.output_folder):
        _write(outcome)
        write_labels_report(outcome, file)
    tell("report", str(file))
    return outcome


def compare_labels(
    project: Project, methods: Sequence[str] | None, seeds: Sequence[int], say: Say
) -> MultiLabelOutcome:
    """Train and evaluate every method with every seed; only the caches are written."""
    kind = SeveralLabelsTask.kind
    names = chosen_methods(project, methods, methods_for(kind), kind)
    data = prepare_labels(project, say)
    return MultiLabelOutcome(data, fit_all(names, seeds, partial(_trained, data), say))


def prepare_labels(project: Project, say: Say) -> LabeledRows:
    """Run the stages before training: rows, votes and end-model inputs."""
    splits, gold, labels, lfs = labeled_splits(project)
    sizes = ", ".join(f"{len(split):,} {name}" for name, split in splits.items())
    say("read", f"{sizes} items, labels {', '.join(labels)}")
    cache = project.output_folder / ".cache"
    cache.mkdir(parents=True, exist_ok=True)
    votes = votes_on(project, lfs, splits, labels, cache)
    say("votes", f"{votes['train'].n_voters:,} voters, {votes['train'].n_votes:,} votes on train")
    vectors = make_vectors(project, splits, cache)
    how = "reused" if vectors.reused else "made"
    say("features", f"{vectors.kind}, {vectors.shape} ({how})")
    return LabeledRows(project, labels, splits, gold, votes, vectors)


def labeled_splits(
    project: Project,
) -> tuple[
    dict[str, Split],
    dict[str, npt.NDArray[np.int64]],
    MultiLabelSpace,
    LoadedMultiLabelLFs | None,
]:
    """Return the rows, the gold labels, the labels, and the labeling functions if there are any."""
    settings = project.votes
    if project.data.dataset or project.data.module or settings.answers:
        raise ParameterError(
            f"{project.file}: with multi = true rows come from files (train, dev, test), and votes "
            "from lfs or from a file of (item, voter, label, present)."
        )
    lfs = load_multilabel_lfs(*map(project.path, settings.lfs)) if settings.lfs else None
    labels = _labels(project, None if lfs is None else lfs.labels)
    splits, gold = {}, {}
    for name in SPLITS:
        if getattr(project.data, name) is not None:
            splits[name], gold[name] = _split(project, name, labels)
    return splits, gold, labels, lfs


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


def votes_on(
    project: Project, lfs: Any, splits: Mapping[str, Split], labels: MultiLabelSpace, cache: Path
) -> dict[str, MultiLabelVotes]:
    """Return the votes of labeling functions on all splits, or of a file on the training rows."""
    if lfs is not None:
        kept = VoteCache(cache / "lf_votes.sqlite")
        how: dict[str, Any] = {"cache": kept, "ids": "id"}
        how |= {"on_error": project.votes.on_error, "timeout": project.votes.timeout}
        return {
            name: apply_multilabel_lfs(lfs, split.rows, labels=labels.names, **how)
            for name, split in splits.items()
        }
    path = project.path(project.votes.file or "")
    votes = read_multilabel_votes(path, labels=labels.names)
    rows = places_of(splits["train"].ids, votes.ids, path, "votes", "training items")
    return {"train": votes[rows]}


def _trained(
    data: LabeledRows, name: str, seed: int
) -> FittedRun[ExplainedModel, MultiLabelReport]:
    project, vectors = data.project, data.vectors
    with located(project, "end_model.name", "end_model"):
        network = end_model_by_name(
            end_model_name(project),
            vectors.train,
            len(data.labels),
            seed=seed,
            options=project.end_model.options,
        )
    with located(project, "method.name", *option_tables(name)):
        options = {**project.method_options(name), "seed": seed}
        model = built_method(name, network, options)
        model.check_options()
    gold: Any = None
    if "dev" in data.splits:
        gold = (vectors.by_split["dev"], data.gold["dev"])
        gold += (data.votes["dev"],) if "dev" in data.votes else ()
    # A committee learns the dev rows; a single method also needs them to choose its epoch.
    held_out = None if isinstance(model, Committee) else gold
    seconds = timed(model, vectors.train, data.votes["train"], validation=held_out, gold=gold)
    reports = {
        split: evaluate_presence(
            # Predictions of dev rows by networks that have not learned their labels.
            model.out_of_fold_proba(vectors.by_split[split]),
            data.gold[split],
            data.labels,
            thresholds=model.threshold_,
            n_resamples=_RESAMPLES if seed == 0 else 0,
        )
        for split in ("dev", "test")
        if split in data.splits
    }
    return FittedRun(name, seed, model, seconds, reports)


def _write(outcome: MultiLabelOutcome) -> None:
    data, main = outcome.data, outcome.main
    folder = data.project.output_folder
    write_multilabel_votes(data.votes["train"], folder / "votes.parquet")
    write_rows(_predictions(outcome), folder / "predictions.parquet")
    soft = main.model.soft_labels(data.vectors.train, data.votes["train"])
    columns = [data.splits["train"].ids.alias("id"), *proba_columns(soft, data.labels)]
    write_rows(pl.DataFrame(columns), folder / "soft_labels.parquet")
    metrics = outcome.to_dict()
    write_json(metrics, folder / "metrics.json")
    about = {
        "project": str(data.project.file.resolve()),
        "method": main.method,
        "end_model": {
            "name": end_model_name(data.project),
            "options": dict(data.project.end_model.options),
        },
        "metrics": metrics["splits"],
    }
    save_bundle(main.model, data.vectors, data.project.features.column, folder / "model", about)


def _predictions(outcome: MultiLabelOutcome) -> pl.DataFrame:
    """Return the predicted labels of all items, with the gold labels if known."""
    data, parts = outcome.data, []
    for split, inputs in data.vectors.by_split.items():
        proba = outcome.main.model.predict_proba(inputs)
        ids = data.splits[split].ids.cast(pl.String)
        frame = prediction_frame(ids, outcome.main.model, proba)
        known = np.asarray((data.gold[split] >= 0).all(axis=1)).tolist()
        names = [joined_labels(own) for own in data.labels.sets(data.gold[split] == 1)]
        gold = [name if there else None for name, there in zip(names, known, strict=True)]
        frame = frame.insert_column(1, pl.lit(split).alias("split"))
        parts.append(frame.with_columns(pl.Series("gold", gold, pl.String)))
    return pl.concat(parts)
