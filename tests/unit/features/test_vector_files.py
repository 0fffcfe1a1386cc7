"""Vectors in Parquet files, copied to one file that training can map."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from wiesel.errors import DataError, FeatureError, ParameterError
from wiesel.features import write_vectors

X = np.arange(12, dtype=np.float32).reshape(6, 2)


def _written(place: Path, columns: dict[str, object]) -> Path:
    frame = pl.DataFrame(columns)
    for number, rows in enumerate((frame[:4], frame[4:])):
        rows.write_parquet(place / f"rows-{number}.parquet")
    return place / "rows-*.parquet"


@pytest.mark.parametrize(
    ("columns", "column"),
    [
        ({"id": range(6), "vector": X.tolist()}, "vector"),
        ({"vector": pl.Series(X)}, "vector"),
        ({"id": range(6), "a": X[:, 0], "b": X[:, 1].astype(int)}, ["a", "b"]),
    ],
)
def test_vectors_are_copied_in_the_order_of_the_rows(
    tmp_path: Path, columns: dict[str, object], column: str | list[str]
) -> None:
    rows = _written(tmp_path, columns)
    for place in (rows, tmp_path):
        write_vectors(place, tmp_path / "X.npy", column=column, part_rows=3)
        copied = np.load(tmp_path / "X.npy", mmap_mode="r")
        assert copied.dtype == np.float32
        assert copied.tolist() == X.tolist()


def test_what_is_no_vector_is_refused(tmp_path: Path) -> None:
    lists = [[1.0, 2.0]] * 5 + [[1.0]]
    rows = _written(tmp_path, {"text": ["a"] * 6, "vector": lists})
    with pytest.raises(FeatureError, match=r"rows-1\.parquet: .*row 1 has 1 numbers; .* has 2"):
        write_vectors(rows, tmp_path / "X.npy", column="vector")
    with pytest.raises(FeatureError, match="must hold numbers"):
        write_vectors(rows, tmp_path / "X.npy", column="text")
    with pytest.raises(DataError, match=r"no column 'vectors'.*Did you mean 'vector'"):
        write_vectors(rows, tmp_path / "X.npy", column="vectors")
    with pytest.raises(ParameterError, match="local, ray or ray:ADDRESS"):
        write_vectors(rows, tmp_path / "X.npy", column="vector", engine="rya")
    with pytest.raises(ParameterError, match="extension"):
        write_vectors(rows, tmp_path / "X.csv", column="vector")
    assert not list(tmp_path.glob("*.npy"))
