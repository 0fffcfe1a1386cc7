"""Every numeric option takes the least and the greatest value it may have, and none beyond."""

import inspect
import math
from dataclasses import fields
from typing import Any

import pytest
from torch import nn

from wiesel import MajorityVote, WeaSEL, end_to_end, label_models, multilabel, spans
from wiesel.errors import ParameterError
from wiesel.nn import EncoderLayers, GraphLayers
from wiesel.parameters import Parameterized
from wiesel.training.ray_train import RayTrain

Bounds = tuple[float, float | None, bool]
"""The least value, the greatest if there is one, and whether only whole numbers are allowed."""

COUNT: Bounds = (1, None, True)
FROM_ZERO: Bounds = (0, None, True)
NUMBER: Bounds = (0, None, False)
SHARE: Bounds = (0, 1, False)
CERTAINTY: Bounds = (0.01, 0.99, False)
POSITIVE: Bounds = (0.001, None, False)
BOUNDS: dict[str, Bounds] = {
    "accuracy": SHARE,
    "alpha": NUMBER,
    "batch_size": (2, None, True),
    "bottleneck": COUNT,
    "competence_prior": POSITIVE,
    "confidence": CERTAINTY,
    "embedding": COUNT,
    "epoch_size": (2, None, True),
    "epochs": COUNT,
    "gamma": NUMBER,
    "habit_prior": POSITIVE,
    "hidden": COUNT,
    "initial_accuracy": CERTAINTY,
    "l2": NUMBER,
    "length": COUNT,
    "log_odds": NUMBER,
    "lr": NUMBER,
    "m_epochs": COUNT,
    "max_iter": COUNT,
    "max_words": COUNT,
    "members": COUNT,
    "min_count": COUNT,
    "networks": COUNT,
    "outliers": NUMBER,
    "patience": COUNT,
    "power": SHARE,
    "precision": SHARE,
    "prior_labels": (1e-6, None, False),
    "rank": COUNT,
    "rounds": COUNT,
    "seed": FROM_ZERO,
    "separation": NUMBER,
    "shrinkage": POSITIVE,
    "smoothing": NUMBER,
    "strength": NUMBER,
    "tau_1": NUMBER,
    "tol": NUMBER,
    "transition_smoothing": NUMBER,
    "volume": NUMBER,
    "warm_up": FROM_ZERO,
    "weight_average": SHARE,
    "weight_decay": NUMBER,
}
EXCEPTIONS: dict[tuple[str, str], Bounds] = {
    ("CorrelatedVoters", "shrinkage"): NUMBER,
}


def estimators() -> dict[str, type[Parameterized]]:
    """The public classes with options, of which an instance can be made without arguments."""
    found = {
        name: getattr(module, name)
        for module in (label_models, end_to_end, multilabel, spans)
        for name in module.__all__
    }
    return {
        name: one
        for name, one in found.items()
        if inspect.isclass(one) and issubclass(one, Parameterized) and not inspect.isabstract(one)
    }


def numeric(one: type[Parameterized]) -> list[str]:
    types = ("int", "float", "int | None", "float | None")
    return [
        option.name
        for option in fields(one)  # type: ignore[arg-type]
        if option.init and getattr(option.type, "__name__", str(option.type)) in types
    ]


OPTIONS = [(name, option) for name, one in estimators().items() for option in numeric(one)]


def check(name: str, option: str, value: Any) -> None:
    one = estimators()[name]
    needed = {"label_model": MajorityVote(), "end_model": nn.Linear(3, 2)}
    options = {key: needed[key] for key in needed.keys() & one.option_names()} | {option: value}
    one(**options).check_options()


@pytest.mark.parametrize(("name", "option"), OPTIONS)
def test_an_option_takes_its_bounds_and_nothing_beyond(name: str, option: str):
    low, high, whole = EXCEPTIONS.get((name, option), BOUNDS[option])
    check(name, option, low)
    check(name, option, high or low + 1)
    beyond = [low - 1 if whole else low - 0.001, math.nan, math.inf, True, "1"]
    beyond += [low + 0.5] if whole else []
    beyond += [high + 0.001] if high else []
    for value in beyond:
        with pytest.raises(ParameterError, match=f"'{option}' option of {name}"):
            check(name, option, value)


@pytest.mark.parametrize(
    ("option", "low", "high"), [("width", 1, 8), ("rounds", 1, 3), ("neighbors", 1, 8)]
)
def test_the_layers_of_a_graph_are_counted(option: str, low: int, high: int):
    for value in (low, high):
        WeaSEL(nn.Linear(3, 2), encoder=GraphLayers(**{option: value})).check_options()
    for value in (low - 1, low + 0.5):
        with pytest.raises(ParameterError, match=f"'{option}' option of GraphLayers"):
            WeaSEL(nn.Linear(3, 2), encoder=GraphLayers(**{option: value})).check_options()


@pytest.mark.parametrize("layers", [EncoderLayers, GraphLayers])
def test_dropout_of_an_encoder_is_a_share(layers: Any):
    for value in (0, 0.5, 1):
        WeaSEL(nn.Linear(3, 2), encoder=layers(dropout=value)).check_options()
    for value in (-0.001, 1.001):
        with pytest.raises(ParameterError, match="'dropout' option"):
            WeaSEL(nn.Linear(3, 2), encoder=layers(dropout=value)).check_options()


def test_tau_2_is_a_name_or_a_number_from_zero():
    WeaSEL(nn.Linear(3, 2), tau_2=0).check_options()
    with pytest.raises(ParameterError, match="'tau_2' option"):
        WeaSEL(nn.Linear(3, 2), tau_2=-0.001).check_options()


@pytest.mark.parametrize(("option", "low"), [("workers", 1), ("cpus", 1), ("retries", 0)])
def test_a_cluster_has_at_least_one_worker(option: str, low: int):
    RayTrain(**{option: low})
    for value in (low - 1, low + 0.5):
        with pytest.raises(ParameterError, match=f"'{option}' option of RayTrain"):
            RayTrain(**{option: value})
