"""report.html of a span run: the quality of the spans, the voters, and marked texts."""

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from wiesel.project.report_parts import paragraphs, reproduce, training, write_sections

if TYPE_CHECKING:
    from wiesel.project.spans import SpanOutcome

__all__ = ["write_spans_report"]

_MARKED = 40
_STYLE = "<style>mark{border-radius:.25em;padding:.1em .2em;color:#111}sub{font-size:.65em}</style>"


def write_spans_report(outcome: "SpanOutcome", path: Path) -> None:
    """Write the report as one HTML file that needs no network."""
    marked = outcome.marked(_MARKED)
    texts = "".join(document.to_html() for document in marked)
    methods = [run.method for run in outcome.runs]
    sections = {
        "Summary": _summary(outcome),
        "Evaluation": _quality(outcome),
        "Voters": outcome.voters.to_html(),
        "Texts and who voted": _STYLE + texts if texts else "<p>No text has a span.</p>",
        "Training": training(outcome.main.model.history_, ["validation_span_f1"]),
        "How to reproduce": reproduce(outcome.data.project, methods, "new.jsonl"),
    }
    write_sections(outcome.data.project.name, sections, path)


def _summary(outcome: "SpanOutcome") -> str:
    data, main, votes = outcome.data, outcome.main, outcome.data.votes["train"]
    kept = main.model.history_.best_epoch
    sentences = [
        f"{len(votes.voters):,} span functions cast {votes.votes.n_votes:,} votes on "
        f"{votes.documents.n_tokens:,} tokens of {len(votes.documents):,} documents, for the "
        f"labels {', '.join(data.labels.names)}. {main.method} trained a tagger that reads words.",
        "Without dev documents no epoch could be selected, so the last one was kept."
        if kept is None
        else f"Epoch {kept} was kept: it had the best F1 of exact spans on the dev documents.",
    ]
    return paragraphs(sentences)


def _quality(outcome: "SpanOutcome") -> str:
    split = outcome.judged_on
    if split is None or outcome.table is None:
        return "<p>Not evaluated: there are no gold spans.</p>"
    n_documents = len(outcome.data.documents[split])
    intro = f"<p>Evaluated on {n_documents:,} {escape(split)} documents with gold spans.</p>"
    by_label = f"<p>{escape(outcome.main.method)}, label by label:</p>"
    return intro + outcome.table.to_html() + by_label + outcome.main.reports[split].table.to_html()
