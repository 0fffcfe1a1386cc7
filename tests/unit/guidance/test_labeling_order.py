"""Rows to label: the recommended ones, and where nothing is known."""

import numpy as np
import pytest

from wiesel import VoteMatrix
from wiesel.guidance import rows_to_label, suggest_lfs
from wiesel.guidance.suggesting import Suggestions

LABELS = ["ham", "spam"]


def test_without_votes_rows_are_drawn_at_random_and_say_so():
    votes = VoteMatrix.from_dense(np.full((30, 2), -1), LABELS)
    table = rows_to_label(votes, n=8)
    assert set(table.frame["purpose"]) == {"evaluate"}
    assert table.frame["score"].null_count() == 8
    assert "There are no votes yet" in table.caption


def test_recommended_rows_are_one_of_each_kind_and_classes_without_a_label_come_first():
    # Three kinds of items; the votes are unsure about the third, which has no label yet.
    rng = np.random.default_rng(0)
    kind = np.repeat([0, 1, 2], 60)
    X = np.eye(3)[kind] * 10 + rng.normal(size=(180, 3))
    dense = np.stack([np.where(kind == 2, 2, kind), np.where(kind == 2, 0, kind)], axis=1)
    votes = VoteMatrix.from_dense(dense, ["ham", "spam", "other"])
    gold = np.full(180, -1)
    gold[[0, 60]] = 0, 1
    found = rows_to_label(votes, X, n=3, random_share=0, gold=gold).frame
    assert kind[found["row"].to_numpy()[0]] == 2
    assert found["chosen"].to_list() == ["recommended"] * 3
    assert found["probability"].null_count() == 3


def test_random_rows_say_their_probability_and_are_spread_over_the_list():
    dense = np.arange(200)[:, None] % 2
    X = np.random.default_rng(0).normal(size=(200, 4))
    gold = np.where(np.arange(200) < 20, 0, -1)
    found = rows_to_label(VoteMatrix.from_dense(dense, LABELS), X, n=20, gold=gold).frame
    drawn = found["chosen"] == "random"
    assert drawn.sum() == 5
    # Five of the 180 rows without a label.
    assert found["probability"].drop_nulls().to_list() == [5 / 180] * 5
    assert [int(drawn[:k].sum()) for k in (4, 8, 12, 16, 20)] == [1, 2, 3, 4, 5]


def test_without_features_all_recommended_rows_are_random():
    votes = VoteMatrix.from_dense(np.arange(50)[:, None] % 2, LABELS)
    found = rows_to_label(votes, n=8).frame
    assert set(found["chosen"]) == {"random"}
    assert found["row"].n_unique() == 8


def test_suggestions_are_a_table_with_names():
    rows = {"text": ["free cash now", "win free cash", "lunch at noon", "lunch with you"] * 3}
    found = suggest_lfs(rows, labels=LABELS, gold=["spam", "spam", "ham", "ham"] * 3)
    assert found.frame.equals(found.table.frame)
    assert [row["name"] for row in found.to_records()] == [lf.name for lf in found.lfs]
    assert list(found.to_pandas()["name"]) == found.frame["name"].to_list()
    assert found.lfs[0].name in found.to_text()
    assert found.lfs[0].name in found.to_html()
    assert len(Suggestions(()).frame) == 0


@pytest.mark.parametrize("way", ["uncertain", "random"])
def test_other_ways_do_not_need_votes(way):
    votes = VoteMatrix.from_dense(np.full((30, 2), -1), LABELS)
    assert len(rows_to_label(votes, n=8, way=way).frame) == 8
