"""`wiesel run` for labels on parts of texts: votes on tokens, taggers, marked texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from wiesel.analysis.table import Table
from wiesel.catalog import method
from wiesel.errors import DataError, ParameterError, SavedModelError, listed
from wiesel.io import FilePath, explained
from wiesel.project.explaining import Confirm, project_of
from wiesel.project.outputs import one_at_a_time
from wiesel.project.rows import SPLITS, find_id
from wiesel.project.run_results import (
    FittedRun,
    RunResults,
    chosen_methods,
    fit_all,
    label_model_and_rest,
    timed,
)
from wiesel.project.settings import SPAN_METHOD, Project, located, option_tables, read_project
from wiesel.project.training import Say
from wiesel.saving import read_folder, write_file, write_folder, write_json
from wiesel.spans import (
    Documents,
    HiddenMarkov,
    MarkedText,
    Span,
    SpanLabels,
    SpanReport,
    SpanTwoStage,
    SpanWeaSEL,
    TokenVotes,
    apply_span_lfs,
    evaluate_spans,
    explain_spans,
    load_span_lfs,
    load_span_model,
    read_annotated,
    read_documents,
    voter_table,
    write_doccano,
)
from wiesel.spans.storage import span_model_contents
from wiesel.spans.training import SpanTagger

__all__ = [
    "SpanOutcome",
    "SpanRows",
    "compare_spans",
    "evaluate_documents",
    "explain_document",
    "run_spans",
]


_METHODS = (SPAN_METHOD, "weasel")
"""Sequence methods; any label model can also be the first stage."""


@dataclass(frozen=True)
class SpanRows:
    """Documents, gold spans and votes of a project."""

    project: Project
    labels: SpanLabels
    documents: Mapping[str, Documents]
    gold: Mapping[str, list[list[Span]]]
    """Gold spans, for the splits that have them."""
    votes: Mapping[str, TokenVotes]


@dataclass(frozen=True)
class SpanOutcome(RunResults[SpanRows, SpanTagger, SpanReport]):
    """The results of a span run."""

    best_by = "span_f1"

    @property
    def voters(self) -> Table:
        """What each span function marked, and its quality if there is gold."""
        split = next((name for name in ("dev", "test") if name in self.data.gold), "train")
        return voter_table(self.data.votes[split], self.data.gold.get(split))

    def marked(self, limit: int) -> list[MarkedText]:
        """Return the first documents with a span, with the spans marked and the votes for them."""
        split = next(name for name in ("test", "dev", "train") if name in self.data.votes)
        votes = self.data.votes[split]
        found = self.main.model.predict(votes.documents)
        chosen = [k for k, own in enumerate(found) if own][:limit]
        return explain_spans(
            votes.select(np.array(chosen, dtype=np.int64)), [found[k] for k in chosen]
        )

    def _figures(self, report: SpanReport) -> Mapping[str, float]:
        exact = report.exact["all"]
        return {
            "precision": exact.precision,
            "recall": exact.recall,
            "span_f1": exact.f1,
            "overlap_f1": report.overlap["all"].f1,
            "token_accuracy": report.token_accuracy,
        }

    def _about_data(self) -> dict[str, Any]:
        votes = self.data.votes["train"]
        return {
            "project": self.data.project.name,
            "spans": True,
            "labels": list(self.data.labels.names),
            "documents": {name: len(own) for name, own in self.data.documents.items()},
            "votes": {"voters": len(votes.voters), "votes": votes.votes.n_votes},
        }


def run_spans(
    project: Project, methods: Sequence[str] | None = None, say: Say | None = None
) -> SpanOutcome:
    """Run all stages of a span project, and write the results into its output folder."""
    from wiesel.project.spans_report import write_spans_report

    tell = say or (lambda stage, text: None)
    outcome = compare_spans(project, methods, project.method.seeds, tell)
    file = project.output_folder / "report.html"
    with one_at_a_time(project.output_folder):
        _write(outcome)
        write_spans_report(outcome, file)
    tell("report", str(file))
    return outcome


def compare_spans(
    project: Project, methods: Sequence[str] | None, seeds: Sequence[int], say: Say
) -> SpanOutcome:
    """Train and evaluate every method with every seed; nothing is written."""
    names = chosen_methods(project, methods, _METHODS, "spans")
    data = prepare_spans(project, say)
    return SpanOutcome(data, fit_all(names, seeds, partial(_trained, data), say))


def prepare_spans(project: Project, say: Say) -> SpanRows:
    """Run the stages before training: documents, gold spans, votes."""
    _refuse_others(project)
    with located(project, "classes"):
        labels = SpanLabels(tuple(project.classes))
    functions = load_span_lfs(*map(project.path, project.votes.lfs))
    documents, gold = {}, {}
    for name in SPLITS:
        source = getattr(project.data, name)
        if source is not None:
            documents[name], found = _documents(project, project.path(source), name)
            if found is not None:
                _check_gold(documents[name], found, labels, project.path(source))
                gold[name] = found
    sizes = ", ".join(f"{len(own):,} {name}" for name, own in documents.items())
    say("read", f"{sizes} documents, labels {', '.join(labels.names)}")
    on_error: Any = project.votes.on_error
    votes = {
        name: apply_span_lfs(functions, own, labels=labels, on_error=on_error)
        for name, own in documents.items()
    }
    train = votes["train"]
    say("votes", f"{len(train.voters):,} voters, {train.votes.n_votes:,} votes on train tokens")
    return SpanRows(project, labels, documents, gold, votes)


def explain_document(
    model: FilePath, item: str, project: FilePath | None = None, confirm: Confirm | None = None
) -> MarkedText:
    """Return one document of a project with the spans of a saved tagger and the votes for them.

    This runs the project's span functions on the document; see `wiesel.project.explain_item`.
    """
    tagger = load_tagger(model)
    manifest, _ = read_folder(Path(model))
    source = read_project(Path(project) if project else project_of(manifest, confirm))
    _refuse_others(source)
    named = {name: getattr(source.data, name) for name in SPLITS if getattr(source.data, name)}
    documents = {
        name: _documents(source, source.path(file), name)[0] for name, file in named.items()
    }
    ids = {name: pl.Series(map(str, own.ids), dtype=pl.String) for name, own in documents.items()}
    split, row = find_id(ids, item)
    functions = load_span_lfs(*map(source.path, source.votes.lfs))
    labels = SpanLabels(tuple(source.classes))
    return tagger.explain(apply_span_lfs(functions, documents[split].select([row]), labels=labels))[
        0
    ]


def evaluate_documents(model: FilePath, gold: FilePath) -> SpanReport:
    """Return how well a saved tagger finds the gold spans of a file."""
    tagger = load_tagger(model)
    documents, spans = read_annotated(gold)
    labels = SpanLabels.of_tags(tagger.labels_)
    _check_gold(documents, spans, labels, Path(gold))
    return evaluate_spans(spans, tagger.predict(documents), documents, labels)


def load_tagger(model: FilePath) -> SpanTagger:
    """Return a saved tagger; raise an error if the folder contains a label model."""
    tagger = load_span_model(Path(model))
    if isinstance(tagger, HiddenMarkov):
        raise SavedModelError(f"{model} is a label model, which reads votes, not documents.")
    found: SpanTagger = tagger
    return found


def _refuse_others(project: Project) -> None:
    """Reject settings that a span project cannot use."""
    if not project.classes:
        raise ParameterError(
            f"{project.file} does not say what the labels are: add "
            'classes = ["PER", "LOC"] at its top, with your own.'
        )
    if project.data.train is None or not project.votes.lfs:
        raise ParameterError(
            f"{project.file}: with spans = true texts come from files (train, dev, test), and "
            "votes from span functions (lfs)."
        )
    if project.features.kind is not None or project.end_model.name != "mlp":
        raise ParameterError(
            f"{project.file}: with spans = true the end model is a tagger that reads words; "
            "features.kind and end_model are not for it."
        )


def _documents(
    project: Project, path: Path, split: str
) -> tuple[Documents, list[list[Span]] | None]:
    """Return the documents of a file and their gold spans, which training texts may lack."""
    column, id_column = project.features.column, project.data.id
    if split == "train":
        return read_documents(path, column, id_column), None
    return read_annotated(path)


def _check_gold(
    documents: Documents, gold: list[list[Span]], labels: SpanLabels, path: Path
) -> None:
    unknown = sorted({span.label for own in gold for span in own} - set(labels.names))
    if unknown:
        raise DataError(
            f"{path} has gold spans of {listed(unknown)}; the labels are {listed(labels.names)}."
        )
    with explained(path):
        documents.tags_of(gold, labels)


def _trained(data: SpanRows, name: str, seed: int) -> FittedRun[SpanTagger, SpanReport]:
    project = data.project
    with located(project, "method.name", *option_tables(name)):
        model = _unfitted(name, {**project.method_options(name), "seed": seed})
        model.check_options()
    validation = (data.documents["dev"], data.gold["dev"]) if "dev" in data.gold else None
    seconds = timed(model, data.votes["train"], validation=validation)
    reports = {
        split: evaluate_spans(
            gold, model.predict(data.documents[split]), data.documents[split], data.labels.names
        )
        for split, gold in data.gold.items()
    }
    return FittedRun(name, seed, model, seconds, reports)


def _unfitted(name: str, options: Mapping[str, Any]) -> SpanTagger:
    if name == "weasel":
        return SpanWeaSEL(**options)
    cls = HiddenMarkov if name == SPAN_METHOD else method(name).cls
    label_model, rest = label_model_and_rest(cls, options, SpanTwoStage.option_names())
    return SpanTwoStage(label_model=label_model, **rest)


def _write(outcome: SpanOutcome) -> None:
    data, model = outcome.data, outcome.main.model
    folder = data.project.output_folder
    folder.mkdir(parents=True, exist_ok=True)
    for split, documents in data.documents.items():
        found = write_doccano(documents, model.predict(documents))
        write_file(folder / f"spans_{split}.jsonl", found.encode())
    write_json(outcome.to_dict(), folder / "metrics.json")
    manifest, files = span_model_contents(model)
    about = {"project": str(data.project.file.resolve()), "method": outcome.main.method}
    write_folder(folder / "model", {**manifest, **about}, files)
