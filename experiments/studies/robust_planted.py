"""Whether WeaSEL's default still recovers from coins and adversaries, as the paper's recipe does.

    python -m experiments robust_planted [--full] [--seeds N] [--recorded]

The truth among copies of one coin, or among coins of their own (imdb_136's features and gold), and
imdb_12 beside copies of an LF that was turned against us. Test ROC-AUC; every method trains the
same network, as long as validation gets better. The last one sees no gold at all.
"""

import sys
from collections.abc import Mapping, Sequence

from wiesel.end_to_end.weasel.recipes import RECIPES

from experiments.framework.definitions import Effort
from experiments.framework.methods import (
    binary_metrics,
    dataset_of,
    groups_of,
    paper_network,
    threshold_of,
)
from experiments.framework.planted import votes_of
from experiments.framework.runner import Record, Run, finished, run_groups
from experiments.framework.tables import percentages, spread, write_page
from experiments.studies.robust import ROBUST, SHARED
from wiesel import EndToEndModel, MajorityVote, Supervised, TwoStage, WeaSEL
from wiesel.end_to_end.together import fit_together
from wiesel.io import Dataset, Split

STORE = "robust_planted"
PLANTED: dict[str, tuple[str, list[int]]] = {
    "copies": ("imdb_136", [2, 25, 100, 500, 2000]),
    "coins": ("imdb_136", [1, 3, 5, 10]),
    "adversaries": ("imdb_12", [0, 5, 10]),
}
"""What is planted: in which data set, how many."""
BLIND = f"{ROBUST}, without any gold"
METHODS = ("gold", "majority vote", ROBUST, BLIND)
LENGTH = {name: RECIPES["robust"][name] for name in ("epochs", "patience")}
"""How long the default trains with validation, and here every method that has it."""


def main(argv: list[str]) -> None:
    """Run what is missing and write the table."""
    effort = Effort.parsed(argv, __doc__, full_seeds=5)
    runs = definitions(effort.seeds)
    if not effort.recorded:
        run_groups(STORE, groups_of(runs), train_and_test, effort.jobs)
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


def train_and_test(runs: list[Run]) -> list[Record]:
    """Train a group that differs in seed only; only then look at test."""
    dataset = dataset_of(runs[0].dataset)
    train, valid, test = dataset.train, dataset.valid, dataset.test
    votes, _ = votes_of(runs[0], dataset)
    models = [build(run, dataset) for run in runs]
    learn_from = train.gold if runs[0].method == "gold" else votes
    gold = None if runs[0].method == BLIND else (valid.features, valid.gold)
    fit_together(models, train.features, learn_from, validation=gold, quiet=True)
    return [
        {
            **_metrics(model, test),
            "epoch": model.selection_["epoch"],
            "warm_start": getattr(model, "warm_start_", {}).get("name"),
        }
        for model in models
    ]


def _metrics(model: EndToEndModel, test: Split) -> Record:
    """AUC and F1, the latter with the threshold that was chosen."""
    proba = model.predict_proba(test.features)[:, 1]
    found = binary_metrics(proba, test.gold, threshold_of(model))
    return {name: found[name] for name in ("auc", "f1")}


def build(run: Run, dataset: Dataset) -> EndToEndModel:
    """Return the estimator that a run describes."""
    network = paper_network(dataset, run.seed)
    options = SHARED | LENGTH | {"seed": run.seed}
    if run.method == "gold":
        return Supervised(network, labels=dataset.labels, **options)
    if run.method == ROBUST:
        return WeaSEL(network, recipe="robust", **options)
    if run.method == BLIND:
        few = {"epochs": RECIPES["robust"]["blind_epochs"], "patience": None}
        return WeaSEL(network, recipe="robust", **options | few)
    return TwoStage(MajorityVote(), network, **options)


def show(runs: list[Run], effort: Effort) -> None:
    """Write AUC for every planted set, and F1 among adversaries, as the paper has it."""
    lines = ["## Test ROC-AUC", "", *_table(runs, PLANTED, "auc"), ""]
    adversaries = {"adversaries": PLANTED["adversaries"]}
    lines += [
        "## Test F1 among adversaries, threshold from validation (without gold: 1/2)",
        "",
    ]
    lines += _table(runs, adversaries, "f1")
    write_page(STORE, f"python -m experiments robust_planted {effort.words}", lines)


def _table(
    runs: list[Run], planted: Mapping[str, tuple[str, Sequence[int]]], metric: str
) -> list[str]:
    """A row for every planted set."""
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
