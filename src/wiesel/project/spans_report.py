"""report.html of a run on spans: how good they are, who voted, and texts with marked spans."""

import shlex
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from wiesel.report import Curve, charts
from wiesel.report.page import whole_page
from wiesel.saving import write_file

if TYPE_CHECKING:
    from wiesel.project.spans import SpanOutcome

__all__ = ["write_spans_report"]

_MARKED = 40
_STYLE = "<style>mark{border-radius:.25em;padding:.1em .2em;color:#111}sub{font-size:.65em}</style>"


def write_spans_report(outcome: "SpanOutcome", path: Path) -> None:
    """Write the report as one HTML file that needs no network."""
    marked = outcome.marked(_MARKED)
    texts = "".join(document.to_html() for document in marked)
    parts = [
        ("What was done", _story(outcome)),
        ("How good it is", _quality(outcome)),
        ("Voters", outcome.voters.to_html()),
        ("Texts and who voted", _STYLE + texts if texts else "<p>No text has a span.</p>"),
        ("Training", _training(outcome)),
        ("How to reproduce", _reproduce(outcome)),
    ]
    shown = [(title.lower().replace(" ", "-"), title, body) for title, body in parts if body]
    write_file(str(path), whole_page(outcome.data.project.name, shown).encode())


def _story(outcome: "SpanOutcome") -> str:
    data, main, votes = outcome.data, outcome.main, outcome.data.votes["train"]
    kept = main.model.history_.best_epoch
    sentences = [
        f"{len(votes.voters):,} span functions cast {votes.votes.n_votes:,} votes on "
        f"{votes.documents.n_tokens:,} tokens of {len(votes.documents):,} documents, for the "
        f"labels {', '.join(data.labels.names)}. {main.method} trained a tagger that reads words.",
        "There were no dev documents to choose an epoch by: the last one was kept."
        if kept is None
        else f"Epoch {kept} was kept, because its F1 of exact spans was best on the dev documents.",
    ]
    return "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)


def _quality(outcome: "SpanOutcome") -> str:
    split = outcome.data.judged_on
    if split is None or outcome.table is None:
        return "<p>There are no gold spans to evaluate on.</p>"
    n_documents = len(outcome.data.documents[split])
    intro = f"<p>Figures on {n_documents:,} {escape(split)} documents with gold spans.</p>"
    report = escape(str(outcome.main.reports[split]))
    return f"{intro}{outcome.table.to_html()}<pre>{report}</pre>"


def _training(outcome: "SpanOutcome") -> str:
    history = outcome.main.model.history_
    names = [name for name in history.records[0] if name.startswith(("loss_", "validation_"))]
    curves = {
        name: Curve(name.split("_", 1)[1].replace("_", " "), history.column(name)) for name in names
    }
    losses = [own for name, own in curves.items() if name.startswith("loss_")]
    scores = [own for name, own in curves.items() if name.startswith("validation_")]
    shown = charts.epochs("Losses", losses, history.best_epoch)
    shown += charts.epochs("Scores", scores, history.best_epoch) if scores else ""
    return f'<div class="figures">{shown}</div>'


def _reproduce(outcome: "SpanOutcome") -> str:
    project = outcome.data.project
    command = shlex.join(["wiesel", "run", str(project.folder)])
    settings = project.file.read_text(encoding="utf-8")
    return f"<pre>{escape(command)}</pre><pre>{escape(settings)}</pre>"
