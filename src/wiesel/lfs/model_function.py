"""A fitted model as a probabilistic labeling function."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import polars as pl
import polars.selectors as cs

from wiesel.errors import DataError, ParameterError, VoteError, suggest
from wiesel.labels import LabelSpace, checked_proba
from wiesel.lfs.batch import Batch, ColumnVotes, read_proba
from wiesel.lfs.fingerprints import digest
from wiesel.lfs.function import LabelingFunction, slug
from wiesel.parameters import check_number

__all__ = ["ModelFunction", "from_model"]


@dataclass(frozen=True, eq=False)
class ModelFunction(LabelingFunction):
    """Votes with the probabilities of a fitted model; made by `from_model`."""

    estimator: Any = field(repr=False)
    inputs: str | tuple[str, ...]
    min_confidence: float
    name: str
    automatic_name: bool = False

    @property
    def pass_key(self) -> Hashable:
        """Each model is a separate pass."""
        return type(self), self.name

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that the model reads."""
        return (self.inputs,) if isinstance(self.inputs, str) else self.inputs

    @property
    def fingerprint(self) -> str:
        """A digest of everything the model has learned until now, and of the options."""
        return digest(self.estimator, self.inputs, self.min_confidence)

    @classmethod
    def run_together(
        cls, lfs: Sequence[Self], batch: Batch, labels: LabelSpace
    ) -> list[ColumnVotes]:
        """Return the votes of every model."""
        return [lf._votes(batch, labels) for lf in lfs]

    def _votes(self, batch: Batch, labels: LabelSpace) -> ColumnVotes:
        usable, proba = self._proba(batch.frame)
        order = np.array([_class_index(name, labels, self.name) for name in self.classes_given])
        full = np.zeros((len(batch), len(labels)))
        full[np.ix_(usable, order)] = proba
        full[full.max(axis=1) < self.min_confidence] = 0
        return read_proba(full, labels, self.name, batch)

    @property
    def classes_given(self) -> list[Any]:
        """The classes of the model, in the order of its probabilities."""
        return [value.item() if hasattr(value, "item") else value for value in self._classes]

    @property
    def _classes(self) -> Any:
        return _classes_of(self.estimator)

    def _proba(self, frame: pl.DataFrame) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """The rows without missing values, and the model's probabilities on them."""
        for column in self.reads:
            if column not in frame.columns:
                problem = f"{self.name!r} reads the column {column!r}, which is not there."
                raise DataError(f"{problem} {suggest(column, frame.columns)}")
        columns = frame.select(self.reads).with_columns(cs.float().fill_nan(None))
        complete = columns.with_row_index("position").drop_nulls()
        usable = complete["position"].to_numpy()
        inputs = complete.drop("position")
        if not len(inputs):
            return usable, np.zeros((0, len(self._classes)))
        found = self.estimator.predict_proba(self._model_input(inputs))
        names, source = (
            [str(name) for name in self.classes_given],
            f"The probabilities by {self.name!r}",
        )
        return usable, checked_proba(found, names, source, len(inputs))

    def _model_input(self, inputs: pl.DataFrame) -> Any:
        """The model's input: one column unchanged, several as a table of numbers."""
        if isinstance(self.inputs, str):
            column = inputs[self.inputs]
            if column.dtype == pl.String:
                return column.to_list()
            numbers = np.stack(column.to_list()) if column.dtype.is_nested() else column.to_numpy()
            return numbers.reshape(len(column), -1)
        return inputs if hasattr(self.estimator, "feature_names_in_") else inputs.to_numpy()

    def __call__(self, row: Mapping[str, Any]) -> Any:
        """Return the distribution on one row; None if the model is not confident enough."""
        usable, proba = self._proba(pl.DataFrame([dict(row)], infer_schema_length=None))
        if not len(usable) or proba[0].max() < self.min_confidence:
            return None
        return dict(zip(self.classes_given, proba[0].tolist(), strict=True))


def from_model(
    estimator: Any,
    columns: str | Sequence[str],
    *,
    min_confidence: float = 0.0,
    name: str = "",
) -> ModelFunction:
    """Return a labeling function that votes with a fitted model's `predict_proba`.

    `columns` is one column that the model takes as it is (text for a text pipeline, lists for
    embeddings), or several columns of numbers. It abstains where values are missing or the largest
    probability is below `min_confidence`. The classes of the model are class names, or indices.

    >>> from sklearn.linear_model import LogisticRegression
    >>> model = LogisticRegression().fit([[0.0], [1.0], [3.0]], ["ham", "ham", "spam"])
    >>> lf = from_model(model, ["n_links"], min_confidence=0.8)
    >>> lf({"n_links": 9.0})["spam"] > 0.9, lf({"n_links": 2.0})
    (True, None)
    """
    parts = {
        "predict_proba": getattr(estimator, "predict_proba", None),
        "classes_": _classes_of(estimator),
    }
    for needed, found in parts.items():
        if found is None:
            raise ParameterError(
                f"from_model needs a fitted model with predict_proba and classes_; "
                f"{type(estimator).__name__} has no {needed}."
            )
    inputs = columns if isinstance(columns, str) else tuple(columns)
    own_name = f"model_{slug(type(estimator).__name__)}"
    lf = ModelFunction(estimator, inputs, min_confidence, name or own_name, not name)
    check_number(lf, "min_confidence", min_confidence, low=0, high=1)
    return lf


def _classes_of(estimator: Any) -> Any:
    """The classes of a fitted model in the order of its probabilities; None if it has none."""
    if isinstance(getattr(estimator, "labels_", None), LabelSpace):  # of Wiesel: in any order
        return list(estimator.labels_)
    return getattr(estimator, "classes_", None)


def _class_index(name: Any, labels: LabelSpace, lf: str) -> int:
    try:
        return int(labels.indices([name])[0])
    except DataError as error:
        raise VoteError(f"The model of {lf!r} has the class {name!r}. {error}") from None
