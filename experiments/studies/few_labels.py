"""A few gold labels after training without gold: the gain of `fine_tune`, and gold alone.

    python -m experiments few_labels [--full] [--seeds N] [--recorded]

The default is trained on votes alone. Then 10, 50 or 250 gold items, drawn from the validation
split, are used in three ways: not at all, by `fine_tune`, and alone (the same network, supervised,
trained on 80 % of them with the epoch selected on the rest). Seeds draw the items. Test labels are
used once, at the end of each run.
"""

import copy
import sys
from functools import cache

import numpy as np

from experiments.framework.definitions import Effort
from experiments.framework.methods import dataset_of, paper_network
from experiments.framework.runner import Record, Run, finished, run_all
from experiments.framework.tables import percentages, spread, write_page
from experiments.studies.default import SETS, score
from wiesel import Committee, Supervised
from wiesel.io import Dataset

SIZES = (10, 50, 250)
STORE = "few_labels"


def main(argv: list[str]) -> None:
    """Run what is missing and write the table."""
    effort = Effort.parsed(argv, __doc__, full_seeds=5)
    runs = definitions(effort.seeds)
    if not effort.recorded:
        run_all(STORE, runs, execute)
    show(runs, effort)


def definitions(n_seeds: int) -> list[Run]:
    """Return all runs, grouped by data set, so that each set is trained on once."""
    return [
        Run(dataset, "fine_tune", seed, {"gold_items": size})
        for dataset in SETS
        for size in SIZES
        for seed in range(n_seeds)
    ]


@cache
def trained(name: str) -> Committee:
    """Return a committee that has seen no gold."""
    dataset = dataset_of(name)
    model = Committee(paper_network(dataset, 0), progress=False)
    return model.fit(dataset.train.features, dataset.train.votes)


def execute(run: Run) -> Record:
    """Draw gold items, and use them in all three ways."""
    dataset = dataset_of(run.dataset)
    valid, test = dataset.valid, dataset.test
    chosen = np.random.default_rng(run.seed).permutation(len(valid.gold))[
        : run.options["gold_items"]
    ]
    X, y = valid.features[chosen], valid.gold[chosen]
    model = copy.deepcopy(trained(run.dataset))
    before = model.predict_proba(test.features)
    said = model.fine_tune(X, y)
    return {
        "items": len(chosen),
        "before": score(before, test.gold),
        "after": score(model.predict_proba(test.features), test.gold),
        "alone": score(_alone(dataset, X, y, run.seed), test.gold),
        "epochs": said.epochs,
        "loss_before": said.loss_before,
        "loss_after": said.loss_after,
    }


def _alone(dataset: Dataset, X: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    cut = max(2, round(0.8 * len(y)))
    model = Supervised(
        paper_network(dataset, seed),
        labels=dataset.labels,
        epochs=100,
        lr=1e-3,
        batch_size=16,
        seed=seed,
        progress=False,
    )
    return model.fit(X[:cut], y[:cut], validation=(X[cut:], y[cut:])).predict_proba(
        dataset.test.features
    )


def show(runs: list[Run], effort: Effort) -> None:
    """Write the means over seeds, and how often fine-tuning was harmful."""
    done = finished(STORE)
    lines = ["| | gold items | without them | fine_tune | gold alone |", "|---|---|---|---|---|"]
    changes = []
    for dataset in SETS:
        for size in SIZES:
            wanted = [r for r in runs if (r.dataset, r.options["gold_items"]) == (dataset, size)]
            records = [done[run.key] for run in wanted if run.key in done]
            if not records:
                continue
            cells = [spread(percentages(records, name)) for name in ("before", "after", "alone")]
            lines.append(f"| {dataset} | {records[0]['items']} | {' | '.join(cells)} |")
            changes += list(percentages(records, "after") - percentages(records, "before"))
    gains = np.array(changes)
    lines += [
        "",
        f"Fine-tuning changes the score by {gains.mean():+.2f} points on average over {len(gains)} "
        f"runs; it is worse by more than half a point in {(gains < -0.5).sum()}, better by more "
        f"in {(gains > 0.5).sum()}; the worst is {gains.min():+.2f}.",
    ]
    write_page(STORE, f"python -m experiments few_labels {effort.words}", lines)


if __name__ == "__main__":
    main(sys.argv[1:])
