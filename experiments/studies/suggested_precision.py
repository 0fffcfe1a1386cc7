"""Whether suggested labeling functions are as precise as they are said to be.

    python -m experiments suggested_precision [--full] [--seeds N] [--recorded]

From 100 random training rows with a label, alone or with the votes of the data set's own labeling
functions, `suggest_lfs` proposes 20. The estimated precision of each is compared with its true one
on all training rows. Every set of texts also gives a task with a rare class: its last class against
the others, cut to 5 % of the rows. Generated tasks have other classes: groups, parts or pairs of
those of the set. No network is trained, and nothing is chosen on test rows.
"""

import sys

import numpy as np
import polars as pl
from benchmarks.harness import markdown_table

from experiments.framework.definitions import Effort
from experiments.framework.methods import dataset_of
from experiments.framework.runner import Record, Run, finished, run_all
from experiments.framework.tables import cost_sentence, write_page
from experiments.tasks.bases import load_base
from experiments.tasks.classes import make_classes
from experiments.tasks.compare import chosen_specs
from experiments.tasks.halves import REAL_HALVES
from experiments.tasks.specs import spec_named
from wiesel import LabelSpace, VoteMatrix, apply_lfs, suggest_lfs
from wiesel.errors import WieselError

STORE = "suggested_precision"
SETS = (
    "youtube",
    "sms",
    "sst2",
    "trec",
    "agnews",
    "vader_tweets",
    "hausa",
    "amazon_175",
    "imdb_136",
    "sentiment_crowd",
)
LABELED, WANTED, MOST_ROWS = 100, 20, 4000
MOST_CLASSES = 8
RARE = 0.05


def main(argv: list[str]) -> None:
    """Run what is missing and write the table."""
    effort = Effort.parsed(argv, __doc__, full_seeds=5, reduced_seeds=2)
    runs = [
        Run(dataset, "suggest_lfs", seed, {"rare": rare, "votes": votes})
        for dataset in SETS
        for rare in (False, True)
        for votes in (False, True)
        for seed in range(effort.seeds)
    ]
    runs += [
        Run(name, "suggest_lfs", seed, {"task": name}) for name in generated() for seed in (0, 1)
    ]
    if not effort.recorded:
        run_all(STORE, runs, execute)
    done = finished(STORE)
    show([done[run.key] for run in runs if run.key in done], effort)


def execute(run: Run) -> Record:
    """Suggest functions from 100 labels, and compare what is said of them with the truth."""
    rng = np.random.default_rng(run.seed)
    if "task" in run.options:
        rows, gold, votes, X = generated_material(run.dataset, rng)
    else:
        rows, gold, votes, X = material(run.dataset, run.options["rare"], rng)
    known = np.full(len(gold), -1)
    chosen = rng.permutation(len(gold))[:LABELED]
    known[chosen] = gold[chosen]
    given = votes if run.options.get("votes") else None
    try:
        found = suggest_lfs(rows, given, labels=votes.labels, gold=known, features=X, n=WANTED)
    except WieselError as error:  # a class without a label
        return {"said": [], "true": [], "label": [], "error": str(error)}
    if not len(found):
        return {"said": [], "true": [], "label": []}
    cast = apply_lfs(found.lfs, rows, labels=votes.labels)
    true, label = [], []
    for j, each in enumerate(found):
        own = cast.voter_index == j
        right = gold[cast.item_index[own]] == cast.class_index[own]
        true.append(round(float(right.mean()), 4) if own.any() else None)
        label.append(votes.labels.index(each.lf.label))
    return {"said": [round(each.precision, 4) for each in found], "true": true, "label": label}


def material(
    name: str, rare: bool, rng: np.random.Generator
) -> tuple[pl.DataFrame, np.ndarray, VoteMatrix, np.ndarray]:
    """Return texts, gold, votes and features; with a rare class, the last one against the rest."""
    train = dataset_of(name).train
    gold, votes = train.gold, train.votes
    rows = rng.permutation(np.flatnonzero(gold >= 0))
    if rare:
        last = len(votes.labels) - 1
        positive, others = rows[gold[rows] == last], rows[gold[rows] != last]
        n_others = min(len(others), int(MOST_ROWS * (1 - RARE)))
        n_rare = max(1, round(n_others * RARE / (1 - RARE)))
        rows = rng.permutation(np.concatenate([positive[:n_rare], others[:n_others]]))
        two = LabelSpace("other", votes.labels.names[last])
        dense = votes.dense()
        merged = np.where(dense < 0, -1, (dense == last).astype(int))
        votes = VoteMatrix.from_dense(merged, two, votes.voters)
        gold = (gold == last).astype(int)
    rows = np.sort(rows[:MOST_ROWS])
    return train.rows[rows].select("text"), gold[rows], votes[rows], train.features[rows]


def generated() -> list[str]:
    """Return generated tasks of the same texts with other classes."""
    return [
        spec.name
        for spec in chosen_specs(limit=90)
        if spec.base in SETS and spec.classes != "own" and spec.n_classes <= MOST_CLASSES
    ]


def generated_material(
    name: str, rng: np.random.Generator
) -> tuple[pl.DataFrame, np.ndarray, VoteMatrix, np.ndarray]:
    """Return texts, gold and features of a generated task, with votes of nobody."""
    spec = spec_named(name)
    train = dataset_of(spec.base).train
    gold = make_classes(spec, load_base(spec.base))
    rows = np.sort(rng.permutation(np.flatnonzero(gold >= 0))[:MOST_ROWS])
    labels = LabelSpace(*(f"class {k}" for k in range(spec.n_classes)))
    nobody = VoteMatrix.from_dense(np.full((len(rows), 1), -1), labels, ["nobody"])
    return train.rows[rows].select("text"), gold[rows], nobody, train.features[rows]


def show(records: list[Record], effort: Effort) -> None:
    """Write said and true precision by kind of task, for the halves of the sets."""
    table = []
    for half in ("choose", "confirm"):
        own = [
            r for r in records if "task" in r["options"] and spec_named(r["dataset"]).half == half
        ]
        add_row(table, ["generated tasks", "labels alone", half], own)
    for rare in (False, True):
        for votes in (False, True):
            for half in ("choose", "confirm"):
                own = [
                    r
                    for r in records
                    if r["options"] == {"rare": rare, "votes": votes}
                    and REAL_HALVES[r["dataset"]] == half
                ]
                what = "rare class, 5 %" if rare else "all classes"
                source = "labels and votes" if votes else "labels alone"
                add_row(table, [what, source, half], own)
    header = ["", "from", "half", "runs", "said", "true", "said minus true (mean size of it)"]
    lines = [
        f"Precision of {WANTED} suggested labeling functions, in percent: as said, and on all rows "
        f"of the training split. For the rare class, only its own functions count. {LABELED} "
        "random rows have a label.",
        "",
        markdown_table(header, table),
        "",
        cost_sentence(len(records), sum(r["cpu_seconds"] for r in records)),
    ]
    write_page(STORE, f"python -m experiments {STORE} {effort.words}", lines)


def add_row(table: list[list[str]], names: list[str], records: list[Record]) -> None:
    """Add the means over runs, if there are any with suggestions."""
    found = [(one.mean(), two.mean()) for one, two in (pairs([r]) for r in records) if len(one)]
    if not found:
        return
    said, true = np.array(found).T
    cells = [f"{100 * each.mean():.1f}" for each in (said, true)]
    apart = f"{100 * (said - true).mean():+.1f} ({100 * np.abs(said - true).mean():.1f})"
    table.append([*names, str(len(found)), *cells, apart])


def pairs(records: list[Record]) -> tuple[np.ndarray, np.ndarray]:
    """Return what is said and what is true of the functions; if a class is rare, of its own."""
    found = [
        (said, true)
        for r in records
        for said, true, label in zip(r["said"], r["true"], r["label"], strict=True)
        if true is not None and (label == 1 or not r["options"].get("rare"))
    ]
    array = np.array(found).reshape(-1, 2)
    return array[:, 0], array[:, 1]


if __name__ == "__main__":
    main(sys.argv[1:])
