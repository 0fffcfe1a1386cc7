"""WeaSEL's robust recipe beside every other method of the registry, on sixteen data sets.

    python -m experiments robust_registry [--seeds N] [--jobs N] [--recorded]

Trained, chosen and tested as in `robust`, with the validation split: the label models that are not
in its table, and the methods for crowds on all sets. (Not here: `weighted_vote`, whose weights the
user gives, and `supervised`, which learns from gold.)
"""

import sys

from benchmarks.harness import markdown_table

from experiments.framework.definitions import Effort
from experiments.framework.methods import groups_of
from experiments.framework.runner import Run, run_groups
from experiments.framework.tables import mean_of, told_cost, write_page
from experiments.studies.robust import (
    CROWD_METHODS,
    OTHER_CROWD_METHODS,
    OTHER_LABEL_MODELS,
    ROBUST,
    SETS,
    STORE,
    by_method,
    mean_over_sets,
    train_and_test,
)

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
    found = by_method(runs)
    columns = [found.get(method, {}) for method in METHODS]
    rows = [[name, *(mean_of(own.get(name, []), "score") for own in columns)] for name in SETS]
    rows.append(["**mean**", *(mean_over_sets(own, "score") for own in columns)])
    records = [record for own in columns for cell in own.values() for record in cell]
    cost = told_cost(len(records), sum(record["cpu_seconds"] for record in records))
    lines = [markdown_table(("", *METHODS), rows), "", cost]
    write_page("robust_registry", f"python -m experiments robust_registry {effort.words}", lines)


if __name__ == "__main__":
    main(sys.argv[1:])
