"""The third stage: turn rows into end-model inputs; computed once, then memory-mapped."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from wiesel.errors import FeatureError, ParameterError, SavedModelError, WieselError, suggest
from wiesel.features import (
    ImageFeatures,
    Standardizer,
    TabularFeatures,
    TextFeatures,
    TokenFeatures,
)
from wiesel.features.saved import ARRAYS, STATE, decoded_state, encoded_state
from wiesel.features.text import text_column
from wiesel.guidance.suggesting import text_column_of
from wiesel.io import Split, replacing
from wiesel.lfs.cache import column_digest
from wiesel.lfs.fingerprints import digest
from wiesel.progress import progress
from wiesel.project.settings import Project, located
from wiesel.saving import write_file

__all__ = [
    "KINDS",
    "Vectors",
    "check_inputs",
    "features_kind",
    "make_features",
    "make_vectors",
    "raw_inputs",
    "taken",
]

KINDS: dict[str, Callable[..., Any]] = {
    "tfidf": TextFeatures,
    "minilm": TextFeatures,
    "tokens": TokenFeatures,
    "tabular": TabularFeatures,
    "images": ImageFeatures,
    "given": Standardizer,
}
"""The class that computes each kind of features."""
_IN_BLOCKS = ("tfidf", "given")
"""Kinds with vectors of single rows, whatever the other rows are."""
_BLOCK_ROWS = 20_000
"""The number of rows whose vectors are computed at a time."""


@dataclass(frozen=True)
class Vectors:
    """The end-model inputs of every split, and the fitted features that computed them."""

    kind: str
    by_split: Mapping[str, Any]
    features: Any
    key: str
    """Changes when anything the inputs depend on changes."""
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


def taken(inputs: Any, rows: Any) -> Any:
    """Return selected items of an array or of a dict of arrays."""
    if isinstance(inputs, dict):
        return {name: part[rows] for name, part in inputs.items()}
    return inputs[rows]


def make_vectors(project: Project, splits: Mapping[str, Split], cache: Path) -> Vectors:
    """Return the inputs of all splits, fitted on the training rows only."""
    kind = features_kind(project, splits["train"])
    raw = {name: raw_inputs(kind, project.features.column, split) for name, split in splits.items()}
    options = dict(project.features.options)
    key = digest(kind, options, {name: _content(part) for name, part in raw.items()})
    folder = cache / f"features-{key}"
    known = _read(folder, splits)
    if known is not None:
        return Vectors(kind, known[0], known[1], key, reused=True)
    features = make_features(project, kind)
    n_rows = sum(len(split) for split in splits.values())
    # Embeddings count their texts themselves.
    with nullcontext(_silent) if kind == "minilm" else progress(f"{kind} features", n_rows) as show:
        show(0, "now fitting")
        features.fit(raw["train"])
        made: dict[str, Any] = {}
        folder.mkdir(parents=True, exist_ok=True)
        for name, part in raw.items():
            n_done = sum(len(splits[done]) for done in made)
            show(n_done, f"now {name}")
            if kind in _IN_BLOCKS and len(part) > _BLOCK_ROWS:
                _write_blocks(
                    folder / f"{name}..npy", features, part, partial(_shown, show, n_done)
                )
                made[name] = _arrays(folder, name)
            else:
                made[name] = features.transform(part)
                _write_arrays(folder, name, made[name])
    # The state comes last: a folder without a state is unfinished.
    files = encoded_state(features)
    write_file(folder / ARRAYS, files[ARRAYS])
    write_file(folder / STATE, files[STATE])
    return Vectors(kind, made, features, key, reused=False)


def _silent(done: int, note: str = "") -> None:
    """Ignore progress."""


def features_kind(project: Project, train: Split) -> str:
    """Return the kind of features that a project names, or else the kind that suits its rows."""
    kind = project.features.kind or _guessed(project, train)
    if kind not in KINDS:
        with located(project, "features.kind"):
            raise ParameterError(f"There are no features of kind {kind!r}. {suggest(kind, KINDS)}")
    return kind


def raw_inputs(kind: str, column: str, split: Split) -> Any:
    """Return the raw input for a kind of features: texts, a table, images or numbers."""
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
    return text_column(split.rows, column, "the text, named as column in [features]")


def check_inputs(project: Project, splits: Mapping[str, Split]) -> None:
    """Reject features that cannot be computed from the rows, before any slow step."""
    kind = features_kind(project, splits["train"])
    with located(project, "features.kind", "features"):
        features = make_features(project, kind)
        features.check_options()
    for split in splits.values():
        raw_inputs(kind, project.features.column, split)


def _guessed(project: Project, train: Split) -> str:
    if train.features is not None:
        return "given"
    if train.images is not None:
        return "images"
    if project.features.column in train.rows.columns:
        return "tfidf"
    text = text_column_of(train.rows)
    guess = "" if text is None else f' (column = "{text}"?)'
    raise ParameterError(
        f"{project.file} does not say what to learn from: in [features], set column to the column "
        f'of text{guess}, or kind = "tabular" with numeric and categorical columns.'
    )


def make_features(project: Project, kind: str) -> Any:
    """Return unfitted features of a kind, with the options of the project."""
    make, options = KINDS[kind], dict(project.features.options)
    with _plain_type_errors():
        if kind in ("tfidf", "minilm"):
            return make(kind, **options)
        if kind == "tokens" and isinstance(options.get("tokenizer"), str):
            options = {**options, "tokenizer": project.path(options["tokenizer"])}
        return make(**options)


@contextmanager
def _plain_type_errors() -> Iterator[None]:
    try:
        yield
    except TypeError as error:
        raise ParameterError(f"[features]: {error}.") from error


def _content(part: Any) -> str:
    """Return a digest of texts, a table or numbers."""
    if isinstance(part, pl.Series):
        return column_digest(part)
    if isinstance(part, pl.DataFrame):
        return digest([(name, column_digest(part[name])) for name in part.columns])
    return digest(part)


def _shown(show: Callable[..., None], n_before: int, n_done: int) -> None:
    show(n_before + n_done)


def _write_blocks(file: Path, features: Any, part: Any, show: Callable[[int], None]) -> None:
    """Write the vectors of many rows, a block at a time, so that they need not fit into memory."""
    header = {
        "descr": np.lib.format.dtype_to_descr(np.dtype(np.float32)),
        "fortran_order": False,
        "shape": (len(part), features.transform(part[:1]).shape[1]),
    }
    with replacing(file) as temporary, temporary.open("wb") as handle:
        np.lib.format.write_array_header_1_0(handle, header)
        for start in range(0, len(part), _BLOCK_ROWS):
            try:
                vectors = features.transform(part[start : start + _BLOCK_ROWS])
            except WieselError:
                features.transform(part)  # its error counts the rows from the first one
                raise
            handle.write(vectors.astype(np.float32, copy=False).tobytes())
            show(start)


def _write_arrays(folder: Path, name: str, values: Any) -> None:
    parts = values if isinstance(values, dict) else {"": values}
    for part, array in parts.items():
        with replacing(folder / f"{name}.{part}.npy") as file, file.open("wb") as handle:
            np.save(handle, array)


def _read(folder: Path, splits: Mapping[str, Split]) -> tuple[dict[str, Any], Any] | None:
    """Return the cached arrays and features; None if they are unfinished or damaged."""
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
