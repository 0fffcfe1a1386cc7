"""features.json and its arrays, as somebody would write them who means harm."""

import json
from typing import Any

import numpy as np
import pytest

from wiesel.errors import SavedModelError
from wiesel.features import (
    FeatureState,
    ImageFeatures,
    Standardizer,
    TabularFeatures,
    TextFeatures,
    TokenFeatures,
    features_from_state,
)

TEXTS = ["a good film", "a bad film", "a good plot"]
STATES = {
    "text": TextFeatures("tfidf", n_dimensions=2, min_count=1).fit(TEXTS).to_state(),
    "tokens": TokenFeatures(length=4, min_count=1).fit(TEXTS).to_state(),
    "tabular": TabularFeatures(numeric=["age"], categorical=["job"])
    .fit({"age": [20, None], "job": ["cook", None]})
    .to_state(),
    "images": ImageFeatures().fit(np.arange(8).reshape(2, 2, 2, 1)).to_state(),
    "standardizer": Standardizer().fit(np.eye(3)).to_state(),
}
WRONG = [None, -1, 0, 10**400, 3 * 10**8, 1.5, "x", "", [], {}, [1], [None, None], ["a", "a"], True]


def changed(kind: str, /, **settings: Any) -> FeatureState:
    return FeatureState({**STATES[kind].settings, **settings}, STATES[kind].arrays)


@pytest.mark.parametrize("kind", STATES)
def test_a_state_that_nobody_changed_comes_back(kind: str):
    settings = json.loads(json.dumps(STATES[kind].settings))
    features_from_state(FeatureState(settings, STATES[kind].arrays))


@pytest.mark.parametrize("kind", STATES)
def test_any_setting_may_be_anything_and_is_refused_or_works(kind: str):
    refused = checked = 0
    for name in STATES[kind].settings:
        for value in WRONG:
            checked += 1
            try:
                features_from_state(changed(kind, **{name: value}))
            except SavedModelError:
                refused += 1
    assert checked >= len(WRONG)
    assert refused > checked / 2


@pytest.mark.parametrize("kind", [kind for kind in STATES if STATES[kind].arrays])
def test_arrays_of_nan_or_another_shape_are_refused(kind: str):
    state, checked = STATES[kind], 0
    for name, array in state.arrays.items():
        wrong = [array * np.nan, array[..., None], array[:0], np.zeros(array.shape, np.int64)]
        for value in wrong:
            checked += 1
            with pytest.raises(SavedModelError):
                features_from_state(FeatureState(state.settings, {**state.arrays, name: value}))
    assert checked >= 8


def test_tokens_of_gigabytes_are_refused():
    with pytest.raises(SavedModelError, match="at most 100000"):
        features_from_state(changed("tokens", length=3 * 10**8))


def test_a_deviation_of_zero_is_refused():
    state = STATES["standardizer"]
    arrays = {**state.arrays, "scale": np.zeros(3)}
    with pytest.raises(SavedModelError, match="not all positive"):
        features_from_state(FeatureState(state.settings, arrays))


def test_one_term_alone_makes_one_column():
    features = TextFeatures("tfidf", min_count=2)
    vectors = features.fit_transform(["film one", "film two", "plot three"])
    assert vectors.shape == (3, 1)
    assert np.allclose(features.transform(["a film", "a plot"])[:, 0], vectors[[0, 2], 0])
    again = features_from_state(features.to_state())
    assert np.array_equal(again.transform(["film"]), features.transform(["film"]))
