"""Text to vectors."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from wiesel.errors import (
    FeatureError,
    NotFittedError,
    ParameterError,
    SavedModelError,
)
from wiesel.features import FeatureState, TextFeatures, features_from_state

TEXTS = ["good film", "bad film", "good plot", "bad plot", "a fine good film", ""]


def small(**options: Any) -> TextFeatures:
    return TextFeatures("tfidf", **{"n_dimensions": 3, "min_count": 1, **options})


def stored(state: FeatureState) -> FeatureState:
    """The state as it comes back from a file: settings through JSON, arrays copied."""
    arrays = {name: np.array(array) for name, array in state.arrays.items()}
    return FeatureState(json.loads(json.dumps(state.settings)), arrays)


def test_vectors_are_those_of_tfidf_and_svd() -> None:
    counts = TfidfVectorizer(sublinear_tf=True, dtype=np.float32).fit_transform(TEXTS)
    expected = TruncatedSVD(3, random_state=0).fit_transform(counts)
    got = small(standardize=False).fit_transform(TEXTS)
    # The sign of a direction is arbitrary.
    assert np.abs(got) == pytest.approx(np.abs(expected), abs=1e-5)


def test_transform_agrees_with_fit_transform() -> None:
    features = small()
    fitted = features.fit_transform(TEXTS)
    assert features.transform(pl.Series(TEXTS)) == pytest.approx(fitted, abs=1e-4)


def test_columns_are_standardized_on_the_texts_of_fit() -> None:
    X = small().fit_transform(TEXTS)
    assert X.dtype == np.float32
    assert X.mean(axis=0) == pytest.approx(np.zeros(3), abs=1e-6)
    assert X.std(axis=0) == pytest.approx(np.ones(3), abs=1e-5)


def test_unseen_words_do_not_count() -> None:
    features = small().fit(TEXTS)
    first, second = features.transform(["good film", "good film zyzzyva"])
    assert first.tolist() == second.tolist()


def test_phrases_become_terms_when_asked() -> None:
    features = small(longest_phrase=2).fit(TEXTS)
    assert features.weights_ is not None
    assert "good film" in features.weights_.terms


def test_there_are_no_more_dimensions_than_terms() -> None:
    features = small(n_dimensions=300).fit(TEXTS)
    assert features.n_features == features.transform(["good"]).shape[1] <= 5


def test_the_same_seed_gives_the_same_vectors() -> None:
    assert (
        small(seed=1).fit_transform(TEXTS).tolist() == small(seed=1).fit_transform(TEXTS).tolist()
    )


def test_no_texts_give_no_vectors() -> None:
    assert small().fit(TEXTS).transform([]).shape == (0, 3)


def test_state_gives_the_same_vectors_back() -> None:
    for options in ({}, {"standardize": False}, {"longest_phrase": 2}):
        features = small(**options).fit(TEXTS)
        again = features_from_state(stored(features.to_state()))
        assert again.transform(TEXTS).tolist() == features.transform(TEXTS).tolist()
        assert again.get_params() == features.get_params()


def test_state_works_in_a_fresh_process(tmp_path: Path) -> None:
    features = small().fit(TEXTS)
    state = features.to_state()
    np.savez(tmp_path / "arrays.npz", **state.arrays)
    (tmp_path / "settings.json").write_text(json.dumps(state.settings))
    code = (
        "import json, sys, numpy as np\n"
        "from wiesel.features import FeatureState, features_from_state\n"
        "settings = json.load(open('settings.json'))\n"
        "state = FeatureState(settings, dict(np.load('arrays.npz')))\n"
        "print(json.dumps(features_from_state(state).transform(['good film']).tolist()))"
    )
    run = [sys.executable, "-c", code]
    out = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert json.loads(out) == features.transform(["good film"]).tolist()


def altered(**changes: Any) -> FeatureState:
    state = stored(small().fit(TEXTS).to_state())
    settings = {**state.settings, **{k: v for k, v in changes.items() if k in ("options", "terms")}}
    arrays = {**state.arrays, **{k: v for k, v in changes.items() if k not in settings}}
    return FeatureState(settings, arrays)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"terms": ["good"]}, "differ in length"),
        ({"idf": np.ones(2)}, "differ in length"),
        ({"components": np.ones(3)}, "differ in length"),
        ({"mean": np.ones(2)}, "must be 2 finite numbers"),
        ({"options": {"kind": "tfidf"}}, "not the known ones"),
        ({"options": "tfidf"}, "not the known ones"),
    ],
)
def test_an_altered_state_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(SavedModelError, match=words):
        TextFeatures.from_state(altered(**changes))


def test_a_state_that_lacks_a_part_is_refused() -> None:
    state = small().fit(TEXTS).to_state()
    arrays = {name: value for name, value in state.arrays.items() if name != "idf"}
    with pytest.raises(SavedModelError, match="lack 'idf'"):
        TextFeatures.from_state(FeatureState(state.settings, arrays))
    with pytest.raises(SavedModelError, match="no features of kind 'pickle'"):
        features_from_state(FeatureState({"kind": "pickle"}, {}))


def test_a_text_that_is_missing_is_located() -> None:
    with pytest.raises(FeatureError, match=r"text of row 1 is None.*Put ''"):
        small().fit(["a", None])
    with pytest.raises(FeatureError, match="row 0 is 3"):
        small().fit(TEXTS).transform([3])


def test_one_string_is_no_list_of_texts() -> None:
    with pytest.raises(FeatureError, match=r"not as one string: \['good film'\]"):
        small().fit("good film")


def test_texts_without_terms_are_refused_with_advice() -> None:
    with pytest.raises(FeatureError, match=r"2 or more of the 2 texts.*Lower min_count"):
        TextFeatures(min_count=2).fit(["good", "bad"])
    with pytest.raises(FeatureError, match="at least one text"):
        TextFeatures().fit([])


def test_features_must_be_fitted_first() -> None:
    with pytest.raises(NotFittedError, match=r"call fit\(texts\)"):
        TextFeatures().transform(["good"])


def test_wrong_options_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"'kind' option.*Did you mean 'tfidf'"):
        TextFeatures("tfdif").fit(TEXTS)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"'n_dimensions' option.*at least 1; got 0"):
        TextFeatures(n_dimensions=0).fit(TEXTS)


def test_scikit_learn_can_clone_it() -> None:
    copied = clone(small(seed=3))
    assert copied.get_params() == small(seed=3).get_params()


def test_vectors_are_cached_by_what_went_into_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = small(cache=tmp_path / "cache", standardize=False).fit(TEXTS)
    first = features.transform(TEXTS)
    assert len(list((tmp_path / "cache").iterdir())) == 1
    monkeypatch.setattr("wiesel.features.tfidf.transform_tfidf", None)  # must not be called again
    again = features.transform(TEXTS)
    assert isinstance(again, np.memmap)
    assert again.tolist() == first.tolist()
    monkeypatch.undo()
    features.transform(TEXTS[:2])
    small(cache=tmp_path / "cache", longest_phrase=2).fit(TEXTS).transform(TEXTS)
    assert len(list((tmp_path / "cache").iterdir())) == 3


def test_a_damaged_cache_file_is_computed_anew(tmp_path: Path) -> None:
    features = small(cache=tmp_path).fit(TEXTS)
    expected = features.transform(TEXTS).tolist()
    (file,) = tmp_path.iterdir()
    file.write_bytes(b"\x93NUMPY broken")
    assert features.transform(TEXTS).tolist() == expected


def test_a_new_text_is_not_far_away_where_the_training_texts_are_much_alike():
    texts = ["the app crashes", "the bill is wrong", "the app is slow", "the bill crashes"] * 5
    features = TextFeatures("tfidf", n_dimensions=50).fit(texts)
    assert features.n_features < 8
    assert abs(features.transform(["wrong app", "the slow bill is"])).max() < 20


@pytest.mark.parametrize(
    "table",
    [pd.DataFrame({"text": TEXTS}), pl.DataFrame({"text": TEXTS}), {"text": TEXTS}],
    ids=["pandas", "polars", "dict"],
)
def test_a_table_is_refused_instead_of_reading_the_names_of_its_columns(table: Any) -> None:
    for read in (small().fit, small().fit(TEXTS).transform):
        with pytest.raises(FeatureError, match=r"not as a table: .*table\['text'\]"):
            read(table)


def test_many_texts_teach_the_terms_and_evenly_spaced_ones_the_directions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{k}" for k in rng.integers(0, 40, 8)) for _ in range(90)]
    every = small(min_count=2).fit(texts)
    monkeypatch.setattr("wiesel.features.tfidf.SAMPLE", 30)
    monkeypatch.setattr("wiesel.features.tfidf._AT_ONCE", 7)
    monkeypatch.setattr("wiesel.features.text._AT_ONCE", 20)
    some = small(min_count=2).fit(pl.Series(texts))
    assert some.weights_.terms == every.weights_.terms  # type: ignore[union-attr]
    assert some.weights_.idf.tolist() == every.weights_.idf.tolist()  # type: ignore[union-attr]
    # Without the texts between, the directions are those of the sample alone.
    weighted = TfidfVectorizer(sublinear_tf=True, dtype=np.float32, min_df=2).fit(texts)
    directions = TruncatedSVD(3, algorithm="arpack").fit(weighted.transform(texts[::3])).components_
    found = some.weights_.components  # type: ignore[union-attr]
    np.testing.assert_allclose(np.abs(found), np.abs(directions), atol=1e-3)
    vectors = small(min_count=2).fit_transform(texts)
    np.testing.assert_array_equal(vectors, some.transform(texts))
    one_by_one = np.concatenate([some.transform([text]) for text in texts])
    np.testing.assert_allclose(vectors, one_by_one, atol=1e-5)


def test_many_texts_without_a_frequent_term_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wiesel.features.tfidf.SAMPLE", 3)
    with pytest.raises(FeatureError, match="No term occurs in 2 or more of the 6 texts"):
        small(min_count=2).fit([f"word{k}" for k in range(6)])


def test_many_texts_are_counted_with_phrases_too(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["a good film", "a bad film", "good plot", "bad plot"] * 3
    every = small(longest_phrase=2).fit(texts)
    monkeypatch.setattr("wiesel.features.tfidf.SAMPLE", 4)  # every third text: one of each
    some = small(longest_phrase=2).fit(texts)
    assert some.weights_.terms == every.weights_.terms  # type: ignore[union-attr]
    assert some.transform(texts).shape == every.transform(texts).shape
