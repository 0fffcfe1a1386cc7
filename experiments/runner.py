"""Runs that are done once: every finished one is a JSON line, keyed by its definition."""

import hashlib
import json
import platform
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from wiesel import __version__

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Run:
    """One training: what on which data with which seed."""

    dataset: str
    method: str
    seed: int
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The same for the same definition, whenever and wherever it runs."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def finished(name: str) -> dict[str, dict[str, Any]]:
    """Return the results that are already there, by key."""
    file = RESULTS / f"{name}.jsonl"
    if not file.exists():
        return {}
    records = [json.loads(line) for line in file.read_text().splitlines() if line]
    return {record["key"]: record for record in records}


def run_all(
    name: str, runs: Iterable[Run], execute: Callable[[Run], dict[str, Any]], jobs: int = 1
) -> list[dict[str, Any]]:
    """Return the results of all runs, executing those that are not there yet.

    Interrupt it at any time: what was finished is kept, and the next call goes on from there.
    """
    runs = list(runs)
    done = finished(name)
    missing = [run for run in runs if run.key not in done]
    RESULTS.mkdir(exist_ok=True)
    for number, record in enumerate(_executed(missing, execute, jobs), start=1):
        done[record["key"]] = record
        with (RESULTS / f"{name}.jsonl").open("a") as file:
            file.write(json.dumps(record) + "\n")
        print(f"[{number}/{len(missing)}] {_line(record)}", flush=True)
    return [done[run.key] for run in runs]


def _executed(
    runs: list[Run], execute: Callable[[Run], dict[str, Any]], jobs: int
) -> Iterator[dict[str, Any]]:
    if jobs == 1:
        yield from (_record(run, execute) for run in runs)
        return
    with ProcessPoolExecutor(max_workers=jobs) as pool:
        waiting = [pool.submit(_record, run, execute) for run in runs]
        yield from (future.result() for future in as_completed(waiting))


def _record(run: Run, execute: Callable[[Run], dict[str, Any]]) -> dict[str, Any]:
    # Small networks gain nothing from a second thread; a second process does.
    torch.set_num_threads(1)
    start = time.process_time()
    metrics = execute(run)
    return {
        "key": run.key,
        **asdict(run),
        **metrics,
        "cpu_seconds": round(time.process_time() - start, 1),
        "versions": {
            "wiesel": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
    }


def _line(record: dict[str, Any]) -> str:
    shown = {k: v for k, v in record.items() if isinstance(v, (int, float, str)) and k != "key"}
    return "  ".join(
        f"{key}={value:.4f}" if isinstance(value, float) else f"{key}={value}"
        for key, value in shown.items()
    )
