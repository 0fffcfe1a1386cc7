"""Methods of experiments by name, with options that change their defaults."""

import json
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
import torch
from sklearn.metrics import f1_score, roc_auc_score

from experiments.framework.embeddings import with_features
from experiments.framework.hints import with_hint
from experiments.framework.planted import VOTE_OPTIONS, is_planted, votes_of
from experiments.framework.runner import Record, Run
from experiments.framework.soft_labels import LABEL_MODELS, as_one_voter
from wiesel import EndToEndModel, MajorityVote, Supervised, TwoStage, WeaSEL, load_dataset
from wiesel.end_to_end.base import GoldSet
from wiesel.end_to_end.plan import fit_together
from wiesel.io import Dataset
from wiesel.nn import MLP
from wiesel.nn.encoders import EncoderLayers
from wiesel.training import seeded

PAPER: dict[str, Any] = {
    "epochs": 150,
    "epoch_size": None,
    "lr": 1e-4,
    "weight_average": None,
    "batch_size": 64,
    "weight_decay": 7e-7,
}
"""The paper's protocol: Adam, batch size 64, at most 150 epochs, best epoch on validation."""

TRAINED_ON = 0.8
"""`validation` trains on this share of the validation items and selects the epoch on the rest."""


def groups_of(runs: Iterable[Run]) -> list[list[Run]]:
    """Return the runs in groups that differ only in seed and learning rate."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        options = {name: value for name, value in run.options.items() if name != "lr"}
        seed = run.seed if _seed_makes_targets(run) else None
        same = json.dumps([run.dataset, run.method, options, seed], sort_keys=True)
        groups.setdefault(same, []).append(run)
    return list(groups.values())


def train_and_test(runs: list[Run]) -> list[Record]:
    """Train a group on train, select epoch and threshold on valid, and only then score test."""
    dataset = data_of(runs[0])
    X, learn_from, validation, noted = material(runs[0], dataset)
    models = [build(run, dataset) for run in runs]
    fit_group(models, X, learn_from, validation)
    return [{**measured(model, dataset, validation), **noted} for model in models]


def fit_group(models: list[EndToEndModel], X: Any, learn_from: Any, validation: GoldSet) -> None:
    """Fit estimators that differ only in seed and learning rate as one stack."""
    fit_together(models, X, learn_from, validation=validation)


@cache
def dataset_of(name: str) -> Dataset:
    """Return a data set with standardized features; it is read once per process."""
    return load_dataset(name, standardize=True)


def data_of(run: Run) -> Dataset:
    """Return the data set of a run, with other features or a hint if the run names them."""
    dataset, hint = dataset_of(run.dataset), run.options.get("hint")
    kind = run.options.get("features")
    dataset = dataset if kind is None else with_features(dataset, kind)
    return dataset if hint is None else with_hint(dataset, hint)


def material(run: Run, dataset: Dataset) -> tuple[Any, Any, GoldSet, Record]:
    """Return a run's training data: inputs, targets, validation set, and selected settings."""
    train, valid = dataset.train, dataset.valid
    if run.method == "validation":
        order = np.random.default_rng(0).permutation(len(valid))
        cut = round(TRAINED_ON * len(valid))
        first, rest = order[:cut], order[cut:]
        held_out = (valid.features[rest], valid.gold[rest])
        return valid.features[first], valid.gold[first], held_out, {}
    validation = (valid.features, valid.gold)
    if run.method == "gold":
        return train.features, train.gold, validation, {}
    if run.method in LABEL_MODELS:
        votes, noted = as_one_voter(run, dataset)
        return train.features, votes, validation, noted
    return train.features, votes_of(run, dataset)[0], validation, {}


def paper_network(dataset: Dataset, seed: int) -> torch.nn.Module:
    """Return the paper's end model, 50-50-25, initialized from the seed."""
    with seeded(seed):
        return MLP(dataset.train.features.shape[1], len(dataset.labels))


def build(run: Run, dataset: Dataset) -> EndToEndModel:
    """Return the estimator that a run describes."""
    of_data = (*VOTE_OPTIONS, "hint", "features")
    own = {name: value for name, value in run.options.items() if name not in of_data}
    options = {**PAPER, "seed": run.seed, "progress": False, **own}
    network = paper_network(dataset, run.seed)
    if run.method in ("gold", "validation"):
        return Supervised(network, labels=dataset.labels, **options)
    if run.method == "majority_vote_hard":
        return TwoStage(MajorityVote(hard=True, ties="lowest"), network, **options)
    if run.method in ("majority_vote", *LABEL_MODELS):
        return TwoStage(MajorityVote(), network, **options)
    if run.method in ("weasel", "weasel_random"):
        return WeaSEL.paper(network, **with_encoder(options, run.method == "weasel"))
    raise ValueError(f"no method {run.method!r}")


def with_encoder(options: Record, trained: bool = True) -> Record:
    """Return WeaSEL's options with all encoder options combined into one.

    Definitions of runs name `encoder` (hidden sizes), `batch_norm` and `encoder_features`.
    """
    layers = EncoderLayers(
        hidden=tuple(options.get("encoder", (70, 70))),
        batch_norm=options.get("batch_norm", True),
        features=options.get("encoder_features", True),
        trained=trained,
    )
    named = ("encoder", "batch_norm", "encoder_features")
    others = {name: value for name, value in options.items() if name not in named}
    return {**others, "encoder": layers}


def measured(model: EndToEndModel, dataset: Dataset, validation: GoldSet) -> Record:
    """Return a fitted model's test metrics, its validation scores, and its training history."""
    proba, held_out = (model.predict_proba(X)[:, 1] for X in (dataset.test.features, validation[0]))
    history, selection = model.history_, model.selection_
    threshold = threshold_of(model)
    seen = {k: v for k, v in history.kept.items() if k not in ("epoch", "validation_auc")}
    return {
        **binary_metrics(proba, dataset.test.gold, threshold),
        "epoch": selection["epoch"],
        "threshold": threshold,
        "validation": selection["score"],
        "validation_f1": float(f1_score(validation[1], held_out >= threshold)),
        "curve": [round(score, 4) for score in history.column(f"validation_{selection['by']}")],
        "diagnosis": seen,
    }


def threshold_of(model: EndToEndModel) -> float:
    """Return the selected threshold, or 1/2 if none was selected."""
    return 0.5 if model.threshold_ is None else model.threshold_


def binary_metrics(proba: np.ndarray, gold: np.ndarray, threshold: float) -> dict[str, float]:
    """Return the metrics of two-class tables, with the tuned threshold and with 1/2."""
    return {
        "auc": float(roc_auc_score(gold, proba)),
        "f1": float(f1_score(gold, proba >= threshold)),
        "f1_at_half": float(f1_score(gold, proba >= 0.5)),
        "accuracy_at_half": float(((proba >= 0.5) == gold).mean()),
    }


def _seed_makes_targets(run: Run) -> bool:
    """Whether runs with different seeds learn from different targets."""
    return run.method == "triplet" or (is_planted(run) and "draw" not in run.options)
