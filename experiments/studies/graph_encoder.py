"""WeaSEL's graph encoder compared with the MLP encoder: synthetic dependent voters, real sets.

    python -m experiments graph_encoder [--full] [--seeds N] [--jobs N] [--recorded]

Synthetic sets have 500 items, six voters that are right three times out of four, and seven that
repeat each other's mistakes: noisy copies of one (`block`), or each of the previous one (`chain`);
`independent` has only nine good voters. Dependencies are found from the votes, never given. `no
edges` is the same network without them, which separates the effect of the edges from that of the
network. Real sets are unchanged, without gold, with 8 epochs of 3,200 items. Seeds draw the
synthetic votes and initialize the networks. The score is the accuracy of the soft labels
(synthetic), or the test score of the end model (real).
"""

import sys
from typing import Any

import numpy as np
from benchmarks.harness import markdown_table

from experiments.framework.definitions import Effort
from experiments.framework.methods import dataset_of, paper_network
from experiments.framework.runner import Record, Run
from experiments.framework.tables import UNKNOWN, cost_sentence, percentages, spread, write_page
from experiments.studies.default import score
from wiesel import VoteMatrix, WeaSEL
from wiesel.datasets.synthetic import make_features
from wiesel.nn import MLP, GraphLayers
from wiesel.training import seeded

STORE = "graph_encoder"
PLANTED = ("block", "chain", "independent")
REAL = ("youtube", "spambase")
LARGE = ("sms", "imdb_136", "amazon_175")
"""Real sets for the full form only: a graph of 73 to 175 voters takes a minute per run."""
ENCODERS: dict[str, Any] = {
    "mlp": (70, 70),
    "no edges": GraphLayers(dependencies=()),
    "graph": "graph",
}
N_ITEMS = 500
QUICK = {"epochs": 8, "epoch_size": 512, "warm_up": 3, "lr": 0.01, "weight_average": None}
"""Planted sets are small: fewer items per epoch, and larger steps."""


def main(argv: list[str]) -> None:
    """Run what is missing, and write the page."""
    effort = Effort.parsed(argv, __doc__, full_seeds=5)
    names = (*PLANTED, *REAL, *(LARGE if effort.full else ()))
    runs = [
        Run(name, encoder, seed)
        for seed in range(effort.seeds)
        for name in names
        for encoder in ENCODERS
    ]
    show(effort.records(STORE, runs, execute), names, effort)


def planted_votes(kind: str, seed: int) -> tuple[VoteMatrix, np.ndarray]:
    """Return votes and gold: good voters, and a block or a chain of dependent ones."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(2, size=N_ITEMS)

    def noisy(of: np.ndarray, right: float) -> np.ndarray:
        return np.where(rng.random(N_ITEMS) < right, of, 1 - of)

    columns = [noisy(gold, 0.75) for _ in range(9 if kind == "independent" else 6)]
    source = noisy(gold, 0.65)
    for _ in range(0 if kind == "independent" else 7):
        columns.append(noisy(source, 0.9) if kind == "block" else source)
        if kind == "chain":
            source = np.where(rng.random(N_ITEMS) < 0.7, source, noisy(gold, 0.65))
    return VoteMatrix.from_dense(np.stack(columns, axis=1), ["no", "yes"]), gold


def execute(run: Run) -> Record:
    """Train one encoder, and score its soft labels (planted) or its test predictions (real)."""
    encoder = ENCODERS[run.method]
    if run.dataset in PLANTED:
        votes, gold = planted_votes(run.dataset, run.seed)
        X = make_features(gold, n_features=4, separation=1.5, seed=run.seed)
        with seeded(run.seed):
            network = MLP(4, 2, hidden=())
        model = WeaSEL(network, encoder=encoder, seed=run.seed, progress=False, **QUICK)
        right = model.fit(X, votes).soft_labels(X, votes).argmax(axis=1) == gold
        return {"score": float(right.mean()), "edges": len(model.dependencies_)}
    dataset = dataset_of(run.dataset)
    network = paper_network(dataset, run.seed)
    model = WeaSEL(network, encoder=encoder, seed=run.seed, progress=False)
    model.fit(dataset.train.features, dataset.train.votes)
    proba = model.predict_proba(dataset.test.features)
    return {"score": score(proba, dataset.test.gold), "edges": len(model.dependencies_)}


def show(records: list[Record], names: tuple[str, ...], effort: Effort) -> None:
    """Write both encoders side by side, and the difference by seed."""
    rows, gains, of_edges = [], {}, {}
    for name in names:
        found = {
            encoder: {
                r["seed"]: r for r in records if (r["dataset"], r["method"]) == (name, encoder)
            }
            for encoder in ENCODERS
        }
        seeds = sorted(set.intersection(*(set(own) for own in found.values())))
        mlp, single, graph = (percentages([found[e][s] for s in seeds], "score") for e in ENCODERS)
        gains[name], of_edges[name] = graph - mlp, graph - single
        edges = np.mean([found["graph"][seed]["edges"] for seed in seeds]) if seeds else None
        shown = UNKNOWN if edges is None else f"{edges:.1f}"
        rows.append([name, shown, *map(spread, (mlp, single, graph, gains[name], of_edges[name]))])
    header = ("", "dependencies found", "MLP encoder", "graph, no edges", "graph encoder")
    header = (*header, "graph - MLP", "what edges are worth")
    lines = [
        *verdict("The graph encoder is", gains),
        *verdict("With edges it is", of_edges),
        "",
        "In percent: shares of right soft labels (planted), test ROC-AUC or accuracy (real).",
        "",
        markdown_table(header, rows),
        "",
        cost_sentence(len(records), sum(record["cpu_seconds"] for record in records)),
    ]
    write_page(STORE, f"python -m experiments {STORE} {effort.words}", lines)


def verdict(subject: str, gains: dict[str, np.ndarray]) -> list[str]:
    """List where it is better or worse by more than one standard deviation over seeds.

    >>> verdict("It is", {"block": np.array([2.0, 3.0])})
    ['- It is better by more than a deviation on: block; worse on: none.']
    """
    named = {
        sign: [n for n, g in gains.items() if len(g) and sign * g.mean() > max(g.std(), 0.1)]
        for sign in (1, -1)
    }
    better, worse = (", ".join(named[sign]) or "none" for sign in (1, -1))
    return [f"- {subject} better by more than a deviation on: {better}; worse on: {worse}."]


if __name__ == "__main__":
    main(sys.argv[1:])
