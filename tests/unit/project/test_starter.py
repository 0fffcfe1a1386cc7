"""Projects made from a file of texts."""

import re
from pathlib import Path

import polars as pl
import pytest

from wiesel.errors import WieselError
from wiesel.project.settings import read_project
from wiesel.project.starter import (
    project_of,
    sketch_rows,
    starter_messages,
    tables_in,
    write_project,
)
from wiesel.project.workspace import Workspace


def made(folder: Path, rows: pl.DataFrame, *arguments: object, **options: object) -> Path:
    file = folder / "mails.csv"
    rows.write_csv(file)
    return write_project(sketch_rows(file), *arguments, **options)


def test_names_with_quotes_and_all_scripts_survive(tmp_path: Path):
    classes = ['say "no"', "back\\slash", "🦡", "del\x7fete", "zwei Wörter"]
    found = read_project(made(tmp_path, pl.DataFrame({"te xt": ["a", "b"]}), "te xt", classes))
    assert (list(found.classes), found.features.column) == (classes, "te xt")


def test_ids_that_repeat_are_replaced_by_row_numbers(tmp_path: Path):
    rows = pl.DataFrame({"id": [7, 7, 8], "text": ["a", "b", "c"]})
    space = Workspace(made(tmp_path, rows, "text", ["x", "y"]))
    assert space.train.ids.to_list() == ["train-0", "train-1", "train-2"]
    assert space.train.rows["given_id"].to_list() == [7, 7, 8]


def test_the_column_of_labels_becomes_gold_and_other_values_are_refused(tmp_path: Path):
    rows = pl.DataFrame({"text": ["aa", "b", "c", "d"], "kind": ["x", None, "y", None]})
    space = Workspace(made(tmp_path, rows, "text", ["x", "y"], label="kind"))
    assert space.train.gold.tolist() == [0, -1, 1, -1]
    with pytest.raises(WieselError, match=r"'kind' has labels .* 'y'"):
        made(tmp_path, rows, "text", ["x", "z"], label="kind")


def test_a_column_named_label_that_was_not_chosen_is_no_gold(tmp_path: Path):
    rows = pl.DataFrame({"text": ["aa", "b", "c", "d"], "label": ["x", "x", "y", "y"]})
    space = Workspace(made(tmp_path, rows, "text", ["p", "q"]))
    assert space.train.gold.tolist() == [-1] * 4


@pytest.mark.parametrize("classes", [[], ["one"], ["one", "one"]])
def test_classes_are_checked_before_anything_is_written(tmp_path: Path, classes: list[str]):
    with pytest.raises(WieselError):
        made(tmp_path, pl.DataFrame({"text": ["a", "b"]}), "text", classes)
    assert [each.name for each in tmp_path.iterdir()] == ["mails.csv"]


def test_a_project_is_found_again_by_its_file(tmp_path: Path):
    (tmp_path / "mails").mkdir()  # the first name is taken
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "wiesel.toml").write_text("no project")
    file = made(tmp_path, pl.DataFrame({"text": ["a", "b"]}), "text", ["x", "y"])
    assert file.parent.name == "mails-2"
    assert project_of(tmp_path / "mails.csv") == file
    assert project_of(tmp_path / "others.csv") is None
    assert tables_in(tmp_path) == [tmp_path / "mails.csv"]


def test_words_of_the_labeled_starter_messages_do_not_cover_the_test_messages():
    """Otherwise a model of the labels alone would be as good as one of the votes."""
    messages = starter_messages()
    seen = {word for row in messages["dev"] for word in words(row["text"])}
    new = [set(words(row["text"])) - seen for row in messages["test"]]
    assert sum(bool(each) for each in new) > len(new) * 0.7
    texts = [row["text"] for rows in messages.values() for row in rows]
    assert len(set(texts)) > len(texts) * 0.97
    assert not any("{" in text or "  " in text for text in texts)


def words(text: str) -> list[str]:
    return re.findall(r"[a-z]{4,}", text.lower())
