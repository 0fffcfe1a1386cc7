"""What a few labels buy: the score against the number of labels, on real sets and unseen tasks.

    python -m experiments few_labels [--full] [--seeds N] [--recorded]

The default learns votes and 5 to 500 labels, drawn at random from the training rows (for spouse,
whose training rows have none, from the validation split) or recommended by `rows_to_label`. It is
compared with itself without labels, with a rough class balance instead of labels (shares up to 1.5
times too large or too small), and with the labels alone: logistic regression, and the committee's
own networks that learn nothing else. Of more than 6,000 training rows, 6,000 are drawn; sets with
fewer rows than labels are left out. Predictions are what `predict` says, with its threshold.
Besides the sixteen sets there are generated tasks of both halves, and one of each family;
nothing was chosen on those of *confirm*. Test labels are used once, at the end of each run.
"""

import sys
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from benchmarks.harness import markdown_table
from sklearn.metrics import accuracy_score, f1_score, log_loss

from experiments.framework.definitions import Effort
from experiments.framework.methods import dataset_of, paper_network
from experiments.framework.runner import RESULTS, Record, Run, finished, run_all
from experiments.framework.tables import UNKNOWN, cost_sentence, write_page
from experiments.studies.default import SETS, score
from experiments.tasks.compare import chosen_specs, task_named
from experiments.tasks.halves import REAL_HALVES, Half
from experiments.tasks.methods import ROUGHLY, network_of
from experiments.tasks.specs import TaskSpec
from wiesel import Committee, Gold, Supervised, VoteMatrix
from wiesel.compare import logistic_proba
from wiesel.guidance.labeling_order import rows_to_label

STORE = "few_labels"
SIZES = (5, 10, 20, 50, 100, 200, 500)
TASK_SIZES = (5, 10, 50, 200)
RECOMMENDED_SIZES = (20, 50, 200)
N_TASKS = 6
"""The number of generated tasks of each half, beside one task of each family."""
FIRST = (50, 200, 10, 0, 500, 5, 20, 100)
"""The numbers of labels in the order in which they are run, two at a time."""
RANDOM, RECOMMENDED = "labels", "recommended"
"""The names of runs with random rows, and with those of `rows_to_label`."""
MOST_ROWS = 6000
FIGURES = ("ROC-AUC or accuracy", "accuracy", "macro F1", "log loss")
WITHOUT, ROUGH, LABELS = "without labels", "rough balance", "votes and labels"
LOGISTIC, NETWORKS = "labels alone, logistic regression", "labels alone, networks"
_LOSES = ("lose over 2: main", "accuracy", "macro F1")
TOLERATED = -2.0
"""A change below this, in points, counts as a loss."""


@dataclass(frozen=True)
class Material:
    """A task: what is trained on, where labels come from, and the test rows."""

    X: np.ndarray
    votes: VoteMatrix
    labeled: tuple[np.ndarray, np.ndarray]
    """The rows that labels are drawn from, and their labels."""
    pool: VoteMatrix
    """The votes on these rows."""
    test: tuple[np.ndarray, np.ndarray]
    network: torch.nn.Module
    group: str


def main(argv: list[str]) -> None:
    """Run what is missing, and write the tables and the figure."""
    effort = Effort.parsed(argv, __doc__, full_seeds=3, reduced_seeds=1)
    runs = definitions(effort.seeds)
    if not effort.recorded:
        run_all(STORE, runs, execute)
    done = finished(STORE)
    show([done[run.key] for run in runs if run.key in done], effort)


def definitions(n_seeds: int) -> list[Run]:
    """Return all runs, the most telling numbers of labels first."""
    halves: tuple[Half, ...] = ("choose", "confirm")
    specs = [
        spec
        for half in halves
        for spec in (*chosen_specs(half, N_TASKS), *_one_of_each_family(half))
    ]
    sizes = {**dict.fromkeys(SETS, (0, *SIZES)), **{s.name: TASK_SIZES for s in specs}}
    runs = [
        Run(name, method, seed, {"labels": size})
        for name, own in sizes.items()
        for seed in range(n_seeds)
        for method in (RANDOM, RECOMMENDED)
        for size in (own if method == RANDOM else RECOMMENDED_SIZES)
        if (size or not seed) and size in own and not (name == "spouse" and method == RECOMMENDED)
    ]
    places = {name: place for place, name in enumerate(sizes)}
    return sorted(runs, key=lambda run: (run.seed, _turn(run), places[run.dataset]))


def _turn(run: Run) -> float:
    """When a run's turn comes: sets before tasks, random rows before recommended ones."""
    place = FIRST.index(run.options["labels"]) // 2
    return place + 2.5 * (run.method == RECOMMENDED) + 0.2 * (run.dataset not in SETS)


def _one_of_each_family(half: Half) -> list[TaskSpec]:
    """The first quick task of every family."""
    by_family: dict[str, TaskSpec] = {}
    for spec in chosen_specs(half, families=True, quick=True):
        by_family.setdefault(spec.name.rpartition("-")[0], spec)
    return [*by_family.values()]


@cache
def material(name: str) -> Material:
    """Return a real set or a generated task."""
    if name not in SETS:
        task = task_named(name)
        labeled, test = (task.X_train, task.y_train), (task.X_test, task.y_test)
        return Material(
            task.X_train,
            task.votes,
            labeled,
            task.votes,
            test,
            network_of(task),
            f"tasks, {task.half}",
        )
    dataset = dataset_of(name)
    train, test = dataset.train, (dataset.test.features, dataset.test.gold)
    rows = np.sort(np.random.default_rng(0).permutation(len(train.features))[:MOST_ROWS])
    source = dataset.valid if name == "spouse" else train
    drawn = np.arange(len(source.gold)) if name == "spouse" else rows
    labeled = source.features[drawn], np.asarray(source.gold[drawn])
    X, votes = train.features[rows], train.votes[rows]
    return Material(
        X,
        votes,
        labeled,
        source.votes[drawn],
        test,
        paper_network(dataset, 0),
        f"sets, {REAL_HALVES[name]}",
    )


@cache
def without_labels(name: str) -> list[float]:
    """Return the figures of the committee without labels."""
    own = material(name)
    return figures(Committee(own.network, progress=False).fit(own.X, own.votes), own.test)


def execute(run: Run) -> Record:
    """Train with some labels, or without any but with a rough class balance."""
    own, size = material(run.dataset), run.options["labels"]
    found = {WITHOUT: without_labels(run.dataset)}
    if not size:
        balance = rough_balance(own.labeled[1], own.votes.n_classes)
        model = Committee(own.network, class_balance=balance, progress=False)
        found[ROUGH] = figures(model.fit(own.X, own.votes), own.test)
        return {"group": own.group, "figures": found}
    rows = np.random.default_rng([run.seed, size]).permutation(len(own.labeled[1]))[:size]
    chosen = ["random"] * len(rows)
    if run.method == RECOMMENDED:
        table = rows_to_label(own.pool, own.labeled[0], n=size, seed=run.seed).frame
        rows, chosen = table["row"].to_numpy(), table["chosen"].to_list()
    X, y = own.labeled[0][rows], own.labeled[1][rows]
    gold = Gold(y, X, own.pool[rows], chosen)
    model = Committee(own.network, progress=False).fit(own.X, own.votes, gold=gold)
    found[LABELS] = figures(model, own.test)
    alone = [member for member in model.members_ if isinstance(member, Supervised)]
    if alone:
        alone[0].threshold_ = None
        found[NETWORKS] = figures(alone[0], own.test)
    proba = logistic_proba(X, y, own.test[0], own.votes.n_classes)
    found[LOGISTIC] = of_proba(proba, None, own.test[1])
    threshold = 0.5 if model.threshold_ is None else float(model.threshold_)
    model.threshold_ = None
    return {
        "group": own.group,
        "items": len(rows),
        "threshold": threshold,
        "at_half": figures(model, own.test),
        "figures": found,
    }


def rough_balance(gold: np.ndarray, n_classes: int) -> np.ndarray:
    """Return class shares of which each is up to 1.5 times too large or too small."""
    shares = np.bincount(gold, minlength=n_classes) + 1.0
    shares *= ROUGHLY ** np.random.default_rng(0).uniform(-1, 1, n_classes)
    return shares / shares.sum()


def figures(model: Any, test: tuple[np.ndarray, np.ndarray]) -> list[float]:
    """Return the four figures; all but the log loss in points."""
    return of_proba(model.predict_proba(test[0]), model.threshold_, test[1])


def of_proba(proba: np.ndarray, threshold: float | None, gold: np.ndarray) -> list[float]:
    """Return the four figures of probabilities, decided at a threshold."""
    predicted, classes = proba.argmax(axis=1), np.arange(proba.shape[1])
    clipped = np.clip(proba, 1e-4, 1)
    if threshold is not None:
        predicted = (proba[:, 1] >= threshold).astype(int)
    return [
        round(100 * score(proba, gold), 4),
        round(100 * float(accuracy_score(gold, predicted)), 4),
        round(100 * float(f1_score(gold, predicted, average="macro")), 4),
        round(
            float(log_loss(gold, clipped / clipped.sum(axis=1, keepdims=True), labels=classes)), 5
        ),
    ]


def show(records: list[Record], effort: Effort) -> None:
    """Write the changes by group and by set, and draw the scores."""
    # A set with fewer rows than labels would repeat its largest number of labels.
    labeled = [r for r in records if 0 < r["options"]["labels"] == r["items"]]
    rough = [r for r in records if not r["options"]["labels"]]
    drawn = [r for r in labeled if r["method"] == RANDOM]
    every = ("sets, both halves", *dict.fromkeys(record["group"] for record in labeled))
    rows = []
    for group in every:
        for method in (RANDOM, RECOMMENDED):
            for size in SIZES:
                own = [
                    r
                    for r in _of_group(labeled, group)
                    if r["options"]["labels"] == size and r["method"] == method
                ]
                # Means over other sets than those above would not be comparable.
                if 2 * len(own) > len({r["dataset"] for r in _of_group(labeled, group)}):
                    kind = "random" if method == RANDOM else method
                    rows.append([group, f"{size} {kind}", str(len(own)), *_summary(own)])
        if own := _of_group(rough, group):
            rows.append([group, "rough balance", str(len(own)), *_summary(own, ROUGH)])
    lines = [
        "![What ten minutes buy](few_labels.png)",
        "",
        "Change by labels, against the same committee without any: means over sets or tasks, in "
        "points (log loss: lower is better), and the share of runs that lose more than 2 points.",
        "",
        markdown_table(["", "labels", "runs", *FIGURES, *_LOSES], rows),
        "",
        *_recommended_lines(labeled, every),
        "Votes and labels against the better of both models that learn the same labels alone, in "
        "points of the main score (ROC-AUC, or accuracy with several classes); random rows.",
        "",
        markdown_table(["labels", "sets", "against labels alone", "ahead on"], _against(drawn)),
        "",
        "Main score by set; random rows:",
        "",
        markdown_table(*_by_set([*rough, *drawn])),
        "",
        _of_thresholds(labeled),
        "",
        cost_sentence(len(records), sum(record["cpu_seconds"] for record in records)),
    ]
    draw([*rough, *drawn])
    write_page(STORE, f"python -m experiments {STORE} {effort.words}", lines)


def _recommended_lines(records: list[Record], groups: tuple[str, ...]) -> list[str]:
    """The comparison of recommended with random rows, once there are enough runs."""
    rows = _recommended(records, groups)
    if not rows:
        return []
    title = "Recommended rows minus as many random ones, on the same sets or tasks:"
    return [title, "", markdown_table(["", "labels", "runs", *FIGURES], rows), ""]


def _recommended(records: list[Record], groups: tuple[str, ...]) -> list[list[str]]:
    """The mean difference of recommended to random rows, with the standard error of the first."""
    found = {(r["dataset"], r["options"]["labels"], r["seed"], r["method"]): r for r in records}
    rows = []
    for group in groups:
        for size in RECOMMENDED_SIZES:
            pairs = [
                (found[key], found[(*key[:3], RANDOM)])
                for r in _of_group(records, group)
                if (key := (r["dataset"], size, r["seed"], RECOMMENDED)) in found
                and (*key[:3], RANDOM) in found
                and r is found[key]
            ]
            if len(pairs) < 8:
                continue
            apart = np.array(
                [np.subtract(*(each["figures"][LABELS] for each in pair)) for pair in pairs]
            )
            mean, error = apart.mean(axis=0), apart[:, 0].std(ddof=1) / np.sqrt(len(apart))
            cells = [f"{mean[0]:+.2f} ± {error:.2f}", *(f"{value:+.2f}" for value in mean[1:3])]
            rows.append([group, str(size), str(len(pairs)), *cells, f"{mean[3]:+.3f}"])
    return rows


def _of_group(records: list[Record], group: str) -> list[Record]:
    whole = group == "sets, both halves"
    return [r for r in records if (r["dataset"] in SETS if whole else r["group"] == group)]


def _change(records: list[Record], name: str = LABELS, base: str = WITHOUT) -> np.ndarray:
    """(runs, figures): one kind of model minus another."""
    pairs = [(r["figures"][name], r["figures"][base]) for r in records]
    return np.array([np.subtract(*pair) for pair in pairs]).reshape(-1, 4)


def _summary(records: list[Record], name: str = LABELS) -> list[str]:
    found = _change(records, name)
    lost = [f"{100 * (found[:, k] < TOLERATED).mean():.0f} %" for k in range(3)]
    mean = found.mean(axis=0)
    return [*(f"{value:+.2f}" for value in mean[:3]), f"{mean[3]:+.3f}", *lost]


def _alone(record: Record) -> float:
    """The main score of the better model that learns the labels alone."""
    found = record["figures"]
    return max(found[name][0] for name in (LOGISTIC, NETWORKS) if name in found)


def _against(records: list[Record]) -> list[list[str]]:
    rows = []
    for size in SIZES:
        own = [r for r in records if r["dataset"] in SETS and r["options"]["labels"] == size]
        if 2 * len(own) > len(SETS):
            lead = np.array([r["figures"][LABELS][0] - _alone(r) for r in own])
            share = f"{100 * (lead > 0).mean():.0f} %"
            rows.append([str(size), str(len(own)), f"{lead.mean():+.2f}", share])
    return rows


def _by_set(records: list[Record]) -> tuple[list[str], list[list[str]]]:
    header, rows = ["", "without", "rough balance", *map(str, SIZES)], []
    for name in SETS:
        own = [r for r in records if r["dataset"] == name]
        if not own:
            continue
        cells = [f"{own[0]['figures'][WITHOUT][0]:.1f}"]
        for size in (0, *SIZES):
            kind = LABELS if size else ROUGH
            values = [r["figures"][kind][0] for r in own if r["options"]["labels"] == size]
            cells.append(f"{np.mean(values):.1f}" if values else UNKNOWN)
        rows.append([name, *cells])
    return header, rows


def _of_thresholds(records: list[Record]) -> str:
    moved = [r for r in records if r["threshold"] != 0.5]
    if not moved:
        return "No threshold was moved from 1/2."
    gain = np.array([np.subtract(r["figures"][LABELS], r["at_half"]) for r in moved])
    accuracy, f1 = gain[:, 1].mean(), gain[:, 2].mean()
    return (
        f"In {len(moved)} of {len(records)} runs labels moved the threshold from 1/2; there it "
        f"changes accuracy by {accuracy:+.2f} and macro F1 by {f1:+.2f} points."
    )


def draw(records: list[Record]) -> None:
    """Draw the mean scores of the sixteen sets against the number of labels."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    sets = [r for r in records if r["dataset"] in SETS]
    done = {name: {r["options"]["labels"] for r in sets if r["dataset"] == name} for name in SETS}
    sizes = tuple(size for size in SIZES if all(size in own for own in done.values()))
    if not sizes:
        return
    figure, grid = plt.subplots(1, 3, figsize=(12.5, 4.2), layout="constrained")
    ticks = ["none", "rough\nbalance", *map(str, sizes)]
    for place, (axes, title) in enumerate(zip(grid, FIGURES, strict=False)):
        start = np.mean([r["figures"][WITHOUT][place] for r in sets])
        rough = _means(sets, ROUGH, (0,), place)
        axes.axhline(start, color="black", linewidth=1, linestyle=":", label=WITHOUT)
        line = [start, *rough, *_means(sets, LABELS, sizes, place)]
        axes.plot(range(len(line)), line, "o-", color="C0", label=LABELS)
        positions = range(2, 2 + len(sizes))
        for name, color in ((NETWORKS, "C1"), (LOGISTIC, "C2")):
            axes.plot(positions, _means(sets, name, sizes, place), "o--", color=color, label=name)
        axes.set(title=title, xlabel="labels, drawn at random", xticks=range(len(ticks)))
        axes.set_xticklabels(ticks)
        axes.grid(alpha=0.3)
    grid[0].set_ylabel(f"points, mean of {len(SETS)} sets")
    figure.legend(*grid[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.suptitle(
        "What ten minutes buy: fifty labels, made in about ten minutes, beside the votes"
    )
    figure.savefig(RESULTS / f"{STORE}.png", dpi=110)
    plt.close(figure)


def _means(records: list[Record], name: str, sizes: tuple[int, ...], place: int) -> list[float]:
    found = []
    for size in sizes:
        own = [r for r in records if r["options"]["labels"] == size]
        # Without two classes there are no networks that learn labels alone.
        values = [r["figures"].get(name, r["figures"].get(LOGISTIC))[place] for r in own]
        found.append(float(np.mean(values)))
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
