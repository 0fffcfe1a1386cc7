"""Fitted features as plain data, so that a model can be saved with them without pickle."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from wiesel.errors import SavedModelError, listed

__all__ = ["FeatureState", "StoredFeatures", "check_kind", "checked_names", "finite_array"]


class FeatureState(NamedTuple):
    """The state of a fitted feature extractor: settings for JSON, arrays for safetensors.

    >>> FeatureState({"kind": "standardizer"}, {}).settings["kind"]
    'standardizer'
    """

    settings: Mapping[str, Any]
    """Values that JSON can represent; `kind` names the extractor."""
    arrays: Mapping[str, npt.NDArray[Any]]
    """Numeric arrays by name."""


class StoredFeatures:
    """The base class of fitted features: they are saved as a folder of data, never as a pickle.

    `fit` and `fit_transform` ignore `y`: a scikit-learn pipeline passes the votes to every step.
    """

    def save(self, path: str | Path) -> None:
        """Write the fitted features as a folder; `load` reads it."""
        from wiesel.features.saved import save_features

        save_features(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return the fitted features that `save` wrote; no stored code is run."""
        from wiesel.features.saved import load_features

        found = load_features(path)
        if not isinstance(found, cls):
            name = type(found).__name__
            raise SavedModelError(f"{path} holds {name}, not {cls.__name__}: use {name}.load.")
        return found


def check_kind(
    state: FeatureState, kind: str, *, settings: Sequence[str] = (), arrays: Sequence[str] = ()
) -> None:
    """Raise an error for an incomplete state or one of another extractor."""
    found = state.settings.get("kind")
    if found != kind:
        raise SavedModelError(f"These saved features are of the kind {found!r}, not {kind!r}.")
    missing = [name for name in settings if name not in state.settings]
    missing += [name for name in arrays if name not in state.arrays]
    if missing:
        raise SavedModelError(f"The saved features of kind {kind!r} lack {listed(missing)}.")


def finite_array(state: FeatureState, name: str, shape: tuple[int | None, ...]) -> npt.NDArray[Any]:
    """Return a saved array after checking its shape and that all numbers are finite.

    None in `shape` stands for any length.

    >>> state = FeatureState({}, {"mean": np.zeros(3)})
    >>> finite_array(state, "mean", (None,)).shape
    (3,)
    """
    array = state.arrays[name]
    fits = array.ndim == len(shape) and array.dtype.kind == "f"
    fits = fits and all(n is None or n == k for n, k in zip(shape, array.shape, strict=True))
    if not fits or not np.isfinite(array).all():
        wanted = " x ".join("any" if n is None else str(n) for n in shape)
        raise SavedModelError(
            f"The saved array {name!r} of the features must be {wanted} finite numbers; it has the "
            f"shape {array.shape} of {array.dtype}, or holds NaN."
        )
    return array


def checked_names(values: Any, what: str, optional: bool = False) -> tuple[Any, ...]:
    """Return a saved list of distinct texts; with `optional`, one may be None (missing)."""
    allowed = (str, type(None)) if optional else (str,)
    if (
        not isinstance(values, list)
        or not all(isinstance(name, allowed) for name in values)
        or len(set(values)) != len(values)
    ):
        raise SavedModelError(f"The saved {what} must be different texts; got {values!r:.80}.")
    return tuple(values)
