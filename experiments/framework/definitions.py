"""The definition of a study: rows (a method with options), data sets, seeds, learning rates."""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from experiments.framework.methods import PAPER, groups_of, train_and_test
from experiments.framework.runner import Record, Run, finished, run_all, run_groups

LEARNING_RATES = (1e-4, 3e-5)
"""The two learning rates of the paper, which selects one by validation AUC."""

SIGNED = {"encoding": "signed"}
"""How the paper's code encodes votes for the encoder: -1, 0 or +1 per voter."""


@dataclass(frozen=True)
class Row:
    """One row of a table: a method and its options."""

    title: str
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    ours: bool = False
    """Not in the paper's table."""
    rates: tuple[float, ...] | None = None
    """Learning rates of this row, if they differ from those of the table."""

    def runs(
        self, dataset: str, seeds: int, rates: Sequence[float], setting: Mapping[str, Any]
    ) -> "Choices":
        """Return the candidate runs of every seed, one per learning rate.

        An option set to None removes that option of the setting.
        """
        wanted = {**setting, **self.options}
        options = {name: value for name, value in wanted.items() if value is not None}
        own = self.rates or rates
        return [
            [Run(dataset, self.method, seed, _with_rate(options, rate)) for rate in own]
            for seed in range(seeds)
        ]


Choices = list[list[Run]]
"""For every seed, the candidate runs; validation selects one."""


@dataclass(frozen=True)
class Effort:
    """How much of a study to run."""

    full: bool = False
    """The paper's seeds and learning rates, and every point of a figure."""
    seeds: int = 3
    jobs: int = 1
    recorded: bool = False
    """Show finished runs and run nothing."""

    @classmethod
    def parsed(
        cls, argv: list[str], description: str | None, full_seeds: int = 7, reduced_seeds: int = 3
    ) -> "Effort":
        """Read `[--full] [--seeds N] [--jobs N] [--recorded]`."""
        parser = argparse.ArgumentParser(
            description=description, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        parser.add_argument("--full", action="store_true", help="the paper's seeds and settings")
        parser.add_argument("--seeds", type=int, help="how many seeds")
        parser.add_argument("--jobs", type=int, default=1, help="how many processes")
        parser.add_argument("--recorded", action="store_true", help="show what is finished only")
        given = parser.parse_args(argv)
        seeds = given.seeds or (full_seeds if given.full else reduced_seeds)
        return cls(given.full, seeds, given.jobs, given.recorded)

    def obtain(self, store: str, rows: Iterable[Choices]) -> Mapping[str, Record]:
        """Run what is missing of the rows, and return all results of the store by key."""
        if self.recorded:
            return finished(store)
        runs = [run for choices in rows for candidates in choices for run in candidates]
        return run_groups(store, groups_of(runs), train_and_test, self.jobs)

    def records(
        self, store: str, runs: Sequence[Run], execute: Callable[[Run], Record]
    ) -> list[Record]:
        """Run what is missing, and return the results of the finished runs."""
        if not self.recorded:
            run_all(store, runs, execute, self.jobs)
        done = finished(store)
        return [done[run.key] for run in runs if run.key in done]

    @property
    def words(self) -> str:
        """The command-line options for this effort."""
        first, last = "--full " * self.full, " --recorded" * self.recorded
        return f"{first}--seeds {self.seeds}{last}"


def chosen(choices: Choices, done: Mapping[str, Record]) -> list[Record]:
    """Return every seed's result with the best validation AUC; test scores are not used.

    A seed with a missing candidate is left out, because no selection is possible yet.
    """
    return [
        max((done[run.key] for run in candidates), key=lambda record: record["validation"])
        for candidates in choices
        if all(run.key in done for run in candidates)
    ]


def _with_rate(options: Mapping[str, Any], rate: float) -> dict[str, Any]:
    """Return the options with a learning rate; the default rate is not part of a definition."""
    return {**options} if rate == PAPER["lr"] else {**options, "lr": rate}
