from pathlib import Path

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
import torch
from torch.utils.data import Dataset, TensorDataset

from wiesel import LabelSpace
from wiesel.errors import FeatureError
from wiesel.io.dataset import Dataset as Loaded
from wiesel.io.dataset import Split
from wiesel.tables import read_rows, release_pages
from wiesel.training.inputs import (
    ArrayInputs,
    as_inputs,
    is_matrix,
    move,
    part,
)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (np.float16, torch.float32),
        (np.float64, torch.float32),
        (np.longdouble, torch.float32),
        (np.dtype(">f8"), torch.float32),
        (np.int8, torch.int64),
        (np.uint16, torch.int64),
        (np.dtype(">i4"), torch.int64),
        (bool, torch.int64),
    ],
    ids=str,
)
def test_floats_become_float32_and_integers_int64(dtype, expected: torch.dtype):
    taken = as_inputs(np.ones((4, 2), dtype=dtype)).take(np.array([1, 3]))
    assert taken.dtype == expected
    assert taken.tolist() == [[1, 1], [1, 1]]


def test_an_array_is_shared_not_copied():
    X = np.zeros((5, 2), dtype=np.float32)
    inputs = as_inputs(X)
    X[3] = 7
    assert inputs.take(np.array([3])).tolist() == [[7, 7]]


def test_a_memory_map_is_read_by_batch(tmp_path):
    np.save(tmp_path / "X.npy", np.arange(10.0).reshape(5, 2))
    inputs = as_inputs(np.load(tmp_path / "X.npy", mmap_mode="r"))
    assert isinstance(inputs._values, np.memmap)
    assert inputs.take(np.array([4, 0])).tolist() == [[8, 9], [0, 1]]


def test_large_items_are_checked_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch):
    sizes = []
    take = ArrayInputs.take
    monkeypatch.setattr("wiesel.training.inputs._CHECKED_BYTES", 400)
    monkeypatch.setattr(
        ArrayInputs, "take", lambda self, rows: (sizes.append(len(rows)), take(self, rows))[1]
    )
    as_inputs(np.zeros((10, 25), dtype=np.float32))  # 100 bytes for each item
    assert sizes == [4, 4, 2]


@pytest.mark.parametrize(
    ("values", "matrix"),
    [
        (np.zeros((3, 2)), True),
        (sp.csr_array(np.zeros((3, 2))), True),
        (TensorDataset(torch.zeros(3, 2)), True),
        (np.zeros((3, 2), dtype=int), False),
        (np.zeros(3), False),
        (np.zeros((3, 2, 2)), False),
        ({"x": np.zeros((3, 2))}, False),
    ],
    ids=["array", "sparse", "dataset", "integers", "vector", "images", "dict"],
)
def test_feature_vectors_are_told_from_other_inputs(values, matrix: bool):
    assert is_matrix(as_inputs(values)) is matrix


def test_a_vector_of_numbers_has_no_position():
    with pytest.raises(FeatureError, match="x is NaN at row 2: features"):
        as_inputs(np.array([0.0, 1.0, np.nan]), "x")


def test_numbers_too_large_for_a_network_are_refused():
    with pytest.raises(FeatureError, match="inf at row 1, position 0"):
        as_inputs(np.array([[0.0], [1e300]]))
    with pytest.raises(FeatureError, match="inf at row 1, position 0"):
        as_inputs(sp.csr_array(np.array([[0.0], [1e300]])))


def test_a_stored_zero_in_a_sparse_matrix_does_not_hide_the_row_of_a_nan():
    matrix = sp.csr_array(np.array([[0.0, 1.0], [2.0, 3.0], [0.0, np.nan]]))
    with pytest.raises(FeatureError, match="row 2, position 1"):
        as_inputs(matrix)


def test_a_dataset_notices_a_late_nan_when_it_is_read():
    class Late(Dataset[torch.Tensor]):
        def __len__(self) -> int:
            return 5

        def __getitem__(self, position: int) -> torch.Tensor:
            return torch.tensor([1.0, float("nan") if position == 4 else 0.0])

    inputs = as_inputs(Late())
    assert inputs.take(np.array([0, 1])).shape == (2, 2)
    with pytest.raises(FeatureError, match="row 4, position 1"):
        inputs.take(np.array([1, 4]))


def test_parts_and_moves_keep_dicts_dicts():
    batch = {"a": torch.arange(4), "b": torch.arange(8).view(4, 2)}
    some = part(move(batch, torch.device("cpu")), 1, 3)
    assert some["a"].tolist() == [1, 2]
    assert some["b"].tolist() == [[2, 3], [4, 5]]


@pytest.mark.parametrize(
    ("values", "cure"),
    [
        (["free prize", "see you"], "TextFeatures"),
        ([{"text": "free prize"}], "TextFeatures"),
        (Split(pl.DataFrame({"id": [1]}), np.array([0])), "no vectors.*TextFeatures"),
        (Split(pl.DataFrame({"id": [1]}), np.array([0]), features=np.ones((1, 2))), r"\.features"),
        (Loaded("mails", LabelSpace("ham", "spam"), {}), r"dataset\.train\.features"),
    ],
    ids=["texts", "rows", "split without vectors", "split", "data set"],
)
def test_what_holds_no_vectors_is_refused_with_the_way_to_them(values, cure: str):
    with pytest.raises(FeatureError, match=cure):
        as_inputs(values)


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="Linux says what is mapped")
def test_what_was_read_of_a_mapped_file_does_not_stay_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wiesel.training.inputs._MAPPED_BYTES", 2**20)  # a small file counts, too
    file = tmp_path / "features.npy"
    np.save(file, np.ones((40_000, 100), dtype=np.float32))
    mapped = np.load(file, mmap_mode="r")
    assert mapped.sum() == 4_000_000
    assert _mapped_kilobytes(file) > 15_000
    release_pages(mapped[10:20])
    assert _mapped_kilobytes(file) < 1_000
    inputs = as_inputs(mapped)
    for start in range(0, 40_000, 1_000):
        inputs.take(np.arange(start, start + 1_000))
    assert _mapped_kilobytes(file) < 10_000


@pytest.mark.parametrize("shape", [(50,), (50, 3), (50, 2, 2)])
def test_rows_of_a_mapped_file_are_those_of_the_array(tmp_path: Path, shape: tuple[int, ...]):
    values = np.random.default_rng(0).normal(size=shape)
    np.save(tmp_path / "X.npy", values)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    for rows in ([], [7], [3, 4, 5, 9, 9, 10, 0], list(range(50))):
        chosen = np.array(rows, dtype=np.int64)
        np.testing.assert_array_equal(read_rows(mapped, chosen), values[chosen])
    np.testing.assert_array_equal(read_rows(mapped[10:], np.array([2, 0])), values[[12, 10]])


def test_a_mapped_file_that_became_shorter_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", np.zeros((50, 3)))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    with (tmp_path / "X.npy").open("r+b") as file:
        file.truncate(600)
    with pytest.raises(FeatureError, match=r"X\.npy, which ends early"):
        read_rows(mapped, np.array([0, 49]))


def test_a_mapped_file_that_may_be_changed_keeps_its_changes(tmp_path: Path) -> None:
    file = tmp_path / "features.npy"
    np.save(file, np.zeros((4, 2), dtype=np.float32))
    mine = np.load(file, mmap_mode="c")
    mine[0] = 3
    release_pages(mine)
    assert mine[0].tolist() == [3, 3]
    assert read_rows(mine, np.array([0])).tolist() == [[3, 3]]


def _mapped_kilobytes(file: Path) -> int:
    """How much of a file is in the memory of this process."""
    of_file, total = False, 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            of_file = line.endswith(str(file))
        elif of_file and words[0] == "Rss:":
            total += int(words[1])
    return total


@pytest.mark.parametrize("value", [3e38, -3e38])
def test_large_numbers_are_finite_although_their_sum_is_not(value: float):
    assert len(as_inputs(np.full((4, 2), value, dtype=np.float32))) == 4


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_number_that_is_not_finite_is_found_among_large_ones(value: float):
    X = np.full((4, 2), 3e38, dtype=np.float32)
    X[2, 1] = value
    with pytest.raises(FeatureError, match="row 2, position 1"):
        as_inputs(X)
