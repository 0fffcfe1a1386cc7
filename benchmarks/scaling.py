"""How label models scale: CPU seconds against items, voters, classes and votes cast."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from benchmarks.harness import (
    arguments,
    markdown_table,
    merge_results,
    peak,
    read_results,
    run_job,
    seconds,
    setting,
)
from benchmarks.vote_files import Planted, planted_folder

BASE = Planted(200_000, 50, coverage=(0.1, 0.1))
AXES: dict[str, tuple[Planted, ...]] = {
    "items": tuple(replace(BASE, n_items=n) for n in (50_000, 100_000, 200_000, 400_000, 800_000)),
    "voters": tuple(
        # The same number of votes from an increasing number of voters.
        replace(BASE, n_voters=m, coverage=(5 / m, 5 / m))
        for m in (10, 50, 200, 500, 1000)
    ),
    "classes": tuple(replace(BASE, n_classes=c) for c in (2, 4, 8, 16)),
    "votes": tuple(replace(BASE, coverage=(p, p)) for p in (0.02, 0.05, 0.1, 0.2, 0.5)),
}


def main(argv: Sequence[str] = ()) -> None:
    """Time every registered label model along every axis; store the results unless `--quick`."""
    options = arguments(argv)
    rows = read_results("scaling")
    if not options.show:
        rows = []
        for row in _measured(options):
            rows.append(row)
            print(f"{row['case']}: {row['exponent']:.2f}", flush=True)
            if not options.quick:
                merge_results("scaling", [row])
    print(scaling_table(rows))


def scaling_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the Markdown table: one row per method and axis."""
    header = ("method", "axis", "from", "to", "seconds", "memory", "exponent")
    return markdown_table(header, [_line(row) for row in rows])


def _measured(options: Any) -> Iterator[dict[str, Any]]:
    from wiesel.label_models import REGISTRY

    for method in REGISTRY:
        for axis, tasks in AXES.items():
            if options.only in f"{method} by {axis}":
                yield _curve(method, axis, tasks, options)


def _curve(method: str, axis: str, tasks: Sequence[Planted], options: Any) -> dict[str, Any]:
    chosen = [replace(task, n_items=task.n_items // 50) for task in tasks[:2]]
    points = []
    for task in chosen if options.quick else tasks:
        job = {"package": "wiesel", "method": method, "votes": str(planted_folder(task))}
        run = run_job(job, options.repeats)
        points.append(
            {
                "at": _size(axis, task),
                "seconds": run["fit_seconds"] + run["predict_seconds"],
                "mb": max(run["fit_mb"], run["predict_mb"]),
                "n_iter": run["n_iter"],
            }
        )
    return {
        "case": f"{method} by {axis}",
        "method": method,
        "axis": axis,
        "points": points,
        "exponent": _exponent(points),
        "versions": run["versions"],
        **setting(),
    }


def _size(axis: str, task: Planted) -> float:
    sizes = {
        "items": task.n_items,
        "voters": task.n_voters,
        "classes": task.n_classes,
        "votes": task.n_items * task.n_voters * task.coverage[0],
    }
    return sizes[axis]


def _exponent(points: Sequence[dict[str, Any]]) -> float:
    """Return the exponent of time as a power of size, from the first point to the last."""
    first, last = points[0], points[-1]
    growth = math.log(last["seconds"] / first["seconds"])
    return growth / math.log(last["at"] / first["at"])


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    first, last = row["points"][0], row["points"][-1]
    return (
        row["method"],
        row["axis"],
        f"{first['at']:,.0f}",
        f"{last['at']:,.0f}",
        f"{seconds(first['seconds'])} to {seconds(last['seconds'])}",
        f"{peak(first['mb'])} to {peak(last['mb'])}",
        f"{row['exponent']:.2f}",
    )
