"""Turns table columns into vectors: numbers standardized, categories one-hot."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import (
    Argument,
    FeatureError,
    NotFittedError,
    ParameterError,
    SavedModelError,
    listed,
)
from wiesel.features.standardize import Standardizer, column_scale
from wiesel.features.state import FeatureState, StoredFeatures, check_kind, checked_names
from wiesel.parameters import Parameterized, check_number
from wiesel.tables import as_frame, require_columns
from wiesel.threads import check_polars_threads

__all__ = ["TabularFeatures"]


@dataclass(eq=False, kw_only=True)
class TabularFeatures(StoredFeatures, Parameterized):
    """Turns numeric and categorical columns into one vector per row.

    You name the columns, because guessing would include ids and labels. A missing number becomes
    the column's mean; if `fit` saw missing values, an additional column indicates them. A category
    that `fit` did not see, or that is not among the most frequent, is encoded as all zeros. A
    missing category is a separate category.

    >>> features = TabularFeatures(numeric=["age"], categorical=["job"])
    >>> features.fit_transform({"age": [20, 40], "job": ["cook", "nurse"]})
    array([[-1.,  1.,  0.],
           [ 1.,  0.,  1.]], dtype=float32)
    >>> features.names_
    ('age', 'job=cook', 'job=nurse')
    """

    numeric: Sequence[str] = ()
    """Columns of numbers."""
    categorical: Sequence[str] = ()
    """Columns of categories; numbers and booleans are treated as categories here."""
    max_categories: int = 100
    """The maximum number of categories per column; rarer ones are encoded as all zeros."""

    standardizer_: Standardizer = field(init=False, repr=False)
    """The mean and standard deviation of each numeric column."""
    incomplete_: tuple[str, ...] = field(init=False, repr=False)
    """Numeric columns with missing values in `fit`."""
    categories_: dict[str, tuple[str | None, ...]] = field(init=False, repr=False)
    """The categories of each categorical column; None stands for missing."""

    @property
    def names_(self) -> tuple[str, ...]:
        """The meaning of each entry of a vector."""
        self.check_fitted()
        places = [
            f"{column}={'missing' if name is None else name}"
            for column, names in self.categories_.items()
            for name in names
        ]
        return (*self.numeric, *(f"{name} missing" for name in self.incomplete_), *places)

    def fit(self, table: Any, y: Any = None) -> Self:
        """Learn means, standard deviations and categories from the training rows."""
        if not (*self.numeric, *self.categorical):
            raise ParameterError(_columns_to_name(as_frame(table)))
        self.check_options()
        check_polars_threads("TabularFeatures.fit")
        frame = self._columns(table)
        if frame.is_empty():
            raise FeatureError("TabularFeatures needs at least one row to fit on; got none.")
        numbers = self._numbers(frame)
        missing = np.isnan(numbers)
        gone = _named(self.numeric, missing.all(axis=0))
        if gone:
            raise FeatureError(f"The numeric columns {listed(gone)} have no value at all.")
        self.standardizer_ = _fit_known(numbers)
        self.incomplete_ = _named(self.numeric, missing.any(axis=0))
        self.categories_ = {
            column: _categories(frame[column], self.max_categories) for column in self.categorical
        }
        return self

    def transform(self, table: Any) -> npt.NDArray[np.float32]:
        """Return the vectors of rows: (n_items, len(names_)), float32."""
        self.check_fitted()
        frame = self._columns(table)
        numbers = self._numbers(frame)
        missing = np.isnan(numbers)
        scaled = (numbers - self.standardizer_.mean_) / self.standardizer_.scale_
        flags = missing[:, [list(self.numeric).index(name) for name in self.incomplete_]]
        places = [_one_hot(frame[column], names) for column, names in self.categories_.items()]
        parts = [np.where(missing, 0, scaled), flags, *places]
        return np.concatenate([part.astype(np.float32) for part in parts], axis=1)

    def fit_transform(self, table: Any, y: Any = None) -> npt.NDArray[np.float32]:
        """Return `fit(table).transform(table)`."""
        return self.fit(table).transform(table)

    def check_fitted(self) -> None:
        """Raise `NotFittedError` unless `fit` has run."""
        if not hasattr(self, "categories_"):
            raise NotFittedError("These TabularFeatures are not fitted yet: call fit(table) first.")

    def _column_names(self, input_features: Any) -> tuple[str, ...]:
        return self.names_

    def to_state(self) -> FeatureState:
        """Return the options and the fitted values as plain data."""
        self.check_fitted()
        settings = {
            "kind": "tabular",
            "numeric": list(self.numeric),
            "incomplete": list(self.incomplete_),
            "categories": {name: list(names) for name, names in self.categories_.items()},
            "max_categories": self.max_categories,
        }
        return FeatureState(settings, self.standardizer_.to_state().arrays)

    @classmethod
    def from_state(cls, state: FeatureState) -> "TabularFeatures":
        """Return the fitted features from the result of `to_state`."""
        parts = ("numeric", "incomplete", "categories", "max_categories")
        check_kind(state, "tabular", settings=parts)
        settings = state.settings
        if not isinstance(settings["categories"], dict):
            raise SavedModelError("The saved categories are not a table of columns.")
        categories = {
            name: checked_names(values, f"categories of {name!r}", optional=True)
            for name, values in settings["categories"].items()
        }
        features = cls(
            numeric=checked_names(settings["numeric"], "numeric columns"),
            categorical=tuple(categories),
            max_categories=settings["max_categories"],
        )
        features.check_options()
        features.categories_ = categories
        features.incomplete_ = checked_names(settings["incomplete"], "columns with missing values")
        scaling = FeatureState({"kind": "standardizer"}, state.arrays)
        features.standardizer_ = Standardizer.from_state(scaling)
        n_numeric = len(features.numeric)
        known = set(features.incomplete_) <= set(features.numeric)
        if len(features.standardizer_.mean_) != n_numeric or not known:
            raise SavedModelError("The saved means are not those of the numeric columns.")
        return features

    def _check_options(self) -> None:
        check_number(self, "max_categories", self.max_categories, low=1, whole=True)
        for name in ("numeric", "categorical"):
            if isinstance(getattr(self, name), str) or not isinstance(
                getattr(self, name), Sequence
            ):
                raise ParameterError(
                    f"The {name!r} option of TabularFeatures is a list of columns; got "
                    f"{getattr(self, name)!r}.",
                    option=name,
                )
        columns = [*self.numeric, *self.categorical]
        if not columns:
            numeric, categorical = Argument("numeric", [...]), Argument("categorical", [...])
            raise ParameterError("TabularFeatures needs ", numeric, " or ", categorical, ".")
        twice = sorted({name for name in columns if columns.count(name) > 1})
        if twice:
            raise ParameterError(f"Each column is named once; {listed(twice)} is repeated.")

    def _columns(self, table: Any) -> pl.DataFrame:
        frame = as_frame(table)
        require_columns(frame, (*self.numeric, *self.categorical), "a feature")
        # Not `select`, nor any expression: those need threads that a forked process lacks.
        return pl.DataFrame([frame[name] for name in (*self.numeric, *self.categorical)])

    def _numbers(self, frame: pl.DataFrame) -> npt.NDArray[np.float64]:
        """The numeric columns, NaN where missing."""
        for name in self.numeric:
            if not frame[name].dtype.is_numeric() and frame[name].dtype not in (
                pl.Boolean,
                pl.Null,
            ):
                raise FeatureError(
                    f"The column {name!r} holds {frame[name].dtype}, not numbers: convert it, or "
                    "name it in ",
                    Argument("categorical", [...]),
                    ".",
                )
        numbers = np.empty((len(frame), len(self.numeric)))
        for place, name in enumerate(self.numeric):
            numbers[:, place] = frame[name].cast(pl.Float64).to_numpy()  # missing becomes NaN
        if np.isinf(numbers).any():
            row, column = np.argwhere(np.isinf(numbers))[0]
            raise FeatureError(f"The column {self.numeric[column]!r} is infinite in row {row}.")
        return numbers


def _columns_to_name(frame: pl.DataFrame) -> str:
    """The error message if no columns are named: it shows the call that uses every column."""
    numeric = [name for name, dtype in frame.schema.items() if dtype.is_numeric()]
    others = [name for name in frame.columns if name not in numeric]
    named = {"numeric": numeric, "categorical": others}
    call = ", ".join(f"{option}={names!r:.300}" for option, names in named.items() if names)
    return (
        "TabularFeatures needs to know which columns to use. The table has "
        f"TabularFeatures({call}): leave out ids and gold labels."
    )


def _named(names: Sequence[str], chosen: Any) -> tuple[str, ...]:
    return tuple(name for name, is_chosen in zip(names, chosen, strict=True) if is_chosen)


def _fit_known(numbers: npt.NDArray[np.float64]) -> Standardizer:
    """The mean and standard deviation of the values that are not missing."""
    standardizer = Standardizer()
    standardizer.mean_ = np.nanmean(numbers, axis=0)
    standardizer.scale_ = column_scale(standardizer.mean_, np.nanstd(numbers, axis=0))
    return standardizer


def _categories(column: pl.Series, limit: int) -> tuple[str | None, ...]:
    """The most frequent values as text, in alphabetical order, missing last."""
    counts = (
        column.cast(pl.String).value_counts().sort("count", column.name, descending=[True, False])
    )
    kept = counts[column.name].head(limit).to_list()
    return (*sorted(name for name in kept if name is not None), *([None] if None in kept else []))


def _one_hot(column: pl.Series, names: tuple[str | None, ...]) -> npt.NDArray[np.bool_]:
    places = {name: place for place, name in enumerate(names)}
    values = column.cast(pl.String).to_list()
    codes = np.array([places.get(value, -1) for value in values], dtype=np.int64)
    return codes[:, None] == np.arange(len(names))
