"""The map of the rows: neighbors stay neighbors, and an outline selects what is inside."""

import numpy as np
import pytest

from wiesel.errors import FeatureError
from wiesel.guidance.row_map import RowMap, map_rows


def groups(n_rows: int = 400, n_groups: int = 8, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    group = np.arange(n_rows) % n_groups
    return 4 * np.eye(n_groups, 20)[group] + rng.normal(0, 0.5, (n_rows, 20)), group


def test_similar_rows_are_neighbors_on_the_map():
    X, group = groups()
    found = map_rows(X)
    apart = np.square(found.points[:, None] - found.points[None]).sum(axis=2)
    np.fill_diagonal(apart, np.inf)
    nearest = apart.argsort(axis=1)[:, :5]
    # Two principal components separate three groups at most; by chance, one in eight is right.
    assert (group[nearest] == group[:, None]).mean() > 0.95
    assert np.abs(found.points).max() == pytest.approx(1.0)
    assert np.array_equal(map_rows(X).points, found.points)


def test_of_many_rows_some_are_drawn():
    found = map_rows(groups()[0], n_shown=150, seed=3)
    assert len(found.rows) == len(found.points) == 150
    assert (np.diff(found.rows) > 0).all()
    assert found.rows.max() > 300


@pytest.mark.parametrize("X", [np.zeros((5, 3)), np.zeros((1, 3)), np.zeros((0, 3)), np.eye(2)])
def test_rows_that_are_alike_or_few_have_a_map(X):
    found = map_rows(X)
    assert found.points.shape == (len(X), 2)
    assert np.isfinite(found.points).all()
    assert sum(len(part.rows) for part in found.neighborhoods()) == len(X)


def test_features_that_are_no_matrix_are_refused():
    with pytest.raises(FeatureError, match="matrix of numbers"):
        map_rows(np.zeros((3, 2), dtype=np.int64))


def test_an_outline_selects_what_is_inside_even_if_it_is_dented():
    square = np.float32([[0, 0], [0.5, 0.5], [0.9, 0.5], [0.5, 0.1], [2, 0]])
    found = RowMap(np.arange(10, 15), square)
    # A square with a notch from the right: (0.9, 0.5) is in the notch.
    notch = [(-1, -1), (1, -1), (1, 0.4), (0.7, 0.5), (1, 0.6), (1, 1), (-1, 1)]
    assert found.inside(notch).tolist() == [10, 11, 13]
    assert found.inside([(0, 0), (1, 1)]).tolist() == []
    assert found.inside([]).tolist() == []
