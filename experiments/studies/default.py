"""The default compared with majority vote, label models and WeaSEL, on sixteen real data sets.

    python -m experiments default [--full] [--seeds N] [--jobs N] [--recorded]

Every method trains the same network with the same optimizer for the same number of updates, in
three modes: without any gold (8 epochs of 3,200 items, or as many as there are classes), with the
validation split (the best of 20 epochs), and with 50 items of it. Every method averages five
networks; the committee averages two or four for each of its members. All data sets use the same
options. The committee also trains networks on the validation items; the column "validation gold"
has networks that were trained on nothing else. Gold, the last column, trains the same networks on
the gold labels of the training rows; spouse has none. Test labels are used once, after training
and model selection. The reduced form has one seed, the full one three.
"""

import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from benchmarks.harness import markdown_table
from sklearn.metrics import roc_auc_score

from experiments.framework.definitions import Effort
from experiments.framework.methods import data_of, paper_network
from experiments.framework.runner import Record, Run, finished, run_all
from experiments.framework.tables import UNKNOWN, cost_sentence, write_page
from experiments.tasks.halves import REAL_HALVES
from experiments.tasks.make import four_figures
from wiesel import (
    Committee,
    DawidSkene,
    EndToEndModel,
    LabelModel,
    MajorityVote,
    Snorkel,
    Supervised,
    Triplet,
    TwoStage,
    WeaSEL,
)
from wiesel.errors import WieselWarning
from wiesel.io import Dataset

SETS = (
    "imdb_136",
    "imdb_12",
    "amazon_175",
    "spouse",
    "youtube",
    "sms",
    "sst2",
    "trec",
    "agnews",
    "hausa",
    "spambase",
    "vader_tweets",
    "labelme",
    "music_genre",
    "sentiment_crowd",
    "income_crowd",
)
SHARED: dict[str, Any] = {"progress": False}
"""No other options: all methods share the same training defaults."""
NETWORKS = 5
MODES = {
    "blind": "Without any gold",
    "validation": "With the validation split and the votes on it",
    "gold50": "With 50 items of the validation split and the votes on them",
}
FEW = 50

LABEL_MODELS: dict[str, LabelModel] = {
    "majority vote": MajorityVote(),
    "Dawid-Skene": DawidSkene(),
    "Snorkel": Snorkel(),
    "Triplet-Mean": Triplet(aggregate="mean"),
}
BASELINE, PAPER, WEASEL, COMMITTEE = "majority vote", "WeaSEL, paper", "WeaSEL", "Committee"
GOLD, VALIDATION_GOLD = "gold", "validation gold"
METHODS = (*LABEL_MODELS, PAPER, WEASEL, VALIDATION_GOLD, COMMITTEE, GOLD)
WITHOUT_TRAIN_GOLD = ("spouse",)
"""Sets whose training rows have no gold labels."""
GOLD_SETS = tuple(name for name in SETS if name not in WITHOUT_TRAIN_GOLD)
QUOTED_SETS = ("imdb_136", "amazon_175", "sms", "trec", "labelme")
QUOTED_MODES = ("blind", "validation")
"""The part that the README shows."""
QUOTED_NAMES = {
    COMMITTEE: "**Committee, the default**",
    GOLD: "gold labels instead of votes",
    VALIDATION_GOLD: "only the validation set",
}
ENOUGH = 500
"""The minimum number of test items; with fewer, one point is chance."""
FIGURES = ("score", "accuracy", "macro_f1", "log_loss")
LEAST_GAP = 3.0
"""The least gap between gold and the baseline, in points, of which a share is closed."""
STORE = "default"


def main(argv: list[str]) -> None:
    """Run what is missing, and write the tables."""
    effort = Effort.parsed(argv, __doc__, full_seeds=3, reduced_seeds=1)
    runs = [run for mode in MODES for run in definitions(mode, effort.seeds)]
    if not effort.recorded:
        run_all(STORE, runs, execute, effort.jobs)
    show(effort)


def definitions(mode: str, n_seeds: int) -> list[Run]:
    """Return all runs of a mode."""
    return [
        Run(dataset, method, seed, {"mode": mode})
        for dataset in SETS
        for method in METHODS
        if not (method == GOLD and dataset in WITHOUT_TRAIN_GOLD)
        and not (method == VALIDATION_GOLD and mode == "blind")
        for seed in range(n_seeds)
    ]


def build(run: Run, dataset: Dataset) -> EndToEndModel:
    """Return the estimator that a run describes."""
    network = paper_network(dataset, run.seed)
    options = {**SHARED, "seed": 100 * run.seed}
    if run.method == COMMITTEE:
        return Committee(network, **options)
    options["members"] = NETWORKS
    if run.method in (GOLD, VALIDATION_GOLD):
        return Supervised(network, labels=dataset.labels, **options)
    if run.method in LABEL_MODELS:
        return TwoStage(LABEL_MODELS[run.method], network, **options)
    if run.method == WEASEL:
        return WeaSEL(network, **options)
    training = {"epochs": None, "epoch_size": 3200, "lr": 1e-3, "weight_average": 0.99}
    return WeaSEL.paper(network, **training, **options)


def execute(run: Run) -> Record:
    """Train a method on a data set, and only then score test."""
    dataset = data_of(run)
    train, test = dataset.train, dataset.test
    model = build(run, dataset)
    targets = train.gold if run.method == GOLD else train.votes
    validation = gold_of(dataset, run.options["mode"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WieselWarning)
        if run.method == VALIDATION_GOLD:
            model.fit(*validation[:2])
        else:
            model.fit(train.features, targets, validation=validation)
    proba = model.predict_proba(test.features)
    shares = np.bincount(proba.argmax(axis=1), minlength=proba.shape[1]) / len(proba)
    return {
        **four_figures(model, test.features, test.gold),
        "n_test": len(proba),
        "largest_share": float(shares.max()),
        "members": getattr(model, "member_weights_", {}),
    }


def gold_of(dataset: Dataset, mode: str) -> Any:
    """Return the validation data of a mode: none, all, or fifty items."""
    valid = dataset.valid
    if mode == "blind":
        return None
    rows = np.arange(len(valid.gold))
    if mode == "gold50":
        rows = np.sort(np.random.default_rng(0).permutation(rows)[:FEW])
    return valid.features[rows], valid.gold[rows], valid.votes[rows]


def score(proba: np.ndarray, gold: np.ndarray) -> float:
    """Return the main score: ROC-AUC for binary tasks, else accuracy."""
    if proba.shape[1] == 2:
        return float(roc_auc_score(gold, proba[:, 1]))
    return float((proba.argmax(axis=1) == gold).mean())


def show(effort: Effort) -> None:
    """Write the tables of all modes, and their conclusions."""
    lines: list[str] = []
    for mode, words in MODES.items():
        found = by_method(definitions(mode, effort.seeds))
        if COMMITTEE in found and BASELINE in found:
            lines += [f"## {words}", "", *table(found), "", *verdict(found), "", seeds(found), ""]
            lines += four_figures_table(found)
            records = [r for sets in found.values() for own in sets.values() for r in own]
            lines += [cost_sentence(len(records), sum(r["cpu_seconds"] for r in records)), ""]
    write_page(STORE, f"python -m experiments default {effort.words}", lines)


def four_figures_table(found: Mapping[str, Mapping[str, Sequence[Record]]]) -> list[str]:
    """Return the committee's difference to the baseline by set, in all four figures."""
    rows, differences = [], []
    for dataset in SETS:
        own, baseline = (found[name].get(dataset, []) for name in (COMMITTEE, BASELINE))
        if not own or not baseline or not all("accuracy" in r for r in (*own, *baseline)):
            continue
        gold = 100 * np.mean([r["score"] for r in found.get(GOLD, {}).get(dataset, [])] or [np.nan])
        means = [
            100 * np.array([np.mean([r[figure] for r in part]) for figure in FIGURES])
            for part in (own, baseline)
        ]
        gap = gold - means[1][0]
        closed = 100 * (means[0][0] - means[1][0]) / gap if gap >= LEAST_GAP else np.nan
        differences.append([*(means[0] - means[1]), closed])
        rows.append([dataset, *_differences(differences[-1])])
    if not rows:
        return []
    of_all = [*np.mean(differences, axis=0)[:4], np.nanmedian(np.array(differences)[:, 4])]
    rows.append(["**mean** (of the gap: median)", *_differences(of_all)])
    header = ["committee against majority vote", "main score", "accuracy", "macro F1", "log loss"]
    header += ["of the gap to gold"]
    return [*markdown_table(header, rows).splitlines(), ""]


def _differences(values: Sequence[float]) -> list[str]:
    *points, loss, closed = values
    share = f"{closed:.0f} %" if np.isfinite(closed) else UNKNOWN
    return [*(f"{value:+.2f}" for value in points), f"{loss / 100:+.3f}", share]


def seeds(found: Mapping[str, Mapping[str, Sequence[Record]]]) -> str:
    """Return the number of seeds behind each method's means."""
    counts = {name: max(map(len, sets.values())) for name, sets in found.items()}
    return "Seeds: " + ", ".join(f"{name} {count}" for name, count in counts.items()) + "."


def by_method(runs: Iterable[Run]) -> dict[str, dict[str, list[Record]]]:
    """Return the finished runs by method and data set."""
    done = finished(STORE)
    found: dict[str, dict[str, list[Record]]] = {}
    for run in runs:
        if run.key in done:
            found.setdefault(run.method, {}).setdefault(run.dataset, []).append(done[run.key])
    return found


def table(found: Mapping[str, Mapping[str, Sequence[Record]]]) -> list[str]:
    """Return a row per data set, a column per method, and the committee's gain."""
    names = [name for name in METHODS if name in found]
    rows = []
    for dataset in SETS:
        scores = {name: _mean(found[name].get(dataset, [])) for name in names}
        gain = scores[COMMITTEE] - scores[BASELINE]
        rows.append([dataset, REAL_HALVES[dataset], *map(_cell, scores.values()), f"{gain:+.2f}"])
    rows += [_mean_row("mean", found, names, SETS)]
    if GOLD in found:
        rows += [_mean_row(f"mean of {len(GOLD_SETS)}", found, names, GOLD_SETS)]
    header = ["test ROC-AUC (binary) or accuracy, %", "half", *names, "Committee's gain"]
    return markdown_table(header, rows).splitlines()


def _mean_row(
    title: str,
    found: Mapping[str, Mapping[str, Sequence[Record]]],
    names: Sequence[str],
    sets: Sequence[str],
) -> list[str]:
    means = {name: _over_sets(found[name], sets) for name in names}
    gain = means[COMMITTEE] - means[BASELINE]
    return [f"**{title}**", "", *map(_cell, means.values()), f"**{gain:+.2f}**"]


def verdict(found: Mapping[str, Mapping[str, Sequence[Record]]]) -> list[str]:
    """Compare the committee with majority vote, by data set and by half."""
    gains = {
        name: _mean(found[COMMITTEE].get(name, [])) - _mean(found[BASELINE].get(name, []))
        for name in SETS
    }
    known = {name: gain for name, gain in gains.items() if np.isfinite(gain)}
    large = {n: g for n, g in known.items() if found[COMMITTEE][n][0]["n_test"] >= ENOUGH}
    worst, best = min(large, key=large.__getitem__), max(known, key=known.__getitem__)
    halves = {
        half: np.mean([gain for name, gain in known.items() if REAL_HALVES[name] == half])
        for half in ("choose", "confirm")
    }
    return [
        f"Committee against majority vote: {np.mean(list(known.values())):+.2f} points on average "
        f"({halves['choose']:+.2f} on the half that defaults were chosen on, "
        f"{halves['confirm']:+.2f} on the half that confirms); best {known[best]:+.2f} on {best}; "
        f"worst of the sets with {ENOUGH} or more test items {large[worst]:+.2f} on {worst}."
    ]


def quoted(n_seeds: int = 3) -> str:
    """Return a table for the README: one row per method that is finished on all sets.

    It shows five sets without gold, then means with and without validation data. The means cover
    the sets for which gold has a result, so that all rows are comparable.
    """
    blind, validated = (by_method(definitions(mode, n_seeds)) for mode in QUOTED_MODES)
    rows = [
        [
            QUOTED_NAMES.get(name, name),
            *(_cell(_mean(blind.get(name, {}).get(row, []))) for row in QUOTED_SETS),
            _cell(_over_sets(blind.get(name, {}), GOLD_SETS)),
            _cell(_over_sets(validated.get(name, {}), GOLD_SETS)),
        ]
        for name in METHODS
        if _finished(validated if name == VALIDATION_GOLD else blind, name)
    ]
    mean = f"mean of {len(GOLD_SETS)}"
    return markdown_table(["method", *QUOTED_SETS, mean, f"{mean}, validation set"], rows)


def _finished(found: Mapping[str, Mapping[str, Sequence[Record]]], name: str) -> bool:
    return bool(np.isfinite(_over_sets(found.get(name, {}), GOLD_SETS)))


def _mean(records: Sequence[Record]) -> float:
    return 100 * float(np.mean([r["score"] for r in records])) if records else float("nan")


def _over_sets(found: Mapping[str, Sequence[Record]], sets: Sequence[str]) -> float:
    return float(np.mean([_mean(found.get(name, [])) for name in sets]))


def _cell(value: float) -> str:
    return f"{value:.2f}" if np.isfinite(value) else UNKNOWN


if __name__ == "__main__":
    main(sys.argv[1:])
