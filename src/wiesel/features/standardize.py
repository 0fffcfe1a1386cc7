"""Fitted features as plain data, and columns with mean 0 and standard deviation 1."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import FeatureError, NotFittedError, ParameterError, SavedModelError, listed
from wiesel.labels import FloatArray
from wiesel.parameters import Parameterized

__all__ = [
    "FeatureState",
    "Standardizer",
    "StoredFeatures",
    "check_kind",
    "checked_names",
    "finite_array",
]

_BLOCK = 8192
"""Rows processed together, so that a memory-mapped array is never copied into memory as a whole."""


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


@dataclass(eq=False)
class Standardizer(StoredFeatures, Parameterized):
    """Subtracts the mean of every column and divides by its standard deviation.

    A constant column becomes 0. Works on memory-mapped arrays, one small block at a time.

    >>> X = np.array([[1.0, 5.0], [3.0, 5.0]])
    >>> Standardizer().fit(X).transform([[2.0, 5.0], [3.0, 5.0]])
    array([[0., 0.],
           [1., 0.]], dtype=float32)
    """

    mean_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """The mean of each column in the training data."""
    scale_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """The standard deviation of each column; 1 for a constant column."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the mean and standard deviation of each column of (n_items, n_features)."""
        array = _matrix(X)
        total = np.zeros(array.shape[1])
        for start, block in _blocks(array):
            _check_finite(block, start)
            total += block.sum(axis=0)
        self.mean_ = total / len(array)
        squares = sum(((block - self.mean_) ** 2).sum(axis=0) for _, block in _blocks(array))
        self.scale_ = column_scale(self.mean_, np.sqrt(squares / len(array)))
        return self

    def transform(self, X: Any) -> npt.NDArray[np.float32]:
        """Return the standardized features, as float32."""
        self.check_fitted()
        array = _matrix(X)
        if array.shape[1] != len(self.mean_):
            raise FeatureError(
                f"The features have {array.shape[1]} columns; the Standardizer was fitted on "
                f"{len(self.mean_)}."
            )
        result = np.empty(array.shape, np.float32)
        for start, block in _blocks(array):
            _check_finite(block, start)
            result[start : start + len(block)] = (block - self.mean_) / self.scale_
        return result

    def fit_transform(self, X: Any, y: Any = None) -> npt.NDArray[np.float32]:
        """Return `fit(X).transform(X)`."""
        return self.fit(X).transform(X)

    def check_fitted(self) -> None:
        """Raise `NotFittedError` unless `fit` has run."""
        if not hasattr(self, "mean_"):
            raise NotFittedError("This Standardizer is not fitted yet: call fit(...) first.")

    def _column_names(self, input_features: Any) -> list[str]:
        if input_features is None:
            return [f"x{k}" for k in range(len(self.mean_))]
        return [str(name) for name in input_features]

    def to_state(self) -> FeatureState:
        """Return the fitted values as plain data."""
        self.check_fitted()
        return FeatureState({"kind": "standardizer"}, {"mean": self.mean_, "scale": self.scale_})

    @classmethod
    def from_state(cls, state: FeatureState) -> "Standardizer":
        """Return the Standardizer from the result of `to_state`."""
        check_kind(state, "standardizer", arrays=("mean", "scale"))
        standardizer = cls()
        standardizer.mean_ = finite_array(state, "mean", (None,))
        standardizer.scale_ = finite_array(state, "scale", standardizer.mean_.shape)
        if not (standardizer.scale_ > 0).all():
            raise SavedModelError("The saved deviations of the features are not all positive.")
        return standardizer


def column_scale(mean: FloatArray, deviation: FloatArray) -> npt.NDArray[np.float64]:
    """Return the divisor of each column: its standard deviation, or 1 if it is constant."""
    # Rounding gives a constant column a tiny deviation, which must not be inflated.
    constant = deviation <= 1e-9 * np.maximum(1, np.abs(mean))
    return np.where(constant, 1.0, deviation)


def _matrix(X: Any) -> npt.NDArray[Any]:
    array = X if isinstance(X, np.ndarray) else np.asarray(X)
    if array.ndim != 2 or not len(array) or array.dtype.kind not in "fiub":
        raise FeatureError(
            "Features must be numbers, items x columns, with at least one item; "
            f"got the shape {array.shape} of {array.dtype}."
        )
    return array


def _blocks(array: npt.NDArray[Any]) -> Iterator[tuple[int, npt.NDArray[np.float64]]]:
    for start in range(0, len(array), _BLOCK):
        yield start, np.asarray(array[start : start + _BLOCK], dtype=np.float64)


def _check_finite(block: FloatArray, start: int) -> None:
    if not np.isfinite(block).all():
        row, column = np.argwhere(~np.isfinite(block))[0]
        raise FeatureError(
            f"The feature in row {start + row}, column {column} is {block[row, column]}; "
            "features must be finite. Fill or drop missing values first."
        )
