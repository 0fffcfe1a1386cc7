"""Vectors in many Parquet files, written to one file from which training reads its batches.

Training reads items in random order. Parquet would unpack a whole row group for each of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import FeatureError
from wiesel.features.text_files import (
    check_array_target,
    engine_by_name,
    write_array,
    write_piece,
)
from wiesel.io import FilePath, explained, scan_rows
from wiesel.lfs.engines.pieces import Piece, cut
from wiesel.lfs.sources import RowSource

__all__ = ["write_vectors"]

_PART_ROWS = 20_000


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
