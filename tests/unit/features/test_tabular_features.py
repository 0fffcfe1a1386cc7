"""Columns of a table to vectors."""

import json
from typing import Any

import numpy as np
import polars as pl
import pytest

from wiesel.errors import DataError, FeatureError, NotFittedError, ParameterError
from wiesel.features import FeatureState, TabularFeatures, features_from_state

TABLE = {"age": [20, None, 40], "job": ["cook", "nurse", None], "id": [1, 2, 3]}


def test_numbers_are_standardized_and_categories_are_one_hot() -> None:
    features = TabularFeatures(numeric=["age"], categorical=["job"]).fit(TABLE)
    assert features.names_ == ("age", "age missing", "job=cook", "job=nurse", "job=missing")
    assert features.transform(TABLE).tolist() == [
        [-1, 0, 1, 0, 0],
        [0, 1, 0, 1, 0],
        [1, 0, 0, 0, 1],
    ]


def test_an_unseen_category_is_all_zeros() -> None:
    features = TabularFeatures(categorical=["job"]).fit(TABLE)
    assert features.transform({"job": ["pilot", "cook"]}).tolist() == [[0, 0, 0], [1, 0, 0]]


def test_a_number_that_is_missing_only_later_becomes_the_mean() -> None:
    features = TabularFeatures(numeric=["age"]).fit({"age": [20, 40]})
    assert features.transform({"age": [None, 50.0]}).tolist() == [[0.0], [2.0]]


def test_only_the_most_frequent_categories_have_a_place() -> None:
    table = {"job": ["a", "b", "b", "c", "c", "c"]}
    features = TabularFeatures(categorical=["job"], max_categories=2).fit(table)
    assert features.names_ == ("job=b", "job=c")


def test_numbers_and_truth_values_can_be_categories() -> None:
    table = {"code": [7, 8], "old": [True, False]}
    features = TabularFeatures(categorical=["code", "old"]).fit(table)
    assert features.names_ == ("code=7", "code=8", "old=false", "old=true")


def test_truth_values_can_be_numbers() -> None:
    assert TabularFeatures(numeric=["old"]).fit_transform({"old": [True, False]}).tolist() == [
        [1.0],
        [-1.0],
    ]


def test_state_gives_the_same_vectors_back() -> None:
    features = TabularFeatures(numeric=["age"], categorical=["job"]).fit(TABLE)
    state = features.to_state()
    saved = FeatureState(json.loads(json.dumps(state.settings)), state.arrays)
    again = features_from_state(saved)
    assert again.transform(TABLE).tolist() == features.transform(TABLE).tolist()
    assert again.names_ == features.names_


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "needs to know which columns to use"),
        ({"numeric": "age"}, "is a list of columns; got 'age'"),
        ({"numeric": ["age"], "categorical": ["age"]}, "'age' is repeated"),
        ({"categorical": ["job"], "max_categories": 0}, "at least 1; got 0"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        TabularFeatures(**options).fit(TABLE)


def test_a_wrong_column_is_answered_with_the_nearest() -> None:
    with pytest.raises(DataError, match=r"'ages' \(a feature\). Did you mean 'age'"):
        TabularFeatures(numeric=["ages"]).fit(TABLE)


def test_words_are_no_numbers() -> None:
    with pytest.raises(FeatureError, match=r"'job' holds String, not numbers.*categorical"):
        TabularFeatures(numeric=["job"]).fit(TABLE)


def test_infinity_is_located() -> None:
    with pytest.raises(FeatureError, match="'age' is infinite in row 1"):
        TabularFeatures(numeric=["age"]).fit({"age": [1.0, np.inf]})


def test_a_column_without_any_value_is_refused() -> None:
    table = pl.DataFrame({"age": [None, None]}, schema={"age": pl.Float64})
    with pytest.raises(FeatureError, match="'age' have no value at all"):
        TabularFeatures(numeric=["age"]).fit(table)
    with pytest.raises(FeatureError, match="at least one row"):
        TabularFeatures(numeric=["age"]).fit(table.clear())


def test_features_must_be_fitted_first() -> None:
    with pytest.raises(NotFittedError, match=r"call fit\(table\)"):
        TabularFeatures(numeric=["age"]).transform(TABLE)


def test_features_without_columns_suggest_the_columns_of_the_table():
    table = {"age": [20, 30], "city": ["Rome", "Oslo"]}
    with pytest.raises(ParameterError, match=r"numeric=\['age'\], categorical=\['city'\]"):
        TabularFeatures().fit(table)
