"""The third stage: rows become what the end model reads; computed once, then memory-mapped."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from safetensors import SafetensorError
from safetensors.numpy import load, save

from wiesel.errors import DataError, FeatureError, ParameterError, SavedModelError, suggest
from wiesel.features import (
    FeatureState,
    ImageFeatures,
    Standardizer,
    TabularFeatures,
    TextFeatures,
    TokenFeatures,
    features_from_state,
)
from wiesel.io import Split, replacing
from wiesel.lfs.cache import column_digest
from wiesel.lfs.fingerprints import digest
from wiesel.project.settings import Project, located
from wiesel.saving import read_json, write_file
from wiesel.tables import require_columns

__all__ = ["KINDS", "Vectors", "decoded_state", "encoded_state", "make_vectors", "raw_inputs"]

STATE, ARRAYS = "features.json", "features.safetensors"
"""The files of fitted features, in the cache and in a saved model."""

KINDS: dict[str, Callable[..., Any]] = {
    "tfidf": TextFeatures,
    "minilm": TextFeatures,
    "tokens": TokenFeatures,
    "tabular": TabularFeatures,
    "images": ImageFeatures,
    "given": Standardizer,
}
"""What makes the features of each kind."""


@dataclass(frozen=True)
class Vectors:
    """What the end model reads, for every split, and the fitted features that made it."""

    kind: str
    by_split: Mapping[str, Any]
    features: Any
    key: str
    """Changes when anything that went into them does."""
    reused: bool

    @property
    def train(self) -> Any:
        """The inputs of the training items."""
        return self.by_split["train"]

    @property
    def shape(self) -> str:
        """The size of one item in words, such as `300 columns`."""
        if isinstance(self.train, dict):
            return f"{next(iter(self.train.values())).shape[1]} tokens"
        sizes = self.train.shape[1:]
        return f"{sizes[0]} columns" if len(sizes) == 1 else " x ".join(map(str, sizes))


def make_vectors(project: Project, splits: Mapping[str, Split], cache: Path) -> Vectors:
    """Return the inputs of all splits, fitted on the training rows only."""
    kind = project.features.kind or _guessed(project, splits["train"])
    if kind not in KINDS:
        with located(project):
            raise ParameterError(f"There are no features of kind {kind!r}. {suggest(kind, KINDS)}")
    raw = {name: raw_inputs(kind, project.features.column, split) for name, split in splits.items()}
    options = dict(project.features.options)
    key = digest(kind, options, {name: _content(part) for name, part in raw.items()})
    folder = cache / f"features-{key}"
    known = _read(folder, splits)
    if known is not None:
        return Vectors(kind, known[0], known[1], key, reused=True)
    features = _extractor(project, kind, options)
    features.fit(raw["train"])
    made = {name: features.transform(part) for name, part in raw.items()}
    _write(folder, made, features)
    return Vectors(kind, made, features, key, reused=False)


def raw_inputs(kind: str, column: str, split: Split) -> Any:
    """Return what features of a kind are made from: texts, a table, images or numbers."""
    if kind == "tabular":
        return split.rows
    if kind in ("images", "given"):
        part = split.images if kind == "images" else split.features
        if part is None:
            raise FeatureError(
                f"The data have no {'images' if kind == 'images' else 'features'} of their own: "
                "choose another kind in [features], such as tfidf or tabular."
            )
        return part
    require_columns(split.rows, [column], "the text, named as column in [features]")
    texts = split.rows[column]
    if texts.dtype != pl.String:
        raise DataError(
            f"The column {column!r} holds {texts.dtype}, not text. Where texts look like numbers, "
            "write the rows as JSONL or Parquet, with that column as text."
        )
    return texts.fill_null("")


def encoded_state(features: Any) -> dict[str, bytes]:
    """Return fitted features as files."""
    state = features.to_state()
    arrays = {name: np.ascontiguousarray(array) for name, array in state.arrays.items()}
    settings = json.dumps(state.settings, ensure_ascii=False)
    return {STATE: settings.encode(), ARRAYS: save(arrays)}


def decoded_state(files: Mapping[str, bytes]) -> Any:
    """Return the fitted features that `encoded_state` gave."""
    try:
        settings, arrays = read_json(files[STATE], STATE), load(files[ARRAYS])
    except (KeyError, SafetensorError) as error:
        raise SavedModelError(f"The saved features cannot be read: {error}.") from error
    if not isinstance(settings, dict):
        raise SavedModelError("The saved features cannot be read: their settings are no object.")
    return features_from_state(FeatureState(settings, arrays))


def _guessed(project: Project, train: Split) -> str:
    if train.features is not None:
        return "given"
    if train.images is not None:
        return "images"
    if project.features.column in train.rows.columns:
        return "tfidf"
    raise ParameterError(
        f"{project.file} does not say what to learn from: in [features], set column to the column "
        'of text, or kind = "tabular" with numeric and categorical columns.'
    )


def _extractor(project: Project, kind: str, options: dict[str, Any]) -> Any:
    make = KINDS[kind]
    with located(project), _plain_type_errors():
        if kind in ("tfidf", "minilm"):
            return make(kind, **options)
        if kind == "tokens" and "tokenizer" in options:
            options = {**options, "tokenizer": project.path(options["tokenizer"])}
        return make(**options)


@contextmanager
def _plain_type_errors() -> Iterator[None]:
    try:
        yield
    except TypeError as error:
        raise ParameterError(f"[features]: {error}.") from error


def _content(part: Any) -> str:
    """A digest of texts, of a table, or of numbers."""
    if isinstance(part, pl.Series):
        return column_digest(part)
    if isinstance(part, pl.DataFrame):
        return digest([(name, column_digest(part[name])) for name in part.columns])
    return digest(part)


def _write(folder: Path, made: Mapping[str, Any], features: Any) -> None:
    """Arrays first, the state last: a folder without it is not finished."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, values in made.items():
        parts = values if isinstance(values, dict) else {"": values}
        for part, array in parts.items():
            with replacing(folder / f"{name}.{part}.npy") as file, file.open("wb") as handle:
                np.save(handle, array)
    files = encoded_state(features)
    write_file(folder / ARRAYS, files[ARRAYS])
    write_file(folder / STATE, files[STATE])


def _read(folder: Path, splits: Mapping[str, Split]) -> tuple[dict[str, Any], Any] | None:
    """What was computed before; None if that was not finished, or is damaged."""
    if not (folder / STATE).is_file():
        return None
    try:
        files = {name: (folder / name).read_bytes() for name in (STATE, ARRAYS)}
        return {name: _arrays(folder, name) for name in splits}, decoded_state(files)
    except (OSError, ValueError, SavedModelError):
        return None


def _arrays(folder: Path, name: str) -> Any:
    found = {
        file.name.removeprefix(f"{name}.").removesuffix("npy").strip("."): file
        for file in sorted(folder.glob(f"{name}.*npy"))
    }
    if not found:
        raise ValueError(f"nothing is stored for {name}")
    loaded = {
        part: np.load(file, mmap_mode="r", allow_pickle=False) for part, file in found.items()
    }
    return loaded.get("", loaded)
