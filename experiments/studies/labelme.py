"""Learning from crowds: the paper's LabelMe table, and two more crowds by the same protocol.

    python -m experiments labelme [--full] [--dataset NAME] [--seeds N] [--jobs N] [--methods ...]

The network is the paper's head (128 units, dropout 0.5) on standardized features, with Adam, batch
size 64 and at most 100 epochs. The settings and learning rates of every method are compared by mean
validation score over three seeds; the best is run with all seeds. The epoch is also selected on
validation. Test labels are used once, at the end. Several published results are of the best epoch
*on test*: a separate column shows this score, from additional runs.
"""

import argparse
import itertools
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from torch import nn

from experiments.framework.runner import RESULTS, Run, run_all
from experiments.studies import paper
from experiments.studies.crowd_table import draw, print_table, write_markdown
from wiesel import (
    MBEM,
    AggNet,
    AnnotMix,
    COINNet,
    CoNAL,
    ConfusionNet,
    CrowdLayer,
    DoctorNet,
    EndToEndModel,
    LabelModel,
    MajorityVote,
    MaxMIG,
    Raykar,
    Supervised,
    TwoStage,
    WeaSEL,
    load_dataset,
)
from wiesel.io import Dataset
from wiesel.label_models import DawidSkene, Snorkel
from wiesel.nn import MLP
from wiesel.training import seeded

Build = Callable[..., EndToEndModel]

EPOCHS = {"labelme": 100, "music_genre": 100, "sentiment_crowd": 20}
"""Similar numbers of steps: sentiment_crowd has four times as many items as the others."""
TUNING_SEEDS = 3


@dataclass(frozen=True)
class Entry:
    """A row of the table: a method and its candidate settings."""

    title: str
    build: Build
    settings: dict[str, list[Any]] = field(default_factory=dict)

    def options(self) -> list[dict[str, Any]]:
        """Return every combination of settings and learning rates."""
        grid = {"lr": [1e-4, 1e-3], **self.settings}
        return [
            dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())
        ]


def two_stage(label_model: LabelModel) -> Build:
    """Return a builder of two-stage models with this label model."""
    return lambda net, **options: TwoStage(label_model, net, **options)


# 90.8 is sqrt(59 voters + 8,192 features), the scale of the paper's code on its own features.
SCALES = ["sqrt_voters", "sqrt_input", 90.8, 200.0]
WEASEL = {"class_conditional": [True, False], "tau_2": SCALES}
# Without the weight of abstaining voters (56 of 59 on LabelMe), smaller scales are sharp enough.
VOTING_ONLY = {"class_conditional": [True, False], "tau_2": ["sqrt_voters", 3.0]}
EM = {"smoothing": [0.1, 1.0]}
STRENGTH = {"strength": [0.001, 0.01, 0.1]}


def fixed(build: Build, **chosen: Any) -> Build:
    """Return `build` with the fixed options of a row."""
    return lambda net, **options: build(net, **chosen, **options)


PAPERS_WEASEL = WeaSEL.paper

METHODS: dict[str, Entry] = {
    "gold": Entry("gold labels", Supervised),
    "majority_vote": Entry("majority vote", two_stage(MajorityVote()), {"hard": [False, True]}),
    "mbem": Entry("MBEM", MBEM, {"m_epochs": [1, 10]}),
    "doctor_net": Entry("DoctorNet", DoctorNet),
    "crowd_layer": Entry("CrowdLayer", CrowdLayer, {"variant": ["MW", "VW+B"]}),
    "agg_net": Entry("AggNet", AggNet, EM),
    "max_mig": Entry("Max-MIG", MaxMIG),
    "snorkel_ce": Entry("Snorkel + CE", two_stage(Snorkel())),
    "weasel_ce": Entry("WeaSEL + CE", PAPERS_WEASEL, WEASEL),
    "snorkel_mig": Entry("Snorkel + MIG", fixed(two_stage(Snorkel()), loss="mig")),
    "weasel_mig": Entry("WeaSEL + MIG", fixed(PAPERS_WEASEL, loss="mig"), WEASEL),
    "dawid_skene_ce": Entry("Dawid-Skene + CE", two_stage(DawidSkene())),
    "dawid_skene_mig": Entry("Dawid-Skene + MIG", fixed(two_stage(DawidSkene()), loss="mig")),
    "majority_vote_mig": Entry("majority vote + MIG", fixed(two_stage(MajorityVote()), loss="mig")),
    "majority_vote_hard": Entry("majority vote, hard labels",
                                fixed(two_stage(MajorityVote()), hard=True)),
    "weasel_ce_voting": Entry("WeaSEL + CE, voting_only", fixed(PAPERS_WEASEL, voting_only=True),
                              settings=VOTING_ONLY),
    "weasel_mig_voting": Entry("WeaSEL + MIG, voting_only",
                               fixed(PAPERS_WEASEL, voting_only=True, loss="mig"),
                               settings=VOTING_ONLY),
    "raykar": Entry("Raykar", Raykar, settings=EM),
    "max_mig_ds": Entry("Max-MIG, Dawid-Skene start", fixed(MaxMIG, start="dawid_skene")),
    "wdn": Entry("DoctorNet, WDN", fixed(DoctorNet, variant="WDN")),
    "iwdn": Entry("DoctorNet, IWDN", fixed(DoctorNet, variant="IWDN")),
    "biwdn": Entry("DoctorNet, BIWDN", fixed(DoctorNet, variant="BIWDN")),
    "trace": Entry("trace regularization", fixed(ConfusionNet, regularizer="trace"),
                   settings=STRENGTH),
    "shared": Entry("one shared confusion matrix", fixed(ConfusionNet, structure="shared")),
    "geo_f": Entry("GeoCrowdNet (F)", fixed(ConfusionNet, regularizer="volume_f"),
                   settings=STRENGTH),
    "geo_w": Entry("GeoCrowdNet (W)", fixed(ConfusionNet, regularizer="volume_w"),
                   settings=STRENGTH),
    "union": Entry("UnionNet-B", fixed(ConfusionNet, structure="union")),
    "conal": Entry("CoNAL", CoNAL),
    "coin_net": Entry("COINNet", COINNet),
    "annot_mix": Entry("annot-mix", AnnotMix),
}  # fmt: skip
"""The paper's list, then our additional methods. Its features are others (512
averaged values instead of the paper's 8,192)."""


@cache
def dataset(name: str) -> Dataset:
    """Return a crowd with standardized features; it is read once per process."""
    return load_dataset(name, standardize=True)


def head(data: Dataset, seed: int) -> nn.Module:
    """Return the paper's end model for LabelMe, initialized from the seed."""
    with seeded(seed):
        width = data.train.features.shape[1]
        return MLP(width, len(data.labels), hidden=(128,), dropout=0.5)


def execute(run: Run) -> dict[str, Any]:
    """Train one run, select its epoch, and only then score test."""
    data, options = dataset(run.dataset), dict(run.options)
    chosen_on = data.test if options.pop("epoch_chosen_on_test", False) else data.valid
    epochs = EPOCHS[run.dataset]
    options |= {"epochs": epochs, "patience": max(5, epochs // 4), "seed": run.seed}
    options |= {"epoch_size": None, "weight_average": None}
    model = METHODS[run.method].build(head(data, run.seed), progress=False, **options)
    learn_from = data.train.votes
    if isinstance(model, Supervised):
        model.set_params(labels=data.labels)
        learn_from = data.train.gold
    model.fit(data.train.features, learn_from, validation=(chosen_on.features, chosen_on.gold))
    predicted = model.predict_proba(data.test.features).argmax(axis=1)
    return {
        "accuracy": float((predicted == data.test.gold).mean()),
        "chosen_by": model.selection_["score"],
        "epoch": model.selection_["epoch"],
    }


def tuning_scores(
    name: str, data: str, done: dict[str, dict[str, Any]]
) -> list[tuple[dict[str, Any], float]]:
    """Return the mean validation score of every setting of a method."""
    seeds = range(TUNING_SEEDS)
    scores = [
        [done[Run(data, name, seed, options).key]["chosen_by"] for seed in seeds]
        for options in METHODS[name].options()
    ]
    means = [100 * float(np.mean(of_seeds)) for of_seeds in scores]
    return list(zip(METHODS[name].options(), means, strict=True))


def tuning_runs(data: str, name: str) -> list[Run]:
    """Return the runs for selecting the settings of a method."""
    seeds = range(TUNING_SEEDS)
    return [Run(data, name, seed, options) for options in METHODS[name].options() for seed in seeds]


def run_table(data: str, names: list[str], seeds: int, jobs: int) -> list[dict[str, Any]]:
    """Run what is missing, and return one row of results per method."""
    tuning = {name: tuning_runs(data, name) for name in names}
    done = _finished(data, tuning.values(), jobs)
    scores = {name: tuning_scores(name, data, done) for name in names}
    chosen = {name: max(scores[name], key=lambda pair: pair[1])[0] for name in names}
    final = {name: _seeded(data, name, chosen[name], seeds) for name in names}
    on_test = {
        name: _seeded(data, name, {**chosen[name], "epoch_chosen_on_test": True}, seeds)
        for name in names
    }
    done |= _finished(data, [*final.values(), *on_test.values()], jobs)
    behind = {name: (*tuning[name], *final[name], *on_test[name]) for name in names}
    return [
        {
            **_figures(name, final[name], on_test[name], done),
            "paper": paper.LABELME.get(METHODS[name].title) if data == "labelme" else None,
            "tuning": scores[name],
            **_cost({run.key for run in behind[name]}, done),
        }
        for name in names
    ]


def _finished(data: str, groups: Iterable[list[Run]], jobs: int) -> dict[str, dict[str, Any]]:
    runs = [run for group in groups for run in group]
    return {record["key"]: record for record in run_all(data, runs, execute, jobs)}


def _seeded(data: str, name: str, options: dict[str, Any], seeds: int) -> list[Run]:
    return [Run(data, name, seed, options) for seed in range(seeds)]


def _figures(
    name: str, final: list[Run], on_test: list[Run], done: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    return {
        "method": METHODS[name].title,
        "in_paper": METHODS[name].title in paper.LABELME,
        "options": final[0].options,
        "accuracy": [100 * done[run.key]["accuracy"] for run in final],
        "validation": [100 * done[run.key]["chosen_by"] for run in final],
        "best_on_test": [100 * done[run.key]["accuracy"] for run in on_test],
    }


def _cost(keys: set[str], done: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {"runs": len(keys), "cpu_seconds": sum(done[key]["cpu_seconds"] for key in keys)}


def main(words: list[str]) -> None:
    """Run what is missing, print the table, and write it as Markdown and as a figure."""
    parser = argparse.ArgumentParser(prog="labelme", description=__doc__)
    parser.add_argument("--dataset", choices=list(EPOCHS), default="labelme")
    parser.add_argument("--full", action="store_true", help="all three data sets, seven seeds")
    parser.add_argument("--seeds", type=int, help="how many; three unless --full")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    given = parser.parse_args(words)
    seeds = given.seeds or (7 if given.full else TUNING_SEEDS)
    for data in EPOCHS if given.full else [given.dataset]:
        show(data, run_table(data, given.methods, seeds, given.jobs))


def show(data: str, rows: list[dict[str, Any]]) -> None:
    """Print the table and its location; write it if it contains the paper's list."""
    print_table(rows)
    shown = {row["method"] for row in rows}
    missing = [entry for entry in METHODS.values() if entry.title not in shown]
    if not any(entry.title in paper.LABELME for entry in missing):
        write_markdown(data, rows, [entry.title for entry in missing])
        draw(data, rows)
    where = RESULTS.relative_to(RESULTS.parents[1]) / data
    print(f"\nEvery run: {where}.jsonl; the table: {where}.md; its figure: {where}.png")


if __name__ == "__main__":
    main(sys.argv[1:])
