"""IMDB with the 136 labeling functions of the paper: WeaSEL beside majority vote and gold.

    python -m experiments.imdb [--seeds 3] [--jobs 2] [--variants]

Epoch, threshold and learning rate (1e-4 or 3e-5, as in the paper) are chosen on the 250 validation
rows, for every method and seed. `--variants` adds what could make the margin, at 1e-4: averaged
weights, the encoding, tau_2.
"""

import argparse
from functools import cache
from typing import Any

import numpy as np

from experiments.methods import train_and_test
from experiments.runner import Run, finished, run_all
from wiesel import load_dataset
from wiesel.io import Dataset

SIGNED = {"encoding": "signed"}
"""How the paper's code shows votes to the encoder: -1, 0, +1, one number for each voter."""

LEARNING_RATES = (1e-4, 3e-5)

ROWS: dict[str, tuple[str, dict[str, Any], float]] = {
    "gold": ("gold", {}, 86.72),
    "majority vote": ("majority_vote", {}, 80.86),
    "WeaSEL-random": ("weasel_random", SIGNED, 79.80),
    "WeaSEL": ("weasel", SIGNED, 82.10),
}
"""Row name: method, options, and the F1 of the paper."""

AVERAGED = {"weight_average": 0.9995}
"""Predict with the weights averaged over some 2,000 steps (6 epochs): not in the paper."""

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "majority vote, averaged weights": ("majority_vote", AVERAGED),
    "WeaSEL, averaged weights": ("weasel", SIGNED | AVERAGED),
    "WeaSEL, one-hot votes (Wiesel's default)": ("weasel", {}),
    "WeaSEL, tau_2 = sqrt(voters + features), as the paper's code": (
        "weasel",
        SIGNED | {"tau_2": "sqrt_input"},
    ),
    "WeaSEL, tau_2 = voters": ("weasel", SIGNED | {"tau_2": "voters"}),
}


@cache
def dataset(name: str) -> Dataset:
    """Return a data set with standardized features, read once for each process."""
    return load_dataset(name, standardize=True)


def execute(run: Run) -> dict[str, Any]:
    """Train and test one run."""
    return train_and_test(run, dataset(run.dataset))


def main(argv: list[str] | None = None) -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--variants", action="store_true")
    arguments = parser.parse_args(argv)
    rows = definitions(arguments.seeds, arguments.variants)
    everything = [run for candidates in rows.values() for runs in candidates for run in runs]
    run_all("imdb_136", everything, execute, arguments.jobs)
    print(f"\n{'':62} {'F1':>12}  {'AUC':>12}  {'F1 at 1/2':>12}  paper F1  chosen")
    for name, chosen in chosen_runs(rows).items():
        columns = "  ".join(mean_of(chosen, column) for column in ("f1", "auc", "f1_at_half"))
        paper = f"{ROWS[name][2]:8}" if name in ROWS else f"{'-':>8}"
        how = ", ".join(f"epoch {r['epoch']} at {r['options'].get('lr', 1e-4):g}" for r in chosen)
        print(f"{name:62} {columns}  {paper}  {how}")


def definitions(n_seeds: int, variants: bool = False) -> dict[str, list[list[Run]]]:
    """Return the runs of every row: for each seed, the candidates to choose from."""
    rows = {
        name: [
            [_run(method, seed, options, lr) for lr in LEARNING_RATES] for seed in range(n_seeds)
        ]
        for name, (method, options, _) in ROWS.items()
    }
    if variants:
        for name, (method, options) in VARIANTS.items():
            runs = [[_run(method, seed, options, LEARNING_RATES[0])] for seed in range(n_seeds)]
            rows[name] = runs
    return rows


def chosen_runs(rows: dict[str, list[list[Run]]]) -> dict[str, list[dict[str, Any]]]:
    """Return for every row and seed the result with the best validation AUC."""
    done = finished("imdb_136")
    return {
        name: [
            max((done[run.key] for run in runs), key=lambda record: record["validation"])
            for runs in candidates
        ]
        for name, candidates in rows.items()
    }


def _run(method: str, seed: int, options: dict[str, Any], lr: float) -> Run:
    """The first learning rate is the default: it is not part of the definition."""
    return Run(
        "imdb_136", method, seed, options if lr == LEARNING_RATES[0] else {**options, "lr": lr}
    )


def mean_of(results: list[dict[str, Any]], column: str) -> str:
    """Return mean and deviation over seeds, in percent."""
    values = 100 * np.array([result[column] for result in results])
    return f"{values.mean():5.2f} ± {values.std():4.2f}"


if __name__ == "__main__":
    main()
