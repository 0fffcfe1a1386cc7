"""`wiesel run` for labels on parts of texts: votes on tokens, taggers, marked texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from wiesel.analysis.table import Table
from wiesel.catalog import load_model
from wiesel.end_to_end import EndToEndModel
from wiesel.end_to_end.storage import end_to_end_contents
from wiesel.errors import (
    DataError,
    ParameterError,
    SavedModelError,
    WieselWarning,
    listed,
    warn_user,
)
from wiesel.io import FilePath, explained
from wiesel.nn.names import end_model_by_name
from wiesel.project.explaining import Confirm, project_of
from wiesel.project.outputs import one_at_a_time
from wiesel.project.rows import SPLITS, find_id
from wiesel.project.run_results import (
    FittedRun,
    RunResults,
    built_method,
    chosen_methods,
    fit_all,
    methods_for,
    timed,
)
from wiesel.project.settings import Project, located, option_tables, read_project
from wiesel.project.training import Say, end_model_name
from wiesel.saving import read_folder, write_file, write_folder, write_json
from wiesel.spans import (
    Documents,
    MarkedText,
    Span,
    SpanLabels,
    SpanReport,
    TokenVotes,
    apply_span_lfs,
    evaluate_spans,
    explain_spans,
    load_span_lfs,
    read_annotated,
    read_documents,
    voter_table,
    write_doccano,
)
from wiesel.tasks import SpansTask

__all__ = [
    "SpanOutcome",
    "SpanRows",
    "check_gold_spans",
    "check_span_settings",
    "compare_spans",
    "evaluate_documents",
    "explain_document",
    "run_spans",
    "span_documents",
]


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
class SpanOutcome(RunResults[SpanRows, EndToEndModel, SpanReport]):
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
    names = chosen_methods(project, methods, methods_for(SpansTask.kind), SpansTask.kind)
    data = prepare_spans(project, say)
    return SpanOutcome(data, fit_all(names, seeds, partial(_trained, data), say))


def prepare_spans(project: Project, say: Say) -> SpanRows:
    """Run the stages before training: documents, gold spans, votes."""
    check_span_settings(project)
    with located(project, "classes"):
        labels = SpanLabels(tuple(project.classes))
    functions = load_span_lfs(*map(project.path, project.votes.lfs))
    documents, gold = {}, {}
    for name in SPLITS:
        source = getattr(project.data, name)
        if source is not None:
            documents[name], found = span_documents(project, project.path(source), name)
            if found is not None:
                check_gold_spans(documents[name], found, labels, project.path(source))
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
    check_span_settings(source)
    named = {name: getattr(source.data, name) for name in SPLITS if getattr(source.data, name)}
    documents = {
        name: span_documents(source, source.path(file), name)[0] for name, file in named.items()
    }
    ids = {name: pl.Series(map(str, own.ids), dtype=pl.String) for name, own in documents.items()}
    split, row = find_id(ids, item)
    functions = load_span_lfs(*map(source.path, source.votes.lfs))
    labels = SpanLabels(tuple(source.classes))
    one = documents[split].select([row])
    found: MarkedText = tagger.explain(one, apply_span_lfs(functions, one, labels=labels))  # type: ignore[attr-defined]
    return found


def evaluate_documents(model: FilePath, gold: FilePath) -> SpanReport:
    """Return how well a saved tagger finds the gold spans of a file."""
    tagger = load_tagger(model)
    documents, spans = read_annotated(gold)
    labels: SpanLabels = tagger.labels_  # type: ignore[assignment]
    check_gold_spans(documents, spans, labels, Path(gold))
    return evaluate_spans(spans, tagger.predict(documents), documents, labels)


def load_tagger(model: FilePath) -> EndToEndModel:
    """Return a saved tagger; raise an error if the folder contains a label model."""
    tagger = load_model(Path(model))
    if not isinstance(tagger, EndToEndModel):
        raise SavedModelError(f"{model} is a label model, which reads votes, not documents.")
    return tagger


def check_span_settings(project: Project) -> None:
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
    if project.features.kind is not None:
        raise ParameterError(
            f"{project.file}: with spans = true the end model is a tagger that reads words; "
            "features.kind is not for it."
        )


def span_documents(
    project: Project, path: Path, split: str
) -> tuple[Documents, list[list[Span]] | None]:
    """Return the documents of a file and their gold spans, which training texts lack."""
    column, id_column = project.features.column, project.data.id
    if split == "train":
        return read_documents(path, column, id_column), None
    return read_annotated(path)


def check_gold_spans(
    documents: Documents, gold: list[list[Span]], labels: SpanLabels, path: Path
) -> None:
    """Refuse gold spans of other labels, and spans that overlap."""
    unknown = sorted({span.label for own in gold for span in own} - set(labels.names))
    if unknown:
        raise DataError(
            f"{path} has gold spans of {listed(unknown)}; the labels are {listed(labels.names)}."
        )
    with explained(path):
        documents.tags_of(gold, labels)


def _trained(data: SpanRows, name: str, seed: int) -> FittedRun[EndToEndModel, SpanReport]:
    project = data.project
    with located(project, "end_model.name", "end_model"):
        network = end_model_by_name(
            end_model_name(project),
            data.documents["train"],
            len(data.labels.tags),
            seed=seed,
            options=project.end_model.options,
        )
    with located(project, "method.name", *option_tables(name)):
        model = built_method(name, network, {**project.method_options(name), "seed": seed})
        model.check_options()
    validation = None
    if any(data.gold.get("dev", ())):
        validation = (data.documents["dev"], data.gold["dev"])
    elif "dev" in data.gold:
        warn_user("The dev documents have no gold span, so they choose no epoch.", WieselWarning)
    documents, votes = data.documents["train"], data.votes["train"]
    seconds = timed(model, documents, votes, validation=validation)
    reports = {
        split: evaluate_spans(
            gold, model.predict(data.documents[split]), data.documents[split], data.labels.names
        )
        for split, gold in data.gold.items()
    }
    return FittedRun(name, seed, model, seconds, reports)


def _write(outcome: SpanOutcome) -> None:
    data, model = outcome.data, outcome.main.model
    folder = data.project.output_folder
    folder.mkdir(parents=True, exist_ok=True)
    for split, documents in data.documents.items():
        found = write_doccano(documents, model.predict(documents))
        write_file(folder / f"spans_{split}.jsonl", found.encode())
    write_json(outcome.to_dict(), folder / "metrics.json")
    manifest, files = end_to_end_contents(model)
    about = {"project": str(data.project.file.resolve()), "method": outcome.main.method}
    write_folder(folder / "model", {**manifest, **about}, files)
