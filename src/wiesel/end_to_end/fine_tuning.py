"""Fine-tuning on a few gold items: every network learns them, pulled toward its weights."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from wiesel.end_to_end.checks import gold_validation
from wiesel.end_to_end.plan import inputs_digest
from wiesel.end_to_end.sklearn_stage import ClassifierModule
from wiesel.errors import FeatureError, ParameterError
from wiesel.nn.stacking import NotStackable
from wiesel.training import Objective, TrainingData, TrainOptions, seeded, train, train_together
from wiesel.training.validation import stratified_folds

if TYPE_CHECKING:
    from wiesel.end_to_end.base import EndToEndModel

__all__ = ["FineTuning", "fine_tune"]

Array = npt.NDArray[np.float64]

_FOLDS = 5
_FEWEST = 4
"""With fewer gold items than this, nothing is learned from them."""
_PULL = 10.0
"""The weight of the squared distance from the weights before, divided by the number of items: the
prior of the weights counts the same for any number of items."""
_STEPS, _RATE, _BATCH = 150, 2e-3, 256
_UNSURE = 0.1
"""The share of a gold label that is spread over the classes: few items make nothing certain."""


@dataclass(frozen=True)
class FineTuning:
    """What training on gold items changed, on items that a network had not seen."""

    items: int
    loss_before: float
    """The mean log loss of the gold items before fine-tuning."""
    loss_after: float
    """The mean log loss after it; each item is predicted by networks that left it out."""


def fine_tune(model: "EndToEndModel", X: Any, y: Any) -> FineTuning:
    """Train all networks of a fitted model on gold items, pulled toward their weights.

    Each network minimizes, by Adam, with dropout off and the statistics of BatchNorm fixed::

        mean cross-entropy of the gold items + 10 / items * |theta - theta_before|^2

    Every network of an ensemble leaves out one of five folds of the items. So each item is
    predicted by networks that have not seen it, which gives the loss afterwards, and tunes the
    threshold. A single network learns from all items; copies of it leave out a fold.
    """
    gold: Any = gold_validation((X, y), model.task_, model.end_model_)
    _check(model, gold)
    leaves = list(_leaves(model))
    folds = stratified_folds(gold.gold, min(_FOLDS, len(gold.gold)), model.seed)
    # A network of few has to know all items; copies of it tell how well that works.
    copied = len(leaves) < len(folds)
    networks = [leaf.end_model_ for leaf in leaves]
    left_out = [k % len(folds) for k in range(len(leaves))]
    if copied:
        extra = [(copy.deepcopy(net), k) for net in networks for k in range(len(folds))]
        networks = [*networks, *(net for net, _ in extra)]
        left_out = [-1] * len(leaves) + [k for _, k in extra]
    before = gold.proba_by(model.end_model_)
    _train(model, networks, [None if k < 0 else folds[k] for k in left_out], gold)
    judges = list(zip(networks, left_out, strict=True))[len(leaves) if copied else 0 :]
    proba = np.empty_like(before)
    for number, fold in enumerate(folds):
        parts = [gold.proba_by(net)[fold] for net, own in judges if own == number]
        proba[fold] = np.mean(parts, axis=0)
    threshold = gold.best_threshold(proba)
    model.threshold_ = model.threshold_ if threshold is None else threshold
    return FineTuning(len(gold.gold), gold.log_loss(before), gold.log_loss(proba))


def _check(model: "EndToEndModel", gold: Any) -> None:
    if len(gold.gold) < _FEWEST:
        raise FeatureError(f"fine_tune() needs {_FEWEST} gold items or more; got {len(gold.gold)}.")
    if any(isinstance(leaf.end_model_, ClassifierModule) for leaf in _leaves(model)):
        raise ParameterError(
            "A scikit-learn classifier cannot be trained further: fit it again, with the gold "
            "items among its rows."
        )
    seen = model.selection_.get("trained_on_gold", {})
    if seen.get("digest") == inputs_digest(gold.inputs).hex():
        raise ParameterError(
            "Networks of this committee have already learned from these gold items. Fine-tune it "
            "on others, or fit it with train_on_gold=False."
        )


def _leaves(model: Any) -> Iterator[Any]:
    """The models with a network of their own: the members of members."""
    for member in model.members_ or (model,):
        yield from (member,) if member is model else _leaves(member)


def _train(
    model: "EndToEndModel",
    networks: list[nn.Module],
    left_out: list[npt.NDArray[np.int64] | None],
    gold: Any,
) -> None:
    """Train networks in place, as one stack if possible; each leaves out some of the items."""
    size = min(_BATCH, len(gold.gold))
    options = TrainOptions(
        epochs=1,
        epoch_size=_STEPS * size,
        batch_size=size,
        lr=_RATE,
        weight_decay=0.0,
        pull=_PULL / len(gold.gold),
        device=model.device,
        progress=False,
    )
    objectives: list[Objective] = [
        model.task_.gold_objective(copy.deepcopy(network), gold, _UNSURE, rows)
        for network, rows in zip(networks, left_out, strict=True)
    ]
    data = TrainingData(gold.inputs)
    with seeded(model.seed):
        try:
            states = [torch.get_rng_state()] * len(objectives)
            train_together(objectives, states, data, [options] * len(objectives))
        except NotStackable:
            for objective in objectives:
                train(objective, data, options)
    # In place: the members of an ensemble share their parameters with it.
    for network, objective in zip(networks, objectives, strict=True):
        network.load_state_dict(model.task_.original(objective.end_model).state_dict())
