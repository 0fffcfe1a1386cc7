"""What `fine_tune` adds to a committee that has seen no gold, on sixteen real data sets.

    python -m experiments fine_tuning [--full] [--seeds N] [--recorded]

The default is trained on votes alone. Then 10, 50 or 250 gold items, drawn from the validation
split, are learned by `fine_tune`. Four figures are compared on the test items: ROC-AUC (binary) or
accuracy (multi-class), accuracy at the threshold 1/2, macro F1 at it, and log loss. Seeds draw the
items. Nothing was chosen on these sets' test labels: the pull and the number of steps are those
that were best on the half of the generated tasks and real sets that defaults are chosen on.
"""

import copy
import sys

import numpy as np
from benchmarks.harness import markdown_table
from sklearn.metrics import accuracy_score, f1_score, log_loss

from experiments.framework.definitions import Effort
from experiments.framework.methods import dataset_of
from experiments.framework.runner import Record, Run, finished, run_all
from experiments.framework.tables import cost_sentence, write_page
from experiments.studies.default import SETS, score
from experiments.studies.few_labels import SIZES, trained
from experiments.tasks.halves import REAL_HALVES

STORE = "fine_tuning"
FIGURES = ("main", "accuracy", "macro_f1", "log_loss")
TOLERATED = -2.0
"""A change of accuracy or F1 below this, in points, counts as a loss."""


def main(argv: list[str]) -> None:
    """Run what is missing and write the table."""
    effort = Effort.parsed(argv, __doc__, full_seeds=5)
    runs = [
        Run(dataset, "fine_tune", seed, {"gold_items": size})
        for dataset in SETS
        for size in SIZES
        for seed in range(effort.seeds)
    ]
    if not effort.recorded:
        run_all(STORE, runs, execute)
    show([finished(STORE)[run.key] for run in runs if run.key in finished(STORE)], effort)


def execute(run: Run) -> Record:
    """Draw gold items, and compare the committee before and after it has learned them."""
    dataset = dataset_of(run.dataset)
    valid, test = dataset.valid, dataset.test
    chosen = np.random.default_rng(run.seed).permutation(len(valid.gold))[
        : run.options["gold_items"]
    ]
    model = copy.deepcopy(trained(run.dataset))
    before = figures(model.predict_proba(test.features), test.gold)
    said = model.fine_tune(valid.features[chosen], valid.gold[chosen])
    after = figures(model.predict_proba(test.features), test.gold)
    losses = {"loss_before": said.loss_before, "loss_after": said.loss_after}
    return {"items": len(chosen), "before": before, "after": after, **losses}


def figures(proba: np.ndarray, gold: np.ndarray) -> list[float]:
    """Return the four figures; those but the log loss in points."""
    predicted, classes = proba.argmax(axis=1), np.arange(proba.shape[1])
    return [
        100 * score(proba, gold),
        100 * float(accuracy_score(gold, predicted)),
        100 * float(f1_score(gold, predicted, average="macro")),
        float(log_loss(gold, np.clip(proba, 1e-4, 1), labels=classes)),
    ]


def show(records: list[Record], effort: Effort) -> None:
    """Write the changes, set by set, and their means."""
    header = ["", "gold items", "ROC-AUC or accuracy", "accuracy", "macro F1", "log loss"]
    rows, means = [], []
    for size in SIZES:
        own = [r for r in records if r["options"]["gold_items"] == size]
        for name in dict.fromkeys(r["dataset"] for r in own):
            of_set = _changes([r for r in own if r["dataset"] == name])
            rows.append([name, str(size), *_cells(of_set.mean(axis=0))])
        for half in ("choose", "confirm"):
            found = _changes([r for r in own if REAL_HALVES[r["dataset"]] == half])
            if len(found):
                lost = [f"{100 * (found[:, k] < TOLERATED).mean():.0f} %" for k in range(3)]
                means.append([half, str(size), *_cells(found.mean(axis=0)), *lost])
    lost = [f"runs that lose more than 2: {name}" for name in ("main", "accuracy", "macro F1")]
    lines = [
        "Change of the test figures by `fine_tune`, in points (log loss: lower is better), and the "
        "mean of each half of the sets. The sets of *choose* took part in the choice of the pull.",
        "",
        markdown_table(["half", *header[1:], *lost], means),
        "",
        markdown_table(header, rows),
        "",
        cost_sentence(len(records), sum(r["cpu_seconds"] for r in records)),
    ]
    write_page(STORE, f"python -m experiments {STORE} {effort.words}", lines)


def _changes(records: list[Record]) -> np.ndarray:
    """(runs, figures): after minus before."""
    return np.array([np.subtract(r["after"], r["before"]) for r in records]).reshape(-1, 4)


def _cells(values: np.ndarray) -> list[str]:
    return [*(f"{value:+.2f}" for value in values[:3]), f"{values[3]:+.3f}"]


if __name__ == "__main__":
    main(sys.argv[1:])
