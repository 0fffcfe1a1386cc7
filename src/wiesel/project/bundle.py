"""A model together with its features, so that it predicts from raw rows in another process.

The folder is an ordinary saved model, which `wiesel.load_model` reads. It also contains the fitted
features and a description of the rows that the model expects.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wiesel.catalog import restored
from wiesel.end_to_end import EndToEndModel
from wiesel.end_to_end.feature_reader import FeatureReader
from wiesel.end_to_end.storage import end_to_end_contents
from wiesel.errors import DataError, SavedModelError
from wiesel.io import FilePath, Split
from wiesel.labels import ABSTAIN
from wiesel.project.vectors import Vectors, raw_inputs
from wiesel.saving import read_folder, write_folder
from wiesel.tables import as_frame
from wiesel.tasks import SpansTask

__all__ = ["Bundle", "load_bundle", "save_bundle"]


@dataclass(frozen=True)
class Bundle:
    """A fitted model and the features that turn rows into its inputs."""

    model: Any
    """An `EndToEndModel`."""
    features: Any
    """None for a model saved without features, which takes arrays."""
    manifest: Mapping[str, Any]

    @property
    def labels(self) -> Any:
        """The classes."""
        return self.model.labels_

    def inputs(self, rows: Any) -> Any:
        """Return the model inputs for a table of rows."""
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
        """Return the model inputs for an array like the one it was trained on."""
        is_raw = self.manifest.get("inputs", {}).get("kind") in ("images", "given")
        return self.features.transform(array) if is_raw else array

    def predict_proba(self, rows: Any) -> npt.NDArray[np.float64]:
        """Return P(class) for every row of a table."""
        return self.model.predict_proba(self.inputs(rows))

    def predict(self, rows: Any) -> npt.NDArray[Any]:
        """Return the class of every row of a table, as the model predicts it."""
        return self.model.predict(self.inputs(rows))


def save_bundle(
    model: EndToEndModel,
    vectors: Vectors,
    column: str,
    path: FilePath,
    about: Mapping[str, Any],
) -> None:
    """Write a fitted model with its features; `about` goes into the manifest."""
    reader = FeatureReader(vectors.features, column)
    manifest, files = end_to_end_contents(model, reader)
    write_folder(Path(path), {**manifest, **about}, files)


def load_bundle(path: FilePath, end_model: Any = None) -> Bundle:
    """Return a model and its features; no stored code is run.

    `end_model` is a module of the trained architecture; needed if the network is the user's own.
    """
    folder = Path(path)
    manifest, files = read_folder(folder)  # once: another run may replace it at any time
    model = restored(folder, manifest, files, end_model)
    if not isinstance(model, EndToEndModel):
        raise SavedModelError(
            f"{path} holds a label model: it needs votes and cannot predict from rows."
        )
    if model.task_.kind == SpansTask.kind:
        raise SavedModelError(f"{path} holds a tagger of spans: use `wiesel spans predict`.")
    # The bundle computes the features first; the model itself takes their output.
    reader, model.reader_ = model.reader_, None
    return Bundle(model, None if reader is None else reader.features, manifest)
