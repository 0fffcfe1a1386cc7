"""Compares methods on generated tasks that nobody tuned to.

    python -m experiments tasks [--methods weasel,snorkel] [--half choose|confirm] [--limit N]
        [--mode blind|validation|gold50 | --full] [--jobs N] [--again] [--recorded] [--list]
    python -m experiments tasks --families [--quick] [...]

Every finished run is a line of results/tasks_MODE_HALF.jsonl, so an interrupted comparison resumes
where it stopped. `--again` drops the lines of the named methods first. `--mode` can be given more
than once; `--full` runs all modes. `--list` prints the tasks. The page is results/tasks.md.
`--families` takes the tasks of `families.py` instead, which are small, and `--quick` half of them;
their page is results/families.md.
"""

import argparse
import json
import time
import warnings
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import product
from typing import get_args

from experiments.framework import runner
from experiments.framework.runner import Record, Run, finished, run_groups
from experiments.tasks.families import family_specs
from experiments.tasks.halves import Half
from experiments.tasks.make import Task, make_task
from experiments.tasks.methods import BASELINE, GOLD_ITEMS, METHODS, MODES, fitted
from experiments.tasks.page import write_families_page, write_tasks_page
from experiments.tasks.specs import TaskSpec, all_specs, spec_named
from wiesel.errors import WieselError, WieselWarning, suggest

HALVES = get_args(Half)


def main(argv: list[str]) -> None:
    """Run what is missing and write the page."""
    given = _parsed(argv)
    given.families |= given.quick
    specs = chosen_specs(given.half, given.limit, given.families, given.quick)
    if given.list:
        print("\n".join(spec.describe() for spec in specs))
        return
    for mode, half in product(given.mode, HALVES):
        of_half = [spec for spec in specs if spec.half == half]
        runs = definitions(of_half, given.methods, mode)
        store = store_of(mode, half, given.families)
        if given.again and not given.recorded:
            forget(store, [run for run in runs if run.method in given.named])
        if not given.recorded:
            run_groups(store, [[run] for run in runs], execute, given.jobs)
    stores = [store_of(mode, half, given.families) for mode, half in product(MODES, HALVES)]
    records = [record for store in stores for record in finished(store).values()]
    if given.families:
        write_families_page(records, "python -m experiments tasks --families --recorded")
    else:
        write_tasks_page(records, "python -m experiments tasks --recorded")


def store_of(mode: str, half: str, families: bool = False) -> str:
    """Return the name of a results file; a single file would be too large to commit."""
    return f"{'families' if families else 'tasks'}_{mode}_{half}"


def chosen_specs(
    half: str | None = None,
    limit: int | None = None,
    families: bool = False,
    quick: bool = False,
) -> list[TaskSpec]:
    """Return the tasks of one half or both; with a limit, some of every base."""
    if families:
        of_families = [s for s in family_specs() if half in (None, s.half)]
        return [spec for spec in of_families if spec.is_quick or not quick][:limit]
    specs = [spec for spec in all_specs() if half in (None, spec.half)]
    if limit is None:
        return specs
    # The first task of every base, then the second, and so on: few tasks cover many bases.
    by_number = sorted(specs, key=lambda spec: (spec.name.rpartition("-")[2], spec.name))
    return by_number[:limit]


def definitions(specs: Iterable[TaskSpec], methods: Sequence[str], mode: str) -> list[Run]:
    """Return all runs, grouped by task, so that each task is made once."""
    return [
        Run(spec.name, method, 0, {"mode": mode, "spec": spec.fingerprint})
        for spec in specs
        for method in methods
        if mode in GOLD_ITEMS or not METHODS[method].on_validation
    ]


def execute(runs: list[Run]) -> list[Record]:
    """Train a method on a task and score it; a method's error is recorded as its result."""
    (run,) = runs
    task = task_named(run.dataset)
    cpu = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WieselWarning)
            model = fitted(run.method, task, run.options["mode"])
        result: Record = task.figures(model)
        if "agreement" in model.selection_:  # of the members of a committee
            result["agreement"] = round(model.selection_["agreement"], 4)
    except (WieselError, ValueError, RuntimeError, ArithmeticError) as error:
        result = {"score": None, "error": f"{type(error).__name__}: {error}"}
    result["fit_cpu_seconds"] = round(time.process_time() - cpu, 2)
    return [result | facts(task) if run.method == BASELINE else result]


def facts(task: Task) -> Record:
    """Return the actual properties of a task; stored with the baseline's result."""
    votes = task.votes
    right = votes.class_index == task.y_train[votes.item_index]
    return {
        "n_train": len(task.y_train),
        "n_test": len(task.y_test),
        "coverage": round(float(votes.covered.mean()), 3),
        "vote_accuracy": round(float(right.mean()), 3),
        "data": task.fingerprint,
    }


def forget(store: str, runs: Sequence[Run]) -> None:
    """Drop the results of runs, so that they are run again."""
    file, dropped = runner.RESULTS / f"{store}.jsonl", {run.key for run in runs}
    if file.exists():
        lines = [line for line in file.read_text().splitlines() if line]
        kept = [line for line in lines if json.loads(line)["key"] not in dropped]
        file.write_text("".join(f"{line}\n" for line in kept))


@lru_cache(maxsize=2)
def task_named(name: str) -> Task:
    """Return a generated task."""
    return make_task(spec_named(name))


def _parsed(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m experiments tasks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--methods", type=_methods, default=[*METHODS], help="comma-separated")
    parser.add_argument("--half", choices=HALVES, help="both unless given")
    parser.add_argument("--mode", choices=MODES, action="append", help="blind unless given")
    parser.add_argument("--full", action="store_true", help="all modes")
    parser.add_argument("--limit", type=int, help="only so many tasks, of all bases")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes")
    parser.add_argument("--again", action="store_true", help="run the named methods anew")
    parser.add_argument("--recorded", action="store_true", help="show what is finished only")
    parser.add_argument("--families", action="store_true", help="the tasks of families.py")
    parser.add_argument("--quick", action="store_true", help="half of the tasks of families.py")
    parser.add_argument("--list", action="store_true", help="print the tasks, run nothing")
    given = parser.parse_args(argv)
    given.mode, given.named = [*MODES] if given.full else given.mode or ["blind"], given.methods
    if BASELINE not in given.named:
        given.methods = [BASELINE, *given.named]
    return given


def _methods(words: str) -> list[str]:
    """Split comma-separated names; the baseline is always included."""
    names = [name.strip() for name in words.split(",")]
    for name in names:
        if name not in METHODS:
            raise argparse.ArgumentTypeError(f"no method {name!r}. {suggest(name, METHODS)}")
    return names


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
