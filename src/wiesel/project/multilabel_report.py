"""report.html of a multi-label run: the labels, their quality, and their voters."""

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wiesel.project.judged_items import shown_text
from wiesel.project.report_parts import paragraphs, reproduce, training, write_sections
from wiesel.project.training import taken
from wiesel.report import charts

if TYPE_CHECKING:
    from wiesel.project.multilabel import MultiLabelOutcome

__all__ = ["write_labels_report"]

_EXPLAINED = 3
_SHOWN = 500
"""How many characters of a text are shown."""


def write_labels_report(outcome: "MultiLabelOutcome", path: Path) -> None:
    """Write the report as one HTML file that needs no network."""
    data, main = outcome.data, outcome.main
    split = outcome.judged_on
    voted = "dev" if "dev" in data.votes else "train"
    votes, gold = data.votes[voted], data.gold[voted]
    known = gold if (gold >= 0).any() else None
    methods, scores = [run.method for run in outcome.runs], ("agreement", "validation_mean_auc")
    sections = {
        "Summary": _summary(outcome),
        "Evaluation": "" if split is None else _quality(outcome, split),
        "Labels": votes.overview(known).to_html(),
        "Voters": votes.summary(known).to_html(),
        "Training": training(main.model.history_, scores),
        "Why three items got their labels": _explained(outcome),
        "How to reproduce": reproduce(data.project, methods, "new.jsonl"),
    }
    write_sections(data.project.name, sections, path)


def _summary(outcome: "MultiLabelOutcome") -> str:
    data, main, votes = outcome.data, outcome.main, outcome.data.votes["train"]
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
        sentences.append("Without dev rows no epoch could be selected, so the last one was kept.")
    one_sided = [label for label, way in votes.directions.items() if way != "both"]
    if one_sided:
        sentences.append(
            f"All votes on {', '.join(one_sided)} are in one direction, so the shares of these "
            "labels were taken from class_balance."
        )
    return paragraphs(sentences)


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
    intro = f"<p>Evaluated on {main.n_items:,} {escape(split)} items with gold labels.</p>"
    return intro + figures + main.totals.to_html() + main.table.to_html()


def _explained(outcome: "MultiLabelOutcome") -> str:
    data, model, votes = outcome.data, outcome.main.model, outcome.data.votes["train"]
    covered = np.flatnonzero(votes.covered.any(axis=1))[:_EXPLAINED].tolist()
    rows, column = data.splits["train"].rows, data.project.features.column
    parts = []
    for row in covered:
        text = escape(shown_text(rows.row(row, named=True), column)[:_SHOWN])
        why = model.explain(taken(data.vectors.train, row), votes[row])
        parts.append(f"<p>{text}</p>{why.to_html()}")
    return "<hr>".join(parts)
