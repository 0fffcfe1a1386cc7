"""Fitted features as plain data, so that a model can be saved with them without pickle."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import FeatureError, ParameterError, SavedModelError, listed

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

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in ("transform", "fit_transform"):
            setattr(cls, name, _in_chosen_container(getattr(cls, name)))

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[Any]:
        """Return a name for every column of `transform`: `textfeatures0`, ...

        `input_features` is for scikit-learn, which passes the names of the input columns.
        """
        self.check_fitted()
        names = self._column_names(input_features)
        return np.array(names, dtype=object)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose what `transform` returns, as in scikit-learn: `default`, `pandas` or `polars`.

        Models take any of them. `None` changes nothing.
        """
        if transform not in (None, *_CONTAINERS):
            raise ParameterError(
                f"transform must be one of {listed(_CONTAINERS)}; got {transform!r}."
            )
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}  # `clone` copies it
        return self

    def check_fitted(self) -> None:
        """Raise `NotFittedError` unless `fit` has run."""
        raise NotImplementedError

    def _column_names(self, input_features: Any) -> Sequence[str]:
        return [f"{type(self).__name__.lower()}{k}" for k in range(self._n_columns())]

    def _n_columns(self) -> int:
        raise NotImplementedError

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


_CONTAINERS = ("default", "pandas", "polars")


def _in_chosen_container(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method with a data frame as result if `set_output` chose one."""

    @wraps(method)
    def contained(self: Any, *arguments: Any, **named: Any) -> Any:
        result = method(self, *arguments, **named)
        kind = getattr(self, "_sklearn_output_config", {}).get("transform", "default")
        if kind == "default" or not isinstance(result, np.ndarray):
            return result
        if result.ndim != 2:
            raise FeatureError(
                f"A table has rows and columns; these features have the shape {result.shape}. "
                "Use set_output(transform='default')."
            )
        names = self.get_feature_names_out(getattr(arguments[0], "columns", None))
        if kind == "polars":
            return pl.DataFrame(result, schema=list(names))
        import pandas as pd

        index = getattr(arguments[0], "index", None)
        is_index = isinstance(index, pd.Index)
        return pd.DataFrame(result, columns=names, index=index if is_index else None)

    return contained


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
