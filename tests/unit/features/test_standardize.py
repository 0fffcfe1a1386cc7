"""Standardization."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from wiesel.errors import FeatureError, NotFittedError, SavedModelError
from wiesel.features import FeatureState, Standardizer
from wiesel.features import standardize as module


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int64, bool])
def test_it_is_what_scikit_learn_does(dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BLOCK", 7)  # several blocks, the last one short
    X = (np.random.default_rng(0).random((50, 4)) * 3).astype(dtype)
    expected = StandardScaler().fit_transform(X.astype(np.float64))
    assert Standardizer().fit_transform(X) == pytest.approx(expected, abs=1e-5)


def test_a_constant_column_becomes_zero_even_with_rounding_errors() -> None:
    X = np.full((1000, 1), 0.1)
    assert np.abs(Standardizer().fit_transform(X)).max() < 1e-12
    assert Standardizer().fit(X).transform([[1.1]]).tolist() == [[1.0]]


def test_only_the_rows_of_fit_count() -> None:
    standardizer = Standardizer().fit([[0.0], [2.0]])
    assert standardizer.transform([[5.0]]).tolist() == [[4.0]]


def test_a_memory_mapped_array_is_read(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", np.array([[0.0], [2.0]]))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert Standardizer().fit_transform(mapped).tolist() == [[-1.0], [1.0]]


def test_a_value_that_is_not_finite_is_located() -> None:
    with pytest.raises(FeatureError, match=r"row 1, column 0 is nan.*Fill or drop"):
        Standardizer().fit([[1.0], [np.nan]])
    with pytest.raises(FeatureError, match="row 0, column 1 is inf"):
        Standardizer().fit([[1.0, 2.0]]).transform([[1.0, np.inf]])


@pytest.mark.parametrize("X", [[1.0, 2.0], [["a"]], np.empty((0, 3))])
def test_what_are_no_features_is_refused(X: Any) -> None:
    with pytest.raises(FeatureError, match="numbers, items x columns, with at least one item"):
        Standardizer().fit(X)


def test_another_number_of_columns_is_refused() -> None:
    with pytest.raises(FeatureError, match="have 2 columns; the Standardizer was fitted on 1"):
        Standardizer().fit([[1.0]]).transform([[1.0, 2.0]])


def test_it_must_be_fitted_first() -> None:
    with pytest.raises(NotFittedError, match="call fit"):
        Standardizer().transform([[1.0]])


def test_state_gives_the_same_numbers_back() -> None:
    fitted = Standardizer().fit([[1.0, 5.0], [4.0, 7.0]])
    again = Standardizer.from_state(fitted.to_state())
    assert again.transform([[3.0, 3.0]]).tolist() == fitted.transform([[3.0, 3.0]]).tolist()


def test_a_state_of_something_else_is_refused() -> None:
    with pytest.raises(SavedModelError, match="kind 'text', not 'standardizer'"):
        Standardizer.from_state(FeatureState({"kind": "text"}, {}))
    with pytest.raises(SavedModelError, match="lack 'mean', 'scale'"):
        Standardizer.from_state(FeatureState({"kind": "standardizer"}, {}))
