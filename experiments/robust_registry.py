"""WeaSEL's robust recipe beside every other method of the registry, on sixteen data sets.

    python -m experiments robust_registry [--seeds N] [--jobs N] [--recorded]

Trained, chosen and tested as in `robust`, with the validation split: the label models that are not
in its table, and the methods for crowds on all sets. (Not here: `weighted_vote`, whose weights the
user gives, and `supervised`, which learns from gold.)
"""

import sys

import numpy as np
from benchmarks.harness import markdown_table

from experiments.definitions import Effort
from experiments.methods import groups_of
from experiments.robust import (
    CROWD_METHODS,
    OTHER_CROWD_METHODS,
    OTHER_LABEL_MODELS,
    ROBUST,
    SETS,
    STORE,
    train_and_test,
)
from experiments.runner import Run, finished, run_groups
from experiments.tables import UNKNOWN, percentages, spread, told_cost, write_page

METHODS = (ROBUST, *OTHER_LABEL_MODELS, *CROWD_METHODS, *OTHER_CROWD_METHODS)


def main(argv: list[str]) -> None:
    """Run what is missing, and write the table."""
    effort = Effort.parsed(argv, __doc__, full_seeds=5, reduced_seeds=1)
    runs = [
        Run(dataset, method, seed, {"mode": "validation"})
        for dataset in SETS
        for method in METHODS
        for seed in range(effort.seeds)
    ]
    if not effort.recorded:
        run_groups(STORE, groups_of(runs), train_and_test, effort.jobs)
    show(runs, effort)


def show(runs: list[Run], effort: Effort) -> None:
    """Write the score of every method on every set, and the means."""
    done = finished(STORE)
    scores = {
        (dataset, method): percentages(
            [
                done[run.key]
                for run in runs
                if (run.dataset, run.method) == (dataset, method) and run.key in done
            ],
            "score",
        )
        for dataset in SETS
        for method in METHODS
    }
    rows = [[name, *(spread(scores[name, method]) for method in METHODS)] for name in SETS]
    rows.append(["**mean**", *(_mean([scores[name, own] for name in SETS]) for own in METHODS)])
    records = [done[run.key] for run in runs if run.key in done]
    cost = told_cost(len(records), sum(record["cpu_seconds"] for record in records))
    lines = [markdown_table(("", *METHODS), rows), "", cost]
    write_page("robust_registry", f"python -m experiments robust_registry {effort.words}", lines)


def _mean(scores: list[np.ndarray]) -> str:
    """The mean over all sets, if there is a score for each."""
    if not all(len(own) for own in scores):
        return UNKNOWN
    return f"{np.mean([own.mean() for own in scores]):.2f}"


if __name__ == "__main__":
    main(sys.argv[1:])
