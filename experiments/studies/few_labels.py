"""What a few gold labels add to training without gold: by `fit`, and alone.

    python -m experiments few_labels [--full] [--seeds N] [--recorded]

The default is trained on votes alone. Then 10, 50 or 250 gold items, drawn from the validation
split, are used in three ways: not at all, as the validation set of a new `fit` with the votes on
them, and alone (five networks of the same kind, trained on these items only). Seeds
draw the items. Test labels are used once, at the end of each run.
"""

import sys
from functools import cache
from itertools import product

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
USES = {
    "before": "without them",
    "fit": "fit with validation",
    "alone": "gold alone",
}
"""The uses of the gold items: their names in the results, and in the table."""


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
    return _committee(dataset).fit(dataset.train.features, dataset.train.votes)


def execute(run: Run) -> Record:
    """Draw gold items, and use them in all ways."""
    dataset = dataset_of(run.dataset)
    valid, test = dataset.valid, dataset.test
    chosen = np.random.default_rng(run.seed).permutation(len(valid.gold))[
        : run.options["gold_items"]
    ]
    X, y = valid.features[chosen], valid.gold[chosen]
    before = trained(run.dataset).predict_proba(test.features)
    again = _committee(dataset).fit(
        dataset.train.features, dataset.train.votes, validation=(X, y, valid.votes[chosen])
    )
    alone = Supervised(
        paper_network(dataset, run.seed),
        labels=dataset.labels,
        members=5,
        seed=run.seed,
        progress=False,
    ).fit(X, y)
    return {
        "items": len(chosen),
        "before": score(before, test.gold),
        "fit": score(again.predict_proba(test.features), test.gold),
        "alone": score(alone.predict_proba(test.features), test.gold),
    }


def _committee(dataset: Dataset) -> Committee:
    return Committee(paper_network(dataset, 0), progress=False)


def show(runs: list[Run], effort: Effort) -> None:
    """Write the means over seeds, and how often each use was harmful."""
    done = finished(STORE)
    lines = [
        f"| {' | '.join(['', 'gold items', *USES.values()])} |",
        "|---" * (2 + len(USES)) + "|",
    ]
    for dataset, size in product(SETS, SIZES):
        wanted = [r for r in runs if (r.dataset, r.options["gold_items"]) == (dataset, size)]
        records = [done[run.key] for run in wanted if run.key in done]
        if records:
            cells = [spread(percentages(records, name)) for name in USES]
            lines.append(f"| {dataset} | {records[0]['items']} | {' | '.join(cells)} |")
    known = [done[run.key] for run in runs if run.key in done]
    lines += ["", *(_gain(known, size) for size in SIZES)]
    write_page(STORE, f"python -m experiments few_labels {effort.words}", lines)


def _gain(known: list[Record], size: int) -> str:
    """How much the uses of so many gold items change the score."""
    records = [record for record in known if record["options"]["gold_items"] == size]
    parts = []
    for name, title in list(USES.items())[1:]:
        gains = percentages(records, name) - percentages(records, "before")
        parts.append(
            f"{title} {gains.mean():+.2f} points (worse by more than half a point in "
            f"{(gains < -0.5).sum()} of {len(gains)} runs, the worst {gains.min():+.1f})"
        )
    return f"- {size} gold items: {'; '.join(parts)}."


if __name__ == "__main__":
    main(sys.argv[1:])
