"""Vectors of texts in files: those that all texts in memory would give."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from wiesel import TextFeatures
from wiesel.errors import DataError, FeatureError, ParameterError
from wiesel.features import write_text_features

WORDS = ["good", "bad", "film", "plot", "actor", "long", "short", "dull", "fine", "odd"]


@pytest.fixture
def texts() -> list[str]:
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(WORDS, size=4)) for _ in range(300)]


@pytest.fixture
def rows(tmp_path: Path, texts: list[str]) -> Path:
    frame = pl.DataFrame({"n": range(300), "text": texts})
    frame[:200].write_parquet(tmp_path / "rows-a.parquet")
    frame[200:].write_parquet(tmp_path / "rows-b.parquet")
    return tmp_path / "rows-*.parquet"


def test_with_all_texts_in_the_sample_they_are_those_of_fit(
    tmp_path: Path, rows: Path, texts: list[str]
) -> None:
    features = TextFeatures(n_dimensions=4, max_terms=8)
    expected = TextFeatures(n_dimensions=4, max_terms=8)
    vectors = expected.fit_transform(texts)
    fitted = write_text_features(features, rows, tmp_path / "X.npy", part_rows=70)
    assert fitted.weights_ is not None
    assert expected.weights_ is not None
    assert fitted.weights_.terms == expected.weights_.terms
    np.testing.assert_allclose(fitted.weights_.idf, expected.weights_.idf, rtol=1e-5)
    np.testing.assert_allclose(np.load(tmp_path / "X.npy"), vectors, atol=1e-3)
    assert not hasattr(features, "standardizer_")


def test_rarity_comes_from_all_texts_and_directions_from_a_sample(
    tmp_path: Path, rows: Path, texts: list[str]
) -> None:
    expected = TextFeatures(n_dimensions=4).fit(texts).weights_
    fitted = write_text_features(
        TextFeatures(n_dimensions=4), rows, tmp_path / "X.npy", sample=60, part_rows=70
    )
    assert fitted.weights_ is not None
    assert expected is not None
    np.testing.assert_allclose(fitted.weights_.idf, expected.idf, rtol=1e-5)
    of_sample = fitted.transform(texts[::5])
    np.testing.assert_allclose(of_sample.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(np.load(tmp_path / "X.npy"), fitted.transform(texts), atol=1e-5)


def test_fitted_features_are_applied_as_they_are(
    tmp_path: Path, rows: Path, texts: list[str]
) -> None:
    features = TextFeatures(n_dimensions=3).fit(texts[:50])
    assert write_text_features(features, rows, tmp_path / "X.npy") is features
    np.testing.assert_allclose(np.load(tmp_path / "X.npy"), features.transform(texts), atol=1e-5)


def test_what_cannot_be_is_refused_and_nothing_is_left(tmp_path: Path, rows: Path) -> None:
    place = tmp_path / "X.npy"
    with pytest.raises(ParameterError, match="longest_phrase=1"):
        write_text_features(TextFeatures(longest_phrase=2), rows, place)
    with pytest.raises(ParameterError, match="engine is local, ray"):
        write_text_features(TextFeatures(), rows, place, engine="cloud")
    with pytest.raises(ParameterError, match=r"give .*X\.txt that extension"):
        write_text_features(TextFeatures(), rows, tmp_path / "X.txt")
    with pytest.raises(DataError, match="txt"):
        write_text_features(TextFeatures(), rows, place, column="txt")
    with pytest.raises(FeatureError, match="No term occurs in 1000 or more"):
        write_text_features(TextFeatures(min_count=1000), rows, place)
    assert not place.exists()
