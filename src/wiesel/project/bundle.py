"""A model together with its features, so that it predicts from raw rows in another process.

The folder is an ordinary saved model (`wiesel.load_model` reads it) with the fitted features and
a note on the rows it reads among its files.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.catalog import load_model
from wiesel.end_to_end import EndToEndModel
from wiesel.end_to_end.checks import MODULE_ERRORS, first_line
from wiesel.end_to_end.storage import end_to_end_contents
from wiesel.errors import DataError, MissingExtraError, SavedModelError, WieselError
from wiesel.io import FilePath, Split
from wiesel.labels import ABSTAIN
from wiesel.project.vectors import ARRAYS, STATE, Vectors, decoded_state, encoded_state, raw_inputs
from wiesel.saving import read_folder, write_folder
from wiesel.tables import as_frame

__all__ = ["Bundle", "load_bundle", "save_bundle"]

_NOTED = ("kind", "column")
_TRIED_PIXELS = 10**6


@dataclass(frozen=True)
class Bundle:
    """A fitted model and the features that turn rows into what it reads."""

    model: EndToEndModel
    features: Any
    """None for a model that was saved without: it reads arrays."""
    manifest: Mapping[str, Any]

    @property
    def labels(self) -> Any:
        """The classes."""
        return self.model.labels_

    def inputs(self, rows: Any) -> Any:
        """Return what the model reads, from a table of rows."""
        if self.features is None:
            raise DataError(
                "This model was saved without features: give it an array, X.npy, not a table."
            )
        note = self.manifest.get("inputs", {})
        if note.get("kind") in ("images", "given"):
            raise DataError(
                "This model reads arrays (X.npy), which its features standardize; a table of rows "
                "is not enough."
            )
        frame = as_frame(rows)
        split = Split(frame, np.full(len(frame), ABSTAIN))
        return self.features.transform(raw_inputs(note["kind"], note["column"], split))

    def array_inputs(self, array: Any) -> Any:
        """Return what the model reads, from an array like the one it was trained on."""
        is_raw = self.manifest.get("inputs", {}).get("kind") in ("images", "given")
        return self.features.transform(array) if is_raw else array

    def predict_proba(self, rows: Any) -> npt.NDArray[np.float64]:
        """Return P(class) of every row of a table."""
        return self.model.predict_proba(self.inputs(rows))


def save_bundle(
    model: EndToEndModel, vectors: Vectors, column: str, path: FilePath, about: Mapping[str, Any]
) -> None:
    """Write a fitted model with its features; `about` goes into the manifest."""
    manifest, files = end_to_end_contents(model)
    shape = [] if isinstance(vectors.train, dict) else list(vectors.train.shape[1:])
    note = {"inputs": {"kind": vectors.kind, "column": column, "shape": shape}}
    files |= encoded_state(vectors.features)
    write_folder(Path(path), {**manifest, **note, **about}, files)


def load_bundle(path: FilePath, end_model: Any = None) -> Bundle:
    """Return a model and its features; no stored code is run.

    `end_model` is a module of the trained architecture, where that is the user's own.
    """
    folder = Path(path)
    model = load_model(folder, end_model=end_model)
    if not isinstance(model, EndToEndModel):
        raise SavedModelError(
            f"{path} holds a label model: it needs votes and cannot predict from rows."
        )
    manifest, files = read_folder(folder)
    if STATE not in files:
        return Bundle(model, None, manifest)
    features = decoded_state({name: files[name] for name in (STATE, ARRAYS) if name in files})
    bundle = Bundle(model, features, manifest)
    _try_out(bundle)
    return bundle


def _try_out(bundle: Bundle) -> None:
    """Refuse a model that cannot predict from what its features make of a row."""
    note = bundle.manifest.get("inputs")
    if not isinstance(note, dict) or not all(isinstance(note.get(k), str) for k in _NOTED):
        raise SavedModelError("The saved model does not say what its features are made from.")
    try:
        rows = _sample(bundle.features, note["kind"])
        if rows is not None:
            bundle.model.predict_proba(bundle.features.transform(rows))
    # What somebody wrote into a folder can be wrong in every way.
    except (WieselError, *MODULE_ERRORS) as error:
        if isinstance(error, MissingExtraError):
            return
        problem = f"The saved model cannot predict from its features: {first_line(error)}."
        raise SavedModelError(problem) from error


def _sample(features: Any, kind: str) -> Any:
    """A row or two that features of a kind are made from; None where trying would take long."""
    if kind in ("tfidf", "tokens"):
        return ["", "two words"]
    if kind == "tabular":
        names = {name: [0.0, None] for name in features.numeric}
        return pl.DataFrame(names | {name: ["a", None] for name in features.categorical})
    if kind == "images":
        small = math.prod(features.shape_) <= _TRIED_PIXELS
        return np.zeros((1, *features.shape_)) if small else None
    if kind == "given":
        return np.zeros((1, len(features.mean_)))
    if kind == "minilm":
        return None
    raise SavedModelError(f"There are no features of kind {kind!r:.80}.")
