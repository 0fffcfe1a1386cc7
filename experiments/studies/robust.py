"""WeaSEL's robust recipe beside the paper's and the registry, on sixteen data sets.

    python -m experiments robust [--full] [--seeds N] [--jobs N] [--recorded]

Every method trains the same end model with the same optimizer for the same number of updates, in
two modes: with the validation split (for selection, threshold and class balance only), and with
no gold at all. (The robust recipe also tries the label models it can start from: with gold, 300
updates each.) One set of options holds for all data sets. The reduced form has 3 seeds, the full
one 5. Test labels are looked at once, after a run has been trained and chosen.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from experiments.framework.definitions import Effort
from experiments.framework.methods import dataset_of, groups_of, paper_network
from experiments.framework.ranks import critical_difference, draw_ranks, mean_ranks
from experiments.framework.runner import Record, Run, finished, run_groups
from experiments.framework.tables import UNKNOWN, percentages, spread, told_cost, write_page
from wiesel import (
    MBEM,
    AggNet,
    CoNAL,
    ConfusionNet,
    CrowdLayer,
    DataProgramming,
    DawidSkene,
    DoctorNet,
    EndToEndModel,
    LabelModel,
    MajorityVote,
    MaxMIG,
    OneCoin,
    Raykar,
    Snorkel,
    Triplet,
    TwoStage,
    WeaSEL,
)
from wiesel.end_to_end.together import fit_together
from wiesel.io import Dataset

LF_SETS = (
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
)
CROWD_SETS = ("labelme", "music_genre", "sentiment_crowd", "income_crowd")
SETS = (*LF_SETS, *CROWD_SETS)

SHARED: dict[str, Any] = {
    "epochs": 26,
    "epoch_size": 3200,
    "batch_size": 64,
    "lr": 1e-3,
    "weight_average": 0.99,
    "members": 1,
    "progress": False,
}
"""1,300 updates of Adam, looked at after every 50: the same for every method."""

BLIND_EPOCHS = 8
"""Without gold nothing tells when to stop: 400 updates, for every method (the robust recipe's)."""

LABEL_MODELS: dict[str, LabelModel] = {
    "majority vote": MajorityVote(),
    "Dawid-Skene": DawidSkene(),
    "Snorkel": Snorkel(),
    "Triplet-Mean": Triplet(aggregate="mean"),
}
CROWD_METHODS: dict[str, type[EndToEndModel]] = {"MaxMIG": MaxMIG, "CrowdLayer": CrowdLayer}
OTHER_LABEL_MODELS: dict[str, LabelModel] = {
    "one-coin": OneCoin(),
    "data programming": DataProgramming(),
    "Triplet": Triplet(),
}
OTHER_CROWD_METHODS: dict[str, type[EndToEndModel]] = {
    "DoctorNet": DoctorNet,
    "MBEM": MBEM,
    "AggNet": AggNet,
    "Raykar": Raykar,
    "ConfusionNet": ConfusionNet,
    "CoNAL": CoNAL,
}
"""What else the registry has: `robust_registry` runs it."""
PAPER, ROBUST = "WeaSEL, paper", "WeaSEL, robust"
METHODS = (*LABEL_MODELS, PAPER, ROBUST)
MODES = {"validation": "with the validation split", "blind": "without any gold"}
STORE = "robust"


def main(argv: list[str]) -> None:
    """Run what is missing, and write the table and the figure."""
    effort = Effort.parsed(argv, __doc__, full_seeds=5)
    if not effort.recorded:
        runs = [run for mode in MODES for run in definitions(mode, effort.seeds)]
        run_groups(STORE, groups_of(runs), train_and_test, effort.jobs)
    show(effort)


def definitions(mode: str, n_seeds: int) -> Iterable[Run]:
    """Yield all runs of a mode."""
    for dataset in SETS:
        for method in METHODS + (tuple(CROWD_METHODS) if dataset in CROWD_SETS else ()):
            for seed in range(n_seeds):
                yield Run(dataset, method, seed, {"mode": mode})


def build(run: Run, dataset: Dataset) -> EndToEndModel:
    """Return the estimator that a run describes."""
    network = paper_network(dataset, run.seed)
    options = {**SHARED, "seed": run.seed}
    if run.options["mode"] == "blind":
        options["epochs"] = BLIND_EPOCHS
    label_models = LABEL_MODELS | OTHER_LABEL_MODELS
    crowd_methods = CROWD_METHODS | OTHER_CROWD_METHODS
    if run.method in label_models:
        return TwoStage(label_models[run.method], network, **options)
    if run.method in crowd_methods:
        return crowd_methods[run.method](network, **options)
    if run.method == PAPER:
        return WeaSEL(network, recipe="paper", **options)
    changed = {name: value for name, value in run.options.items() if name != "mode"}
    if changed.get("warm_start") in LABEL_MODELS:
        changed["warm_start"] = LABEL_MODELS[changed["warm_start"]]
    return WeaSEL(network, recipe="robust", **options | changed)


def train_and_test(runs: list[Run]) -> list[Record]:
    """Train a group that differs in seed only; only then look at test."""
    dataset = dataset_of(runs[0].dataset)
    train, valid, test = dataset.train, dataset.valid, dataset.test
    models = [build(run, dataset) for run in runs]
    gold = (valid.features, valid.gold) if runs[0].options["mode"] == "validation" else None
    fit_together(models, train.features, train.votes, validation=gold, quiet=True)
    proba = [model.predict_proba(test.features) for model in models]
    ensemble = score(np.mean(proba, axis=0), test.gold)
    return [
        {**_measured(model, own, test.gold), "ensemble": ensemble, "ensemble_of": len(models)}
        for model, own in zip(models, proba, strict=True)
    ]


def score(proba: np.ndarray, gold: np.ndarray) -> float:
    """Return the primary metric: ROC-AUC for two classes, else accuracy."""
    if proba.shape[1] == 2:
        return float(roc_auc_score(gold, proba[:, 1]))
    return float((proba.argmax(axis=1) == gold).mean())


def _measured(model: EndToEndModel, proba: np.ndarray, gold: np.ndarray) -> Record:
    shares = np.bincount(proba.argmax(axis=1), minlength=proba.shape[1]) / len(proba)
    return {
        "score": score(proba, gold),
        "largest_share": float(shares.max()),
        "selection": model.selection_,
        "warm_start": getattr(model, "warm_start_", {}).get("name"),
    }


def show(effort: Effort) -> None:
    """Write the tables of both modes, the ranks and what they say."""
    lines: list[str] = []
    for mode, words in MODES.items():
        found = by_method(definitions(mode, effort.seeds))
        lines += [f"## {words.capitalize()}", "", *table(found), "", *verdicts(found), ""]
        names = [name for name in METHODS if name in found]
        ranks = mean_ranks(_means(found, names))
        draw_ranks(f"robust_{mode}", dict(zip(names, ranks, strict=True)), len(SETS))
        distance = critical_difference(len(names), len(SETS))
        lines += [f"Ranks differ significantly from {distance:.2f} on (Nemenyi, 5 %).", ""]
        records = [record for sets in found.values() for own in sets.values() for record in own]
        cost = told_cost(len(records), sum(record["cpu_seconds"] for record in records))
        lines += [f"![mean ranks](robust_{mode}.png)", "", cost, ""]
    write_page("robust", f"python -m experiments robust {effort.words}", lines)


def quoted(n_seeds: int = 5) -> str:
    """Return the means over all data sets, for README."""
    lines = [
        "| mean over 16 data sets | " + " | ".join(METHODS) + " |",
        "|---|" + "---|" * len(METHODS),
    ]
    for mode, words in MODES.items():
        found = by_method(definitions(mode, n_seeds))
        ranks = mean_ranks(_means(found, list(METHODS)))
        means = " | ".join(mean_over_sets(found[n], "score") for n in METHODS)
        lines.append(f"| {words} | {means} |")
        averaged = " | ".join(mean_over_sets(found[n], "ensemble") for n in METHODS)
        lines.append(f"| the same, {n_seeds} networks averaged | {averaged} |")
        lines.append(f"| mean rank {words} | {' | '.join(f'{rank:.2f}' for rank in ranks)} |")
    return "\n".join(lines)


def by_method(runs: Iterable[Run]) -> dict[str, dict[str, list[Record]]]:
    """Return the finished ones of the runs by method and data set."""
    done = finished(STORE)
    found: dict[str, dict[str, list[Record]]] = {}
    for run in runs:
        if run.key in done:
            found.setdefault(run.method, {}).setdefault(run.dataset, []).append(done[run.key])
    return found


def table(found: dict[str, dict[str, list[Record]]]) -> list[str]:
    """Return the table: a row for each data set, a column for each method, best in bold."""
    names = [name for name in (*METHODS, *CROWD_METHODS) if name in found]
    ensemble = f"{ROBUST}, all seeds averaged"
    lines = [
        f"| | {' | '.join(names)} | {ensemble} |",
        f"|---|{'---|' * (len(names) + 1)}",
    ]
    for dataset in SETS:
        cells = [spread(percentages(found[name].get(dataset, []), "score")) for name in names]
        averaged = [f"{100 * r['ensemble']:.2f}" for r in found[ROBUST].get(dataset, [])[:1]]
        lines.append(f"| {dataset} | {' | '.join([*cells, *(averaged or [UNKNOWN])])} |")
    means = [mean_over_sets(found[name], "score") for name in names]
    means.append(mean_over_sets(found[ROBUST], "ensemble"))
    lines.append(f"| **mean** | {' | '.join(means)} |")
    averaged = [mean_over_sets(found[name], "ensemble") for name in (*names, ROBUST)]
    lines.append(f"| mean, all seeds averaged | {' | '.join(averaged)} |")
    ranks = iter(mean_ranks(_means(found, [name for name in METHODS if name in found])))
    shown = [f"{next(ranks):.2f}" if name in METHODS else UNKNOWN for name in names]
    lines.append(f"| mean rank | {' | '.join([*shown, UNKNOWN])} |")
    return lines


def verdicts(found: dict[str, dict[str, list[Record]]]) -> list[str]:
    """Return how the robust recipe compares with majority vote, set by set."""
    ours, votes = (_by_set(found[name]) for name in (ROBUST, "majority vote"))
    gains = {name: ours[name] - votes[name] for name in SETS if name in ours and name in votes}
    worst, best = min(gains, key=gains.__getitem__), max(gains, key=gains.__getitem__)
    collapsed = [
        f"{r['dataset']} (seed {r['seed']})"
        for records in found[ROBUST].values()
        for r in records
        if r["largest_share"] > 0.995
    ]
    return [
        f"{ROBUST} is {np.mean(list(gains.values())):+.2f} points from majority vote on average; "
        f"best {gains[best]:+.2f} on {best}, worst {gains[worst]:+.2f} on {worst}; "
        f"predicts a single class: {', '.join(collapsed) or 'never'}; "
        f"first or second of all methods on {sum(place <= 2 for place in _places(found))} sets.",
        "",
    ]


def _places(found: dict[str, dict[str, list[Record]]]) -> list[int]:
    """The place of the robust recipe on every data set, 1 for the best."""
    scores = [_by_set(records) for records in found.values()]
    ours = _by_set(found[ROBUST])
    return [1 + sum(own.get(name, 0) > ours[name] for own in scores) for name in ours]


def _by_set(found: dict[str, list[Record]]) -> dict[str, float]:
    return {name: percentages(records, "score").mean() for name, records in found.items()}


def _means(found: dict[str, dict[str, list[Record]]], names: list[str]) -> np.ndarray:
    """(data sets, methods): the mean scores, of the data sets that all methods have."""
    scores = [_by_set(found[name]) for name in names]
    shared = [dataset for dataset in SETS if all(dataset in own for own in scores)]
    return np.array([[own[dataset] for own in scores] for dataset in shared])


def mean_over_sets(found: dict[str, list[Record]], column: str) -> str:
    """Return the mean of a method over all data sets; a dash if one is missing."""
    if set(found) != set(SETS):
        return UNKNOWN
    return f"{np.mean([percentages(records, column).mean() for records in found.values()]):.2f}"


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
