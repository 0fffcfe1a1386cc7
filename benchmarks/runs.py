"""The default method end to end: CPU seconds of `wiesel run` on 20,000 reviews, by stage.

A copy of examples/movies is run in a separate process with one thread, and a second time with
nothing changed. A stage ends when the run reports it: `imports` is the startup, `report` is all
work after the last model (metrics, outputs and the page). The scores are also stored, because a
faster run must be as good. CPU seconds are those of the process itself.
"""

import json
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.harness import (
    ROOT,
    UNKNOWN,
    arguments,
    markdown_table,
    merge_results,
    read_results,
    run_module,
    seconds,
    setting,
)

MODULE = "benchmarks.runs"


def measured(job: dict[str, Any]) -> dict[str, Any]:
    """Run the project in this process, and return CPU seconds by stage and the scores."""
    from wiesel.project.pipeline import run_project
    from wiesel.project.settings import read_project

    marks = [("imports", time.process_time())]

    def say(stage: str, text: str) -> None:
        marks.append((f"{stage} {text.partition(',')[0]}", time.process_time()))

    outcome = run_project(read_project(Path(job["folder"])), job["methods"], say)
    marks.append(("report", time.process_time()))
    stages: dict[str, float] = {"imports": marks[0][1]}
    for (_, start), (name, end) in pairwise(marks):
        stages[_stage(name)] = stages.get(_stage(name), 0.0) + end - start
    scores = {row["method"]: row["accuracy"] for row in outcome.rows}
    return {"stages": stages, "scores": scores, "cpu_seconds": time.process_time()}


def _stage(message: str) -> str:
    """Return the stage in the table: models by name, everything else by its first word."""
    kind, _, rest = message.partition(" ")
    if kind != "train":
        return "report" if kind == "reused" else kind
    return "labels alone" if rest.endswith("labels alone") else rest


def unchanged(folder: Path) -> float:
    """Return the CPU seconds of the command on an unchanged project."""
    return float(
        run_module(MODULE, "wiesel", {"folder": str(folder), "again": True})["cpu_seconds"]
    )


def again(job: dict[str, Any]) -> dict[str, Any]:
    """Run the command in this process, as a user would."""
    from wiesel.cli.main import main as command

    sys.argv = ["wiesel", "run", job["folder"], "--json"]
    try:
        command()
    except SystemExit as ended:
        if ended.code:
            raise
    return {"cpu_seconds": time.process_time()}


def results_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the stages of every run as a table, with the scores."""
    lines = []
    for row in rows:
        for stage, cpu in row["stages"].items():
            score = row["scores"].get(stage)
            lines.append((stage, seconds(cpu), UNKNOWN if score is None else f"{score:.1%}"))
        lines.append(("all of it", seconds(row["cpu_seconds"]), UNKNOWN))
        lines.append(("again, nothing changed", seconds(row["again_cpu_seconds"]), UNKNOWN))
    return markdown_table(("stage", "CPU", "accuracy"), lines)


def main(argv: list[str] | None = None) -> None:
    """Run the movies example, print the table, and store it."""
    options = arguments(argv or [])
    if options.show:
        print(results_table(read_results("runs")))
        return
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "movies"
        shutil.copytree(ROOT / "examples" / "movies", folder, ignore=shutil.ignore_patterns("out"))
        methods = ["majority_vote"] if options.quick else None
        job = {"folder": str(folder), "methods": methods}
        took = run_module(MODULE, "wiesel", job)
        run_module(MODULE, "wiesel", {**job, "again": True})  # stores the answer of the command
        row = {"case": "movies", **took, "again_cpu_seconds": unchanged(folder), **setting()}
    print(results_table([row]))
    if not options.quick:
        merge_results("runs", [row])


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    given = json.loads(sys.stdin.read())
    print(json.dumps(again(given) if given.get("again") else measured(given)))
