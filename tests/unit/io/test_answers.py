"""Crowd answers and gold labels in files."""

from pathlib import Path

import polars as pl
import pytest

from wiesel.errors import DataError, VoteError
from wiesel.io import read_answers, read_gold, write_rows
from wiesel.io.answers import crowd_answers

ANSWERS = {"task": [1, 1, 2], "worker": ["ann", "bob", "bob"], "label": ["cat", "dog", "dog"]}


def test_answers_become_votes(tmp_path: Path) -> None:
    write_rows(ANSWERS, tmp_path / "a.csv")
    votes = read_answers(tmp_path / "a.csv", items=[2, 1, 3])
    assert votes.voters == ("ann", "bob")
    assert votes.dense().tolist() == [[-1, 1], [0, 1], [-1, -1]]


def test_a_wrong_column_of_answers_is_named_with_the_file(tmp_path: Path) -> None:
    write_rows(ANSWERS, tmp_path / "a.csv")
    with pytest.raises(DataError, match=r"a.csv.*Did you mean 'worker'"):
        read_answers(tmp_path / "a.csv", voter="workers")


def test_repeated_answers_are_refused_with_the_file_and_the_cure(tmp_path: Path) -> None:
    twice = {name: [*values, values[0]] for name, values in ANSWERS.items()}
    write_rows(twice, tmp_path / "a.csv")
    with pytest.raises(VoteError, match=r"a.csv: 'ann' answered item 1.*duplicates='first'"):
        read_answers(tmp_path / "a.csv")
    assert read_answers(tmp_path / "a.csv", duplicates="last").n_votes == 3


def test_gold_follows_the_file_or_the_ids(tmp_path: Path) -> None:
    write_rows({"id": ["b", "a"], "label": ["dog", None]}, tmp_path / "g.jsonl")
    assert read_gold(tmp_path / "g.jsonl", ["cat", "dog"]).tolist() == [1, -1]
    aligned = read_gold(tmp_path / "g.jsonl", ["cat", "dog"], ids=["a", "b", "c"])
    assert aligned.tolist() == [-1, 1, -1]


def test_gold_ids_that_look_like_numbers_match_text(tmp_path: Path) -> None:
    write_rows({"id": [7, 8], "label": [0, 1]}, tmp_path / "g.csv")
    assert read_gold(tmp_path / "g.csv", ["cat", "dog"], ids=["8", "7"]).tolist() == [1, 0]


def test_gold_of_other_items_is_refused_with_both_looks(tmp_path: Path) -> None:
    write_rows({"id": ["m1"], "label": ["cat"]}, tmp_path / "g.csv")
    with pytest.raises(DataError, match=r"g.csv: None of the 2 ids.*'x'.*'m1'.*wiesel apply --id"):
        read_gold(tmp_path / "g.csv", ["cat", "dog"], ids=["x", "y"])


def test_contradicting_gold_is_refused(tmp_path: Path) -> None:
    write_rows({"id": ["a", "a"], "label": ["cat", "dog"]}, tmp_path / "g.csv")
    with pytest.raises(DataError, match="'a' have two different gold labels"):
        read_gold(tmp_path / "g.csv", ["cat", "dog"], ids=["a"])


def test_a_gold_label_that_is_no_class_is_located(tmp_path: Path) -> None:
    write_rows({"id": ["a", "b"], "label": ["cat", "cow"]}, tmp_path / "g.csv")
    with pytest.raises(DataError, match=r"g.csv: The label of row 1 is 'cow'.*'cat', 'dog'"):
        read_gold(tmp_path / "g.csv", ["cat", "dog"])


def test_answers_that_pandas_wrote_as_text_for_nothing_are_missing() -> None:
    rows = {"task": [1, 1, 2, 2], "worker": ["Nan", "b", "a", "b"]}
    table = pl.DataFrame({**rows, "label": ["nan", "cat", " NaN ", "<NA>"]})
    found = crowd_answers(table).rows
    assert found["label"].to_list() == [None, "cat", None, None]
    assert found["worker"].to_list() == ["Nan", "b", "a", "b"]  # a name
