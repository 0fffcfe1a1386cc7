"""A model together with its features, so that it predicts from raw rows in another process.

The folder is an ordinary saved model, which `wiesel.load_model` reads. It also contains the fitted
features and a description of the rows that the model expects.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os.path import isfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wiesel.catalog import restored
from wiesel.end_to_end import EndToEndModel
from wiesel.end_to_end.feature_reader import FeatureReader
from wiesel.end_to_end.storage import end_to_end_contents
from wiesel.errors import DataError, ParameterError, SavedModelError
from wiesel.io import FilePath, Split, explained, read_rows
from wiesel.io.files import read_array
from wiesel.labels import ABSTAIN
from wiesel.lfs.fingerprints import column_digest, digest
from wiesel.project.vectors import Vectors, raw_inputs
from wiesel.saving import read_folder, read_json, write_folder
from wiesel.tables import as_frame
from wiesel.tasks import SpansTask

__all__ = [
    "Bundle",
    "PartEffect",
    "RowExplanation",
    "data_facts",
    "load_bundle",
    "recorded_file",
    "save_bundle",
]

_REFERENCE = "reference.json"
_TRIED_PARTS = 200
"""The largest number of words that an explanation leaves out, one after the other."""


@dataclass(frozen=True)
class PartEffect:
    """A word or a column of a row, and what it adds to the probability of the predicted class."""

    part: str
    effect: float


@dataclass(frozen=True)
class RowExplanation:
    """What in a row moved the prediction of the end model.

    >>> print(RowExplanation("spam", 0.9, (PartEffect("free", 0.4), PartEffect("lunch", -0.1))))
    'spam' with 90 %; without it, this would be:
      free   -40 points
      lunch  +10 points
    """

    label: str
    """The predicted class, by the tuned threshold; with several labels, the most probable one."""
    proba: float
    effects: tuple[PartEffect, ...]
    """Words or columns, strongest effect first."""

    def __str__(self) -> str:
        shown = self.effects[:10]
        width = max((len(each.part) for each in shown), default=0)
        lines = [f"  {each.part:<{width}}  {-100 * each.effect:+.0f} points" for each in shown]
        return "\n".join(
            [f"{self.label!r} with {100 * self.proba:.0f} %; without it, this would be:", *lines]
        )


@dataclass(frozen=True)
class Bundle:
    """A fitted model and the features that turn rows into its inputs."""

    model: Any
    """An `EndToEndModel`."""
    features: Any
    """None for a model saved without features, which takes arrays."""
    manifest: Mapping[str, Any]
    reference: Mapping[str, Any] | None = None
    """What the training rows looked like, for `wiesel monitor`; None if it was not kept."""

    @property
    def labels(self) -> Any:
        """The classes."""
        return self.model.labels_

    @property
    def reader(self) -> FeatureReader | None:
        """The features, with the column of the texts."""
        if self.features is None:
            return None
        return FeatureReader(self.features, self.manifest["inputs"]["column"])

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

    def file_inputs(self, data: FilePath) -> tuple[Any, Any]:
        """Return the rows of a file (None for an array) and the model inputs."""
        if Path(data).suffix == ".npy":
            return None, self.array_inputs(read_array(data))
        rows = read_rows(data)
        with explained(data):
            return rows, self.inputs(rows)

    def array_inputs(self, array: Any) -> Any:
        """Return the model inputs for an array like the one it was trained on."""
        is_raw = self.manifest.get("inputs", {}).get("kind") in ("images", "given")
        return self.features.transform(array) if is_raw else array

    def predict_proba(self, rows: Any) -> npt.NDArray[np.float64]:
        """Return P(class) for every row of a table, as in `labels.names`."""
        return self.model.predict_proba(self.inputs(rows))

    def predict(self, rows: Any) -> npt.NDArray[Any]:
        """Return the class of every row of a table, by the tuned threshold, as `wiesel predict`.

        With two classes, this is not always the more probable one: `model.threshold_` is the
        probability from which the second class is predicted. With several labels, a tuple of them.
        """
        return self.model.predict(self.inputs(rows))

    def explain(self, row: Mapping[str, Any], votes: Any = None) -> Any:
        """Return why one row is predicted as it is.

        Without votes, every word of the text, or every column of the table, is left out once: an
        effect is what the probability of the predicted class loses (`RowExplanation`). With the
        votes on the row, return the effect of every vote (`Explanation`).
        """
        if votes is not None:
            if not hasattr(self.model, "explain"):
                name = type(self.model).__name__
                raise ParameterError(f"{name} does not weigh voters for single items.")
            inputs = self.inputs([row])
            one = inputs if isinstance(inputs, dict) else inputs[0]
            return self.model.explain(one, votes)
        parts, changed = self._without_parts(row)
        proba = self.predict_proba([row, *changed])
        predicted = self.model.task_.decide(proba[:1], self.model.threshold_)[0]
        names = self.labels.names
        place = names.index(predicted) if predicted in names else int(proba[0].argmax())
        effects = [
            PartEffect(part, float(proba[0, place] - without))
            for part, without in zip(parts, proba[1:, place], strict=True)
        ]
        effects.sort(key=lambda each: -abs(each.effect))
        return RowExplanation(names[place], float(proba[0, place]), tuple(effects))

    def _without_parts(
        self, row: Mapping[str, Any]
    ) -> tuple[Sequence[str], list[Mapping[str, Any]]]:
        """The words or columns of a row, and the row without each of them."""
        note = self.manifest.get("inputs", {})
        if note.get("kind") == "tabular":
            columns = [*self.features.numeric, *self.features.categorical]
            return columns, [{**row, name: None} for name in columns]
        self.inputs([row])  # refuses what has no texts
        column = note["column"]
        text = row[column] or ""
        words = list(dict.fromkeys(re.findall(r"\w+", text)))[:_TRIED_PARTS]
        rest = [re.sub(rf"\b{re.escape(word)}\b", " ", text) for word in words]
        return words, [{**row, column: changed} for changed in rest]


def data_facts(project: Any, splits: Mapping[str, Split]) -> dict[str, Any]:
    """Return the file, the number of rows and a fingerprint of every split, for the manifest."""
    facts = {}
    for name, split in splits.items():
        columns = [(column, column_digest(split.rows[column])) for column in split.rows.columns]
        facts[name] = {
            "file": recorded_file(project, getattr(project.data, name, None)),
            "rows": len(split),
            "fingerprint": digest(columns, split.gold)[:16],
        }
    return facts


def recorded_file(project: Any, file: str | None) -> str | None:
    """Return how a manifest names a file of a project: from its folder.

    A model goes to other people: no path in it may tell how the author's machine is set up.
    """
    if file is None or not Path(file).is_absolute():
        return file
    place, folder = Path(file).resolve(), project.folder.resolve()
    return place.relative_to(folder).as_posix() if place.is_relative_to(folder) else place.name


def save_bundle(
    model: EndToEndModel,
    vectors: Vectors,
    column: str,
    path: FilePath,
    about: Mapping[str, Any],
    reference: Mapping[str, Any] | None = None,
) -> None:
    """Write a fitted model with its features; `about` goes into the manifest."""
    reader = None if vectors.features is None else FeatureReader(vectors.features, column)
    manifest, files = end_to_end_contents(model, reader)
    files = {**files, "CARD.md": files["CARD.md"] + _data_of_card(about.get("data", {})).encode()}
    if reference is not None:
        files = {**files, _REFERENCE: json.dumps(reference, ensure_ascii=False).encode()}
    write_folder(Path(path), {**manifest, **about}, files)


def _data_of_card(data: Mapping[str, Any]) -> str:
    """The section of the model card that says which rows the model knows."""
    lines = [
        f"- {split}: {facts['rows']:,} rows, fingerprint `{facts['fingerprint']}`"
        for split, facts in data.items()
    ]
    return "\n".join(["", "## Data", "", *lines, ""]) if lines else ""


def load_bundle(path: FilePath, end_model: Any = None, *, taggers: bool = False) -> Bundle:
    """Return a model and its features; no stored code is run.

    `end_model` is a module of the trained architecture; needed if the network is the user's own.
    Taggers of spans, which read texts instead of rows, are refused unless `taggers`. In its
    manifest, the project and its files are where they are on this machine, if they are found.
    """
    folder = Path(path)
    manifest, files = read_folder(folder)  # once: another run may replace it at any time
    model = restored(folder, manifest, files, end_model)
    manifest = _with_places(manifest, folder)
    if not isinstance(model, EndToEndModel):
        raise SavedModelError(
            f"{path} holds a label model: it needs votes and cannot predict from rows."
        )
    if model.task_.kind == SpansTask.kind and not taggers:
        raise SavedModelError(f"{path} holds a tagger of spans: use `wiesel spans predict`.")
    # The bundle computes the features first; the model itself takes their output.
    reader, model.reader_ = model.reader_, None
    reference = None
    if _REFERENCE in files:
        reference = read_json(files[_REFERENCE], _REFERENCE)
        if not isinstance(reference, dict):
            raise SavedModelError(f"{_REFERENCE} is not a JSON object.")
    return Bundle(model, None if reader is None else reader.features, manifest, reference)


def _with_places(manifest: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Complete the paths in a manifest, if the model is still in a folder of its project.

    Wiesel 0.1 wrote whole paths, which stay as they are.
    """
    name, data = manifest.get("project"), manifest.get("data")
    if not isinstance(name, str) or Path(name).name != name:
        return dict(manifest)
    above = (parent / name for parent in folder.resolve().parents)
    project = next((file for file in above if isfile(file)), None)
    if project is None:
        return dict(manifest)
    found = {**manifest, "project": str(project)}
    if isinstance(data, dict):
        found["data"] = {
            split: {**facts, "file": str(project.parent / facts["file"])}
            if isinstance(facts, dict) and isinstance(facts.get("file"), str)
            else facts
            for split, facts in data.items()
        }
    return found
