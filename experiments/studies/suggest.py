"""The quality of suggested labeling functions: 30 proposals, accepted without review.

    python -m experiments suggest [--full] [--seeds N] [--recorded]

From 20 training rows with a label and no labeling function, `suggest_lfs` proposes 30, each with up
to five words, and all are accepted. The default method is trained on their votes without any gold,
and for comparison on the votes of the data set's own labeling functions. Seeds draw the 20 rows
(repeated until every class is among them). They begin at 3, because the settings of `suggest_lfs`
were selected on training gold with the seeds 0 to 2 and 100 to 150, also of sst2, trec and
vader_tweets. The score is ROC-AUC for two classes, else accuracy. `way` is the share of the
distance from chance to the data set's labeling functions that the suggested ones cover. Test labels
are used once, at the end of each run.
"""

import sys

import numpy as np

from experiments.framework.definitions import Effort
from experiments.framework.methods import dataset_of, paper_network
from experiments.framework.runner import Record, Run, finished, run_all
from experiments.framework.tables import percentages, spread, write_page
from experiments.studies.default import score
from wiesel import VoteMatrix, apply_lfs, suggest_lfs
from wiesel.compare import build_method
from wiesel.io import Dataset
from wiesel.project.settings import MethodSettings

SETS = ("youtube", "sms", "agnews", "imdb_136")
LABELED, ACCEPTED = 20, 30
FIRST_SEED = 3
GOAL = 0.9
STORE = "suggest"


def main(argv: list[str]) -> None:
    """Run what is missing and write the table."""
    effort = Effort.parsed(argv, __doc__, full_seeds=5)
    runs = definitions(effort.seeds)
    if not effort.recorded:
        run_all(STORE, runs, execute)
    show(runs, effort)


def default_method() -> str:
    """Return the default method of a project."""
    return MethodSettings().name


def definitions(n_seeds: int) -> list[Run]:
    """Return all runs: one with the data set's LFs and, per seed, one with suggested LFs."""
    return [
        Run(dataset, default_method(), seed, {"lfs": lfs})
        for dataset in SETS
        for seed in range(FIRST_SEED, FIRST_SEED + n_seeds)
        for lfs in ("shared", "suggested")
    ]


def execute(run: Run) -> Record:
    """Obtain the votes, train the default method on them, and score it on the test rows."""
    dataset = dataset_of(run.dataset)
    votes, about = _votes(run, dataset)
    network = paper_network(dataset, run.seed)
    options = {"seed": run.seed, "progress": False}
    model = build_method(run.method, network, dataset.labels, options)
    model.fit(dataset.train.features, votes)
    test = dataset.test
    return {
        **about,
        "covered": float(votes.covered.mean()),
        "vote_accuracy": float((votes.class_index == dataset.train.gold[votes.item_index]).mean()),
        "score": score(model.predict_proba(test.features), test.gold),
        "chance": 0.5 if len(dataset.labels) == 2 else 1 / len(dataset.labels),
    }


def _votes(run: Run, dataset: Dataset) -> tuple[VoteMatrix, Record]:
    train = dataset.train
    if run.options["lfs"] == "shared":
        return train.votes, {"n_lfs": train.votes.n_voters}
    gold = labeled_rows(train.gold, len(dataset.labels), run.seed)
    rows = train.rows.select("text")
    found = suggest_lfs(rows, labels=dataset.labels, gold=gold, features=train.features, n=ACCEPTED)
    names = [f"{lf.label}: {lf.name}" for lf in found.lfs]
    return apply_lfs(found.lfs, rows, labels=dataset.labels), {"n_lfs": len(found), "lfs": names}


def labeled_rows(gold: np.ndarray, n_classes: int, seed: int) -> np.ndarray:
    """Return gold of 20 random rows, -1 for all others; every class is among them."""
    rng = np.random.default_rng(seed)
    while True:
        chosen = rng.choice(len(gold), LABELED, replace=False)
        if len(np.unique(gold[chosen])) == n_classes:
            break
    known = np.full(len(gold), -1)
    known[chosen] = gold[chosen]
    return known


def show(runs: list[Run], effort: Effort) -> None:
    """Write scores, coverage and the share of the way covered."""
    done = finished(STORE)
    lines = [
        "| | shared LFs | score | suggested, covered | their votes right | score | way |",
        "|---|---|---|---|---|---|---|",
    ]
    ways = []
    for dataset in SETS:
        arms = {
            lfs: [
                done[r.key]
                for r in runs
                if r.dataset == dataset and r.options["lfs"] == lfs and r.key in done
            ]
            for lfs in ("shared", "suggested")
        }
        if not all(arms.values()):
            continue
        shared, suggested = (np.mean([r["score"] for r in arms[k]]) for k in arms)
        chance = arms["shared"][0]["chance"]
        ways.append((suggested - chance) / (shared - chance))
        cells = [
            str(arms["shared"][0]["n_lfs"]),
            spread(percentages(arms["shared"], "score")),
            spread(percentages(arms["suggested"], "covered")),
            spread(percentages(arms["suggested"], "vote_accuracy")),
            spread(percentages(arms["suggested"], "score")),
            f"{100 * ways[-1]:.0f} %",
        ]
        lines.append(f"| {dataset} | {' | '.join(cells)} |")
    reached = sum(way >= GOAL for way in ways)
    lines += [
        "",
        f"The default is `{default_method()}`. {reached} of {len(ways)} sets reach "
        f"{100 * GOAL:.0f} % of the way. A suggested LF lists up to five words.",
    ]
    write_page(STORE, f"python -m experiments suggest {effort.words}", lines)


if __name__ == "__main__":
    main(sys.argv[1:])
