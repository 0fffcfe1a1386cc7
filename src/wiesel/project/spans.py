"""A project whose labels are of parts of texts: votes on tokens, taggers, marked texts."""

from collections.abc import Mapping
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis.table import Table, percent, text
from wiesel.catalog import load_model
from wiesel.end_to_end import EndToEndModel
from wiesel.end_to_end.base import ExplainedModel
from wiesel.errors import (
    DataError,
    ParameterError,
    SavedModelError,
    WieselWarning,
    listed,
    warn_user,
)
from wiesel.io import FilePath, Split, existing_file, explained
from wiesel.labels import ABSTAIN
from wiesel.lfs.fingerprints import digest
from wiesel.project.bundle import Bundle, recorded_file
from wiesel.project.insights import leak_findings
from wiesel.project.kinds import GoldFile, OneItem, ProjectKind
from wiesel.project.labels import OF_WORKBENCH, labeled_gold, missing_dev_labels
from wiesel.project.reporting import paragraphs, reproduce, training
from wiesel.project.rows import SPLITS, ProjectRows, find_id, refuse_equal_test
from wiesel.project.settings import Project, located
from wiesel.project.training import Trained, TrainingSet
from wiesel.project.vectors import Vectors
from wiesel.saving import write_file
from wiesel.spans import (
    Documents,
    MarkedText,
    Span,
    SpanLabels,
    SpanReport,
    TokenVotes,
    evaluate_spans,
    explain_spans,
    read_annotated,
    read_documents,
    voter_table,
    write_doccano,
)
from wiesel.spans.documents import spans_of_proba
from wiesel.tables import Gold
from wiesel.tasks import SpansTask

if TYPE_CHECKING:
    from wiesel.project.judging import Outcome

__all__ = ["SpansProject", "load_tagger"]

_SHOWN, _IN_REPORT = 3, 40
"""How many marked texts the command line and the report show."""
_OF_VOTES = (
    "The votes alone, and the tagger together with them, on the same documents. Where span "
    "functions can be applied to new texts, tagger.predict(documents, votes) uses their votes, too."
)
_LEGEND = (
    "Texts with mistakes come first: a wrong span is struck out, and a gold span that was missed "
    "has a dashed border."
)
_AFTER_TABLE = '<p style="margin-top:1.5em">'
_STYLE = (
    "<style>mark{border-radius:.25em;padding:.1em .2em;color:#111}"
    "sub{font-size:.65em;display:inline-block}</style>"
)


class SpansProject(ProjectKind):
    """Texts with any number of labeled parts."""

    task = SpansTask.kind
    best_by = "span_f1"
    best_in_words = "F1 of exact spans"
    items = "documents"
    networks = 1

    def read_gold(self, bundle: Bundle, data: Path, column: str, gold: Path | None) -> GoldFile:
        """Return documents and their spans."""
        documents, spans = read_annotated(data)
        _check_gold(documents, spans, bundle.labels, data)
        return GoldFile(None, documents, spans)

    def evaluated(self, model: Any, found: GoldFile, covered: Any = None) -> SpanReport:
        """Return the report on the predicted spans."""
        predicted = model.predict(found.inputs)
        return evaluate_spans(found.gold, predicted, found.inputs, model.labels_)

    def check(self, project: Project) -> None:
        """Refuse settings other than texts in files, span functions and taggers."""
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

    def check_file(self, path: FilePath) -> None:
        """Refuse a file that does not exist; the reader knows the formats of annotated texts."""
        existing_file(path)

    def read(self, project: Project, lfs: Any = None) -> ProjectRows:
        """Return the documents, and the gold spans of those that have any."""
        with located(project, "classes"):
            labels = SpanLabels(tuple(project.classes))
        splits, truth = {}, {}
        for name in SPLITS:
            file = getattr(project.data, name)
            if file is None:
                continue
            path, column = project.path(file), project.features.column
            if name == "train":  # training texts may lack gold spans
                splits[name] = read_documents(path, column, project.data.id)
                continue
            splits[name], truth[name] = read_annotated(path)
            _check_gold(splits[name], truth[name], labels, path)
        refuse_equal_test(project, self.as_rows(splits))
        if "dev" in truth and not any(truth["dev"]):
            message = "The dev documents have no gold span, so they choose no epoch."
            warn_user(message, WieselWarning)
        return ProjectRows(labels, splits, truth, lfs)

    def with_labels_of_people(self, project: Project, rows: ProjectRows) -> ProjectRows:
        """Return the documents with the spans that people marked: dev texts, and what is learned.

        The spans of texts drawn at random choose the epoch if the project names no dev file.
        """
        train: Documents = rows.splits["train"]
        split = Split(pl.DataFrame({"id": train.ids}), np.full(len(train), ABSTAIN))
        given = labeled_gold(project, split, rows.labels)
        splits, truth = dict(rows.splits), dict(rows.truth)
        if "dev" not in splits and not missing_dev_labels(project, split, rows.labels):
            random = labeled_gold(project, split, rows.labels, "evaluate")
            places = [k for k, own in enumerate(random) if own is not None]
            splits["dev"] = train.select(np.array(places, dtype=np.int64))
            truth["dev"] = [random[k] for k in places]
            for place in places:  # they choose the epoch, so they are not learned
                given[place] = None
        chosen = ["" if own is None else OF_WORKBENCH for own in given]
        return replace(rows, splits=splits, truth=truth, train_gold=Gold(given, chosen=chosen))

    def known(self, gold: Any) -> npt.NDArray[np.bool_]:
        """Return whether people marked each document."""
        return np.array([own is not None for own in gold], dtype=bool)

    def votes_of_people(self, rows: ProjectRows, votes: TokenVotes) -> TokenVotes:
        """Return the votes with the spans that people marked, which replace soft labels."""
        gold = rows.train_gold
        return votes if gold is None or not self.known(gold.y).any() else votes.with_known(gold.y)

    def check_inputs(self, project: Project, rows: ProjectRows) -> None:
        """Accept all documents: taggers read words."""

    def described_votes(self, votes: TokenVotes) -> str:
        """Return the number of voters and of votes."""
        return f"{len(votes.voters):,} voters, {votes.votes.n_votes:,} votes on train tokens"

    def find(self, splits: Mapping[str, Documents], item: str) -> OneItem:
        """Return the document with an id."""
        ids = {name: pl.Series(map(str, own.ids), dtype=pl.String) for name, own in splits.items()}
        name, place = find_id(ids, item)
        alone = splits[name].select([place])
        return OneItem(name, place, {"id": alone.ids[0], "text": alone.texts[0]}, alone)

    def vectors(self, project: Project, rows: ProjectRows, votes: Any, cache: Path) -> Vectors:
        """Return the documents, which taggers read as they are."""
        key = digest({name: _content(own) for name, own in rows.splits.items()})
        return Vectors("words", rows.splits, None, key, reused=False)

    def one_input(self, bundle: Bundle, one: OneItem) -> Documents:
        """Return the document."""
        found: Documents = one.alone
        return found

    def validation(self, data: TrainingSet) -> Any:
        """Return the dev documents; None if nothing is marked in them."""
        gold = data.truth.get("dev", ())
        return (data.splits["dev"], gold) if any(gold) else None

    def as_rows(self, splits: Mapping[str, Documents]) -> dict[str, Split]:
        """Return the documents of each split as a table of their texts."""
        found = {}
        for name, own in splits.items():
            rows = pl.DataFrame({"id": [str(id) for id in own.ids], "text": list(own.texts)})
            found[name] = Split(rows, np.full(len(own), ABSTAIN))
        return found

    def leaks(self, data: TrainingSet) -> list[str]:
        """Return sentences on texts in two splits, and on copies in train."""
        return [found.sentence for found in leak_findings(self.as_rows(data.splits), "text")]

    def predicted(self, data: TrainingSet, model: Any, split: str) -> list[list[Span]]:
        """Return the spans of every document."""
        found: list[list[Span]] = model.predict(data.splits[split])
        return found

    def report(
        self, data: TrainingSet, run: Trained, split: str, proba: Any, n_resamples: int
    ) -> SpanReport:
        """Return the report on a split."""
        return evaluate_spans(data.truth[split], proba, data.splits[split], data.labels.names)

    def figures(self, report: SpanReport) -> dict[str, float]:
        """Return precision, recall and F1 of exact spans, F1 of overlaps, and right tags."""
        exact = report.exact["all"]
        return {
            "precision": exact.precision,
            "recall": exact.recall,
            "span_f1": exact.f1,
            "overlap_f1": report.overlap["all"].f1,
            "token_accuracy": report.token_accuracy,
        }

    def right(self, data: TrainingSet, run: Trained, split: str, proba: Any) -> Any:
        """Return the part of each document in F1."""
        parts = self.report(data, run, split, proba, 0).parts
        return parts if len(parts) else None

    def can_learn(self, gold: Gold) -> bool:
        """Return whether some document has a span."""
        return any(gold.y)

    def about_data(self, outcome: "Outcome") -> dict[str, Any]:
        """Return labels, sizes of splits and votes."""
        data, votes = outcome.data, outcome.data.votes
        return {
            "spans": True,
            "leaks": self.leaks(data),
            "labels": list(data.labels.names),
            "documents": {name: len(own) for name, own in data.splits.items()},
            "votes": {"voters": len(votes.voters), "votes": votes.votes.n_votes},
        }

    def write(self, outcome: "Outcome", folder: Path) -> None:
        """Write the documents of every split with the spans that were found."""
        for split, documents in outcome.data.splits.items():
            found = write_doccano(documents, outcome.proba[split])
            write_file(folder / f"spans_{split}.jsonl", found.encode())

    def data_facts(self, data: TrainingSet) -> dict[str, Any]:
        """Return the file, the number of documents and a fingerprint of every split."""
        source = data.project.data
        files = {name: getattr(source, name, None) for name in data.splits}
        return {
            name: {
                "file": recorded_file(data.project, file),
                "rows": len(own),
                "fingerprint": digest(_content(own), data.truth.get(name))[:16],
            }
            for (name, own), file in zip(data.splits.items(), files.values(), strict=True)
        }

    def sections(self, outcome: "Outcome") -> Mapping[str, str]:
        """Return the sections of the report."""
        marked = _marked(outcome, _IN_REPORT)
        texts = "".join(document.to_html() for document in marked)
        if any(document.n_mistakes for document in marked):
            texts = paragraphs([_LEGEND]) + texts
        methods = [run.method for run in outcome.trained]
        return {
            "Summary": _summary(outcome) + paragraphs(self.leaks(outcome.data)),
            "Evaluation": _quality(outcome),
            "Voters": _voters(outcome).to_html(),
            "Texts and who voted": _STYLE + texts if texts else "<p>No text has a span.</p>",
            "Training": training(outcome.main.model.history_, ["validation_span_f1"]),
            "How to reproduce": reproduce(outcome.data.project, methods, "new.jsonl"),
        }

    def shown(self, outcome: "Outcome") -> list[str]:
        """Return tables of span functions and methods, and marked texts."""
        split, table = outcome.judged_on, outcome.table
        parts = [_voters(outcome).to_text()]
        if split is None or table is None:
            parts.append("There are no gold spans to evaluate on.")
        else:
            parts += self.leaks(outcome.data)
            parts += [table.to_text(), str(outcome.reports[outcome.main.method][split])]
            parts.append(f"{_OF_VOTES}\n{_of_votes(outcome, split).to_text()}")
        return [*parts, "\n".join(map(str, _marked(outcome, _SHOWN)))]


def load_tagger(model: FilePath) -> EndToEndModel:
    """Return a saved tagger; raise an error if the folder contains a label model."""
    tagger = load_model(Path(model))
    if not isinstance(tagger, EndToEndModel):
        raise SavedModelError(f"{model} is a label model, which reads votes, not documents.")
    return tagger


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


def _content(documents: Documents) -> tuple[Any, ...]:
    return documents.ids, documents.texts, documents.starts, documents.ends, documents.pointers


def _voters(outcome: "Outcome") -> Table:
    """What each span function marked, and its quality if there is gold."""
    data = outcome.data
    split = next((name for name in ("dev", "test") if name in data.truth), "train")
    return voter_table(data.votes_by_split[split], data.truth.get(split))


def _marked(outcome: "Outcome", limit: int) -> list[MarkedText]:
    """Return documents with spans, those with mistakes first, and the votes on their spans."""
    votes_by_split = outcome.data.votes_by_split
    split = next(name for name in ("test", "dev", "train") if name in votes_by_split)
    found, gold = outcome.proba[split], outcome.data.truth.get(split)
    if gold is None:
        chosen = [k for k, own in enumerate(found) if own]
    else:
        wrong = [
            {span[:3] for span in own} != {Span(*span)[:3] for span in true}
            for own, true in zip(found, gold, strict=True)
        ]
        seen = (k for k, own in enumerate(found) if own or gold[k])
        chosen = sorted(seen, key=lambda k: not wrong[k])
    chosen = chosen[:limit]
    votes = votes_by_split[split].select(np.array(chosen, dtype=np.int64))
    true = None if gold is None else [gold[k] for k in chosen]
    return explain_spans(votes, [found[k] for k in chosen], true)


def _of_votes(outcome: "Outcome", split: str) -> Table:
    """The quality of the votes, which read their lists of names on these documents, too."""
    data, main = outcome.data, outcome.main
    votes, documents = data.votes_by_split[split], data.splits[split]
    found = {"majority vote": votes.majority()}
    if isinstance(main.model, ExplainedModel):
        proba = main.model.soft_labels(documents, votes)
        found[f"soft labels of {main.method}"] = spans_of_proba(proba, documents, data.labels)
        found[f"{main.method}, tagger and votes"] = main.model.predict(documents, votes)
    rows = []
    for name, spans in found.items():
        report = evaluate_spans(data.truth[split], spans, documents, data.labels.names)
        exact, overlap_f1 = report.exact["all"], report.overlap["all"].f1
        rows.append((name, exact.precision, exact.recall, exact.f1, overlap_f1))
    shown = ("precision", "recall", "F1", "overlap F1")
    frame = pl.DataFrame(rows, schema=["spans of", *shown], orient="row")
    frame = frame.with_columns(pl.col(shown).fill_nan(None))
    return Table(frame, (text("spans of"), *map(percent, shown)))


def _summary(outcome: "Outcome") -> str:
    data, main, votes = outcome.data, outcome.main, outcome.data.votes
    kept = main.model.history_.best_epoch
    sentences = [
        f"{len(votes.voters):,} span functions cast {votes.votes.n_votes:,} votes on "
        f"{votes.documents.n_tokens:,} tokens of {len(votes.documents):,} documents, for the "
        f"labels {', '.join(data.labels.names)}. {main.method} trained a tagger that reads words.",
        "Without dev documents no epoch could be selected, so the last one was kept."
        if kept is None
        else f"Epoch {kept} was kept: it had the best F1 of exact spans on the dev documents.",
    ]
    split = outcome.judged_on
    if split is not None:
        of_votes = _of_votes(outcome, split).frame.sort("F1", descending=True, nulls_last=True)
        best, alone = of_votes.row(0, named=True), outcome.reports[main.method][split]
        f1 = alone.exact["all"].f1
        if best["F1"] is not None and not best["F1"] <= f1:
            sentences.append(
                f"With votes on the {split} documents F1 is higher: {100 * best['F1']:.1f} % by "
                f"{best['spans of']}, against {100 * f1:.1f} % by the tagger alone, which reads no "
                "list of names. Use votes where the span functions can be applied."
            )
    return paragraphs(sentences)


def _quality(outcome: "Outcome") -> str:
    split = outcome.judged_on
    if split is None or outcome.table is None:
        return "<p>Not evaluated: there are no gold spans.</p>"
    n_documents = len(outcome.data.splits[split])
    intro = f"<p>Evaluated on {n_documents:,} {escape(split)} documents with gold spans.</p>"
    main = outcome.reports[outcome.main.method][split]
    by_label = f"{_AFTER_TABLE}{escape(outcome.main.method)}, label by label:</p>"
    tables = intro + outcome.table.to_html() + by_label + main.table.to_html()
    return f"{tables}{_AFTER_TABLE}{escape(_OF_VOTES)}</p>{_of_votes(outcome, split).to_html()}"
