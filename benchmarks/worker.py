"""One case in a separate process: CPU seconds and extra peak memory of fit and predict.

`echo '{"package": ..., "method": ..., "votes": ...}' | python -m benchmarks.worker` prints JSON; a
list of jobs gives a list of results, for comparisons in which time and memory do not matter.
"""

import gc
import json
import platform
import resource
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.systems import system
from benchmarks.vote_files import StoredVotes, load_votes

DISTRIBUTIONS = {"crowdkit": "crowd-kit"}


def run_job(job: dict[str, Any]) -> dict[str, Any]:
    """Return the measurements: seconds, megabytes, label accuracy, learned accuracies."""
    votes = load_votes(Path(job["votes"]))
    arguments = job["package"], job["method"], job.get("options", {}), job.get("balance")
    if job.get("warm_up", True):
        _warm_up(votes, arguments)
    model = system(*arguments)
    data = model.prepare(votes)
    _, fit_seconds, fit_mb = _measured(lambda: model.fit(data))
    proba, predict_seconds, predict_mb = _measured(lambda: model.predict(data))
    learned = model.accuracies(data) if job.get("accuracies") else None
    return {
        "fit_seconds": fit_seconds,
        "fit_mb": fit_mb,
        "predict_seconds": predict_seconds,
        "predict_mb": predict_mb,
        "n_iter": model.n_iter(),
        "label_accuracy": _label_accuracy(proba, votes),
        "accuracies": None if learned is None else [float(value) for value in learned],
        "total_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "versions": versions(job["package"]),
    }


def _warm_up(votes: StoredVotes, arguments: tuple[Any, ...]) -> None:
    """Run on a few items first, so that imports and first calls are not measured."""
    n_items = min(200, votes.n_items)
    few = votes._replace(
        indptr=votes.indptr[: n_items + 1].copy(),
        voter=votes.voter[: votes.indptr[n_items]].copy(),
        label=votes.label[: votes.indptr[n_items]].copy(),
        gold=votes.gold[:n_items].copy(),
    )
    model = system(*arguments)
    data = model.prepare(few)
    model.fit(data)
    model.predict(data)


def _measured(call: Callable[[], Any]) -> tuple[Any, float, float]:
    """Return the result of the call, its CPU seconds, and the peak increase in memory in MB."""
    gc.collect()
    before = reset_peak()
    start = time.process_time()
    result = call()
    seconds = time.process_time() - start
    return result, seconds, max(0.0, memory_peak() - before)


def reset_peak() -> float:
    """Reset the peak (Linux), and return the current resident memory in MB."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return memory_peak()
    return _status("VmRSS")


def memory_peak() -> float:
    """Return the peak of resident memory in MB since it was reset."""
    peak = _status("VmHWM")
    return peak or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _status(name: str) -> float:
    """Return a field of /proc/self/status in MB; 0 if there is none."""
    path = Path("/proc/self/status")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((float(line.split()[1]) / 1024 for line in lines if line.startswith(name)), 0.0)


def _label_accuracy(proba: np.ndarray, votes: StoredVotes) -> float:
    """Return the accuracy on covered items with a known label; ties count in part."""
    known = (votes.gold >= 0) & (np.diff(votes.indptr) > 0)
    rows, gold = proba[known], votes.gold[known]
    best = rows >= rows.max(axis=1, keepdims=True) - 1e-9
    right = best[np.arange(len(gold)), gold] / best.sum(axis=1)
    return float(right.mean())


def versions(package: str) -> dict[str, str]:
    """Return the versions of Python, NumPy and a package."""
    names = (DISTRIBUTIONS.get(package, package), "numpy")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # the peers warn about their own dependencies
    given = json.loads(sys.stdin.read())
    print(
        json.dumps([run_job(job) for job in given] if isinstance(given, list) else run_job(given))
    )
