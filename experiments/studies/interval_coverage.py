"""How often 95 % intervals contain the truth, on samples of 15, 50 and 200 labeled rows.

    python -m experiments interval_coverage [--full] [--recorded]

No network is trained. On generated tasks, majority vote and a linear model of the features predict
all training rows; their figures on all rows are the truth. Rows are then drawn at random, 100 times
for every size, and intervals are computed from the drawn rows alone. The precision of every
labeling function is checked in the same way, and so is the difference between the two models.
Rows are also chosen by `rows_to_label`, most of them because voters disagree; as everywhere,
figures then count the quarter that it draws at random.
"""

import sys
from collections import defaultdict

import numpy as np
import polars as pl
from benchmarks.harness import markdown_table

from experiments.framework.definitions import Effort
from experiments.framework.runner import Record, Run, finished, run_all
from experiments.framework.tables import cost_sentence, write_page
from experiments.tasks.compare import chosen_specs
from experiments.tasks.make import make_task
from experiments.tasks.specs import spec_named
from wiesel import MajorityVote, VoteMatrix, rows_to_label
from wiesel.analysis.summary import gold_counts, ratio, wilson_interval
from wiesel.evaluation.comparison import compare_paired_proba
from wiesel.evaluation.intervals import figure_intervals, resampled_figures
from wiesel.evaluation.metrics import figures
from wiesel.guidance.end_preview import preview_end_model

STORE = "interval_coverage"
SIZES = (15, 50, 200)
SHOWN = ("accuracy", "f1", "macro_f1", "auc", "average_precision", "log_loss", "brier")
N_DRAWS = 100


def main(argv: list[str]) -> None:
    """Run what is missing and write the table."""
    effort = Effort.parsed(argv, __doc__, full_seeds=1, reduced_seeds=1)
    specs = chosen_specs(limit=90 if effort.full else 30)
    runs = [Run(spec.name, "coverage", 0, {"rows": size}) for spec in specs for size in SIZES]
    runs += [
        Run(spec.name, "coverage", 0, {"rows": size, "chosen": "conflict"})
        for spec in specs[: len(specs) // 2]
        for size in SIZES
    ]
    if not effort.recorded:
        run_all(STORE, runs, execute)
    done = finished(STORE)
    show([done[run.key] for run in runs if run.key in done], effort)


def execute(run: Run) -> Record:
    """Count how often each interval contains the truth."""
    task, size = make_task(spec_named(run.dataset)), run.options["rows"]
    rng = np.random.default_rng(size)
    gold, votes, labels = task.y_train, task.votes, task.labels
    models = [
        MajorityVote().fit(votes).predict_proba(votes),
        preview_end_model(task.X_train, votes).proba,
    ]
    truth = [figures(gold, proba, proba.argmax(axis=1)) for proba in models]
    precision = _precision(votes, gold)
    hits: dict[str, list[bool]] = defaultdict(list)
    for number in range(N_DRAWS):
        rows = _labeled(votes, size, run.options.get("chosen", "random"), number, rng)
        for own, true in zip(models, truth, strict=True):
            part = own[rows]
            drawn = gold[rows], part, part.argmax(axis=1)
            found = figure_intervals(*drawn, resampled_figures(*drawn, 400, number), number)
            for name in SHOWN:
                low, high = found[name]
                if not np.isnan(low):
                    hits[name].append(low <= true[name] <= high)
        if number % 4 == 0:
            pair = [own[rows] for own in models]
            compared = compare_paired_proba(*pair, gold[rows], labels, n_resamples=400)
            for name in ("accuracy", "macro_f1", "auc"):
                score = compared.differences[name]
                if not np.isnan(score.low):
                    apart = truth[0][name] - truth[1][name]
                    hits[f"{name}, difference"].append(score.low <= apart <= score.high)
        counts = gold_counts(votes[rows], gold[rows])
        ends = wilson_interval(counts.correct.sum(axis=1), counts.support.sum(axis=1))
        there = ~np.isnan(ends[0]) & ~np.isnan(precision)
        hits["LF precision"] += list(((ends[0] <= precision) & (precision <= ends[1]))[there])
    covered = {name: round(float(np.mean(own)), 4) for name, own in hits.items()}
    return {"classes": len(labels), "covered": covered}


def _labeled(
    votes: VoteMatrix, size: int, way: str, number: int, rng: np.random.Generator
) -> np.ndarray:
    """Return the rows that figures count: all of a random sample, a quarter of chosen ones."""
    if way == "random":
        return rng.permutation(votes.n_items)[:size]
    order = rows_to_label(votes, n=size, way=way, seed=number).frame
    return order.filter(pl.col("chosen") == "random")["row"].to_numpy()


def _precision(votes: VoteMatrix, gold: np.ndarray) -> np.ndarray:
    counts = gold_counts(votes, gold)
    return ratio(counts.correct.sum(axis=1), counts.support.sum(axis=1))


def show(records: list[Record], effort: Effort) -> None:
    """Write the share of intervals that contain the truth."""
    at_random = [r for r in records if not r["options"].get("chosen")]
    chosen = [r for r in records if r["options"].get("chosen")]
    n_chosen = len({r["dataset"] for r in chosen})
    lines = [
        f"Percent of the 95 % intervals that contain the truth, mean over tasks "
        f"({len({r['dataset'] for r in at_random})}), by the number of labeled rows.",
        "",
        _table(at_random),
        "",
        f"The same where `rows_to_label` chose the labeled rows, most of them because voters "
        f"disagree ({n_chosen} tasks); figures count its random quarter.",
        "",
        _table(chosen),
        "",
        cost_sentence(len(records), sum(r["cpu_seconds"] for r in records)),
    ]
    write_page(STORE, f"python -m experiments {STORE} {effort.words}", lines)


def _table(records: list[Record]) -> str:
    rows = []
    for name in dict.fromkeys(name for r in records for name in r["covered"]):
        cells = []
        for binary in (True, False):
            for size in SIZES:
                own = [
                    r["covered"][name]
                    for r in records
                    if r["options"]["rows"] == size
                    and (r["classes"] == 2) == binary
                    and name in r["covered"]
                ]
                cells.append(f"{100 * np.mean(own):.1f}" if own else "-")
        rows.append([name, *cells])
    header = ["", *(f"{kind}, {n}" for kind in ("two classes", "several") for n in SIZES)]
    return markdown_table(header, rows)


if __name__ == "__main__":
    main(sys.argv[1:])
