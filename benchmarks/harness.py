"""Shared by the benchmarks: jobs in separate processes, medians, results and tables."""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.peers import ensure_peers, ensure_skweak

__all__ = [
    "ONE_THREAD",
    "RESULTS",
    "UNKNOWN",
    "arguments",
    "markdown_table",
    "merge_results",
    "peak",
    "read_results",
    "run_in_turn",
    "run_job",
    "run_jobs",
    "run_module",
    "seconds",
    "setting",
]

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"

UNKNOWN = "\N{EN DASH}"
"""The placeholder for unknown values in tables."""

ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "POLARS_MAX_THREADS",
    ),
    "1",
)


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Return the common options of all benchmarks; other options are ignored here."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("--quick", action="store_true", help="small sizes; results are not kept")
    parser.add_argument("--only", default="", help="run only the cases whose name contains this")
    parser.add_argument("--repeats", type=int, default=3, help="processes per case; median")
    parser.add_argument(
        "--default-threads", action="store_true", help="no limit of threads, as a user has it"
    )
    parser.add_argument("--show", action="store_true", help="print the committed results only")
    return parser.parse_known_args(argv)[0]


def run_job(job: Mapping[str, Any], repeats: int = 1) -> dict[str, Any]:
    """Return the medians of a `benchmarks.worker` job, with each repeat in a new process."""
    return run_in_turn([job], repeats)[0]


def run_in_turn(
    jobs: Sequence[Mapping[str, Any]], repeats: int, one_thread: bool = True
) -> list[dict[str, Any]]:
    """Return the medians of several jobs, run in turn so that outside load affects all equally.

    `first_seconds` are those of fit and predict in one more process that did nothing before.
    """
    rounds = [[_worker(job["package"], job, one_thread) for job in jobs] for _ in range(repeats)]
    medians = [_medians(runs) for runs in zip(*rounds, strict=True)]
    for job, found in zip(jobs, medians, strict=True):
        first = _worker(job["package"], {**job, "warm_up": False}, one_thread)
        found["first_seconds"] = first["fit_seconds"] + first["predict_seconds"]
    return medians


def _medians(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the first run with its measurements replaced by medians, and the range of seconds."""
    measured = [key for key in runs[0] if key.endswith(("_seconds", "_mb"))]
    medians = {key: statistics.median(run[key] for run in runs) for key in measured}
    ranges = {
        f"{key}_range": [min(run[key] for run in runs), max(run[key] for run in runs)]
        for key in ("fit_seconds", "predict_seconds")
    }
    return {**runs[0], **medians, **ranges, "repeats": len(runs)}


def run_jobs(jobs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the results of many jobs of one environment, run in one process."""
    return _worker(jobs[0]["package"], jobs) if jobs else []


def _worker(package: str, given: Any, one_thread: bool = True) -> Any:
    return run_module("benchmarks.worker", package, given, one_thread)


def run_module(module: str, package: str, given: Any, one_thread: bool = True) -> Any:
    """Run a module in a separate process with JSON input, and return its last output as JSON.

    The environment has Wiesel or, for another package, the peers. Without `one_thread`, no
    variable limits its threads, even if this process is limited to one.
    """
    unlimited = {name: value for name, value in os.environ.items() if name not in ONE_THREAD}
    python = sys.executable
    if package != "wiesel":
        python = str(ensure_skweak() if package == "skweak" else ensure_peers())
    done = subprocess.run(
        [python, "-m", module],
        input=json.dumps(given),
        cwd=ROOT,
        env={**unlimited, **(ONE_THREAD if one_thread else {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        how = f"ended with {done.returncode}"
        if done.returncode < 0:
            how = f"was killed by signal {-done.returncode}; is there enough memory?"
        raise RuntimeError(f"{module} for {package} {how}\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def setting() -> dict[str, Any]:
    """Return where and when a result was measured."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": _git("rev-parse", "--short", "HEAD") or None,
        "uncommitted_changes": bool(_git("status", "--porcelain", "--", "src/wiesel")),
        "machine": f"{_processor()}, {os.cpu_count()} cores, {_memory_gb():.0f} GB",
        "system": platform.platform(terse=True),
        "threads": 1,
    }


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def merge_results(name: str, rows: Iterable[Mapping[str, Any]], key: str = "case") -> Path:
    """Write rows to results/NAME.json; rows of an earlier run stay unless measured again."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    known = {row[key]: row for row in read_results(name)}
    known.update({row[key]: dict(row) for row in rows})
    ordered = [known[name] for name in sorted(known)]
    path.write_text(json.dumps(ordered, indent=1) + "\n")
    return path


def read_results(name: str) -> list[dict[str, Any]]:
    """Return the rows of results/NAME.json; none if there is no such file."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else []


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table with columns aligned in plain text."""
    cells = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[k]) for row in cells) for k in range(len(header))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in cells
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def seconds(value: float | None) -> str:
    """Format CPU seconds for a table."""
    if value is None:
        return UNKNOWN
    return f"{value:.3f} s" if value < 1 else f"{value:.1f} s"


def peak(value: float | None) -> str:
    """Format megabytes for a table."""
    if value is None:
        return UNKNOWN
    return f"{value:.0f} MB" if value < 1000 else f"{value / 1000:.1f} GB"


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _memory_gb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
