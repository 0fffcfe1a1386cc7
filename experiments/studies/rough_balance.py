"""What it is worth to know the class balance roughly, and what a wrong one costs, without labels.

    python -m experiments rough_balance [--recorded]

The default committee learns generated tasks from votes alone: with the balance that it estimates,
with the true one, and with one that is wrong by a factor. A balance that is wrong by 3 has classes
whose odds are three times too large, and classes whose odds are three times too small; both
directions are tried. Nothing is chosen here.
"""

import sys
import warnings

import numpy as np
from benchmarks.harness import markdown_table

from experiments.framework.definitions import Effort
from experiments.framework.runner import Record, Run, finished, run_all
from experiments.framework.tables import cost_sentence, write_page
from experiments.tasks.make import make_task
from experiments.tasks.methods import UPDATES, network_of
from experiments.tasks.specs import spec_named
from wiesel import Committee
from wiesel.errors import WieselWarning

STORE = "rough_balance"
ESTIMATED, EXACT = "estimated", "exact"
FACTORS = (1.5, 3.0)
TASKS = (
    "hausa-02",
    "youtube-01",
    "hausa-03",
    "vader_tweets-03",
    "sst2-01",
    "vader_tweets-02",
    "music_genre-04",
    "trec-02",
    "hausa-04",
    "youtube-02",
    "sms-02",
    "spambase-01",
    "agnews-01",
    "trec-04",
    "music_genre-02",
    "vader_tweets-05",
    "sst2-02",
    "labelme-02",
    "hausa-05",
    "labelme-01",
)
"""Small tasks of two classes and of several, from both halves."""
FIGURES = {"accuracy": 100, "macro_f1": 100, "log_loss": 1}


def main(argv: list[str]) -> None:
    """Run what is missing and write the table."""
    effort = Effort.parsed(argv, __doc__, full_seeds=1, reduced_seeds=1)
    kinds: list[dict[str, object]] = [{"balance": ESTIMATED}, {"balance": EXACT}]
    kinds += [{"balance": factor, "first": sign} for factor in FACTORS for sign in ("+", "-")]
    runs = [Run(name, "committee", 0, dict(kind)) for name in TASKS for kind in kinds]
    if not effort.recorded:
        run_all(STORE, runs, execute)
    done = finished(STORE)
    show([done[run.key] for run in runs if run.key in done], effort)


def execute(run: Run) -> Record:
    """Train the committee with a balance, and judge it on the test items."""
    task = make_task(spec_named(run.dataset))
    options = {name: value for name, value in UPDATES.items() if name != "members"}
    balance = None
    if run.options["balance"] != ESTIMATED:
        counts = np.bincount(task.y_train, minlength=len(task.labels)) + 1.0
        odds = counts / counts.sum()
        if run.options["balance"] != EXACT:
            signs = np.where(np.arange(len(odds)) % 2, -1.0, 1.0)
            signs *= 1 if run.options["first"] == "+" else -1
            odds *= run.options["balance"] ** (signs / 2)  # the odds of two classes change by it
        balance = odds / odds.sum()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WieselWarning)
        given = {} if balance is None else {"class_balance": balance}
        model = Committee(network_of(task), **options, **given).fit(task.X_train, task.votes)
    found = task.figures(model)
    return {"classes": len(task.labels), "half": task.half, **found}


def show(records: list[Record], effort: Effort) -> None:
    """Write the differences to the estimated balance, by half and kind of task."""
    base = {r["dataset"]: r for r in records if r["options"]["balance"] == ESTIMATED}
    table = []
    for binary in (True, False):
        for half in ("choose", "confirm"):
            for balance in (EXACT, *FACTORS):
                own = [
                    r
                    for r in records
                    if r["options"]["balance"] == balance
                    and r["dataset"] in base
                    and r["half"] == half
                    and (r["classes"] == 2) == binary
                ]
                if not own:
                    continue
                apart = {
                    name: np.array([scale * (r[name] - base[r["dataset"]][name]) for r in own])
                    for name, scale in FIGURES.items()
                }
                what = balance if balance == EXACT else f"wrong by {balance:g}"
                n_tasks = str(len({r["dataset"] for r in own}))
                cells = [f"{apart[name].mean():+.2f}" for name in FIGURES]
                losers = f"{100 * (apart['accuracy'] < -2).mean():.0f} %"
                kind = "two classes" if binary else "several"
                table.append([kind, half, n_tasks, str(what), *cells, losers])
    header = ["", "half", "tasks", "balance", "accuracy", "macro F1", "log loss", "lose > 2 points"]
    lines = [
        "The committee without labels, with a class balance that its user states, minus the same "
        "with the balance that it estimates from the votes. Wrong by 3: the odds between every "
        "second class and the others are three times too large, or too small. The last column is "
        "the share of runs that lose more than two points of accuracy.",
        "",
        markdown_table(header, table),
        "",
        cost_sentence(len(records), sum(r["cpu_seconds"] for r in records)),
    ]
    write_page(STORE, f"python -m experiments {STORE} {effort.words}", lines)


if __name__ == "__main__":
    main(sys.argv[1:])
