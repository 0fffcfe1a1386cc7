"""Saves fitted features of every kind to files and loads them."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from wiesel.errors import ParameterError, SavedModelError, WieselError, listed
from wiesel.features.images import ImageFeatures
from wiesel.features.standardize import FeatureState, Standardizer
from wiesel.features.tabular import TabularFeatures
from wiesel.features.text import TextFeatures
from wiesel.features.tokens import TokenFeatures
from wiesel.saving import read_folder, read_json, write_folder
from wiesel.version import __version__

__all__ = [
    "ARRAYS",
    "STATE",
    "decoded_state",
    "encoded_state",
    "features_from_state",
    "load_features",
    "save_features",
]

STATE, ARRAYS = "features.json", "features.safetensors"
"""The files of fitted features, in a separate folder, in a cache or in a saved model."""

_READERS: dict[str, Callable[[FeatureState], Any]] = {
    "text": TextFeatures.from_state,
    "tabular": TabularFeatures.from_state,
    "tokens": TokenFeatures.from_state,
    "images": ImageFeatures.from_state,
    "standardizer": Standardizer.from_state,
}


def features_from_state(state: FeatureState) -> Any:
    """Return the fitted features from the result of `to_state()`; runs no stored code.

    >>> fitted = TabularFeatures(numeric=["age"]).fit({"age": [20, 40]})
    >>> features_from_state(fitted.to_state()).transform({"age": [30]})
    array([[0.]], dtype=float32)
    """
    kind = state.settings.get("kind")
    if not isinstance(kind, str) or kind not in _READERS:
        raise SavedModelError(f"There are no features of kind {kind!r}; known: {listed(_READERS)}.")
    try:
        return _READERS[kind](state)
    except SavedModelError:
        raise
    # A file that was edited by hand can be invalid in any way.
    except (WieselError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as e:
        raise SavedModelError(f"The saved features are inconsistent: {e}.") from e


def save_features(features: Any, path: str | Path) -> None:
    """Write fitted features as a folder of data files."""
    manifest = {"wiesel": __version__, "class": type(features).__name__}
    write_folder(path, manifest, encoded_state(features))


def load_features(path: str | Path) -> Any:
    """Return fitted features from a folder that `save` wrote, or from a model saved with them.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     TabularFeatures(numeric=["age"]).fit({"age": [20, 40]}).save(f"{folder}/features")
    ...     TabularFeatures.load(f"{folder}/features").transform({"age": [40]})
    array([[1.]], dtype=float32)
    """
    _, files = read_folder(path)
    if STATE not in files:
        raise SavedModelError(f"{path} holds no features: there is no {STATE} in it.")
    return decoded_state(files)


def encoded_state(features: Any) -> dict[str, bytes]:
    """Return fitted features as the content of files."""
    if not hasattr(features, "to_state"):
        raise ParameterError(
            f"Features of the kind {type(features).__name__} cannot be saved as data. Use "
            "TextFeatures, TabularFeatures, TokenFeatures, ImageFeatures or Standardizer of "
            "wiesel.features, or save the model without features and pass it vectors."
        )
    state = features.to_state()
    arrays = {name: np.ascontiguousarray(array) for name, array in state.arrays.items()}
    settings = json.dumps(state.settings, ensure_ascii=False)
    return {STATE: settings.encode(), ARRAYS: save(arrays)}


def decoded_state(files: Mapping[str, bytes]) -> Any:
    """Return the fitted features from the result of `encoded_state`."""
    try:
        settings, arrays = read_json(files[STATE], STATE), load(files[ARRAYS])
    except (KeyError, SafetensorError) as error:
        raise SavedModelError(f"The saved features cannot be read: {error}.") from error
    if not isinstance(settings, dict):
        raise SavedModelError(
            "The saved features cannot be read: their settings are not a JSON object."
        )
    return features_from_state(FeatureState(settings, arrays))
