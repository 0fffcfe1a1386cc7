"""The definition of a study: rows (a method with options), data sets, seeds, learning rates."""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from experiments.framework.methods import PAPER, groups_of, train_and_test
from experiments.framework.runner import Record, Run, finished, run_all, run_groups

LEARNING_RATES = (1e-4, 3e-5)
"""The two that the paper chooses from, by validation AUC."""

SIGNED = {"encoding": "signed"}
"""How the paper's code shows votes to the encoder: -1, 0, +1, one number for each voter."""


@dataclass(frozen=True)
class Row:
    """One line of a table: a method and the options that make it this one."""

    title: str
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    ours: bool = False
    """Not in the paper's table."""
    rates: tuple[float, ...] | None = None
    """Its own learning rates, if it does not have those of the table."""

    def runs(
        self, dataset: str, seeds: int, rates: Sequence[float], setting: Mapping[str, Any]
    ) -> "Choices":
        """Return for every seed the runs to choose from, one for each learning rate.

        An option that is None takes away what the setting says.
        """
        wanted = {**setting, **self.options}
        options = {name: value for name, value in wanted.items() if value is not None}
        own = self.rates or rates
        return [
            [Run(dataset, self.method, seed, _with_rate(options, rate)) for rate in own]
            for seed in range(seeds)
        ]


Choices = list[list[Run]]
"""For every seed, the runs of which validation chooses one."""


@dataclass(frozen=True)
class Effort:
    """How much of a study is run."""

    full: bool = False
    """The paper's seeds and learning rates, and every point of a figure."""
    seeds: int = 3
    jobs: int = 1
    recorded: bool = False
    """Show what is finished and run nothing."""

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
        """Return all results of the store by key, after running what is missing of the rows."""
        if self.recorded:
            return finished(store)
        runs = [run for choices in rows for candidates in choices for run in candidates]
        return run_groups(store, groups_of(runs), train_and_test, self.jobs)

    def records(
        self, store: str, runs: Sequence[Run], execute: Callable[[Run], Record]
    ) -> list[Record]:
        """Return the results of the runs that are finished, after running what is missing."""
        if not self.recorded:
            run_all(store, runs, execute, self.jobs)
        done = finished(store)
        return [done[run.key] for run in runs if run.key in done]

    @property
    def words(self) -> str:
        """The words of the command line that ask for it."""
        first, last = "--full " * self.full, " --recorded" * self.recorded
        return f"{first}--seeds {self.seeds}{last}"


def chosen(choices: Choices, done: Mapping[str, Record]) -> list[Record]:
    """Return for every seed the result with the best validation AUC; test has no say.

    A seed of which a candidate was not run is left out: nothing can be chosen yet.
    """
    return [
        max((done[run.key] for run in candidates), key=lambda record: record["validation"])
        for candidates in choices
        if all(run.key in done for run in candidates)
    ]


def _with_rate(options: Mapping[str, Any], rate: float) -> dict[str, Any]:
    """The default learning rate is not part of a definition."""
    return {**options} if rate == PAPER["lr"] else {**options, "lr": rate}
