"""What the studies cost in CPU seconds: recorded for what is finished, estimated for the rest.

    python -m experiments.cost [--full] [--seeds N]

A missing run is taken to need as long for an epoch as the finished ones of its method with the same
votes, else on its data set, else of any method on it.
"""

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from benchmarks.harness import markdown_table

from experiments.framework.definitions import Choices, Effort
from experiments.framework.methods import PAPER
from experiments.framework.planted import VOTE_OPTIONS, is_planted
from experiments.framework.runner import Record, Run, finished
from experiments.framework.tables import UNKNOWN
from experiments.studies import (
    ablation,
    adversarial,
    duplicates,
    independent,
    random_voters,
    table1,
)

STUDIES: dict[str, tuple[Callable[[Effort], object], dict[str, int]]] = {
    "table1": (table1.results, {}),
    "duplicates": (duplicates.STUDY.results, random_voters.SEEDS),
    "independent": (independent.STUDY.results, random_voters.SEEDS),
    "adversarial": (adversarial.results, {}),
    "ablation": (ablation.results, ablation.SEEDS),
}
"""What runs a study, and the seeds it has of its own."""


@dataclass(frozen=True)
class Listing(Effort):
    """An effort that runs nothing, and notes what it was asked for."""

    wanted: dict[str, tuple[Run, Record | None]] = field(default_factory=dict)
    """By key, the run and its result if there is one."""

    def obtain(self, store: str, rows: Iterable[Choices]) -> Mapping[str, Record]:
        """Return what is finished."""
        done = finished(store)
        for choices in rows:
            runs = [run for candidates in choices for run in candidates]
            self.wanted.update({run.key: (run, done.get(run.key)) for run in runs})
        return done


def main(argv: list[str]) -> None:
    """Print a line for every study and one for all."""
    listings = {}
    for name, (results, seeds) in STUDIES.items():
        effort = Effort.parsed(argv, __doc__, **seeds)
        listings[name] = Listing(effort.full, effort.seeds)
        results(listings[name])
    everything = {key: run for listing in listings.values() for key, run in listing.wanted.items()}
    paces = paces_of(record for _, record in everything.values() if record)
    rows = [line(name, listing.wanted, paces) for name, listing in listings.items()]
    rows.append(line("all, each run once", everything, paces))
    print(markdown_table(["", "runs", "finished", "CPU seconds so far", "for the rest"], rows))


def line(
    name: str, wanted: Mapping[str, tuple[Run, Record | None]], paces: Mapping[str, float]
) -> list[str]:
    """Return what one study took, and what is still to come."""
    done = [record for _, record in wanted.values() if record]
    missing = [
        pace_of(run, paces) * epochs_of(run) for run, record in wanted.values() if not record
    ]
    spent = sum(record["cpu_seconds"] for record in done)
    rest = UNKNOWN if np.isnan(missing).any() else f"{sum(missing):,.0f}"
    return [name, str(len(wanted)), str(len(done)), f"{spent:,.0f}", rest]


def paces_of(records: Iterable[Record]) -> dict[str, float]:
    """Return the mean CPU seconds for an epoch, by what `_likenesses` says."""
    found: dict[str, list[float]] = {}
    for record in records:
        run = Run(record["dataset"], record["method"], record["seed"], record["options"])
        # Planted votes may be thousands: they say nothing about a data set's own.
        likenesses = _likenesses(run)[:1] if is_planted(run) else _likenesses(run)
        for likeness in likenesses:
            found.setdefault(likeness, []).append(record["cpu_seconds"] / epochs_of(run))
    return {likeness: float(np.mean(paces)) for likeness, paces in found.items()}


def pace_of(run: Run, paces: Mapping[str, float]) -> float:
    """Return what an epoch of a run takes; NaN if nothing like it was run."""
    return next((paces[like] for like in _likenesses(run) if like in paces), math.nan)


def _likenesses(run: Run) -> list[str]:
    """What runs have in common, the closest first."""
    votes = {name: run.options[name] for name in VOTE_OPTIONS if name in run.options}
    return [f"{run.dataset} {run.method} {votes}", f"{run.dataset} {run.method}", run.dataset]


def epochs_of(run: Run) -> int:
    """Return how many epochs a run has."""
    return int(run.options.get("epochs", PAPER["epochs"]))


if __name__ == "__main__":
    main(sys.argv[1:])
