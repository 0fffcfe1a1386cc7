"""IMDB with the 136 labeling functions of the paper: WeaSEL beside majority vote and gold.

    python -m experiments.imdb [--seeds 3] [--jobs 2] [--variants]

Epoch and threshold are chosen on the 250 validation rows. `--variants` adds the options that
could make the margin: tau_2, the encoding, features for the encoder, the learning rate.
"""

import argparse
from functools import cache
from typing import Any

import numpy as np

from experiments.methods import train_and_test
from experiments.runner import Run, run_all
from wiesel import load_dataset
from wiesel.io import Dataset

PAPER_F1 = {"gold": 86.72, "majority_vote": 80.86, "weasel_random": 79.80, "weasel": 82.10}

VARIANTS: dict[str, dict[str, Any]] = {
    "tau_2 = sqrt(voters + features), as in the paper's code": {"tau_2": "sqrt_input"},
    "tau_2 = voters": {"tau_2": "voters"},
    "signed votes, as in the paper's code": {"encoding": "signed"},
    "encoder reads votes only": {"encoder_features": False},
    "tau_1 = 1/3": {"tau_1": 1 / 3},
    "lr = 5e-4": {"lr": 5e-4},
}


@cache
def dataset(name: str) -> Dataset:
    """Return a data set with standardized features, read once for each process."""
    return load_dataset(name, standardize=True)


def execute(run: Run) -> dict[str, Any]:
    """Train and test one run."""
    return train_and_test(run, dataset(run.dataset))


def main() -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--variants", action="store_true")
    arguments = parser.parse_args()
    rows: dict[str, list[Run]] = {
        method: [Run("imdb_136", method, seed) for seed in range(arguments.seeds)]
        for method in PAPER_F1
    }
    if arguments.variants:
        for name, options in VARIANTS.items():
            rows[name] = [
                Run("imdb_136", "weasel", seed, options) for seed in range(arguments.seeds)
            ]
    everything = [run for runs in rows.values() for run in runs]
    records = run_all("imdb_136", everything, execute, arguments.jobs)
    by_key = {record["key"]: record for record in records}
    print(f"\n{'':58} {'F1':>13} {'AUC':>13} {'F1 at 1/2':>13}  {'epochs':12} paper F1")
    for name, runs in rows.items():
        results = [by_key[run.key] for run in runs]
        columns = "  ".join(_mean(results, column) for column in ("f1", "auc", "f1_at_half"))
        epochs = ",".join(str(result["epoch"]) for result in results)
        print(f"{name:58} {columns}  {epochs:12} {PAPER_F1.get(name, '-')}")


def _mean(results: list[dict[str, Any]], column: str) -> str:
    values = 100 * np.array([result[column] for result in results])
    return f"{values.mean():5.2f} ± {values.std():4.2f}"


if __name__ == "__main__":
    main()
