"""A model together with its features: from texts, tables or pictures to classes in one object."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import scipy.sparse as sp
from torch import Tensor
from torch.utils.data import Dataset

from wiesel.end_to_end.checks import MODULE_ERRORS, first_line
from wiesel.errors import MissingExtraError, ParameterError, SavedModelError, WieselError
from wiesel.features import (
    ImageFeatures,
    Standardizer,
    TabularFeatures,
    TextFeatures,
    TokenFeatures,
)
from wiesel.features.saved import STATE, decoded_state, encoded_state
from wiesel.features.text import text_column
from wiesel.tables import as_frame, in_order_of
from wiesel.training.inputs import Inputs, as_batch, as_inputs, is_ready

if TYPE_CHECKING:
    from wiesel.end_to_end.base import EndToEndModel

__all__ = ["FeatureReader", "ReadsFeatures", "restored_reader"]

_TRIED_PIXELS = 10**6
_NOTED = ("kind", "column")
_KINDS: dict[type, str] = {
    TokenFeatures: "tokens",
    TabularFeatures: "tabular",
    ImageFeatures: "images",
    Standardizer: "given",
}


@dataclass(frozen=True)
class FeatureReader:
    """Fitted features, and the table column that contains the texts.

    >>> features = TextFeatures(min_count=1).fit(["good film", "bad film", "good plot"])
    >>> reader = FeatureReader(features, column="review")
    >>> reader.read(["good film"]).shape == reader.read({"review": ["good film"]}).shape
    True
    """

    features: Any
    column: str = "text"

    @property
    def kind(self) -> str:
        """The name of the features in a project: `tfidf`, `minilm`, `tokens`, `tabular`, ..."""
        if isinstance(self.features, TextFeatures):
            return self.features.kind
        return _KINDS[type(self.features)]

    def read(self, items: Any) -> Any:
        """Return the end model's inputs, from texts, rows of a table, pictures or numbers.

        Vectors of texts or tables cannot be mistaken for items, so they are returned unchanged.
        """
        if isinstance(self.features, (ImageFeatures, Standardizer)):
            return self.features.transform(items)
        if _are_vectors(items):
            return items
        if isinstance(self.features, TabularFeatures):
            return self.features.transform(items)
        return self.features.transform(self._texts(items))

    def _texts(self, items: Any) -> Any:
        is_series = hasattr(items, "to_list") and not hasattr(items, "columns")
        if is_series or isinstance(items, (str, np.ndarray)):
            return items
        rows = items if _is_table(items) else list(items)
        if _is_table(rows) or (rows and isinstance(rows[0], Mapping)):
            return text_column(as_frame(rows), self.column, "the text that this model reads")
        return rows

    def read_one(self, item: Any) -> Any:
        """Return one text, one row, one picture or one vector as a batch of one.

        A row is a dict, a Series of pandas (`table.iloc[17]`) or a table of one row.
        """
        if isinstance(self.features, (ImageFeatures, Standardizer)):
            return self.features.transform(np.asarray(item)[None])
        if hasattr(item, "columns"):
            return self.read(item)
        if hasattr(item, "to_dict"):
            item = item.to_dict()
        is_row = isinstance(item, Mapping) and not any(map(np.ndim, item.values()))
        return self.read([item]) if isinstance(item, str) or is_row else as_batch(item)

    def contents(self, model: "EndToEndModel") -> tuple[dict[str, Any], dict[str, bytes]]:
        """Return the contents to save: an entry for the manifest, and the files of the features."""
        files = encoded_state(self.features)
        self.try_out(model, ParameterError)
        shape = list(_item_shape(self.features))
        return {"inputs": {"kind": self.kind, "column": self.column, "shape": shape}}, files

    def try_out(self, model: "EndToEndModel", error_class: type[WieselError]) -> None:
        """Refuse a model that cannot predict from these features."""
        try:
            items = _sample(self.features)
            if items is not None:
                model.predict_proba(as_inputs(self.features.transform(items)))
        except MissingExtraError:
            return
        # A folder that was edited by hand can be wrong in any way.
        except (WieselError, *MODULE_ERRORS) as error:
            raise error_class(
                "The model cannot predict from these features, so it was trained on others: "
                f"{first_line(error).rstrip('.')}."
            ) from error


class ReadsFeatures:
    """A mixin for models that may be saved with their features, and read raw items through them."""

    reader_: FeatureReader | None = None
    """The features saved with a loaded model; None if the model reads vectors."""

    def inputs_of(self, X: Any, votes: Any = None) -> Inputs:
        """Return the end model's inputs for the user's items, in the order of `votes`."""
        if self.reader_ is None or is_ready(X):
            found: Inputs = self.task_.inputs(X, "X", votes)  # type: ignore[attr-defined]
            return found
        return as_inputs(self.reader_.read(in_order_of(votes, X, "X")))

    def input_of(self, x: Any) -> Inputs:
        """Return one item, such as `X[17]`, as inputs of length one."""
        if self.reader_ is None:
            found: Inputs = self.task_.one_input(x)  # type: ignore[attr-defined]
            return found
        return as_inputs(self.reader_.read_one(x))


def restored_reader(
    model: "EndToEndModel", manifest: Mapping[str, Any], files: Mapping[str, bytes]
) -> FeatureReader | None:
    """Return the features saved with a model, after a trial run; None if there are none."""
    if STATE not in files:
        return None
    features, note = decoded_state(files), manifest.get("inputs")
    if not isinstance(note, dict) or not all(isinstance(note.get(k), str) for k in _NOTED):
        raise SavedModelError("The saved model does not say what its features are made from.")
    reader = FeatureReader(features, note["column"])
    if reader.kind != note["kind"]:
        raise SavedModelError(
            f"The saved features are of the kind {reader.kind!r}, not {note['kind']!r:.80}."
        )
    reader.try_out(model, SavedModelError)
    return reader


def _are_vectors(items: Any) -> bool:
    """Whether these are vectors that the features have already computed."""
    if isinstance(items, np.ndarray):
        return items.dtype.kind in "fiub"
    if isinstance(items, Mapping):
        return any(isinstance(value, Tensor) or np.ndim(value) == 2 for value in items.values())
    return isinstance(items, (Tensor, Dataset)) or sp.issparse(items)


def _is_table(items: Any) -> bool:
    return isinstance(items, Mapping) or hasattr(items, "columns") or not hasattr(items, "__iter__")


def _sample(features: Any) -> Any:
    """One or two sample items for a trial run; None if the trial would take long."""
    if isinstance(features, TabularFeatures):
        names = {name: [0.0, None] for name in features.numeric}
        return pl.DataFrame(names | {name: ["a", None] for name in features.categorical})
    if isinstance(features, ImageFeatures):
        small = math.prod(features.shape_) <= _TRIED_PIXELS
        return np.zeros((1, *features.shape_)) if small else None
    if isinstance(features, Standardizer):
        return np.zeros((1, len(features.mean_)))
    if isinstance(features, TextFeatures) and features.kind == "minilm":
        return None
    return ["", "two words"]


def _item_shape(features: Any) -> tuple[int, ...]:
    """The size of one item as the end model reads it; empty for a dict of arrays."""
    if isinstance(features, TabularFeatures):
        return (len(features.names_),)
    if isinstance(features, ImageFeatures):
        height, width, channels = features.shape_
        first = features.layout == "channels_first"
        return (channels, height, width) if first else (channels * height * width,)
    if isinstance(features, Standardizer):
        return (len(features.mean_),)
    if isinstance(features, TokenFeatures):
        return () if features.tokenizer_ else (features.length,)
    return (features.n_features,)
