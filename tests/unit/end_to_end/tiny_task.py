"""A task small enough to train on in milliseconds."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from wiesel import VoteMatrix, WeaSEL
from wiesel.datasets.synthetic import make_features, make_votes
from wiesel.nn.encoders import EncoderLayers
from wiesel.training import seeded

ONE_PASS: dict[str, Any] = {"epoch_size": None, "weight_average": None}
"""An epoch is every item once: training on few items is quick, and easy to follow."""
VOTES_ONLY = EncoderLayers(hidden=(5,), features=False)
FROZEN = EncoderLayers(hidden=(5,), trained=False)


class Task(NamedTuple):
    X: npt.NDArray[np.float32]
    votes: VoteMatrix
    gold: npt.NDArray[np.int64]


def tiny_task(
    n_items: int = 48, n_voters: int = 4, n_classes: int = 2, coverage: float = 0.6, seed: int = 1
) -> Task:
    """Votes that are right three times in four, features that tell the classes apart."""
    votes, gold = make_votes(
        n_items, n_voters, n_classes, accuracies=0.75, coverage=coverage, seed=seed
    )
    return Task(make_features(gold, n_features=3, seed=seed), votes, gold)


def linear(n_features: int = 3, n_classes: int = 2, seed: int = 0) -> nn.Linear:
    with seeded(seed):
        return nn.Linear(n_features, n_classes)


def weasel(end_model: nn.Module | None = None, **options: Any) -> WeaSEL:
    """The paper's WeaSEL that trains for two quick epochs and needs no validation set."""
    quick = {
        "epochs": 2,
        "lr": 0.01,
        "batch_size": 16,
        "encoder": (5,),
        "tau_1": 1.0,
    }
    return WeaSEL.paper(linear() if end_model is None else end_model, **{**quick, **options})


def weights_of(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in module.state_dict().items()}


def same_weights(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)
