"""What each piece of WeaSEL's robust recipe is worth: the recipe without it, or with one more.

    python -m experiments robust_ablation [--full] [--seeds N] [--recorded]

Trained, chosen and tested as in the study of recipes, with the validation split and without any
gold; the reduced form has eight of its data sets, the full form all sixteen.
"""

import sys
from typing import Any

import numpy as np

from experiments.framework.definitions import Effort
from experiments.framework.methods import groups_of
from experiments.framework.runner import Record, Run, finished, run_groups
from experiments.framework.tables import UNKNOWN, percentages, write_page
from experiments.studies.robust import MODES, ROBUST, SETS, STORE, train_and_test

VARIANTS: dict[str, dict[str, Any]] = {
    "the robust recipe": {},
    "without a warm start": {"warm_start": None},
    "majority vote as the start": {"warm_start": "majority vote"},
    "weight for voters that abstain": {"voting_only": False},
    "a random start of the encoder": {"equal_start": False},
    "tau_2 = sqrt(voters)": {"tau_2": "sqrt_voters"},
    "targets from the networks as they are": {"slow_targets": False},
    "targets from the votes alone": {"prediction_weight": 0.0},
    "targets not aligned": {"align": False},
    "covered items only": {"uncovered": False},
    "with votes that nothing confirms": {"drop_unconfirmed": False},
    "with a none slot": {"none_slot": True},
    "with count_power = 1/2": {"count_power": 0.5},
    "with a pull of 0.1": {"pull": 0.1},
    "with early learning of 1": {"early_learning": 1.0},
}
FEW = (
    "amazon_175",
    "spouse",
    "sms",
    "sst2",
    "trec",
    "agnews",
    "labelme",
    "music_genre",
)


def main(argv: list[str]) -> None:
    """Run what is missing and write the table."""
    effort = Effort.parsed(argv, __doc__, full_seeds=5)
    sets = SETS if effort.full else FEW
    runs = [
        run
        for mode in MODES
        for options in VARIANTS.values()
        for name in sets
        for run in _runs(name, mode, options, effort)
    ]
    if not effort.recorded:
        run_groups(STORE, groups_of(runs), train_and_test, effort.jobs)
    show(effort, sets)


def _runs(dataset: str, mode: str, options: dict[str, Any], effort: Effort) -> list[Run]:
    changed = {"mode": mode, **options}
    return [Run(dataset, ROBUST, seed, changed) for seed in range(effort.seeds)]


def show(effort: Effort, sets: tuple[str, ...]) -> None:
    """Write the mean score of every variant in both modes."""
    done = finished(STORE)
    lines: list[str] = []
    for mode, words in MODES.items():
        lines += [f"## {words.capitalize()}", ""]
        lines += [f"| | {' | '.join(sets)} | mean |", f"|---|{'---|' * (len(sets) + 1)}"]
        for title, options in VARIANTS.items():
            cells = [_runs(name, mode, options, effort) for name in sets]
            means = [_mean([done[r.key] for r in cell if r.key in done]) for cell in cells]
            shown = [UNKNOWN if np.isnan(mean) else f"{mean:.2f}" for mean in means]
            total = UNKNOWN if np.isnan(means).any() else f"{np.mean(means):.2f}"
            lines.append(f"| {title} | {' | '.join([*shown, total])} |")
        lines.append("")
    write_page("robust_ablation", f"python -m experiments robust_ablation {effort.words}", lines)


def _mean(records: list[Record]) -> float:
    return float(percentages(records, "score").mean()) if records else float("nan")


if __name__ == "__main__":
    main(sys.argv[1:])
