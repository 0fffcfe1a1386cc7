"""Vectors in many Parquet files, written to one file from which training reads its batches.

Training reads items in random order. Parquet would unpack a whole row group for each of them.
"""

import io
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import FeatureError, ParameterError
from wiesel.features.standardize import Standardizer
from wiesel.features.text import TextFeatures, text_column
from wiesel.features.tfidf import added_up, frequent_words, word_frequencies
from wiesel.io import FilePath, explained, scan_rows
from wiesel.io.files import replacing
from wiesel.lfs.batch import RowSource
from wiesel.lfs.engines.pieces import Piece, cut
from wiesel.lfs.engines.ray_engine import PieceJob, done_here, done_on_ray
from wiesel.parameters import check_number

__all__ = [
    "check_array_target",
    "engine_by_name",
    "write_array",
    "write_piece",
    "write_text_features",
    "write_vectors",
]

_PART_ROWS = 20_000
_SAMPLE = 50_000
_MERGED = 16
"""The number of pieces whose word counts are summed at a time."""

Done = Callable[[PieceJob, Sequence[Piece]], Iterator[bytes]]
"""Processes all pieces, here or on a cluster."""


def write_vectors(
    rows: FilePath,
    target: FilePath,
    *,
    column: str | Sequence[str],
    engine: str = "local",
    part_rows: int = _PART_ROWS,
) -> None:
    """Write vectors in Parquet files to one .npy file, in the order of the rows.

    `rows` is a file, a folder or a pattern. `column` holds lists of numbers; several columns hold
    one number each. One part of the rows is in memory at a time. For training, read the vectors
    from disk with `np.load(target, mmap_mode="r")`; votes on the same rows have the same order.
    `engine` is that of `write_text_features`.

    >>> import pathlib, tempfile
    >>> place = pathlib.Path(tempfile.mkdtemp())
    >>> vectors = [[1.0, 2.0], [3.0, 4.0]]
    >>> pl.DataFrame({"vector": vectors}).write_parquet(place / "rows.parquet")
    >>> write_vectors(place / "rows.parquet", place / "X.npy", column="vector")
    >>> np.load(place / "X.npy", mmap_mode="r").tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    check_array_target(target)
    names = [column] if isinstance(column, str) else list(column)
    done = engine_by_name(engine)
    pieces = cut(RowSource(str(rows), columns=tuple(names)), part_rows)
    n_features = _n_features(pieces[0]["file"], names)
    write_array(
        target,
        n_features,
        pieces,
        lambda file: done(CopyVectors(names, file, n_features), pieces),
    )


@dataclass
class CopyVectors:
    """Writes the vectors of a piece to their place in the file."""

    columns: list[str] | None
    target: str
    n_features: int

    def __call__(self, piece: Piece, rows: pl.DataFrame) -> bytes:
        """Write the vectors. A repeated call writes the same ones."""
        with explained(piece["file"]):
            vectors = _matrix(rows, self.n_features, piece["first"])
        return write_piece(self.target, piece, vectors)


def _n_features(file: str, names: list[str]) -> int:
    if len(names) > 1:
        return len(names)
    with explained(file):
        first = scan_rows(file, names).head(1).collect().to_series()
        return len(first[0]) if _is_list(first) and first[0] is not None else 1


def _is_list(values: pl.Series) -> bool:
    return isinstance(values.dtype, (pl.List, pl.Array))


def _matrix(rows: pl.DataFrame, n_features: int, start: int) -> npt.NDArray[np.float32]:
    """The vectors of rows, as an array of items x features."""
    values: Any = rows.to_series()
    kinds = [values.dtype.inner] if _is_list(values) else rows.dtypes
    if not all(kind.is_numeric() for kind in kinds):
        raise FeatureError(
            f"The columns {rows.columns} must hold numbers or lists of numbers; got {rows.dtypes}."
        )
    if not _is_list(values):
        return rows.select(pl.all().cast(pl.Float32)).to_numpy()
    lists = values.cast(pl.List(pl.Float32))
    lengths = lists.list.len().fill_null(0).to_numpy()
    odd = np.flatnonzero(lengths != n_features)
    if len(odd):
        raise FeatureError(
            f"The vector in row {start + odd[0]} has {lengths[odd[0]]} numbers; the first one has "
            f"{n_features}. All vectors must be equally long."
        )
    flat: npt.NDArray[np.float32] = lists.explode().to_numpy()
    return flat.reshape(len(rows), n_features)


def write_text_features(
    features: TextFeatures,
    rows: FilePath,
    target: FilePath,
    *,
    column: str = "text",
    engine: str = "local",
    sample: int = _SAMPLE,
    part_rows: int = _PART_ROWS,
) -> TextFeatures:
    """Write the vectors of the texts in Parquet files to one .npy file, in the order of the rows.

    Features that are not fitted yet are fitted first, on at most `sample` evenly spaced texts and
    with the document frequencies of all texts. Returns the fitted features. For training, read the
    vectors from disk with `np.load(target, mmap_mode="r")`. With `engine="ray"` (or
    `"ray:ADDRESS"`), the machines of a cluster do all the work. The rows and the target must be on
    shared storage, and a part whose machine is lost is processed again.

    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp())
    >>> texts = ["good film", "bad film", "good plot", "bad plot"]
    >>> pl.DataFrame({"text": texts}).write_parquet(place / "rows.parquet")
    >>> features = TextFeatures(n_dimensions=2, min_count=1)
    >>> fitted = write_text_features(features, place / "rows.parquet", place / "X.npy")
    >>> np.load(place / "X.npy", mmap_mode="r").shape
    (4, 2)
    """
    features.check_options()
    check_number(features, "sample", sample, low=1, whole=True)
    check_array_target(target)
    pieces = cut(RowSource(str(rows), columns=(column,)), part_rows)
    done = engine_by_name(engine)
    if not hasattr(features, "standardizer_"):
        features = _fitted(features, pieces, column, sample, done)
    write_array(
        target,
        features.n_features,
        pieces,
        lambda file: done(WriteVectors(features, file, [column]), pieces),
    )
    return features


def check_array_target(target: FilePath) -> None:
    """Refuse a file name that is not that of an array."""
    if Path(target).suffix != ".npy":
        raise ParameterError(f"Vectors are written as .npy; give {target} that extension.")


def write_array(
    target: FilePath,
    n_features: int,
    pieces: Sequence[Piece],
    fill: Callable[[str], Iterator[bytes]],
) -> None:
    """Write an array with a row for every row of the pieces; `fill` fills the file it is given."""
    shape = (sum(piece["count"] for piece in pieces), n_features)
    with replacing(target) as temporary:
        np.lib.format.open_memmap(temporary, "w+", np.float32, shape).flush()
        for _ in fill(str(temporary.resolve())):
            pass


def write_piece(file: str, piece: Piece, vectors: npt.NDArray[np.float32]) -> bytes:
    """Write the vectors of a piece to their place in the array."""
    table = np.load(file, mmap_mode="r+")
    table[piece["start"] : piece["start"] + piece["count"]] = vectors
    table.flush()
    return b""


def engine_by_name(engine: str) -> Done:
    """Return how pieces are processed: in this process, or on a cluster."""
    kind, _, address = engine.partition(":")
    if kind == "local":
        return done_here
    if kind != "ray":
        raise ParameterError(f"engine is local, ray or ray:ADDRESS; got {engine!r}.")
    return lambda job, pieces: done_on_ray(job, pieces, address or None)


def _fitted(
    features: TextFeatures, pieces: Sequence[Piece], column: str, sample: int, done: Done
) -> TextFeatures:
    """New features, fitted on the word counts of all texts and on a sample of the texts."""
    from wiesel.features.tfidf import fit_sample

    new = type(features)(**features.get_params())
    if new.kind == "tfidf" and new.longest_phrase > 1:
        raise ParameterError(
            "Phrases are counted with all texts in memory: use longest_phrase=1 for files, or "
            "TextFeatures.fit on a part of the texts."
        )
    n_texts = sum(piece["count"] for piece in pieces)
    job = CountWords([column], new.kind == "tfidf", every=math.ceil(n_texts / sample))
    counts: list[pl.DataFrame] = []
    texts: dict[int, str] = {}
    for content in done(job, pieces):
        found = pl.read_ipc(io.BytesIO(content))
        chosen = found.filter(pl.col("position").is_not_null())
        texts.update(chosen.select("position", "word").iter_rows())
        counts.append(found.filter(pl.col("position").is_null()).drop("position"))
        if len(counts) >= _MERGED:
            counts = [added_up(counts)]
    drawn = [texts[position] for position in sorted(texts)]
    if new.kind == "tfidf":
        words = frequent_words(added_up(counts), new.min_count, new.max_terms)
        if words.is_empty():
            raise FeatureError(
                f"No term occurs in {new.min_count} or more of the {n_texts} texts. "
                "Lower min_count, or look at the texts."
            )
        in_texts = words["n_texts"].to_numpy()
        new.weights_, vectors = fit_sample(
            words["word"].to_list(), in_texts, n_texts, drawn, new.tfidf_options()
        )
        new.standardizer_ = Standardizer().fit(vectors) if new.standardize else None
        return new
    return new.fit(drawn)


@dataclass
class CountWords:
    """Counts the words of a piece, and draws texts for the sample."""

    columns: list[str] | None
    counts_words: bool
    every: int
    """The step between sampled rows, counted over all files."""

    def __call__(self, piece: Piece, rows: pl.DataFrame) -> bytes:
        """Return a table: words with their frequencies, and texts with their positions."""
        texts = text_column(rows, self.columns[0])  # type: ignore[index]
        words = word_frequencies(texts.to_list()) if self.counts_words else pl.DataFrame()
        first = -piece["start"] % self.every
        drawn = texts.gather_every(self.every, first)
        position = np.arange(len(drawn)) * self.every + first + piece["start"]
        sample = pl.DataFrame({"word": drawn, "position": position})
        table = pl.concat([words, sample], how="diagonal")
        content = io.BytesIO()
        table.write_ipc(content, compression="lz4")
        return content.getvalue()


@dataclass
class WriteVectors:
    """Writes the vectors of a piece to their place in the file."""

    features: TextFeatures
    target: str
    columns: list[str] | None

    def __call__(self, piece: Piece, rows: pl.DataFrame) -> bytes:
        """Write the vectors. A repeated call writes the same ones."""
        vectors = self.features.transform(text_column(rows, self.columns[0]))  # type: ignore[index]
        return write_piece(self.target, piece, vectors)
