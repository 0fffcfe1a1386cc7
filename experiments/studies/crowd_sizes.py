"""Which label model for which size of crowd, and when features of the items pay.

    python -m experiments crowd_sizes [--seeds N] [--recorded]

Of every item of the shared crowds, some answers are drawn at random: 1, 2, 3, 5, 10, or all. Each
label model labels the items from these alone. Accuracy is on the items with gold; a tie counts by
its chance. Where items have features, Dawid-Skene also gets them (`aggregate(..., features=...)`).
Crowds with more than 10,000 items are cut to as many at random. Sets with fewer answers to an item
are left out of the columns with more.
"""

import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
from benchmarks.harness import markdown_table

from experiments.framework.definitions import Effort
from experiments.framework.runner import Record, Run
from experiments.framework.tables import UNKNOWN, cost_sentence, write_page
from experiments.studies.crowd_confidence import judged
from experiments.tasks.crowds import SETS, WITH_FEATURES, crowd, halves
from wiesel import VoteMatrix, aggregate
from wiesel.errors import WieselWarning

STORE = "crowd_sizes"
METHODS = ("majority_vote", "one_coin", "dawid_skene", "mace", "glad")
SIZES = (1, 2, 3, 5, 10, 0)
"""Answers to an item; 0 is all."""
WITH = "dawid_skene, features"
MOST_ITEMS = 10_000
PARTS = ("choose", "confirm")


def main(argv: list[str]) -> None:
    """Run what is missing, and write the page."""
    effort = Effort.parsed(argv, __doc__, full_seeds=5, reduced_seeds=3)
    runs = [
        Run(name, str(size), seed)
        for name in SETS
        for size in SIZES
        for seed in range(effort.seeds)
    ]
    show(effort.records(STORE, runs, execute), effort)


def execute(run: Run) -> Record:
    """Return accuracy, log loss and calibration error of every method on a part of the answers."""
    votes, gold = crowd(run.dataset)
    rng = np.random.default_rng(run.seed)
    size = int(run.method)
    kept = np.sort(rng.permutation(votes.n_items)[:MOST_ITEMS])
    votes, gold = votes[kept], gold[kept]
    mean = votes.n_votes / votes.n_items
    if size > mean or (size == 0 and run.seed and votes.n_items < MOST_ITEMS):
        return {"found": {}}  # fewer answers than that, or the same as for another seed
    frame = some_answers(votes, size, rng)
    X = features(run.dataset) if run.dataset in WITH_FEATURES else None
    found = {}
    tried = [(name, name, None) for name in METHODS]
    tried += [] if X is None else [(WITH, "dawid_skene", X)]
    for title, method, given in tried:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WieselWarning)
            labeled = aggregate(
                frame,
                item="item",
                worker="worker",
                label="label",
                method=method,
                labels=votes.labels,
                features=given,
            )
        place = {item: k for k, item in enumerate(map(str, votes.ids.tolist()))}
        truth = gold[[place[str(item)] for item in labeled.votes.ids.tolist()]]
        found[title] = scores(labeled.proba, labeled.best_class, truth, method == METHODS[0])
    return {"found": found, "mean_answers": mean}


def some_answers(votes: VoteMatrix, size: int, rng: np.random.Generator) -> pl.DataFrame:
    """Return at most `size` answers of every item, drawn at random; 0 are all."""
    entry, answered = np.nonzero(votes.vote_rows())
    times = np.rint(votes.vote_rows()[entry, answered]).astype(np.int64)  # of repeated answers
    entry, answered = np.repeat(entry, times), np.repeat(answered, times)
    item = votes.item_index[entry]
    order = np.lexsort((rng.random(len(item)), item))
    place = np.empty(len(item), dtype=np.int64)
    place[order] = np.arange(len(item)) - np.searchsorted(item[order], item[order])
    frame = pl.DataFrame(
        {
            "item": pl.Series(votes.ids.tolist()).gather(item),
            "worker": pl.Series(votes.voters).gather(votes.voter_index[entry]),
            "label": pl.Series(votes.labels.names).gather(answered),
        }
    )
    return frame.filter(place < size) if size else frame


def features(name: str) -> npt.NDArray[np.float32]:
    """Return the features of a crowd's items, a row for each."""
    array = np.load(Path(os.environ["WIESEL_DATA"]) / name / "features_train.npy")
    return np.asarray(array.reshape(len(array), -1), dtype=np.float32)


def scores(
    proba: npt.NDArray[np.float64],
    best: npt.NDArray[np.int64],
    truth: npt.NDArray[np.int64],
    is_vote: bool,
) -> dict[str, float]:
    """Return the scores on items with gold; the label of a tied vote counts by its chance."""
    known = np.flatnonzero(truth >= 0)
    right = (best == truth)[known].astype(float)
    if is_vote:
        tied = proba[known] >= proba[known].max(axis=1, keepdims=True) - 1e-9
        right = tied[np.arange(len(known)), truth[known]] / tied.sum(axis=1)
    own = judged(proba[known], truth[known])
    return {"accuracy": float(right.mean()), "log_loss": own["log_loss"], "ece": own["ece"]}


def show(records: Sequence[Record], effort: Effort) -> None:
    """Write the tables."""
    half = halves()
    lines = ["## Label models, by answers to an item", ""]
    for part in PARTS:
        own = [r for r in records if half[r["dataset"]] == part]
        lines += [f"Accuracy in points, {part} half:", "", _by_size(own), ""]
    lines += ["## What features add to Dawid-Skene", "", _features(records), ""]
    lines += [cost_sentence(len(records), sum(r["cpu_seconds"] for r in records))]
    write_page(STORE, f"python -m experiments {STORE} {effort.words}", lines)


def _by_size(records: Sequence[Record]) -> str:
    rows = []
    for method in METHODS:
        cells = []
        for size in SIZES:
            means = _means(records, size, method, "accuracy")
            cells.append(f"{100 * np.mean(means):.1f}" if means else UNKNOWN)
        rows.append([method, *cells])
    n_sets = [str(len(_means(records, size, METHODS[0], "accuracy"))) for size in SIZES]
    titles = [f"{size} answer{'s' * (size > 1)}" if size else "all" for size in SIZES]
    return markdown_table(["", *titles], [*rows, ["sets", *n_sets]])


def _means(records: Sequence[Record], size: int, method: str, score: str) -> list[float]:
    """The score of each set that has it, as the mean over seeds."""
    by_set: dict[str, list[float]] = {}
    for record in records:
        if record["method"] == str(size) and method in record["found"]:
            by_set.setdefault(record["dataset"], []).append(record["found"][method][score])
    return [float(np.mean(values)) for values in by_set.values()]


def _features(records: Sequence[Record]) -> str:
    rows = []
    for name in WITH_FEATURES:
        own = [r for r in records if r["dataset"] == name]
        for size in SIZES:
            cells = []
            for score in ("accuracy", "log_loss", "ece"):
                for method in ("dawid_skene", WITH):
                    means = _means(own, size, method, score)
                    text = f"{100 * means[0]:.1f}" if means and score == "accuracy" else ""
                    cells.append(text or (f"{means[0]:.3f}" if means else ""))
            if all(cells):
                rows.append([name, halves()[name], str(size) if size else "all", *cells])
    head = ["set", "half", "answers to an item", "accuracy", "with features", "log loss"]
    return markdown_table([*head, "with features", "ECE", "with features"], rows)


if __name__ == "__main__":
    main(sys.argv[1:])
