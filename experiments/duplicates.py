"""One perfect labeling function and a coin flip, duplicated up to 2,000 times (paper, section 4).

    python -m experiments.duplicates [--seeds 3] [--jobs 1]

Voter 1 is the truth, voter 2 a coin flip, repeated; the columns are shuffled. A two-stage label
model believes the repeated coin. WeaSEL should come within 0.01 AUC of the same network trained on
the truth, whatever the count. Features and gold of imdb_136; epoch chosen on validation.
"""

import argparse
from functools import cache
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from experiments.methods import build
from experiments.runner import Run, finished, run_all
from wiesel import VoteMatrix, load_dataset
from wiesel.io import Dataset

COUNTS = (2, 25, 100, 500, 2000)
EPOCHS = 30


@cache
def dataset() -> Dataset:
    """Return the features and gold of imdb_136, read once for each process."""
    return load_dataset("imdb_136", standardize=True)


def duplicated_votes(gold: np.ndarray, copies: int, seed: int) -> VoteMatrix:
    """Return the votes of the truth and of `copies` copies of one coin, columns shuffled."""
    rng = np.random.default_rng(seed)
    coin = rng.integers(0, 2, size=len(gold))
    columns = np.column_stack([gold, *([coin] * copies)])
    names = ["truth", *(f"coin_{copy}" for copy in range(copies))]
    order = rng.permutation(copies + 1)
    return VoteMatrix.from_dense(columns[:, order], dataset().labels, [names[i] for i in order])


def execute(run: Run) -> dict[str, Any]:
    """Train on the planted votes (or on gold) and measure AUC on test."""
    options = dict(run.options)
    copies = options.pop("copies", None)
    data = dataset()
    model = build(Run(run.dataset, run.method, run.seed, options), data)
    train, valid, test = data.train, data.valid, data.test
    learn_from = train.gold if copies is None else duplicated_votes(train.gold, copies, run.seed)
    model.fit(train.features, learn_from, validation=(valid.features, valid.gold))
    proba = model.predict_proba(test.features)[:, 1]
    return {
        "auc": float(roc_auc_score(test.gold, proba)),
        "validation": model.selection_["score"],
        "epoch": model.selection_["epoch"],
        "effective_voters": model.history_.kept.get("effective_voters"),
    }


def main(argv: list[str] | None = None) -> None:
    """Run what is missing and print AUC for every count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args(argv)
    rows = definitions(arguments.seeds)
    everything = [run for runs in rows.values() for run in runs]
    run_all("duplicates", everything, execute, arguments.jobs)
    areas = areas_of(rows)
    print(f"\n{'':32} {'AUC':>15}   below gold, each seed")
    for name, auc in areas.items():
        gaps = "  ".join(f"{gap:+.4f}" for gap in areas["gold"] - auc)
        print(f"{name:32} {auc.mean():.4f} ± {auc.std():.4f}   {gaps}")


def definitions(n_seeds: int) -> dict[str, list[Run]]:
    """Return the runs of every row."""
    seeds = range(n_seeds)
    rows = {"gold": [Run("imdb_136", "gold", seed, {"epochs": EPOCHS}) for seed in seeds]}
    for copies in COUNTS:
        for method in ("weasel", "majority_vote"):
            options = {"epochs": EPOCHS, "copies": copies}
            runs = [Run("imdb_136", method, seed, options) for seed in seeds]
            rows[f"{method}, {copies} copies"] = runs
    return rows


def areas_of(rows: dict[str, list[Run]]) -> dict[str, np.ndarray]:
    """Return the test AUC of every row, seed by seed."""
    done = finished("duplicates")
    return {name: np.array([done[run.key]["auc"] for run in runs]) for name, runs in rows.items()}


if __name__ == "__main__":
    main()
