"""report.html of a multi-label run: the labels, how good they are, and who votes on them."""

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wiesel.project.report_parts import paragraphs, reproduce, training, write_sections
from wiesel.project.training import taken
from wiesel.report import charts

if TYPE_CHECKING:
    from wiesel.project.multilabel import MultiLabelOutcome

__all__ = ["write_labels_report"]

_EXPLAINED = 3


def write_labels_report(outcome: "MultiLabelOutcome", path: Path) -> None:
    """Write the report as one HTML file that needs no network."""
    data, main = outcome.data, outcome.main
    split = outcome.judged_on
    voted = "dev" if "dev" in data.votes else "train"
    votes, gold = data.votes[voted], data.gold[voted]
    known = gold if (gold >= 0).any() else None
    methods, scores = [run.method for run in outcome.runs], ("agreement", "validation_mean_auc")
    sections = {
        "What was done": _story(outcome),
        "How good it is": "" if split is None else _quality(outcome, split),
        "Labels": votes.overview(known).to_html(),
        "Voters": votes.summary(known).to_html(),
        "Training": training(main.model.history_, scores),
        "Why three items got their labels": _explained(outcome),
        "How to reproduce": reproduce(data.project, methods, "new.jsonl"),
    }
    write_sections(data.project.name, sections, path)


def _story(outcome: "MultiLabelOutcome") -> str:
    data, main, votes = outcome.data, outcome.main, outcome.data.votes["train"]
    chosen = main.model.selection_
    sentences = [
        f"{votes.n_voters:,} voters cast {votes.n_votes:,} votes on {votes.n_items:,} items, each "
        f"of which may have several of the labels {', '.join(data.labels)}. {main.method} trained "
        f"one network with an output for each label ({data.project.end_model.name} on "
        f"{data.vectors.kind} features, {data.vectors.shape})."
    ]
    if "score" in chosen:
        sentences.append(
            f"Epoch {chosen['epoch']} was kept, because its mean ROC-AUC over the labels was best "
            f"on the dev rows ({chosen['score']:.3f}); they also gave each label its threshold."
        )
    else:
        sentences.append("There were no dev rows to choose an epoch by: the last one was kept.")
    one_sided = [label for label, way in votes.directions.items() if way != "both"]
    if one_sided:
        sentences.append(
            f"All votes on {', '.join(one_sided)} go one way: how common these labels are was "
            "taken from class_balance."
        )
    return paragraphs(sentences)


def _quality(outcome: "MultiLabelOutcome", split: str) -> str:
    reports: dict[str, Any] = {}
    for run in outcome.runs:
        reports.setdefault(run.method, run.reports[split])
    figures = ""
    if len(reports) > 1:
        titles = {"micro_f1": "Micro F1 of every method", "macro_f1": "Macro F1 of every method"}
        shown = "".join(charts.intervals(reports, name, title) for name, title in titles.items())
        figures = f'<div class="figures">{shown}</div>'
    main = outcome.main.reports[split]
    intro = f"<p>Figures on {main.n_items:,} {escape(split)} items with gold labels.</p>"
    return intro + figures + main.totals.to_html() + main.table.to_html()


def _explained(outcome: "MultiLabelOutcome") -> str:
    data, model, votes = outcome.data, outcome.main.model, outcome.data.votes["train"]
    covered = np.flatnonzero(votes.covered.any(axis=1))[:_EXPLAINED].tolist()
    explain: Any = model
    texts = [str(explain.explain(taken(data.vectors.train, row), votes[row])) for row in covered]
    return "".join(f"<pre>{escape(text)}</pre>" for text in texts)
