"""Rows of a project from files as people have them, and items by their ids."""

import numpy as np
import polars as pl
import pytest

from wiesel import LabelSpace, VoteMatrix
from wiesel.errors import DataError
from wiesel.io import Split
from wiesel.project.judged_items import error_buckets, slice_rows
from wiesel.project.pipeline import check_project
from wiesel.project.rows import find_item, read_splits
from wiesel.project.settings import read_project

LABELS = LabelSpace("billing", "technical")


def test_separator_and_encoding_of_the_project_file_are_used(tiny):
    for name in ("train", "dev", "test"):
        text = (tiny / f"{name}.csv").read_text().replace(",", "|").replace("invoice", "facturé")
        (tiny / f"{name}.csv").write_bytes(text.encode("latin-1"))
    file = tiny / "wiesel.toml"
    file.write_text(
        file.read_text().replace("[data]", '[data]\nseparator = "|"\nencoding = "latin-1"')
    )
    project = read_project(tiny)
    assert check_project(project) == ["majority_vote"]
    _, splits = read_splits(project, LABELS)
    assert splits["train"].rows["text"][0] == "the facturé is wrong"
    assert list(splits["dev"].gold[:2]) == [0, 1]


@pytest.fixture
def splits():
    rows = pl.DataFrame({"id": [1, 2, 3], "text": ["a", "b", "c"]})
    gold = np.array([0, 1, 0])
    only = pl.DataFrame({"id": [9], "text": ["z"]})
    return {"train": Split(rows, gold), "dev": Split(rows, gold), "test": Split(only, gold[:1])}


def test_ids_in_two_splits_are_told_apart(splits):
    assert find_item(splits, "9") == ("test", 0)
    assert find_item(splits, "train:2") == ("train", 1)
    assert find_item(splits, "dev:2") == ("dev", 1)
    with pytest.raises(DataError, match=r"in 'train' and in 'dev': say train:2 or dev:2"):
        find_item(splits, "2")
    with pytest.raises(DataError, match=r"no item '7' .*Ids look like"):
        find_item(splits, "7")


def test_slices_say_who_votes_where():
    n_items = 30
    rows = pl.DataFrame({"id": range(n_items), "text": ["a b", "c", "d e f g"] * 10})
    dense = np.full((n_items, 2), -1)
    dense[:10, 0] = 0
    dense[5:15, 1] = 1
    votes = VoteMatrix.from_dense(dense, ["ham", "spam"], ["hello", "prize"])
    right = np.arange(n_items) >= 5
    found = {
        (row.by, row.name): row
        for row in slice_rows(right, Split(rows, np.zeros(n_items)), votes, "text")
    }
    assert found["voters", "hello"].accuracy == 0
    assert found["voters", "hello + prize"].n_items == 5
    assert found["votes", "no vote"].n_items == 15
    assert found["votes", "votes in conflict"].accuracy == 1
    assert {name for by, name in found if by == "length"} == {
        "up to 1 word",
        "2 words",
        "more than 2 words",
    }


def test_errors_are_grouped_by_cell_rule_and_what_their_rows_have_in_common() -> None:
    texts = [f"the {'late' if k < 12 else 'good'} parcel {k}" for k in range(40)]
    split = Split(pl.DataFrame({"id": range(40), "text": texts}), np.zeros(40))
    gold = np.array([1] * 20 + [0] * 19 + [-1])
    predicted = np.where(np.arange(40) < 12, 0, gold)
    predicted[39] = 1  # without gold, it is no error
    dense = np.full((40, 2), -1)
    dense[:10, 0], dense[5:25, 1] = 0, 1
    votes = VoteMatrix.from_dense(dense, ["no", "yes"], ["bad", "fine"])
    found = error_buckets(gold, predicted, split, votes, ["no", "yes"], "text")
    assert [(each.by, each.name, len(each.rows), each.n_items) for each in found] == [
        ("confusion", "yes predicted as no", 12, 20),
        ("rule", "bad", 10, 10),
        ("words", "late", 12, 12),
    ]
    assert found[2].rows.tolist() == list(range(12))
