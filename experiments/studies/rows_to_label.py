"""Which training rows to label: orders of labeling compared, on real sets and generated tasks.

    python -m experiments rows_to_label [--full] [--seeds N] [--recorded]

The default is trained on votes alone, on at most 5,000 training rows. Then an order chooses 50 of
these rows, and `fine_tune` learns their labels. Gains are over the same committee without labels,
on the test items: ROC-AUC (binary) or accuracy (several classes), accuracy and macro F1. Seeds draw
the rows; every order starts from the same committee. Sets without labels of the training rows are
left out. The full form adds 20 labels, and twice as many generated tasks.
"""

import copy
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from benchmarks.harness import markdown_table

from experiments.framework.definitions import Effort
from experiments.framework.methods import dataset_of, paper_network
from experiments.framework.runner import Record, Run, finished, run_all
from experiments.framework.tables import cost_sentence, write_page
from experiments.studies.default import GOLD_SETS
from experiments.studies.few_labels import of_proba
from experiments.tasks.compare import chosen_specs, task_named
from experiments.tasks.halves import BASE_HALVES, REAL_HALVES
from experiments.tasks.methods import fitted
from wiesel import Committee, LabelSpace, VoteMatrix
from wiesel.guidance.labeling_order import rows_to_label, typical_rows, unsureness

STORE = "rows_to_label"
MOST_ROWS = 5000
N_TASKS = 40
TOLERATED = -2.0

Proba = npt.NDArray[np.floating]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Pool:
    """The rows to choose from, a committee trained on their votes, and the test items."""

    name: str
    labels: LabelSpace
    X: npt.NDArray[np.float32]
    votes: VoteMatrix
    gold: npt.NDArray[np.int64]
    X_test: npt.NDArray[np.float32]
    y_test: npt.NDArray[np.int64]
    model: Committee

    @property
    def proba(self) -> Proba:
        """What the committee says about the rows."""
        return self.model.predict_proba(self.X)


def _random(pool: Pool, n: int, rng: np.random.Generator) -> Rows:
    return rng.permutation(len(pool.gold))[:n]


def _stratified(pool: Pool, n: int, rng: np.random.Generator) -> Rows:
    """Random rows within predicted classes, whose shares are the roots of their sizes."""
    predicted = pool.proba.argmax(axis=1)
    sizes = np.bincount(predicted, minlength=pool.proba.shape[1])
    quota = np.zeros(len(sizes), dtype=int)
    for _ in range(n):  # the class that is furthest below its share comes next (Sainte-Lague)
        need = np.where(quota < sizes, np.sqrt(sizes) / (2 * quota + 1), -1.0)
        quota[int(need.argmax())] += 1
    own = [np.flatnonzero(predicted == k) for k in range(len(sizes))]
    return np.concatenate([rng.permutation(rows)[:k] for rows, k in zip(own, quota, strict=True)])


def _clusters(pool: Pool, n: int, rng: np.random.Generator) -> Rows:
    return typical_rows(pool.X, np.ones(len(pool.X)), n, rng, np.empty(0, np.int64))[0]


def _unsure(pool: Pool, n: int, rng: np.random.Generator) -> Rows:
    return typical_rows(pool.X, unsureness(pool.proba), n, rng, np.empty(0, np.int64))[0]


def _mixed(pool: Pool, n: int, rng: np.random.Generator) -> Rows:
    drawn = _random(pool, round(n / 4), rng)
    rows, shares, has_label = typical_rows(pool.X, unsureness(pool.proba), n, rng, drawn)
    return np.concatenate([rows[np.lexsort((-shares, has_label))][: n - len(drawn)], drawn])


def _half(pool: Pool, n: int, rng: np.random.Generator) -> Rows:
    return _recommended(pool, n, rng, 0.5)


def _shipped(pool: Pool, n: int, rng: np.random.Generator) -> Rows:
    return _recommended(pool, n, rng, 0.25)


def _in_batches(pool: Pool, n: int, rng: np.random.Generator) -> Rows:
    chosen = np.empty(0, np.int64)
    while len(chosen) < n:
        more = _recommended(pool, min(10, n - len(chosen)), rng, 0.25, chosen)
        chosen = np.concatenate([chosen, more])
    return chosen


def _recommended(
    pool: Pool, n: int, rng: np.random.Generator, share: float, labeled: Rows | None = None
) -> Rows:
    known = np.full(len(pool.gold), -1)
    if labeled is not None:
        known[labeled] = pool.gold[labeled]
    seed = int(rng.integers(2**31))
    found = rows_to_label(pool.votes, pool.X, n=n, gold=known, random_share=share, seed=seed)
    return found.frame["row"].to_numpy()


Order = Callable[[Pool, int, np.random.Generator], Rows]
SHIPPED = "as shipped"
"""Typical rows of clusters of which a linear model of the votes is unsure, a quarter at random."""
ORDERS: dict[str, Order] = {
    "random": _random,
    "stratified": _stratified,
    "clusters": _clusters,
    "clusters, unsure": _unsure,
    "three quarters clusters, unsure": _mixed,
    SHIPPED: _shipped,
    "as shipped, half at random": _half,
    "as shipped, batches of 10": _in_batches,
}


def main(argv: list[str]) -> None:
    """Run what is missing and write the table."""
    effort = Effort.parsed(argv, __doc__, full_seeds=3, reduced_seeds=2)
    tasks = [spec.name for spec in chosen_specs(limit=N_TASKS * (1 + effort.full))]
    runs = [
        Run(dataset, order, seed, {"labels": size})
        for size in ((50, 20) if effort.full else (50,))
        for names, n_seeds in ((GOLD_SETS, effort.seeds), (tasks, 1))
        for dataset in names
        for order in ORDERS
        for seed in range(n_seeds)
    ]
    if not effort.recorded:
        run_all(STORE, runs, execute)
    done = finished(STORE)
    show([done[run.key] for run in runs if run.key in done], effort)


def execute(run: Run) -> Record:
    """Choose rows, learn their labels, and compare the committee before and after."""
    pool = pool_of(run.dataset)
    rows = ORDERS[run.method](pool, run.options["labels"], np.random.default_rng(run.seed))
    model = copy.deepcopy(pool.model)
    before = of_proba(model.predict_proba(pool.X_test), None, pool.y_test)
    model.fine_tune(pool.X[rows], pool.gold[rows])
    after = of_proba(model.predict_proba(pool.X_test), None, pool.y_test)
    classes = len(np.unique(pool.gold[rows]))
    return {"items": len(rows), "classes": classes, "before": before, "after": after}


@lru_cache(maxsize=1)
def pool_of(name: str) -> Pool:
    """Return the rows of a real set or of a generated task, and a committee without labels."""
    if name not in REAL_HALVES:
        task = task_named(name)
        model = fitted("committee", task, "blind")
        train, test = (task.X_train, task.votes, task.y_train), (task.X_test, task.y_test)
        return Pool(name, task.labels, *train, *test, model)
    dataset = dataset_of(name)
    rng = np.random.default_rng(0)
    rows, tested = (
        np.sort(rng.permutation(len(part.gold))[:MOST_ROWS])
        for part in (dataset.train, dataset.test)
    )
    X, votes, gold = dataset.train.features[rows], dataset.train.votes[rows], dataset.train.gold
    model = Committee(paper_network(dataset, 0), progress=False).fit(X, votes)
    test = dataset.test.features[tested], dataset.test.gold[tested]
    return Pool(name, dataset.labels, X, votes, gold[rows], *test, model)


def show(records: list[Record], effort: Effort) -> None:
    """Write the mean gains of every order, for the halves of sets and tasks."""
    lines = [
        "Gain over the same committee without labels, in points: ROC-AUC or accuracy / accuracy / "
        f"macro F1, and the share of runs that lose more than {-TOLERATED:.0f} points of accuracy. "
        "The last column is the gain of the main score over random rows, with the standard error "
        "of its mean over sets or tasks.",
        "",
    ]
    header = ["", "labels", "data", "gain", "lose", "main, over random"]
    for size in (50, 20):
        table = []
        for order in ORDERS:
            for title, is_real, half in (
                (f"{kind}, {half}", kind == "sets", half)
                for kind in ("sets", "tasks")
                for half in ("choose", "confirm")
            ):
                own = [
                    r
                    for r in records
                    if r["options"]["labels"] == size
                    and (r["dataset"] in REAL_HALVES) == is_real
                    and half_of(r["dataset"]) == half
                ]
                gains = by_set(own, order)
                if not gains:
                    continue
                mean = np.mean([*gains.values()], axis=0)
                lost = np.mean([change(r)[1] < TOLERATED for r in own if r["method"] == order])
                base = by_set(own, "random")
                over = np.array([gains[k][0] - base[k][0] for k in gains if k in base])
                error = over.std(ddof=1) / np.sqrt(len(over)) if len(over) > 1 else np.nan
                cells = [" / ".join(f"{v:+.2f}" for v in mean[:3]), f"{100 * lost:.0f} %"]
                over_text = "" if order == "random" else f"{over.mean():+.2f} ± {error:.2f}"
                table.append([order, str(size), f"{title} ({len(gains)})", *cells, over_text])
        if table:
            lines += [markdown_table(header, table), ""]
    lines.append(cost_sentence(len(records), sum(r["cpu_seconds"] for r in records)))
    write_page(STORE, f"python -m experiments {STORE} {effort.words}", lines)


def half_of(name: str) -> str:
    """Return the half of a set or a generated task."""
    return REAL_HALVES.get(name) or BASE_HALVES[name.rpartition("-")[0]]


def by_set(records: list[Record], order: str) -> dict[str, npt.NDArray[np.float64]]:
    """Return the mean gains of an order over seeds, by data set."""
    own = [r for r in records if r["method"] == order]
    names = dict.fromkeys(r["dataset"] for r in own)
    return {
        name: np.mean([change(r) for r in own if r["dataset"] == name], axis=0) for name in names
    }


def change(record: Record) -> npt.NDArray[np.float64]:
    """Return the figures after minus before."""
    return np.subtract(record["after"], record["before"])


if __name__ == "__main__":
    main(sys.argv[1:])
