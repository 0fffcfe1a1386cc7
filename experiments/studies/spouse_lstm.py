"""Spouse with the paper's kind of network: a bidirectional LSTM on the tokens of the sentence.

    python -m experiments spouse_lstm [--seeds N] [--epochs N] [--jobs N] [--recorded]

The sentence with both persons marked (<p1> .. </p1>, <p2> .. </p2>) becomes 64 token ids of a
vocabulary learned from the training sentences; embeddings are trained. Epoch and threshold are
chosen on validation; WeaSEL's encoder reads the votes and the 200 features of table 1. The paper's
network has three LSTMs, for the words before, between and after the persons; this is one. Runs are
kept in `spouse_lstm.jsonl`, one line each, so an interrupted study goes on where it stopped. The
page also has what runs of table 1 and the paper's own votes say of its figures.
"""

import argparse
import sys
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from benchmarks.harness import markdown_table

from experiments.framework.methods import binary_metrics, dataset_of, threshold_of
from experiments.framework.pages import tables_of
from experiments.framework.runner import RESULTS, Record, Run, finished, run_all
from experiments.framework.tables import cost_sentence, figure_of_paper, mean_of, write_page
from experiments.studies import paper
from experiments.studies.spouse_evidence import evidence
from wiesel import EndToEndModel, MajorityVote, Snorkel, TwoStage, WeaSEL
from wiesel.features import TokenFeatures
from wiesel.nn import LSTM
from wiesel.training import seeded

STORE = "spouse_lstm"
LENGTH = 64
TITLES = {"majority_vote": "majority vote", "snorkel": "Snorkel", "weasel": "WeaSEL"}
EPOCHS = 12
"""The paper trains for 75 at a tenth of the learning rate."""


@cache
def tokens() -> tuple[dict[str, npt.NDArray[np.int64]], int]:
    """Return the token ids of all splits, and how many different ones there are."""
    dataset = dataset_of("spouse")
    features = TokenFeatures(length=LENGTH, max_terms=20_000)
    ids = {"train": np.asarray(features.fit_transform(dataset.train.texts))}
    ids |= {name: np.asarray(features.transform(dataset[name].texts)) for name in ("valid", "test")}
    return ids, max(int(part.max()) for part in ids.values()) + 1


def build(run: Run) -> EndToEndModel:
    """Return the estimator that a run describes."""
    with seeded(run.seed):
        network = LSTM(tokens()[1], 2)
    options: dict[str, Any] = {"epoch_size": None, "weight_average": None, "progress": False}
    options |= {"seed": run.seed, **run.options}
    if run.method == "weasel":
        return WeaSEL.paper(network, encoder=(50, 5), encoding="signed", **options)
    label_model = Snorkel() if run.method == "snorkel" else MajorityVote()
    return TwoStage(label_model, network, **options)


def execute(run: Run) -> Record:
    """Train on train, choose epoch and threshold on valid; only then look at test."""
    (ids, _), dataset, model = tokens(), dataset_of("spouse"), build(run)
    validation = (ids["valid"], dataset.valid.gold)
    beside = {"encoder_X": dataset.train.features} if run.method == "weasel" else {}
    model.fit(ids["train"], dataset.train.votes, validation=validation, **beside)
    proba = model.predict_proba(ids["test"])[:, 1]
    return {
        **binary_metrics(proba, dataset.test.gold, threshold_of(model)),
        "epoch": model.selection_["epoch"],
        "validation": model.selection_["score"],
    }


def main(argv: list[str]) -> None:
    """Run what is missing, and write the page."""
    parser = argparse.ArgumentParser(prog=STORE, description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--recorded", action="store_true", help="show what is finished only")
    given = parser.parse_args(argv)
    options = {"epochs": given.epochs, "lr": 1e-3}
    # Seed by seed, so that an interrupted study has all methods of the seeds it has.
    runs = [
        Run("spouse", method, seed, options) for seed in range(given.seeds) for method in TITLES
    ]
    if not given.recorded:
        run_all(STORE, runs, execute, given.jobs)
    done = finished(STORE)
    found: dict[str, list[Record]] = {method: [] for method in TITLES}
    for run in runs:
        if run.key in done:
            found[run.method].append(done[run.key])
    command = f"python -m experiments {STORE} --seeds {given.seeds} --epochs {given.epochs}"
    show(found, evidence(), command + " --recorded" * given.recorded)


def show(found: dict[str, list[Record]], known: list[str], command: str) -> None:
    """Write the LSTM's figures beside those of table 1 and of the paper, and what is known."""
    table_1 = tables_of(RESULTS / "table1.md")[0]
    rows = [
        (
            title,
            mean_of(found[method], "f1"),
            mean_of(found[method], "auc"),
            (table_1.cell(title, "spouse") or "-").partition(" (")[0],
            figure_of_paper(paper.TABLE_1.get(title, {}).get("spouse")),
        )
        for method, title in TITLES.items()
    ]
    header = ("", "LSTM, F1", "LSTM, ROC-AUC", "perceptron of table 1, F1", "paper, F1")
    records = [record for group in found.values() for record in group]
    cost = sum(record["cpu_seconds"] for record in records)
    lines = [
        "Test figures on spouse in percent, threshold chosen on validation. The paper's training",
        "candidates, its tokens and its three LSTMs are not ours.",
        "",
        markdown_table(header, rows),
        "",
        cost_sentence(len(records), cost),
        "",
        *known,
    ]
    write_page(STORE, command, lines)


if __name__ == "__main__":
    main(sys.argv[1:])
