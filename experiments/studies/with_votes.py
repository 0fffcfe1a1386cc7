"""Predictions of new items that have votes: from the features, from the votes, or from both.

    python -m experiments with_votes [--seeds N] [--recorded]

The committee learns from the training rows of every shared set whose test rows have votes, at most
6,000 of them, without gold or with 200 gold labels of random rows of the validation split.
"""

import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from benchmarks.harness import markdown_table

from experiments.framework.definitions import Effort
from experiments.framework.runner import Record, Run
from experiments.framework.tables import cost_sentence, write_page
from experiments.tasks.halves import REAL_HALVES
from wiesel import Committee, LabelSpace, VoteMatrix
from wiesel.errors import WieselWarning
from wiesel.nn import MLP

STORE = "with_votes"
SETS = ("agnews", "hausa", "imdb_12", "sms", "sst2", "trec", "vader_tweets", "youtube")
MOST_ROWS, N_GOLD = 6_000, 200
METHODS = ("blind", "gold")
TITLES = {"networks": "features", "votes": "votes", "both": "both"}
_FEATURES_OF = {"imdb_12": "imdb_136"}


def main(argv: list[str]) -> None:
    """Run what is missing, and write the page."""
    effort = Effort.parsed(argv, __doc__, full_seeds=3, reduced_seeds=1)
    runs = [
        Run(name, way, seed) for name in SETS for way in METHODS for seed in range(effort.seeds)
    ]
    show(effort.records(STORE, runs, execute), effort)


def execute(run: Run) -> Record:
    """Return accuracy and log loss of the three predictions on test rows with votes."""
    X, votes, _ = load(run.dataset, "train", np.random.default_rng(run.seed))
    X_test, test, truth = load(run.dataset, "test")
    mean, scale = X.mean(axis=0), X.std(axis=0) + 1e-6
    X, X_test = (X - mean) / scale, (X_test - mean) / scale
    network = MLP(X.shape[1], votes.n_classes)
    given: dict[str, Any] = {}
    if run.method == "gold":
        X_dev, dev, gold = load(run.dataset, "valid")
        some = np.random.default_rng(run.seed).permutation(np.flatnonzero(gold >= 0))[:N_GOLD]
        given = {"validation": ((X_dev[some] - mean) / scale, gold[some], dev[some])}
    with warnings.catch_warnings(action="ignore", category=WieselWarning):
        model = Committee(network, seed=run.seed).fit(X, votes, **given)
    found = {
        "networks": model.predict_proba(X_test),
        "votes": model.soft_labels(X_test, test),
        "both": model.predict_proba(X_test, test),
    }
    known = np.flatnonzero((truth >= 0) & test.covered)
    scores = {name: _scores(proba[known], truth[known]) for name, proba in found.items()}
    return {"found": scores, "covered": float(test.covered.mean())}


def load(
    name: str, split: str, rng: np.random.Generator | None = None
) -> tuple[npt.NDArray[np.float32], VoteMatrix, npt.NDArray[np.int64]]:
    """Return features, votes and gold of a split; a sample of it with `rng`."""
    folder = Path(os.environ["WIESEL_DATA"])
    tables = [
        pl.read_parquet(folder / name / f"{part}.parquet") for part in ("train", "valid", "test")
    ]
    table = pl.read_parquet(folder / name / f"{split}.parquet")
    X = np.load(folder / _FEATURES_OF.get(name, name) / f"features_{split}.npy")
    n_classes = 1 + max(
        int(part.select(pl.max_horizontal(pl.col("label", "^lf_.*$").max())).item())
        for part in tables
    )
    labels = LabelSpace(*[f"class {place}" for place in range(n_classes)])
    own = table.select("^lf_.*$")
    votes = VoteMatrix.from_dense(own.to_numpy(), labels, own.columns)
    rows = np.arange(len(table)) if rng is None else rng.permutation(len(table))[:MOST_ROWS]
    return X[rows].astype(np.float32), votes[rows], table["label"].to_numpy()[rows].astype(np.int64)


def _scores(proba: npt.NDArray[np.float64], truth: npt.NDArray[np.int64]) -> dict[str, float]:
    of_truth = np.maximum(proba[np.arange(len(truth)), truth], 1e-6)
    right = float((proba.argmax(axis=1) == truth).mean())
    return {"accuracy": 100 * right, "log_loss": float(-np.log(of_truth).mean())}


def show(records: Sequence[Record], effort: Effort) -> None:
    """Write a table for each amount of gold."""
    lines = ["Test rows with votes; accuracy in points, and log loss.", ""]
    for way in METHODS:
        own = [r for r in records if r["method"] == way]
        lines += [f"## {'Without gold' if way == 'blind' else f'{N_GOLD} gold labels'}", ""]
        lines += [_table(own), ""]
    lines += [cost_sentence(len(records), sum(r["cpu_seconds"] for r in records))]
    write_page(STORE, f"python -m experiments {STORE} {effort.words}", lines)


def _table(records: Sequence[Record]) -> str:
    rows = []
    for name in SETS:
        own = [r for r in records if r["dataset"] == name]
        if own:
            rows.append([name, REAL_HALVES[name], *_cells(own)])
    for half in ("choose", "confirm"):
        own = [r for r in records if REAL_HALVES[r["dataset"]] == half]
        rows.append([f"**mean, {half}**", "", *_cells(own)])
    head = [f"{title}{score}" for title in TITLES.values() for score in ("", ", log loss")]
    return markdown_table(["set", "half", *head], rows)


def _cells(records: Sequence[Record]) -> list[str]:
    cells = []
    for name in TITLES:
        for score, form in (("accuracy", ".1f"), ("log_loss", ".3f")):
            cells.append(format(float(np.mean([r["found"][name][score] for r in records])), form))
    return cells


if __name__ == "__main__":
    main(sys.argv[1:])
