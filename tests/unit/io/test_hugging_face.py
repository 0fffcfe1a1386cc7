"""Data sets for the Hugging Face Hub, with and without the package datasets."""

import json
import re
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import polars as pl
import pytest

from wiesel.errors import DataError, MissingExtraError
from wiesel.io import read_hugging_face, soft_labeled_rows, to_hugging_face, write_hugging_face

LABELS = ["ham", "no: 'yes'"]
PROBA = np.array([[0.75, 0.25], [0.125, 0.875]])
ROWS = pl.DataFrame({"id": ["a", "b"], "text": ["see you", "a prize"], "votes": [[1, 2], []]})


def test_soft_labels_come_back_from_the_folder(tmp_path):
    frame = soft_labeled_rows(ROWS, PROBA, LABELS)
    splits = {"train": frame, "test": frame[:1]}
    write_hugging_face(tmp_path / "mails", splits, LABELS, title="Mails", license="mit")
    found = read_hugging_face(tmp_path / "mails")
    assert found.proba.tolist() == PROBA.tolist()
    assert found.label.tolist() == [0, 1]
    assert found.labels.names == tuple(LABELS)
    assert found.rows.equals(ROWS)
    assert len(read_hugging_face(tmp_path / "mails", "test").rows) == 1


def test_the_card_names_files_and_classes_as_yaml(tmp_path):
    yaml = pytest.importorskip("yaml")
    write_hugging_face(tmp_path / "m", soft_labeled_rows(ROWS, PROBA, LABELS), LABELS, title="M: a")
    _, head, text = (tmp_path / "m" / "README.md").read_text().split("---\n")
    card = yaml.safe_load(head)
    assert card["pretty_name"] == "M: a"
    file = card["configs"][0]["data_files"][0]
    assert file["split"] == "train"
    assert (tmp_path / "m" / file["path"]).is_file()
    features = {each["name"]: each for each in card["dataset_info"]["features"]}
    names = features["label"]["dtype"]["class_label"]["names"]
    assert names == {"0": "ham", "1": "no: 'yes'"}
    assert features["soft_label"]["sequence"] == "float32"
    (size,) = card["dataset_info"]["splits"]
    assert (size["name"], size["num_examples"]) == ("train", 2)
    assert size["num_bytes"] > 0
    assert "most probable class" in text


def test_classes_in_the_card_cannot_become_markup(tmp_path):
    markdown = pytest.importorskip("markdown")
    evil = ["ham`<img src=x onerror=alert(1)>`", "no\n\n<b>"]
    rows = soft_labeled_rows(ROWS, PROBA, evil)
    write_hugging_face(tmp_path / "m", rows, evil)
    text = (tmp_path / "m" / "README.md").read_text().split("---\n", 2)[2]
    shown = markdown.markdown(text)
    assert "onerror=alert(1)" in shown
    assert set(re.findall(r"<(\w+)", shown)) <= {"h1", "p", "code"}


def test_the_parquet_file_names_the_classes_as_datasets_does(tmp_path):
    write_hugging_face(tmp_path / "m", soft_labeled_rows(ROWS, PROBA, LABELS), LABELS)
    (file,) = (tmp_path / "m" / "data").iterdir()
    note = json.loads(pl.read_parquet_metadata(file)["huggingface"])
    assert note["info"]["features"]["label"] == {"names": LABELS, "_type": "ClassLabel"}


def test_what_cannot_be_written_is_told(tmp_path):
    with pytest.raises(DataError, match="'label' already"):
        soft_labeled_rows({"label": ["ham"]}, [[1.0, 0.0]], LABELS)
    with pytest.raises(DataError, match="shape"):
        soft_labeled_rows(ROWS, PROBA[:1], LABELS)
    with pytest.raises(DataError, match="other columns"):
        write_hugging_face(tmp_path / "m", {"a": ROWS, "b": ROWS.drop("id")}, LABELS)
    with pytest.raises(DataError, match="split"):
        write_hugging_face(tmp_path / "m", {"my split": ROWS}, LABELS)
    write_hugging_face(tmp_path / "m", ROWS, LABELS)
    with pytest.raises(DataError, match="exists already"):
        write_hugging_face(tmp_path / "m", ROWS, LABELS)
    with pytest.raises(DataError, match="what its classes are"):
        read_hugging_face(tmp_path / "m")
    with pytest.raises(DataError, match="'valid'"):
        read_hugging_face(tmp_path / "m", "valid")
    with pytest.raises(DataError, match="folder or a"):
        read_hugging_face(7)


def test_a_dataset_goes_both_ways(tmp_path):
    frame = soft_labeled_rows(ROWS, PROBA, LABELS)
    datasets = import_module("datasets") if find_spec("datasets") else None
    if not hasattr(datasets, "Dataset"):  # the folder tests/unit/datasets can be imported, too
        with pytest.raises(MissingExtraError, match="pip install datasets"):
            to_hugging_face(frame, LABELS)
        return
    made = to_hugging_face(frame, LABELS)
    assert made.features["label"].names == LABELS
    assert made[1]["soft_label"] == PROBA[1].tolist()
    assert read_hugging_face(made).proba.tolist() == PROBA.tolist()
    write_hugging_face(tmp_path / "m", frame, LABELS)
    loaded = datasets.load_dataset(str(tmp_path / "m"), cache_dir=str(tmp_path / "cache"))
    assert loaded["train"].features["label"].names == LABELS
    assert read_hugging_face(loaded).rows["text"].to_list() == ROWS["text"].to_list()


def test_a_folder_of_save_to_disk_is_named_with_the_way_to_read_it(tmp_path):
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train"]}')
    with pytest.raises(DataError, match=r"save_to_disk.*datasets\.load_from_disk"):
        read_hugging_face(tmp_path)
