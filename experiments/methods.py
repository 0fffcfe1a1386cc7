"""How an experiment names a method: one word, and options that change its defaults."""

from typing import Any

import numpy as np
import torch
from sklearn.metrics import f1_score, roc_auc_score

from experiments.runner import Run
from wiesel import EndToEndModel, MajorityVote, Supervised, TwoStage, WeaSEL
from wiesel.io import Dataset
from wiesel.nn import MLP
from wiesel.training import seeded

PAPER = {"epochs": 150, "lr": 1e-4, "batch_size": 64, "weight_decay": 7e-7}
"""The paper's protocol: Adam, batch 64, at most 150 epochs, the best of them on validation."""


def paper_network(dataset: Dataset, seed: int) -> torch.nn.Module:
    """Return the paper's end model, 50-50-25, initialized from the seed."""
    with seeded(seed):
        return MLP(dataset.train.features.shape[1], len(dataset.labels))


def build(run: Run, dataset: Dataset) -> EndToEndModel:
    """Return the estimator that a run describes."""
    options = {**PAPER, "seed": run.seed, "progress": False, **run.options}
    network = paper_network(dataset, run.seed)
    if run.method == "gold":
        return Supervised(network, labels=dataset.labels, **options)
    if run.method == "majority_vote":
        return TwoStage(MajorityVote(), network, **options)
    if run.method == "majority_vote_hard":
        return TwoStage(MajorityVote(hard=True, ties="lowest"), network, **options)
    if run.method == "weasel_random":
        return WeaSEL(network, train_encoder=False, **options)
    if run.method == "weasel":
        return WeaSEL(network, **options)
    raise ValueError(f"no method {run.method!r}")


def train_and_test(run: Run, dataset: Dataset) -> dict[str, Any]:
    """Fit on train, choose epoch and threshold on valid, and only then look at test."""
    model = build(run, dataset)
    train, valid, test = dataset.train, dataset.valid, dataset.test
    learn_from = train.gold if run.method == "gold" else train.votes
    model.fit(train.features, learn_from, validation=(valid.features, valid.gold))
    proba = model.predict_proba(test.features)
    metrics = binary_metrics(proba[:, 1], test.gold, model.threshold_)
    return {
        **metrics,
        "epoch": model.selection_["epoch"],
        "validation": model.selection_["score"],
        "curve": [
            round(v, 4) for v in model.history_.column(f"validation_{model.selection_['by']}")
        ],
    }


def binary_metrics(
    proba: np.ndarray, gold: np.ndarray, threshold: float | None
) -> dict[str, float]:
    """Return what a two-class table reports, with the tuned threshold and with 1/2."""
    return {
        "auc": float(roc_auc_score(gold, proba)),
        "f1": float(f1_score(gold, proba >= (0.5 if threshold is None else threshold))),
        "f1_at_half": float(f1_score(gold, proba >= 0.5)),
        "accuracy_at_half": float(((proba >= 0.5) == gold).mean()),
    }
