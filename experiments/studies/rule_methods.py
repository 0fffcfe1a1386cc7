"""ImplyLoss, ASTRA and deep probabilistic logic, compared with the results of ASTRA's paper.

    python -m experiments rule_methods [--seeds N] [--jobs N] [--recorded]

The data sets are those of the papers that are available here, with the same rules: trec (accuracy),
sms (F1) and youtube (accuracy). ImplyLoss and ASTRA learn from votes and a few labeled items of the
training split, drawn by the seed, as many as in the papers. The others learn from votes alone, and
`gold alone` from the labeled items alone. Epoch and threshold are selected on the validation split,
as in the papers. Their features are from ELMo or BERT, ours are sentence embeddings.
"""

import sys
from typing import Any

import numpy as np
from benchmarks.harness import markdown_table
from sklearn.metrics import f1_score

from experiments.framework.definitions import Effort
from experiments.framework.methods import dataset_of, paper_network
from experiments.framework.runner import Record, Run
from experiments.framework.tables import cost_sentence, figure_of_paper, mean_of, write_page
from wiesel import (
    ASTRA,
    DeepLogic,
    EndToEndModel,
    ImplyLoss,
    MajorityVote,
    Snorkel,
    Supervised,
    TwoStage,
    VoteMatrix,
)

STORE = "rule_methods"
LABELED = {"trec": 68, "sms": 69, "youtube": 100}
"""The number of labeled items; ImplyLoss's paper has one per rule of trec."""
EPOCHS = 20
METHODS = {
    "gold_alone": "labeled items alone",
    "majority_vote": "majority vote",
    "snorkel": "Snorkel",
    "deep_logic": "deep probabilistic logic",
    "imply_loss": "ImplyLoss",
    "astra": "ASTRA",
}
PAPER: dict[str, dict[str, float]] = {
    "majority_vote": {"trec": 60.9, "sms": 48.4, "youtube": 82.2},
    "snorkel": {"trec": 65.3, "sms": 94.7, "youtube": 93.5},
    "astra": {"trec": 80.3, "sms": 95.3, "youtube": 95.3},
}
"""Karamanolakis et al. 2021, from the README of their code; its majority vote has no network.
The tables of ImplyLoss and deep probabilistic logic are not available."""


def main(argv: list[str]) -> None:
    """Run what is missing, and write the page."""
    effort = Effort.parsed(argv, __doc__)
    runs = [
        Run(name, method, seed)
        for seed in range(effort.seeds)
        for name in LABELED
        for method in METHODS
    ]
    show(effort.records(STORE, runs, execute), effort)


def execute(run: Run) -> Record:
    """Train on votes and a few labels, select the epoch on validation; only then score test."""
    dataset = dataset_of(run.dataset)
    train, valid, test = dataset.train, dataset.valid, dataset.test
    chosen = np.random.default_rng(run.seed).permutation(len(train.gold))[: LABELED[run.dataset]]
    few = np.full(len(train.gold), -1)
    few[chosen] = train.gold[chosen]
    validation = (valid.features, valid.gold)
    network = paper_network(dataset, run.seed)
    options: dict[str, Any] = {"epochs": EPOCHS, "seed": run.seed, "progress": False}
    if run.method == "gold_alone":
        model: EndToEndModel = Supervised(network, labels=dataset.labels, **options)
        model.fit(train.features[chosen], train.gold[chosen], validation=validation)
    elif run.method in ("imply_loss", "astra"):
        method = ImplyLoss if run.method == "imply_loss" else ASTRA
        model = method(network, **options)
        model.fit(train.features, train.votes, validation=validation, gold=few)
    else:
        model = label_free(run.method, network, options)
        model.fit(train.features, train.votes, validation=validation)
    return measured(model, test.features, test.votes, test.gold)


def label_free(method: str, network: Any, options: dict[str, Any]) -> EndToEndModel:
    """Return a method that learns from votes alone."""
    if method == "deep_logic":
        return DeepLogic(network, **options)
    return TwoStage(Snorkel() if method == "snorkel" else MajorityVote(), network, **options)


def measured(model: EndToEndModel, X: np.ndarray, votes: VoteMatrix, gold: np.ndarray) -> Record:
    """Return the end model's metrics and, if the method uses test votes, those with test votes."""
    predicted = model.labels_.indices(model.predict(X))
    noted = {"accuracy": float((predicted == gold).mean()), "f1": _f1(gold, predicted)}
    if isinstance(model, ASTRA | ImplyLoss | DeepLogic):
        together = model.soft_labels(X, votes).argmax(axis=1)
        noted |= {
            "accuracy_with_votes": float((together == gold).mean()),
            "f1_with_votes": _f1(gold, together),
        }
    return noted


def _f1(gold: np.ndarray, predicted: np.ndarray) -> float:
    """Return F1 of the second class for binary tasks, else the mean over classes."""
    average = "binary" if gold.max() == 1 else "macro"
    return float(f1_score(gold, predicted, average=average))


def show(records: list[Record], effort: Effort) -> None:
    """Write our results, ours with test votes, and the paper's, for each set."""
    rows = []
    for name in LABELED:
        column = "f1" if name == "sms" else "accuracy"
        for method, title in METHODS.items():
            own = [r for r in records if (r["dataset"], r["method"]) == (name, method)]
            with_votes = [r for r in own if f"{column}_with_votes" in r]
            rows.append(
                [
                    name,
                    title,
                    mean_of(own, column),
                    mean_of(with_votes, f"{column}_with_votes"),
                    figure_of_paper(PAPER.get(method, {}).get(name)),
                ]
            )
    header = ("", "method", "end model", "with the votes on test", "ASTRA's paper")
    counts = ", ".join(f"{count} on {name}" for name, count in LABELED.items())
    lines = [
        "Test accuracy (trec, youtube) or F1 (sms) in percent. ImplyLoss, ASTRA and *labeled items",
        f"alone* have gold labels of a few training items: {counts}. The paper's features are",
        "fine-tuned networks, ours fixed sentence embeddings; its majority vote is the votes",
        "without a network. ImplyLoss's own table is not at hand.",
        "",
        markdown_table(header, rows),
        "",
        cost_sentence(len(records), sum(record["cpu_seconds"] for record in records)),
    ]
    write_page(STORE, f"python -m experiments {STORE} {effort.words}", lines)


if __name__ == "__main__":
    main(sys.argv[1:])
