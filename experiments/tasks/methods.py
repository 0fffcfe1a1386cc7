"""The compared methods: a dictionary from names to builders of estimators.

Every method trains the same network with the library's own number of epochs and averages five
networks; the committee averages two or four for each of its members.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from experiments.tasks.make import FEW_GOLD, Task
from wiesel import (
    Committee,
    DawidSkene,
    EndToEndModel,
    LabelModel,
    MajorityVote,
    Snorkel,
    Supervised,
    Triplet,
    TwoStage,
    WeaSEL,
)
from wiesel.nn import MLP
from wiesel.training import seeded

Training = dict[str, Any]
"""Training options; all methods get the same options in a mode."""

UPDATES: Training = {
    "epoch_size": 3200,
    "batch_size": 64,
    "lr": 1e-3,
    "weight_average": 0.99,
    "members": 5,
    "seed": 0,
    "progress": False,
}
MODES = ("blind", "validation", "gold50")
GOLD_ITEMS: dict[str, int | None] = {"validation": None, "gold50": FEW_GOLD}
"""The number of validation items in each mode; None means all."""

BASELINE, GOLD = "majority_vote", "gold"
ROUGHLY = 1.5
"""A rough class balance has shares that are up to so many times too large or too small."""


@dataclass(frozen=True)
class Method:
    """How an estimator is built, and its training data."""

    build: Callable[[torch.nn.Module, Task, Training], EndToEndModel]
    """Builds the estimator from the end model, the task and the options of the mode."""
    on_gold: bool = False
    """Whether it is trained on the gold of the training items, as the reference row."""
    on_validation: bool = False
    """Whether it is trained on the gold of the validation items alone, without votes."""
    reads_gold_votes: bool = False
    """Whether it takes `validation=(X, y, votes)`; the others take `(X, y)`."""


def two_stage(label_model: LabelModel) -> Method:
    """Return a two-stage method: a label model, then the end model on its soft labels."""
    return Method(lambda net, task, training: TwoStage(label_model, net, **training))


def _committee(net: torch.nn.Module, task: Task, training: Training) -> EndToEndModel:
    options = {name: value for name, value in training.items() if name != "members"}
    return Committee(net, **options)


def _with_true_balance(net: torch.nn.Module, task: Task, training: Training) -> EndToEndModel:
    return _committee(net, task, {**training, "class_balance": _true_balance(task)})


def _with_rough_balance(net: torch.nn.Module, task: Task, training: Training) -> EndToEndModel:
    factors = np.random.default_rng(0).uniform(-1, 1, len(task.labels))
    rough = _true_balance(task) * ROUGHLY**factors
    return _committee(net, task, {**training, "class_balance": rough / rough.sum()})


def _weasel_paper(net: torch.nn.Module, task: Task, training: Training) -> EndToEndModel:
    # The paper's configuration has another number of epochs; here all methods have the same.
    return WeaSEL.paper(net, **training, epochs=None)


def _true_balance(task: Task) -> npt.NDArray[np.float64]:
    counts = np.bincount(task.y_train, minlength=len(task.labels)) + 1  # none may be 0
    return counts / counts.sum()


METHODS: dict[str, Method] = {
    BASELINE: two_stage(MajorityVote()),
    "dawid_skene": two_stage(DawidSkene()),
    "snorkel": two_stage(Snorkel()),
    "triplet_mean": two_stage(Triplet(aggregate="mean")),
    "weasel": Method(lambda net, task, training: WeaSEL(net, **training)),
    "weasel_paper": Method(_weasel_paper),
    "committee": Method(_committee, reads_gold_votes=True),
    "committee_true_balance": Method(_with_true_balance),
    "committee_rough_balance": Method(_with_rough_balance),
    "validation_gold": Method(
        lambda net, task, training: Supervised(net, labels=task.labels, **training),
        on_validation=True,
    ),
    GOLD: Method(
        lambda net, task, training: Supervised(net, labels=task.labels, **training), on_gold=True
    ),
}


def fitted(name: str, task: Task, mode: str) -> EndToEndModel:
    """Return a method trained on a task in a mode."""
    method = METHODS[name]
    model = method.build(network_of(task), task, UPDATES)
    if method.on_validation:
        X, y, _ = task.gold(GOLD_ITEMS[mode])
        return model.fit(X, y)
    learn_from = task.y_train if method.on_gold else task.votes
    return model.fit(task.X_train, learn_from, **_validation(method, task, mode))


def network_of(task: Task) -> torch.nn.Module:
    """Return the end model of all methods, untrained."""
    with seeded(UPDATES["seed"]):
        return MLP(task.X_train.shape[1], len(task.labels))


def _validation(method: Method, task: Task, mode: str) -> dict[str, Any]:
    if mode == "blind":
        return {}
    X, y, votes = task.gold(GOLD_ITEMS[mode])
    return {"validation": (X, y, votes) if method.reads_gold_votes else (X, y)}
