"""Runs each experiment once; every finished run is a JSON line, keyed by its definition."""

import hashlib
import json
import platform
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from wiesel import __version__

RESULTS = Path(__file__).parents[1] / "results"

Record = dict[str, Any]
"""A finished run: its definition, its metrics and its duration."""


@dataclass(frozen=True)
class Run:
    """One training run: method, data set, seed and options."""

    dataset: str
    method: str
    seed: int
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """A key that depends only on the definition, not on time or machine."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


Execute = Callable[[list[Run]], list[Record]]
"""Trains a group of runs and returns the metrics of each."""


def finished(name: str) -> dict[str, Record]:
    """Return the stored results by key."""
    file = RESULTS / f"{name}.jsonl"
    if not file.exists():
        return {}
    records = [json.loads(line) for line in file.read_text().splitlines() if line]
    return {record["key"]: record for record in records}


def run_all(
    name: str, runs: Iterable[Run], execute: Callable[[Run], Record], jobs: int = 1
) -> list[Record]:
    """Return the results of all runs; missing ones are executed one by one."""
    runs = list(runs)
    done = run_groups(name, [[run] for run in runs], partial(_alone, execute), jobs)
    return [done[run.key] for run in runs]


def run_groups(
    name: str, groups: Iterable[list[Run]], execute: Execute, jobs: int = 1
) -> dict[str, Record]:
    """Run what is missing of all groups, and return the results in `name` by key.

    The missing runs of a group are executed together. You can interrupt at any time: finished
    groups are stored, and the next call resumes from there.
    """
    done = finished(name)
    missing = list(_missing(groups, done))
    RESULTS.mkdir(exist_ok=True)
    for number, records in enumerate(_executed(missing, execute, jobs), start=1):
        with (RESULTS / f"{name}.jsonl").open("a") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)
        for record in records:
            done[record["key"]] = record
            print(f"[{number}/{len(missing)}] {_line(record)}", flush=True)
    return done


def _missing(groups: Iterable[list[Run]], done: dict[str, Record]) -> Iterator[list[Run]]:
    """Yield the missing runs of every group; a run in several groups belongs to the first."""
    known = set(done)
    for group in groups:
        left = {run.key: run for run in group if run.key not in known}
        known |= left.keys()
        if left:
            yield list(left.values())


def _executed(groups: list[list[Run]], execute: Execute, jobs: int) -> Iterator[list[Record]]:
    if jobs == 1:
        yield from (_records(runs, execute) for runs in groups)
        return
    # No fork: locks of Polars and torch threads in this process would never be released there.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        # Tables end with the slowest runs, so these are started first.
        waiting = [pool.submit(_records, runs, execute) for runs in reversed(groups)]
        yield from (future.result() for future in as_completed(waiting))


def _records(runs: list[Run], execute: Execute) -> list[Record]:
    # Small networks gain nothing from a second thread, but a second process helps.
    torch.set_num_threads(1)
    cpu, wall = time.process_time(), time.perf_counter()
    results = execute(runs)
    # The time of runs trained together is divided evenly.
    taken = {
        "cpu_seconds": round((time.process_time() - cpu) / len(runs), 1),
        "seconds": round((time.perf_counter() - wall) / len(runs), 1),
        "trained_together": len(runs),
    }
    versions = {
        "wiesel": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    return [
        {"key": run.key, **asdict(run), **metrics, **taken, "versions": versions}
        for run, metrics in zip(runs, results, strict=True)
    ]


def _alone(execute: Callable[[Run], Record], runs: list[Run]) -> list[Record]:
    return [execute(run) for run in runs]


def _line(record: Record) -> str:
    shown = {k: v for k, v in record.items() if isinstance(v, (int, float, str)) and k != "key"}
    shown["options"] = json.dumps(record["options"])
    return "  ".join(
        f"{key}={value:.4f}" if isinstance(value, float) else f"{key}={value}"
        for key, value in shown.items()
    )
