"""Vectors of the items of crowd answers."""

import numpy as np
import polars as pl
import pytest

from wiesel.errors import DataError, FeatureError
from wiesel.features.tabular import item_vectors

ANSWERS = pl.DataFrame(
    {
        "task": ["b", "a", "b", "c"],
        "text": ["it barks a lot", "it meows at night", "it barks a lot", "it meows and it barks"],
    }
)
IDS = np.array(["a", "b", "c"], dtype=object)


def test_a_table_is_matched_by_id_and_read_column_by_column():
    table = {
        "id": ["c", "b", "a"],
        "size": [30.0, 20.0, 10.0],
        "kind": ["x", "y", "x"],
        "vector": [[5.0, 6.0], [3.0, 4.0], [1.0, 2.0]],
    }
    found = item_vectors(table, IDS, "task", ANSWERS)
    # Lists as they are, then the standardized number, then one column for each category.
    assert found[:, :2].tolist() == [[1, 2], [3, 4], [5, 6]]
    assert found[:, 2] == pytest.approx([-1.2247, 0, 1.2247], abs=1e-3)
    assert found[:, 3:].tolist() == [[1, 0], [0, 1], [1, 0]]


def test_texts_beside_the_answers_are_vectors_of_their_words():
    found = item_vectors("text", IDS, "task", ANSWERS)
    a, b, c = found / np.linalg.norm(found, axis=1, keepdims=True)
    assert a @ b < 0.5
    assert len(found) == 3
    assert np.isfinite(c).all()


def test_an_array_has_a_row_for_each_row_number():
    X = np.arange(8.0).reshape(4, 2)
    assert item_vectors(X, np.array(["3", "0"]), "task", ANSWERS).tolist() == [[6, 7], [0, 1]]
    with pytest.raises(FeatureError, match=r"row number.*'a'.*a column 'task'"):
        item_vectors(X, IDS, "task", ANSWERS)
    with pytest.raises(FeatureError, match="row number"):
        item_vectors(X, np.array(["4"]), "task", ANSWERS)
    with pytest.raises(FeatureError, match="finite"):
        item_vectors(np.full((4, 1), np.nan), np.array(["0"]), "task", ANSWERS)


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ("texts", "no column 'texts'"),
        ({"id": ["a", "b"], "size": [1, 2]}, "1 of 3 items have no row.*'c'"),
        ({"id": ["a", "a", "b", "c"], "size": [1, 2, 3, 4]}, "'a' has several rows"),
        ({"id": ["a", "b", "c"]}, "no column besides 'id'"),
        ({"name": ["a", "b", "c"], "size": [1, 2, 3]}, "no column 'id'"),
        ({"id": ["a", "b", "c"], "gold": ["x", "y", "x"]}, "'gold', which looks like the label"),
        ({"id": ["a", "b", "c"], "v": [[1.0], [2.0, 3.0], [4.0]]}, "different lengths"),
    ],
)
def test_features_that_cannot_be_used_are_refused(features, words):
    with pytest.raises((FeatureError, DataError), match=words):
        item_vectors(features, IDS, "task", ANSWERS)
