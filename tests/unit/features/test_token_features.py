"""TokenFeatures: words in order, as numbers."""

import json

import numpy as np
import pytest

from wiesel.errors import FeatureError, NotFittedError, SavedModelError
from wiesel.features import FeatureState, TokenFeatures, features_from_state

TEXTS = ["a good film", "a bad, bad film"]


def test_words_are_numbered_by_frequency_and_padded_with_zero():
    features = TokenFeatures(length=6, min_count=2).fit(TEXTS)
    assert features.vocabulary_ == ("a", "film", "bad")
    # good and the comma are too rare to be known: 1.
    assert features.transform(["A GOOD film", "bad , film"]).tolist() == [
        [2, 1, 3, 0, 0, 0],
        [4, 1, 3, 0, 0, 0],
    ]


def test_a_long_text_is_cut():
    assert TokenFeatures(length=2, min_count=1).fit_transform(TEXTS).shape == (2, 2)


def test_the_saved_state_gives_the_same_tokens():
    features = TokenFeatures(length=4).fit(TEXTS)
    state = features.to_state()
    again = features_from_state(FeatureState(json.loads(json.dumps(state.settings)), {}))
    assert np.array_equal(again.transform(TEXTS), features.transform(TEXTS))


def test_a_tokenizer_gives_ids_and_a_mask(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.models.WordLevel({"[UNK]": 0, "good": 1, "film": 2}, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    features = TokenFeatures(tmp_path, length=3).fit(["anything"])
    tokens = features.transform(["good bad", "good good film film"])
    assert tokens["input_ids"].tolist() == [[1, 0, 0], [1, 1, 2]]
    assert tokens["attention_mask"].tolist() == [[1, 1, 0], [1, 1, 1]]
    again = features_from_state(features.to_state())
    assert np.array_equal(again.transform(["film"])["input_ids"], [[2, 0, 0]])


def test_what_is_wrong_is_named(tmp_path):
    with pytest.raises(NotFittedError, match="not fitted"):
        TokenFeatures().transform(["a"])
    with pytest.raises(FeatureError, match=r"tokenizer\.json cannot be read"):
        TokenFeatures(tmp_path).fit(["a"])
    settings = {"kind": "tokens", "length": 3, "vocabulary": [1], "tokenizer": ""}
    with pytest.raises(SavedModelError, match="must be different texts"):
        TokenFeatures.from_state(FeatureState(settings, {}))
