"""Turns table columns into vectors, and finds the vectors of the items of crowd answers."""

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
from wiesel.features.standardize import (
    FeatureState,
    Standardizer,
    StoredFeatures,
    check_kind,
    checked_names,
    column_scale,
)
from wiesel.features.text import TextFeatures, text_column
from wiesel.parameters import Parameterized, check_number
from wiesel.tables import as_frame, require_columns
from wiesel.threads import check_polars_threads

__all__ = ["TabularFeatures", "item_vectors"]

_WORDS_OF_A_TEXT = 3
"""From this mean number of words on, a column holds texts, not names of categories."""
_ANSWERS = {"label", "gold", "truth", "answer"}


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

    def check_options(self) -> None:
        """Refuse invalid options."""
        super().check_options()
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


def item_vectors(
    features: Any, ids: npt.NDArray[Any], item: str, answers: pl.DataFrame
) -> npt.NDArray[np.float32]:
    """Return a vector for each of the items `ids`, in their order.

    `features` is a column of the answers (or several), a table with a row for each item and its id
    (in the column `item` or `id`), or an array with a row for each item if ids are row numbers.
    Texts are read by TF-IDF, lists of numbers as vectors, other columns as numbers or categories.

    >>> answers = pl.DataFrame({"task": ["b", "a", "b"], "size": [1.0, 3.0, 1.0]})
    >>> item_vectors("size", np.array(["a", "b"]), "task", answers)
    array([[ 1.],
           [-1.]], dtype=float32)
    """
    if isinstance(features, str) or (
        isinstance(features, (list, tuple)) and all(isinstance(name, str) for name in features)
    ):
        columns = [features] if isinstance(features, str) else list(features)
        require_columns(answers, columns, "of features")
        return _of_table(_one_per_item(answers.select(item, *columns), item), ids, item)
    if getattr(features, "ndim", None) == 2 and not hasattr(features, "columns"):
        return _of_rows(np.asarray(features, dtype=np.float32), ids, item)
    table = as_frame(features)
    own = item if item in table.columns else "id"
    require_columns(table, [own], "the ids of the items, in the features")
    return _of_table(_one_per_item(table, own), ids, own)


def _one_per_item(table: pl.DataFrame, item: str) -> pl.DataFrame:
    """The rows without repetitions; several rows with one id are refused."""
    rows = table.drop_nulls(item).with_columns(pl.col(item).cast(pl.String).str.strip_chars())
    rows = rows.unique(maintain_order=True)
    several = rows.filter(pl.col(item).is_duplicated())
    if len(several):
        raise FeatureError(
            f"The {item} {several[item][0]!r:.60} has several rows of features that differ: give "
            "one row for each item."
        )
    return rows


def _of_rows(array: npt.NDArray[np.float32], ids: npt.NDArray[Any], item: str) -> Any:
    places = pl.Series(ids.tolist()).cast(pl.String).cast(pl.Int64, strict=False)
    if places.null_count() or not places.is_between(0, len(array) - 1).all():
        raise FeatureError(
            f"An array of features has no ids, so every {item} has to be its row number, from 0 to "
            f"{len(array) - 1:,}; got {str(ids[0])!r:.60}. Give a table with a column {item!r}."
        )
    if not np.isfinite(array).all():
        raise FeatureError("Features must be finite numbers; some are NaN or infinite.")
    return array[places.to_numpy()]


def _of_table(table: pl.DataFrame, ids: npt.NDArray[Any], item: str) -> npt.NDArray[np.float32]:
    wanted = pl.DataFrame({item: pl.Series(ids.tolist()).cast(pl.String)})
    told = [name for name in table.columns if name.lower() in _ANSWERS]
    if told:
        raise FeatureError(
            f"The features have the column {told[0]!r}, which looks like the label that is wanted: "
            "leave it out, or give it as gold."
        )
    missing = wanted.join(table, on=item, how="anti")[item].to_list()
    if missing:
        raise FeatureError(
            f"{len(missing):,} of {len(ids):,} items have no row of features, such as "
            f"{listed(missing, limit=3)}. Give features of all items that have answers."
        )
    rows = wanted.join(table, on=item, how="left", maintain_order="left").drop(item)
    if not rows.width:
        raise FeatureError(f"The features have no column besides {item!r}.")
    parts = [_of_column(rows, name) for name in rows.columns if _is_own(rows[name])]
    plain = [name for name in rows.columns if not _is_own(rows[name])]
    if plain:
        numbers = [name for name in plain if rows[name].dtype.is_numeric()]
        others = [name for name in plain if name not in numbers]
        table_of = TabularFeatures(numeric=numbers, categorical=others)
        parts.append(table_of.fit_transform(rows.select(plain)))
    return np.hstack(parts).astype(np.float32)


def _is_own(column: pl.Series) -> bool:
    """Whether a column is read by itself: texts, and lists of numbers."""
    if column.dtype.base_type() in (pl.List, pl.Array):
        return True
    if column.dtype != pl.String:
        return False
    words = column.drop_nulls().str.split(" ").list.len().mean()
    return isinstance(words, float) and words >= _WORDS_OF_A_TEXT


def _of_column(rows: pl.DataFrame, name: str) -> npt.NDArray[Any]:
    if rows[name].dtype == pl.String:
        return TextFeatures().fit_transform(text_column(rows, name))
    lengths = rows[name].list.len() if rows[name].dtype == pl.List else None
    if rows[name].null_count() or (lengths is not None and lengths.n_unique() > 1):
        raise FeatureError(
            f"The lists of numbers in {name!r} have different lengths, or are missing."
        )
    return np.array(rows[name].to_list(), dtype=np.float32)
