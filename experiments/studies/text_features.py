"""TF-IDF or sentence embeddings: what is better without labels, and what `wiesel run` chooses.

    python -m experiments text_features [--seeds N] [--jobs N] [--recorded]

Majority vote, the committee and gold are trained as in `default` without gold, on either kind of
features of the same texts. A project that names no kind of features gets the one whose linear
models predict the votes of voters left out better (`vote_correlation`, on 1,000 training texts);
TF-IDF only if it is ahead by a margin. No gold label takes part in that choice.
"""

import sys
from collections.abc import Mapping, Sequence

import numpy as np
from benchmarks.harness import markdown_table

from experiments.framework.definitions import Effort
from experiments.framework.methods import data_of
from experiments.framework.runner import Record, Run
from experiments.framework.tables import UNKNOWN, cost_sentence, write_page
from experiments.studies import default
from experiments.studies.default import BASELINE, COMMITTEE, FIGURES, GOLD
from experiments.tasks.halves import REAL_HALVES
from wiesel.project.vectors import TRIED_TEXTS, kind_by_correlation, vote_correlation

STORE = "text_features"
SETS = ("youtube", "sms", "vader_tweets", "hausa", "trec", "sst2")
"""The smaller sets with short texts: embedding all takes hours. (agnews: `embedded_features`.)"""
KINDS = {"tfidf": "TF-IDF", "minilm": "embeddings"}
COMPARED = "vote correlation"
METHODS = (COMPARED, BASELINE, COMMITTEE, GOLD)

Found = Mapping[tuple[str, str, str], Sequence[Record]]
"""The finished runs by set, kind of features and method."""


def main(argv: list[str]) -> None:
    """Run what is missing, and write the page."""
    effort = Effort.parsed(argv, __doc__, full_seeds=3, reduced_seeds=1)
    runs = [
        Run(name, method, seed, {"mode": "blind", "features": kind})
        for seed in range(effort.seeds)
        for name in SETS
        for kind in KINDS
        for method in METHODS
        if seed == 0 or method != COMPARED
    ]
    found: dict[tuple[str, str, str], list[Record]] = {}
    for record in effort.records(STORE, runs, execute):
        cell = record["dataset"], record["options"]["features"], record["method"]
        found.setdefault(cell, []).append(record)
    lines = show(found)
    records = [record for own in found.values() for record in own]
    lines += ["", cost_sentence(len(records), sum(r["cpu_seconds"] for r in records))]
    write_page(STORE, f"python -m experiments {STORE} {effort.words}", lines)


def execute(run: Run) -> Record:
    """Train a method on a kind of features, or compare the features with the votes alone."""
    if run.method != COMPARED:
        return default.execute(run)
    train = data_of(run).train
    rows = np.sort(np.random.default_rng(0).permutation(len(train.features))[:TRIED_TEXTS])
    score = vote_correlation(train.features[rows], [train.votes.dense()[rows]])
    return {"score": None if np.isnan(score) else score}


def show(found: Found) -> list[str]:
    """Return a table of all sets, and the means of all four figures."""
    names = [n for n in SETS if all((n, kind, m) in found for kind in KINDS for m in METHODS)]
    if not names:
        return []
    chosen = {name: _chosen(found, name) for name in names}
    rows = []
    for name in names:
        cells = [_correlation(found, name, kind) for kind in KINDS]
        compared = [UNKNOWN if np.isnan(cell) else f"{cell:.2f}" for cell in cells]
        scores = [
            f"{100 * _mean(found[name, kind, method], 'score'):.2f}"
            for method in (BASELINE, COMMITTEE, GOLD)
            for kind in KINDS
        ]
        rows.append([name, REAL_HALVES[name], *compared, KINDS[chosen[name]], *scores])
    header = ["", "half", *(f"correlation, {title}" for title in KINDS.values()), "chosen"]
    header += [f"{m}, {title}" for m in (BASELINE, COMMITTEE, GOLD) for title in KINDS.values()]
    return [
        "## Main score (ROC-AUC of binary tasks, accuracy of others), %",
        "",
        markdown_table(header, rows),
        "",
        "## Committee, mean over the sets",
        "",
        *_means(found, names, chosen),
    ]


def _means(found: Found, names: Sequence[str], chosen: Mapping[str, str]) -> list[str]:
    """Return the four figures of the baseline and the committee by half and kind of features."""
    choices = {title: dict.fromkeys(names, kind) for kind, title in KINDS.items()}
    choices["chosen"] = dict(chosen)
    rows = []
    for half in ("choose", "confirm"):
        own = [name for name in names if REAL_HALVES[name] == half]
        for method in (BASELINE, COMMITTEE):
            for title, kinds in choices.items():
                means = [
                    np.mean([_mean(found[name, kinds[name], method], figure) for name in own])
                    for figure in FIGURES
                ]
                cells = [*(f"{100 * mean:.2f}" for mean in means[:3]), f"{means[3]:.3f}"]
                rows.append([f"{half}, {len(own)} sets", method, title, *cells])
    header = ["half", "method", "features", "main score", "accuracy", "macro F1", "log loss"]
    return [markdown_table(header, rows)]


def _chosen(found: Found, name: str) -> str:
    return kind_by_correlation({kind: _correlation(found, name, kind) for kind in KINDS})


def _correlation(found: Found, name: str, kind: str) -> float:
    score = found[name, kind, COMPARED][0]["score"]
    return float("nan") if score is None else float(score)


def _mean(records: Sequence[Record], figure: str) -> float:
    return float(np.mean([record[figure] for record in records]))


if __name__ == "__main__":
    main(sys.argv[1:])
