"""Saving and loading label models: options, learned values and arrays."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from wiesel.errors import SavedModelError, WieselError, suggest
from wiesel.registry import registered_classes
from wiesel.saving import decoded, encoded, write_folder
from wiesel.version import __version__

if TYPE_CHECKING:
    from wiesel.label_models.base import LabelModel

__all__ = [
    "fitted_label_model",
    "label_model_arrays",
    "label_model_values",
    "save_label_model",
    "try_label_model",
    "unfitted_label_model",
]

ARRAYS = "arrays.safetensors"


def save_label_model(model: "LabelModel", path: str | Path) -> None:
    """Write a fitted label model as a folder."""
    values = label_model_values(model)
    write_folder(path, {"wiesel": __version__, **values}, {ARRAYS: label_model_arrays(model)})


def label_model_values(model: "LabelModel") -> dict[str, Any]:
    """Return the options and learned values of a fitted label model, except its arrays."""
    learned = {name: getattr(model, name) for name in _learned(model)}
    return {
        "class": type(model).__name__,
        "parameters": encoded(model.get_params(deep=False)),
        "learned": {
            name: encoded(value)
            for name, value in learned.items()
            if not isinstance(value, np.ndarray)
        },
    }


def label_model_arrays(model: "LabelModel") -> bytes:
    """Return the learned arrays of a fitted label model."""
    learned = {name: getattr(model, name) for name in _learned(model)}
    return save(
        {
            name: np.ascontiguousarray(value)
            for name, value in learned.items()
            if isinstance(value, np.ndarray)
        }
    )


def unfitted_label_model(values: dict[str, Any]) -> "LabelModel":
    """Return a label model of a registered class with the stored options."""
    from wiesel.label_models.base import LabelModel

    classes = registered_classes(LabelModel)
    name = values["class"]
    if name not in classes:
        raise SavedModelError(f"There is no label model {name!r}. {suggest(name, classes)}")
    model: LabelModel = classes[name](**decoded(values["parameters"]))
    model.check_options()
    return model


def fitted_label_model(values: dict[str, Any], arrays: bytes) -> "LabelModel":
    """Return a fitted label model from its values and arrays."""
    try:
        model = _filled(unfitted_label_model(values), values["learned"], arrays)
        try_label_model(model)
    except SavedModelError:
        raise
    # A manifest edited by hand can have any error.
    except (WieselError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as e:
        raise SavedModelError(f"The saved label model is inconsistent: {e!r}.") from e
    return model


def _filled(model: "LabelModel", values: Any, arrays: bytes) -> "LabelModel":
    try:
        learned = {**decoded(values), **load(arrays)}
    except SafetensorError as error:
        raise SavedModelError(f"The stored arrays cannot be read: {error}") from error
    unknown = learned.keys() - set(model.learned_names())
    if unknown or "labels_" not in learned:
        name = type(model).__name__
        raise SavedModelError(f"The stored values do not fit {name}: {sorted(unknown)}")
    for name, value in learned.items():
        setattr(model, name, value)
    return model


def try_label_model(model: "LabelModel") -> None:
    """Refuse a model whose parts do not work together: wrong shapes, NaN, missing values."""
    model.check_learned()
    votes = model.sample_votes()
    with np.errstate(all="ignore"):
        proba = model.predict_proba(votes)
    n_rows = getattr(votes, "n_tokens", votes.n_items)
    if proba.shape != (n_rows, len(model.labels_)) or not np.allclose(proba.sum(axis=1), 1):
        raise ValueError(f"its answer to votes is {proba!r:.80}")


def _learned(model: "LabelModel") -> list[str]:
    return [name for name in model.learned_names() if hasattr(model, name)]
