"""Why WeaSEL is robust to copies of one random voter, but not to independent random voters.

    python -m experiments equilibrium [--seeds N] [--recorded]

Let every voter j have one weight w_j, the same for all items: an encoder without inputs. Let q be
the soft labels, p the predictions of the end model, and v_j the votes, -1 or +1. The gradient of
the encoder's loss in w_j is zero if E[(q - p) v_j] = 0. On the simplex of the softmax, training is
in equilibrium if this expectation is the same for all voters. While logits are small, E[q v_j] is
proportional to w_j. The features carry no information about a coin, so E[p v_j] is 0; of the truth,
the end model learns the share R^2 that the features explain. So the equilibrium is

    w_truth (1 - R^2) = w_coin:

the truth has the weight of 1 / (1 - R^2) coins, for any number of coins and any tau_2. Copies of a
coin share the weight of one, because E[q v_j] is that of all copies together.

The first table compares this with trained weights; features and gold are those of imdb_136. R^2 is
cov(p, v_j) / cov(q, v_j) on the training items. A network with this many weights memorizes part of
every coin, so the truth should have the weight of (1 - R^2 of a coin) / (1 - R^2 of the truth)
coins.

The second table has the paper's encoder, which computes weights per item, and more informative
features: those of imdb_136 and a hint, the truth (-1 or +1) plus noise of the given standard
deviation.
"""

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from benchmarks.harness import markdown_table
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from experiments.framework.definitions import SIGNED, Effort
from experiments.framework.methods import PAPER, data_of, dataset_of, paper_network
from experiments.framework.planted import votes_of
from experiments.framework.runner import Record, Run, finished, run_all
from experiments.framework.tables import UNKNOWN, cost_sentence, percentages, spread, write_page
from experiments.studies.random_voters import SET
from wiesel import EndToEndModel, Supervised, WeaSEL

STORE = "equilibrium"
RATE, EPOCHS = 1e-3, 30
"""Epochs for the constant weights, which converge slowly; the last epoch is used."""
PLANTED = (("coins", 3), ("coins", 10), ("coins", 25), ("copies", 10), ("copies", 100))
HINTS, COINS = (None, 1.2, 0.9), (3, 10, 25)
ENCODER_EPOCHS = 60
"""Epochs for the paper's encoder; validation selects the epoch, as in the other studies."""


class SameForAll(nn.Module):
    """Voter scores that do not depend on the input."""

    def __init__(self, n_voters: int) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.zeros(n_voters))

    def forward(self, encoded: Tensor) -> Tensor:
        """Return the scores for every item."""
        return self.scores.expand(len(encoded), -1)


def main(argv: list[str]) -> None:
    """Run what is missing, and write the tables."""
    effort = Effort.parsed(argv, __doc__, full_seeds=3, reduced_seeds=1)
    if not effort.recorded:
        run_all(STORE, [*resting(effort.seeds), *hinted(effort.seeds)], execute)
    show(effort)


def resting(n_seeds: int) -> list[Run]:
    """Return the runs of the first table."""
    return [
        Run(SET, "constant", seed, {kind: count})
        for kind, count in PLANTED
        for seed in range(n_seeds)
    ]


def hinted(n_seeds: int) -> list[Run]:
    """Return the runs of the second table; the hint is part of a run's definition."""
    return [
        Run(SET, "gold" if coins is None else "weasel", seed, _options(hint, coins))
        for hint in HINTS
        for coins in (None, *COINS)
        for seed in range(n_seeds)
    ]


def _options(hint: float | None, coins: int | None) -> dict[str, float | int]:
    named = {"hint": hint, "coins": coins}
    return {name: value for name, value in named.items() if value is not None}


def execute(run: Run) -> Record:
    """Train one network, and return the values for the tables."""
    return _rested(run) if run.method == "constant" else _with_hint(run)


def _rested(run: Run) -> Record:
    """Return the final weights of the voters, and the test results."""
    dataset = dataset_of(run.dataset)
    X, truth = dataset.train.features, dataset.train.gold
    votes = votes_of(run, dataset)[0]
    model = WeaSEL.paper(
        paper_network(dataset, run.seed),
        encoder=SameForAll(votes.n_voters),
        **_weasel_options(run, EPOCHS, RATE),
    ).fit(X, votes)
    weights = model.accuracies(X[:1], votes[:1])[0]
    of_truth = float(weights[votes.voters.index("truth")] / weights.sum())
    labels, predicted = model.soft_labels(X, votes)[:, 1], model.predict_proba(X)[:, 1]
    learned = {
        name: np.cov(predicted, column)[0, 1] / np.cov(labels, column)[0, 1]
        for name, column in zip(votes.voters, votes.dense().T, strict=True)
    }
    n_coins = run.options.get("coins", 1)  # copies are one coin
    return {
        "truth": of_truth,
        "coin": (1 - of_truth) / n_coins,
        "learned_truth": float(learned.pop("truth")),
        "learned_coin": float(np.mean(list(learned.values()))),
        "label_auc": float(roc_auc_score(truth, labels)),
    }


def _with_hint(run: Run) -> Record:
    """Return the results of the paper's networks with better features."""
    dataset = data_of(run)
    X, network = dataset.train.features, paper_network(dataset, run.seed)
    validation = (dataset.valid.features, dataset.valid.gold)
    model: EndToEndModel
    if run.method == "gold":
        options = {**PAPER, "epochs": EPOCHS, "seed": run.seed, "progress": False}
        model = Supervised(network, labels=dataset.labels, **options)
        model.fit(X, dataset.train.gold, validation=validation)
    else:
        model = WeaSEL.paper(network, **_weasel_options(run, ENCODER_EPOCHS, PAPER["lr"]))
        model.fit(X, votes_of(run, dataset)[0], validation=validation)
    predicted = model.predict_proba(dataset.test.features)[:, 1]
    return {"auc": float(roc_auc_score(dataset.test.gold, predicted))}


def _weasel_options(run: Run, epochs: int, rate: float) -> dict[str, Any]:
    own = {"epochs": epochs, "lr": rate, "seed": run.seed, "tau_1": 1.0, "progress": False}
    return {**PAPER, **SIGNED, **own}


def show(effort: Effort) -> None:
    """Write trained weights next to predicted weights, and the value of the features."""
    done = finished(STORE)
    found = [run for run in (*resting(effort.seeds), *hinted(effort.seeds)) if run.key in done]
    first = ("planted", "share of the truth", "it weighs so many coins", "as it should")
    first += ("R^2 of the truth", "R^2 of a coin", "AUC of the soft labels")
    second = ("features", "gold", *(f"{coins} coins" for coins in COINS))
    seconds = sum(done[run.key]["cpu_seconds"] for run in found)
    lines = [
        "One weight for each voter, and where it rests:",
        "",
        markdown_table(first, (_rest(found, done, *planted) for planted in PLANTED)),
        "",
        "Test ROC-AUC of the paper's encoder, with features that explain more and more:",
        "",
        markdown_table(second, (_hint(found, done, hint) for hint in HINTS)),
        "",
        cost_sentence(len(found), seconds),
    ]
    write_page(STORE, f"python -m experiments {STORE} {effort.words}", lines)


def _rest(found: list[Run], done: Mapping[str, Record], kind: str, count: int) -> list[str]:
    """Return one row of the first table: means over seeds."""
    same = [run for run in found if run.options == {kind: count} and run.method == "constant"]
    title = f"{count} {kind}"
    if not same:
        return [title, *[UNKNOWN] * 6]
    truth, coin, of_truth, of_coin, label_auc = (
        np.mean([done[run.key][name] for run in same])
        for name in ("truth", "coin", "learned_truth", "learned_coin", "label_auc")
    )
    weights = (f"{truth:.3f}", f"{truth / coin:.2f}", f"{(1 - of_coin) / (1 - of_truth):.2f}")
    return [title, *weights, f"{of_truth:.2f}", f"{of_coin:.2f}", f"{100 * label_auc:.1f}"]


def _hint(found: list[Run], done: Mapping[str, Record], hint: float | None) -> list[str]:
    """Return one row of the second table."""
    cells = []
    for coins in (None, *COINS):
        wanted = _options(hint, coins)
        same = [run for run in found if run.options == wanted and run.method != "constant"]
        cells.append(spread(percentages([done[run.key] for run in same], "auc")))
    return ["of imdb_136" if hint is None else f"and a hint, noise {hint}", *cells]


if __name__ == "__main__":
    main(sys.argv[1:])
