"""Crowd methods selected without any gold: the best mean rank over noisy losses ("ENS").

    python -m experiments blind_crowds [--seeds N] [--jobs N] [--recorded]

Every candidate is a method of the crowd tables with one learning rate, trained for a fixed number
of epochs. `choose_without_gold` holds out items and workers in three folds, ranks the candidates by
each loss, and selects the best mean rank. Test labels are used once for each candidate, after it
was trained on all votes. The table compares the choice with the best candidate on test, an oracle,
and with the mean of all. The seed initializes the networks and draws the folds.
"""

import sys
from collections.abc import Sequence

import numpy as np
from benchmarks.harness import markdown_table
from scipy.stats import rankdata

from experiments.framework.definitions import Effort
from experiments.framework.runner import Record, Run
from experiments.framework.tables import cost_sentence, spread, write_page
from experiments.studies.labelme import METHODS, dataset, head
from wiesel.end_to_end.blind_choice import choose_without_gold

STORE = "blind_crowds"
SETS = ("music_genre", "labelme")
CANDIDATES = ("majority_vote", "max_mig", "weasel_mig", "crowd_layer", "coin_net", "annot_mix")
RATES = (1e-4, 1e-3)
EPOCHS = 20


def main(argv: list[str]) -> None:
    """Run what is missing, and write the page."""
    effort = Effort.parsed(argv, __doc__, reduced_seeds=1)
    runs = [
        Run(name, method, seed, {"lr": rate})
        for seed in range(effort.seeds)
        for name in SETS
        for method in CANDIDATES
        for rate in RATES
    ]
    show(effort.records(STORE, runs, execute), effort)


def execute(run: Run) -> Record:
    """Return the noisy losses of one candidate, and its test score."""
    data = dataset(run.dataset)
    options = {"epochs": EPOCHS, "epoch_size": None, "weight_average": None, **run.options}
    model = METHODS[run.method].build(
        head(data, run.seed), seed=run.seed, progress=False, **options
    )
    X, votes = data.train.features, data.train.votes
    losses = choose_without_gold([model], X, votes, seed=run.seed).losses
    predicted = model.fit(X, votes).predict_proba(data.test.features).argmax(axis=1)
    return {
        "losses": {name: float(values[0]) for name, values in losses.items()},
        "accuracy": float((predicted == data.test.gold).mean()),
    }


def mean_ranks(records: Sequence[Record]) -> np.ndarray:
    """Return the mean rank of every candidate over all losses; 1 is best.

    >>> records = [{"losses": {"a": 0.1, "b": 0.4}}, {"losses": {"a": 0.2, "b": 0.3}}]
    >>> mean_ranks(records).tolist()
    [1.5, 1.5]
    """
    names = records[0]["losses"]
    ranked = [rankdata([record["losses"][name] for record in records]) for name in names]
    return np.asarray(np.mean(ranked, axis=0))


def show(records: list[Record], effort: Effort) -> None:
    """Write the choice on every set, then the candidates with rank and accuracy."""
    said: list[str] = []
    tables: list[str] = []
    for name in SETS:
        seeds = [
            [r for r in records if (r["dataset"], r["seed"]) == (name, seed)]
            for seed in range(effort.seeds)
        ]
        finished_seeds = [own for own in seeds if len(own) == len(CANDIDATES) * len(RATES)]
        if finished_seeds:
            said.append(f"- {name}: {choice(finished_seeds)}")
            tables += [f"## {name}", "", _table(finished_seeds), ""]
        else:
            said.append(f"- {name}: not all candidates have been run.")
    cost = cost_sentence(len(records), sum(r["cpu_seconds"] for r in records))
    lines = ["What the mean rank over noisy losses chooses, without any gold:", "", *said, ""]
    write_page(STORE, f"python -m experiments {STORE} {effort.words}", [*lines, *tables, cost])


def choice(seeds: list[list[Record]]) -> str:
    """Describe the choice in every seed, and its distance to the best and to the mean."""
    ranks, accuracy = _ranks_and_accuracy(seeds)
    places = ranks.argmin(axis=1)
    named = dict.fromkeys(_title(seeds[0][place]) for place in places)
    of_chosen, best = accuracy[np.arange(len(seeds)), places], accuracy.max(axis=1)
    first = _title(seeds[0][accuracy.mean(axis=0).argmax()])
    return (
        f"**{', '.join(named)}**, test accuracy {spread(of_chosen)}; the best on test "
        f"({first}) has {spread(best)}, the mean of all {spread(accuracy.mean(axis=1))}."
    )


def _ranks_and_accuracy(seeds: list[list[Record]]) -> tuple[np.ndarray, np.ndarray]:
    """Return mean rank and test accuracy in percent: (n_seeds, n_candidates) each."""
    ranks = np.array([mean_ranks(own) for own in seeds])
    return ranks, 100 * np.array([[record["accuracy"] for record in own] for own in seeds])


def _table(seeds: list[list[Record]]) -> str:
    ranks, accuracy = _ranks_and_accuracy(seeds)
    rows = [
        [_title(seeds[0][place]), f"{ranks[:, place].mean():.2f}", spread(accuracy[:, place])]
        for place in np.argsort(ranks.mean(axis=0))
    ]
    return markdown_table(["candidate", "mean rank", "test accuracy, %"], rows)


def _title(record: Record) -> str:
    return f"{METHODS[record['method']].title}, lr {record['options']['lr']:g}"


if __name__ == "__main__":
    main(sys.argv[1:])
