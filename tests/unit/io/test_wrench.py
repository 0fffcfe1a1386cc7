"""WRENCH folders."""

import json
from pathlib import Path
from typing import Any

import pytest

from wiesel.errors import DataError, VoteError
from wiesel.io import load_wrench

ITEMS = {
    "0": {"label": 1, "weak_labels": [1, -1], "data": {"text": "free", "feature": [0.5, 1]}},
    "1": {"label": -1, "weak_labels": [-1, 0], "data": {"text": "hi", "feature": [0, 2]}},
}


def wrench(folder: Path, items: Any = ITEMS, names: Any = None) -> Path:
    (folder / "label.json").write_text(json.dumps(names or {"1": "spam", "0": "ham"}))
    (folder / "train.json").write_text(json.dumps(items))
    return folder


def test_a_folder_becomes_a_data_set(tmp_path: Path) -> None:
    dataset = load_wrench(wrench(tmp_path), voters=["link", "greeting"])
    train = dataset.train
    assert dataset.labels.names == ("ham", "spam")
    assert train.votes is not None
    assert train.votes.dense().tolist() == [[1, -1], [-1, 0]]
    assert train.votes.voters == ("link", "greeting")
    assert train.gold.tolist() == [1, -1]
    assert train.features is not None
    assert train.features.tolist() == [[0.5, 1], [0, 2]]
    assert train.rows.columns == ["id", "text"]
    assert list(dataset.splits) == ["train"]


def test_items_without_vectors_have_no_features(tmp_path: Path) -> None:
    items = {"7": {"label": 0, "weak_labels": [0], "data": {"text": "hi", "entity1": "x"}}}
    train = load_wrench(wrench(tmp_path, items)).train
    assert train.features is None
    assert train.rows.to_dicts() == [{"id": "7", "text": "hi", "entity1": "x"}]


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ({"4": {"label": 0, "data": {}}}, "train.json: The item '4' has no 'weak_labels'"),
        ([1], "train.json: A split must be an object"),
        ({}, "train.json: A split must be an object"),
        (
            {**ITEMS, "2": {"label": 0, "weak_labels": [0], "data": {}}},
            "The item '2' has 1 weak labels; the first one has 2",
        ),
    ],
)
def test_items_that_are_wrong_are_named(tmp_path: Path, items: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        load_wrench(wrench(tmp_path, items))


def test_a_weak_label_outside_the_classes_is_located(tmp_path: Path) -> None:
    items = {"0": {"label": 0, "weak_labels": [5], "data": {}}}
    with pytest.raises(VoteError, match=r"train.json: 'voter_0' voted 5 on row 0"):
        load_wrench(wrench(tmp_path, items))


@pytest.mark.parametrize("names", [["ham", "spam"], {"0": "ham", "2": "spam"}])
def test_label_json_must_number_the_classes(tmp_path: Path, names: Any) -> None:
    with pytest.raises(DataError, match=r"label.json must map indices to class names"):
        load_wrench(wrench(tmp_path, names=names))


def test_a_folder_without_splits_is_refused(tmp_path: Path) -> None:
    wrench(tmp_path)
    (tmp_path / "train.json").unlink()
    with pytest.raises(DataError, match=r"none of 'train.json', 'valid.json', 'test.json'"):
        load_wrench(tmp_path)


def test_broken_json_is_named(tmp_path: Path) -> None:
    wrench(tmp_path)
    (tmp_path / "train.json").write_text('{"0": ')
    with pytest.raises(DataError, match=r"train.json is not valid JSON"):
        load_wrench(tmp_path)


def test_a_missing_or_wrong_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"There is no folder .*nowhere"):
        load_wrench(tmp_path / "nowhere")
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="is a file, not a folder"):
        load_wrench(tmp_path / "file")
