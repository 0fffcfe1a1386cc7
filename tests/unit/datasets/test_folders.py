"""Data-set folders."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from wiesel.datasets import load_dataset
from wiesel.errors import DataError, VoteError
from wiesel.label_models import MajorityVote

CARD = {"name": "mails", "classes": ["ham", "spam"], "license": "ours"}


def lf_folder(
    folder: Path, card: dict[str, Any] = CARD, splits: tuple[str, ...] = ("train",)
) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "card.json").write_text(json.dumps(card))
    for split in splits:
        pl.DataFrame(
            {
                "id": ["a", "b"],
                "text": ["hi", "yo"],
                "label": [1, -1],
                "lf_x": [1, -1],
                "lf_y": [0, -1],
            }
        ).write_parquet(folder / f"{split}.parquet")
        np.save(folder / f"features_{split}.npy", np.array([[1, 5], [3, 5]], np.float16))
    return folder


def crowd_folder(folder: Path, gold: dict[str, Any]) -> Path:
    (folder / "card.json").write_text(json.dumps(CARD))
    answers = {"task": ["1", "1", "2"], "worker": ["w", "v", "v"], "label": [0, 1, 1]}
    pl.DataFrame(answers).write_parquet(folder / "answers.parquet")
    pl.DataFrame(gold, schema={"task": pl.String, "label": pl.Int16}).write_parquet(
        folder / "gold.parquet"
    )
    return folder


def test_splits_have_votes_gold_texts_and_features(tmp_path: Path) -> None:
    dataset = load_dataset(lf_folder(tmp_path))
    train = dataset.train
    assert (dataset.name, dataset.labels.names) == ("mails", ("ham", "spam"))
    assert dataset.card["license"] == "ours"
    assert train.votes is not None
    assert train.votes.voters == ("x", "y")
    assert train.votes.dense().tolist() == [[1, 0], [-1, -1]]
    assert train.gold.tolist() == [1, -1]
    assert train.texts is not None
    assert train.texts.to_list() == ["hi", "yo"]
    assert train.ids.to_list() == ["a", "b"]
    assert train.features is not None
    assert train.features.dtype == np.float32


def test_features_are_standardized_by_the_training_split(tmp_path: Path) -> None:
    folder = lf_folder(tmp_path, splits=("train", "test"))
    np.save(folder / "features_test.npy", np.array([[3, 6], [5, 4]], np.float16))
    dataset = load_dataset(folder, standardize=True)
    assert dataset.train.features is not None
    assert dataset.test.features is not None
    # Train: means 2 and 5, deviations 1 and 0 (a constant column keeps its unit).
    assert dataset.train.features.tolist() == [[-1, 0], [1, 0]]
    assert dataset.test.features.tolist() == [[1, 1], [3, -1]]


def test_a_split_that_does_not_exist_is_not_made_up(tmp_path: Path) -> None:
    dataset = load_dataset(lf_folder(tmp_path))
    with pytest.raises(DataError, match="'mails' has no split 'test'; it has 'train'"):
        _ = dataset.test


def test_text_and_features_may_come_from_another_set(tmp_path: Path) -> None:
    lf_folder(tmp_path / "big")
    card = {**CARD, "text_and_features_from": "big (same ids, same order)"}
    small = lf_folder(tmp_path / "small", card)
    (small / "features_train.npy").unlink()
    pl.DataFrame({"id": ["a", "b"], "label": [0, 1], "lf_z": [0, 0]}).write_parquet(
        small / "train.parquet"
    )
    train = load_dataset(small).train
    assert train.texts is not None
    assert train.texts.to_list() == ["hi", "yo"]
    assert train.features is not None
    assert train.gold.tolist() == [0, 1]
    pl.DataFrame({"id": ["b", "a"], "label": [0, 1], "lf_z": [0, 0]}).write_parquet(
        small / "train.parquet"
    )
    with pytest.raises(DataError, match=r"big.train.parquet does not have the same ids"):
        load_dataset(small)


def test_crowd_answers_become_the_training_split(tmp_path: Path) -> None:
    dataset = load_dataset(crowd_folder(tmp_path, {"task": ["2"], "label": [1]}))
    assert dataset.train.votes is not None
    assert dataset.train.votes.dense().tolist() == [[1, 0], [1, -1]]
    assert dataset.train.gold.tolist() == [-1, 1]
    assert dataset.train.texts is None


def test_crowd_answers_without_any_gold_are_fine(tmp_path: Path) -> None:
    dataset = load_dataset(crowd_folder(tmp_path, {"task": [], "label": []}))
    assert dataset.train.gold.tolist() == [-1, -1]


def test_a_name_is_looked_up_under_the_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lf_folder(tmp_path / "mails")
    monkeypatch.setenv("WIESEL_DATA", str(tmp_path))
    assert load_dataset("mails").folder == tmp_path / "mails"
    with pytest.raises(DataError, match=r"no data set 'mail' in .*Did you mean 'mails'"):
        load_dataset("mail")


def test_without_a_data_folder_the_message_says_how_to_set_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("WIESEL_DATA", raising=False)
    with pytest.raises(DataError, match=r"WIESEL_DATA is not set.*set WIESEL_DATA to"):
        load_dataset("mails")
    monkeypatch.setenv("WIESEL_DATA", "/no/such/place")
    with pytest.raises(DataError, match="WIESEL_DATA is '/no/such/place', no folder"):
        load_dataset("mails")


def test_a_wrench_folder_is_recognized(tmp_path: Path) -> None:
    (tmp_path / "label.json").write_text('{"0": "ham", "1": "spam"}')
    item = {"label": 1, "weak_labels": [1], "data": {"text": "hi"}}
    (tmp_path / "test.json").write_text(json.dumps({"0": item}))
    assert load_dataset(tmp_path).test.gold.tolist() == [1]


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no file .*card.json"):
        load_dataset(tmp_path)
    (tmp_path / "card.json").write_text("{}")
    with pytest.raises(DataError, match=r"card.json must be an object with the class names"):
        load_dataset(tmp_path)
    (tmp_path / "card.json").write_text(json.dumps(CARD))
    with pytest.raises(DataError, match=r"neither answers.parquet nor a split"):
        load_dataset(tmp_path)


def test_features_of_another_length_are_refused(tmp_path: Path) -> None:
    folder = lf_folder(tmp_path)
    np.save(folder / "features_train.npy", np.zeros((3, 2)))
    with pytest.raises(DataError, match="features have 3 rows; there are 2 items"):
        load_dataset(folder)


def test_a_broken_or_pickled_array_is_refused(tmp_path: Path) -> None:
    folder = lf_folder(tmp_path)
    np.save(folder / "features_train.npy", np.array([object()]), allow_pickle=True)
    with pytest.raises(DataError, match=r"features_train.npy cannot be read as an array"):
        load_dataset(folder)
    (folder / "features_train.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(DataError, match=r"features_train.npy cannot be read as an array"):
        load_dataset(folder)


def test_a_vote_outside_the_classes_names_the_file(tmp_path: Path) -> None:
    folder = lf_folder(tmp_path)
    table = pl.DataFrame({"id": ["a"], "label": [0], "lf_x": [7]})
    table.write_parquet(folder / "train.parquet")
    with pytest.raises(VoteError, match=r"train.parquet: 'x' voted 7 on row 0"):
        load_dataset(folder)


@pytest.mark.data
def test_every_real_data_set_loads_and_fits_its_card(data_folder: Path) -> None:
    checked = 0
    for card_file in sorted(data_folder.glob("*/card.json")):
        card = json.loads(card_file.read_text())
        if "classes" not in card:  # spans: documents, not items
            with pytest.raises(DataError, match="classes"):
                load_dataset(card_file.parent)
            continue
        dataset = load_dataset(card_file.parent, duplicates="first")
        assert dataset.labels.names == tuple(card["classes"])
        sizes = card.get("split_sizes", {k: v["rows"] for k, v in card.get("splits", {}).items()})
        for split, size in sizes.items():
            assert len(dataset[split]) == size
        if "coverage" in card:
            votes = dataset.train.votes
            assert votes is not None
            assert round(float(votes.covered.mean()), 4) == card["coverage"]["train"]
        checked += 1
    assert checked >= 30


@pytest.mark.data
@pytest.mark.parametrize("name", ["bluebirds", "dog", "product", "tweet_sentiment"])
def test_majority_vote_on_real_answers_is_as_right_as_the_card_says(
    data_folder: Path, name: str
) -> None:
    dataset = load_dataset(data_folder / name)
    votes, gold = dataset.train.votes, dataset.train.gold
    assert votes is not None
    proba = MajorityVote(hard=True).fit(votes).predict_proba(votes)
    # A tie is worth its share, which is what a random choice among the tied is worth on average.
    accuracy = proba[np.arange(len(gold)), gold].mean()
    assert accuracy == pytest.approx(dataset.card["majority_vote_accuracy"], abs=0.006)


@pytest.mark.data
def test_repeated_answers_in_real_data_must_be_decided(data_folder: Path) -> None:
    with pytest.raises(VoteError, match="2922 such answers"):
        load_dataset(data_folder / "adult_content")


@pytest.mark.data
def test_texts_of_the_small_imdb_set_come_from_the_big_one(data_folder: Path) -> None:
    small, big = load_dataset(data_folder / "imdb_12"), load_dataset(data_folder / "imdb_136")
    assert small.test.texts is not None
    assert big.test.texts is not None
    assert small.test.texts.equals(big.test.texts)
    assert np.array_equal(small.test.gold, big.test.gold)
    assert np.array_equal(small.valid.features, big.valid.features)  # type: ignore[arg-type]
