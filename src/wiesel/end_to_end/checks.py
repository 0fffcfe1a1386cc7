"""Checks of options, inputs and networks, with messages that explain what does not fit."""

import copy
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from wiesel.end_to_end.plan import FitInputs, GoldItems, GoldSet
from wiesel.errors import FeatureError, ParameterError, TrainingError, VoteError, listed
from wiesel.labels import ABSTAIN, says_nothing
from wiesel.nn.end_models import evaluating, logits_of
from wiesel.parameters import check_choice, check_number
from wiesel.tables import Gold, in_order_of
from wiesel.tasks import Task, task_of
from wiesel.threads import fitting_threads
from wiesel.training import Objective, Validation, as_inputs
from wiesel.training.inputs import Batchable, Inputs, column_names, is_matrix, item_width, move
from wiesel.training.loop import NOTHING_TO_TRAIN

__all__ = [
    "MODULE_ERRORS",
    "check_class_balance",
    "check_divisible",
    "check_end_model",
    "check_same_features",
    "check_training_numbers",
    "checked_proba",
    "covered_items",
    "explained",
    "feature_facts",
    "first_line",
    "gold_items",
    "gold_validation",
    "is_classifier",
    "matched_gold",
    "network_copy",
    "predicted_proba",
    "validation_items",
]

MODULE_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""The errors that a module raises on inputs of the wrong kind."""

_TRIED_ITEMS = 8
_OPTIONAL_NUMBERS = {"epochs": 1, "epoch_size": 2, "patience": 1}
"""The smallest allowed values of options that are whole numbers or None."""
_ESTIMATES = ("votes", "validation", "auto")
"""Where a class balance can be estimated."""


def check_training_numbers(model: Any) -> None:
    """Refuse invalid values of the numeric training options."""
    check_number(model, "batch_size", model.batch_size, low=2, whole=True)
    for name, low in _OPTIONAL_NUMBERS.items():
        if getattr(model, name) is not None:
            check_number(model, name, getattr(model, name), low=low, whole=True)
    check_number(model, "lr", model.lr, low=0)
    check_number(model, "weight_decay", model.weight_decay, low=0)
    if model.weight_average is not None:
        check_number(model, "weight_average", model.weight_average, low=0, high=1)


def check_class_balance(owner: Any) -> None:
    """Refuse an option `class_balance` that names no way to estimate it; shares have numbers."""
    named = isinstance(owner.class_balance, str) and not says_nothing(owner.class_balance)
    if named and not any(map(str.isdigit, owner.class_balance)):
        check_choice(owner, "class_balance", owner.class_balance, _ESTIMATES)


def check_divisible(model: object, objective: Objective, engine: object) -> None:
    """Refuse an engine for a method whose batches cannot be split among workers."""
    if engine is not None and not objective.is_divisible:
        raise ParameterError(
            f"{type(model).__name__} cannot be trained by several workers: TwoStage, WeaSEL and "
            "Committee can. Leave engine out."
        )


def covered_items(covered: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return the positions of the items with votes; there must be at least two."""
    rows = np.flatnonzero(covered)
    if len(rows) < 2:
        raise VoteError(
            f"Only {len(rows)} of {len(covered)} items have a vote; training needs at least two. "
            "Write labeling functions that vote more often."
        )
    return rows


def is_classifier(end_model: object) -> bool:
    """Whether this is a scikit-learn classifier with probabilities, or a pipeline of one."""
    return hasattr(end_model, "fit") and hasattr(end_model, "get_params")


def network_copy(end_model: nn.Module, inputs: Inputs) -> nn.Module:
    """Return a copy of the end model to train; lazy layers get their sizes and weights."""
    network = copy.deepcopy(end_model)
    if not isinstance(network, nn.Module):
        return network  # `check_end_model` says what is wrong
    if any(map(is_lazy, network.parameters())):
        with explained(network, inputs):
            _tried(network, inputs, np.arange(min(_TRIED_ITEMS, len(inputs))))
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise TrainingError(NOTHING_TO_TRAIN)
    return network


def check_end_model(end_model: nn.Module, inputs: Inputs, task: Task, name: str = "X") -> None:
    """Call the end model on a few items and refuse it if it does not return logits."""
    if not isinstance(end_model, nn.Module):
        raise ParameterError(
            f"The end model must be a torch.nn.Module that returns logits; got {end_model!r:.80}."
        )
    last = list(end_model.modules())[-1]
    if isinstance(last, task.refused_layers):
        raise FeatureError(
            f"The end model ends with {type(last).__name__}; it must return one logit for each "
            f"{task.output}. Drop that layer."
        )
    n_outputs = task.n_outputs
    rows = np.arange(min(_TRIED_ITEMS, len(inputs)))
    with explained(end_model, inputs, name):
        logits = _tried(end_model, inputs, rows)
    batch = inputs.take(rows)
    expected = task.logits_shape(batch, len(rows))
    if tuple(logits.shape) != expected:
        two_classes = task.output == "class" and n_outputs == 2
        advice = " For two classes, return two logits." if two_classes else ""
        raise FeatureError(
            f"The end model must return logits of the shape ({task.logits_axes}, {n_outputs}), one "
            f"for each {task.output}; for {len(rows)} items it returned {tuple(logits.shape)}"
            f"{'' if len(expected) == 2 else f' instead of {expected}'}.{advice}"
        )
    if isinstance(batch, dict) and len(expected) > 2:
        logits = logits[batch["mask"]]
    if not torch.isfinite(logits).all():
        row = int((~torch.isfinite(logits)).any(dim=1).nonzero()[0])
        raise FeatureError(
            f"The end model returns {logits[row].tolist()} for item {row} of {name} before "
            "training; it must return finite logits."
        )
    if _looks_like_probabilities(logits):
        raise FeatureError(
            "The end model returns probabilities (rows that sum to 1); it must return logits. "
            "Drop its final softmax."
        )


def gold_validation(
    validation: GoldSet | None, task: Task, end_model: nn.Module | None
) -> Validation | None:
    """Return the validation set, checked, or None."""
    if validation is None:
        return None
    if not isinstance(validation, (tuple, list)) or len(validation) not in (2, 3):
        raise ParameterError(
            "validation must be (X, y), inputs and gold labels, or (X, y, votes) with the votes on "
            "these items."
        )
    X, y = matched_gold(validation)
    inputs = task.inputs(X, "validation X")
    held_out = task.held_out(inputs, y)
    n_gold = len(held_out.gold)
    if n_gold != task.n_rows(inputs) or not n_gold:
        raise FeatureError(
            f"The validation set has {len(inputs)} inputs and {n_gold} gold labels; "
            "it needs gold for each, and at least one item."
        )
    if end_model is not None:
        check_end_model(end_model, inputs, task, "validation X")
    return held_out


def gold_items(gold: Any, given: FitInputs, task: Task) -> GoldItems:
    """Return the items with gold labels, given in any form of `fit`, checked.

    Items without a known label are left out.
    """
    found = Gold.of(gold)
    inputs, votes = given.inputs, given.votes
    if found.X is None:
        y = in_order_of(votes, found.y, "gold")
    else:
        three = found.votes is not None
        X, y = matched_gold((found.X, found.y, found.votes) if three else (found.X, found.y))
        inputs, votes = as_inputs(X, "gold X"), found.votes
    labels = task.gold_labels(y)
    if len(labels) != len(inputs):
        raise FeatureError(
            f"gold needs a label for each of the {len(inputs)} items, None where it is unknown; it "
            f"has {len(labels)}. Labels of other items are given with their inputs: gold=(X, y)."
        )
    rows = np.flatnonzero((labels.reshape(len(labels), -1) != ABSTAIN).any(axis=1))
    known = task.held_out(as_inputs(inputs.take(rows)), labels[rows])
    votes = gold_votes(votes, len(labels), given.votes, "gold")
    on_them = None if votes is None else votes[rows]
    return GoldItems(known, found.random[rows], on_them, rows if found.X is None else None)


def validation_items(
    validation: GoldSet | None, held_out: Validation | None, votes: Any
) -> GoldItems | None:
    """Return the items of a checked validation set as gold, which is a random sample."""
    if validation is None or held_out is None:
        return None
    n_items = len(held_out.gold)
    on_them = gold_votes(validation[2] if len(validation) == 3 else None, n_items, votes)
    return GoldItems(held_out, np.ones(n_items, dtype=np.bool_), on_them)


def matched_gold(validation: Any) -> tuple[Any, Any]:
    """Return the inputs and gold labels of a validation set in one order: that of its votes."""
    X, y, *votes = validation
    if votes:
        X = in_order_of(votes[0], X, "validation X", "its votes", drop_ids=True)
        y = in_order_of(votes[0], y, "validation y", "its votes")
    return X, in_order_of(X, y, "validation y", "validation X")


def gold_votes(found: Any, n_items: int, votes: Any, name: str = "validation") -> Any:
    """Return the votes on items with gold labels, checked against `votes`; None without any."""
    if found is None or votes is None:
        return None
    if type(found) is not type(votes):
        raise ParameterError(
            f"The third part of {name} must be a {type(votes).__name__}, the votes on its items; "
            f"got {type(found).__name__}."
        )
    found.check_same_voters(votes.voters, votes.labels)
    if found.n_items != n_items:
        raise FeatureError(f"{name} has {n_items} gold labels, and votes on {found.n_items} items.")
    return found


def _tried(
    end_model: nn.Module, inputs: Inputs, rows: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> Tensor:
    """The output of the end model for a few items, of any shape."""
    batch = inputs.take(rows)
    device = next((p.device for p in end_model.parameters()), torch.device("cpu"))
    with torch.no_grad(), fitting_threads(end_model), evaluating(end_model):
        return logits_of(end_model, move(batch, device)).cpu().float()


def predicted_proba(model: Any, X: Any, n_items: int | None = None) -> npt.NDArray[np.float64]:
    """Return `model.predict_proba(X)`, checked: the model may be the user's own method."""
    name = type(model).__name__
    found = model.predict_proba(X)
    return task_of(model.labels_).checked_proba(found, f"The probabilities by {name}", n_items)


def checked_proba(proba: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return probabilities; raise an error that names an item with NaN or infinity."""
    wrong = np.flatnonzero(~np.isfinite(proba).all(axis=1))
    if len(wrong):
        raise FeatureError(
            f"The end model returns NaN or infinity for item {wrong[0]} (and {len(wrong) - 1} "
            "more). Are the inputs scaled as they were in training?"
        )
    return proba


def _looks_like_probabilities(logits: Tensor) -> bool:
    sums_to_one = torch.allclose(logits.sum(dim=1), torch.ones(len(logits)), atol=1e-4)
    return bool((logits >= 0).all()) and sums_to_one


def feature_facts(inputs: Inputs) -> dict[str, Any]:
    """Return what a fitted model stores about its inputs: the number and names of features.

    Empty if the inputs are not feature vectors.
    """
    if not is_matrix(inputs):
        return {}
    names = column_names(inputs)
    named = {} if names is None else {"feature_names": list(names)}
    return {"features": item_width(inputs), **named}


def check_same_features(trained_on: Mapping[str, Any], inputs: Inputs, method: str) -> None:
    """Refuse inputs whose features differ from those the model was fitted on."""
    width, names = trained_on.get("features"), trained_on.get("feature_names")
    if width is None or len(inputs) == 0:
        return
    batch = inputs.take(np.arange(1))
    if isinstance(batch, dict) or batch.ndim != 2:
        found = "a dict" if isinstance(batch, dict) else (len(inputs), *batch.shape[1:])
        raise FeatureError(
            f"X must be items x features, as in fit; got {found}. "
            "Reshape your data: X.reshape(1, -1) is one item."
        )
    if batch.shape[1] != width:
        raise FeatureError(
            f"X has {batch.shape[1]} features, but {method} is expecting {width} features as "
            "input. Make X as you made it for fit: the same columns, the same fitted features."
        )
    given = column_names(inputs)
    if names is not None and given is not None and list(given) != list(names):
        missing = [name for name in names if name not in given]
        problem = f"missing: {listed(missing)}" if missing else "the order differs"
        raise FeatureError(
            f"The columns of X are not those of fit ({problem}). "
            "Use X[model.feature_names_in_] to bring them into order."
        )


@contextmanager
def explained(end_model: nn.Module, inputs: Inputs, name: str = "X") -> Iterator[None]:
    """Turn a network's error about its inputs into one that names the problem and the fix."""
    try:
        yield
    except FeatureError:
        raise
    except MODULE_ERRORS as error:
        batch = inputs.take(np.arange(min(1, len(inputs))))
        advice = _advice(end_model, batch)
        reason = advice or f"{first_line(error)} (an item of X is {_described(batch)})."
        raise FeatureError(f"The end model cannot read {name}: {reason}") from error


def first_line(error: Exception) -> str:
    """Return the type of an error and the first line of its message.

    >>> first_line(KeyError("tokens"))
    "KeyError: 'tokens'"
    """
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _advice(end_model: nn.Module, batch: Batchable) -> str | None:
    """The advice for the most common mistakes; None for any other error."""
    if isinstance(batch, dict):
        return None
    kinds = {each.dtype for each in end_model.parameters() if each.is_floating_point()}
    if kinds and torch.float32 not in kinds:
        return (
            f"its weights are {' and '.join(sorted(map(str, kinds)))}, and Wiesel trains "
            "in torch.float32. Give net.float()."
        )
    parts = list(end_model.modules())
    layers = [part for part in parts if isinstance(part, (nn.Linear, nn.Conv2d))]
    if not layers or any(isinstance(part, (nn.Embedding, nn.EmbeddingBag)) for part in parts):
        return None
    if not batch.is_floating_point():
        scale = " / 255" if batch.ndim > 2 else ""
        return (
            "X holds whole numbers, which are token ids to a network; this one reads "
            f"floating-point numbers. Give X.astype('float32'){scale}."
        )
    first = layers[0]
    if batch.ndim == 4 and isinstance(first, nn.Conv2d):
        return _image_advice(first, batch)
    return _width_advice(first, batch)


def _width_advice(first: nn.Module, batch: Tensor) -> str | None:
    if batch.ndim == 1:
        return "X must be items x features; got one number for each item. Reshape your data."
    if not isinstance(first, nn.Linear):
        return None
    if batch.ndim > 2:
        shape = tuple(batch.shape[1:])
        return (
            f"an item of X has the shape {shape}, and the first layer, {first}, takes a vector. "
            f"Give X.reshape(len(X), -1) to a network for {math.prod(shape)} features, or use a "
            "convolutional network."
        )
    width = batch.shape[1]
    if width == first.in_features:
        return None
    return (
        f"X has {width} features, and the first layer, {first}, takes {first.in_features}. Use a "
        f"network for {width} features, or the features it was made for."
    )


def _image_advice(first: nn.Conv2d, batch: Tensor) -> str | None:
    channels, shape = first.in_channels, tuple(batch.shape[1:])
    if channels == shape[0]:
        return None
    order = ""
    if channels == shape[-1]:
        order = " Channels come first in torch: X.transpose(0, 3, 1, 2)."
    return (
        f"an image has {shape[0]} channels (its shape is {shape}), and the first layer takes "
        f"{channels}.{order}"
    )


def _described(batch: Batchable) -> str:
    if isinstance(batch, Tensor):
        return f"of the shape {tuple(batch.shape[1:])}, {batch.dtype}"
    shapes = {name: tuple(value.shape[1:]) for name, value in batch.items()}
    return f"a dict of tensors: {shapes}"
