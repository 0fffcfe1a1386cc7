"""The default with TF-IDF, sentence embeddings or both: the second half of `embedded_features`."""

import numpy as np
from benchmarks.harness import markdown_table

from experiments.framework.definitions import Effort
from experiments.framework.runner import Record, Run, finished, run_all
from experiments.framework.tables import UNKNOWN
from experiments.studies import default
from experiments.studies.default import BASELINE, COMMITTEE, GOLD, PAPER, WEASEL

TFIDF, EMBEDDINGS, BOTH = KINDS = ("TF-IDF", "embeddings", "both")
SETS = ("sst2", "youtube", "sms", "trec", "agnews")
EMBEDDED = ("youtube", "sms", "trec", "agnews")
"""The sets that come with embeddings; the others come with TF-IDF."""
METHODS = (GOLD, BASELINE, "Snorkel", PAPER, WEASEL, COMMITTEE)

Results = dict[tuple[str, str, str], list[Record]]
"""The run of one seed, or none, by data set, kind of features and method."""


def option_of(name: str, kind: str) -> dict[str, str]:
    """Return what a run on a set says of its features; nothing for those it comes with.

    >>> option_of("sst2", "TF-IDF"), option_of("sst2", "both"), option_of("sms", "TF-IDF")
    ({}, {'features': 'minilm+own'}, {'features': 'tfidf'})
    """
    own, other, made = TFIDF, EMBEDDINGS, "minilm"
    if name in EMBEDDED:
        own, other, made = EMBEDDINGS, TFIDF, "tfidf"
    return {own: {}, other: {"features": made}, BOTH: {"features": f"{made}+own"}}[kind]


def results(store: str, effort: Effort) -> Results:
    """Return the runs, after running what is missing; a set's own features are of `default`."""
    runs = {
        (name, kind, method): Run(name, method, 0, {"mode": "blind", **option_of(name, kind)})
        for name in SETS
        for kind in KINDS
        for method in METHODS
    }
    # Gold is no part of `default`, so its runs are all kept here.
    kept = {cell: run for cell, run in runs.items() if "features" in run.options or cell[2] == GOLD}
    if not effort.recorded:
        run_all(store, kept.values(), default.execute, effort.jobs)
    done = {**finished(default.STORE), **finished(store)}
    return {cell: [done[run.key]] if run.key in done else [] for cell, run in runs.items()}


def table(found: Results) -> str:
    """Return a row for each set and kind of features."""
    cells = [
        [name, kind, *(_cell(found[name, kind, method]) for method in METHODS)]
        for name in SETS
        for kind in KINDS
    ]
    return markdown_table(["", "features", *METHODS], cells)


def answer(found: Results) -> list[str]:
    """Say for every kind of features what gold reaches, and who gains how much."""
    names = [n for n in SETS if all(found[n, kind, m] for kind in KINDS for m in METHODS)]
    said = []
    for kind in KINDS if names else ():
        mean = {
            method: 100 * np.mean([found[name, kind, method][0]["score"] for name in names])
            for method in METHODS
        }
        gains = ", ".join(
            f"{method} {mean[method] - mean[BASELINE]:+.2f}"
            for method in (PAPER, WEASEL, COMMITTEE)
        )
        said.append(
            f"- Default, {kind}: gold {mean[GOLD]:.1f}, majority vote {mean[BASELINE]:.1f} on the "
            f"mean of {len(names)} sets; against majority vote {gains}."
        )
    return said


def _cell(records: list[Record]) -> str:
    return f"{100 * records[0]['score']:.2f}" if records else UNKNOWN
