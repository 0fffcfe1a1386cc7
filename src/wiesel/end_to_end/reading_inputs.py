"""Whether a network can read the inputs; if not, what does not fit and what to do."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from torch import Tensor, nn

from wiesel.errors import FeatureError, listed
from wiesel.training.inputs import Batchable, Inputs, column_names, is_matrix

__all__ = ["MODULE_ERRORS", "check_same_features", "explained", "feature_facts", "first_line"]

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


def feature_facts(inputs: Inputs) -> dict[str, Any]:
    """Return what a fitted model stores about its inputs: the number and names of features.

    Empty if the inputs are not feature vectors.
    """
    if not is_matrix(inputs):
        return {}
    names = column_names(inputs)
    named = {} if names is None else {"feature_names": list(names)}
    return {"features": inputs.item_bytes // 4, **named}


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
        cure = _cure(end_model, batch)
        said = cure or f"{first_line(error)} (an item of X is {_described(batch)})."
        raise FeatureError(f"The end model cannot read {name}: {said}") from error


def first_line(error: Exception) -> str:
    """Return the type of an error and the first line of its message.

    >>> first_line(KeyError("tokens"))
    "KeyError: 'tokens'"
    """
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0]}" if said else type(error).__name__


def _cure(end_model: nn.Module, batch: Batchable) -> str | None:
    """The advice for the most common mistakes; None for any other error."""
    if isinstance(batch, dict):
        return None
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
        return _image_cure(first, batch)
    return _width_cure(first, batch)


def _width_cure(first: nn.Module, batch: Tensor) -> str | None:
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


def _image_cure(first: nn.Conv2d, batch: Tensor) -> str | None:
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
