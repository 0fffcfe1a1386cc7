"""Tests whether WeaSEL and the committee are robust to copies, random voters and adversaries.

    python -m experiments default_planted [--full] [--seeds N] [--recorded]

The votes are the truth among copies of one random voter or among independent random voters (with
the features and gold of imdb_136), and imdb_12 with copies of an adversarial LF. The score is test
ROC-AUC. Every method uses its defaults and trains the same network for the same number of updates.
"Blind" methods see no gold at all.
"""

import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.framework.definitions import Effort
from experiments.framework.methods import (
    binary_metrics,
    dataset_of,
    paper_network,
    threshold_of,
)
from experiments.framework.planted import votes_of
from experiments.framework.runner import Record, Run, finished, run_all
from experiments.framework.tables import percentages, spread, write_page
from experiments.studies.default import NETWORKS
from wiesel import Committee, EndToEndModel, MajorityVote, Supervised, TwoStage, WeaSEL
from wiesel.errors import WieselWarning
from wiesel.io import Dataset, Split

STORE = "default_planted"
PLANTED: dict[str, tuple[str, list[int]]] = {
    "copies": ("imdb_136", [2, 25, 100, 500, 2000]),
    "coins": ("imdb_136", [1, 3, 5, 10]),
    "adversaries": ("imdb_12", [0, 5, 10]),
}
"""The planted voters: in which data set, and how many."""
BLIND = ", blind"
METHODS = (
    "gold",
    "majority vote",
    "majority vote, blind",
    "WeaSEL",
    "WeaSEL, blind",
    "Committee",
    "Committee, blind",
)


def main(argv: list[str]) -> None:
    """Run what is missing and write the table."""
    effort = Effort.parsed(argv, __doc__, full_seeds=3, reduced_seeds=1)
    runs = definitions(effort.seeds)
    if not effort.recorded:
        run_all(STORE, runs, execute, effort.jobs)
    show(runs, effort)


def definitions(n_seeds: int) -> list[Run]:
    """Return all runs."""
    return [
        Run(dataset, method, seed, {kind: count, "draw": 0})
        for kind, (dataset, counts) in PLANTED.items()
        for count in counts
        for method in METHODS
        for seed in range(n_seeds)
    ]


def execute(run: Run) -> Record:
    """Train a method, and only then score test."""
    dataset = dataset_of(run.dataset)
    train, valid, test = dataset.train, dataset.valid, dataset.test
    votes, gold_votes = votes_of(run, dataset)
    learn_from = train.gold if run.method == "gold" else votes
    gold = None if run.method.endswith(BLIND) else (valid.features, valid.gold, gold_votes)
    model = build(run, dataset)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WieselWarning)
        model.fit(train.features, learn_from, validation=gold)
    return {**_metrics(model, test), "epoch": model.selection_["epoch"]}


def _metrics(model: EndToEndModel, test: Split) -> Record:
    """Return AUC and F1, the latter with the selected threshold."""
    proba = model.predict_proba(test.features)[:, 1]
    found = binary_metrics(proba, test.gold, threshold_of(model))
    return {name: found[name] for name in ("auc", "f1")}


def build(run: Run, dataset: Dataset) -> EndToEndModel:
    """Return the estimator that a run describes."""
    network = paper_network(dataset, run.seed)
    options: dict[str, Any] = {"seed": 100 * run.seed, "progress": False}
    name = run.method.removesuffix(BLIND)
    if name == "Committee":
        return Committee(network, **options)
    options["members"] = NETWORKS
    if name == "gold":
        return Supervised(network, labels=dataset.labels, **options)
    if name == "WeaSEL":
        return WeaSEL(network, **options)
    return TwoStage(MajorityVote(), network, **options)


def show(runs: list[Run], effort: Effort) -> None:
    """Write AUC for every planted set, and F1 among adversaries, as in the paper."""
    lines = ["## Test ROC-AUC", "", *_table(runs, PLANTED, "auc"), ""]
    adversaries = {"adversaries": PLANTED["adversaries"]}
    lines += [
        "## Test F1 among adversaries, threshold from validation (without gold: 1/2)",
        "",
    ]
    lines += _table(runs, adversaries, "f1")
    write_page(STORE, f"python -m experiments default_planted {effort.words}", lines)


def _table(
    runs: list[Run], planted: Mapping[str, tuple[str, Sequence[int]]], metric: str
) -> list[str]:
    """Return one row per planted set."""
    done = finished(STORE)
    lines = [f"| planted | {' | '.join(METHODS)} |", f"|---|{'---|' * len(METHODS)}"]
    for kind, (dataset, counts) in planted.items():
        for count in counts:
            cells = []
            for method in METHODS:
                mine = [
                    done[run.key]
                    for run in runs
                    if run.method == method and run.options.get(kind) == count and run.key in done
                ]
                cells.append(spread(percentages(mine, metric)))
            lines.append(f"| {count} {kind} in {dataset} | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    main(sys.argv[1:])
