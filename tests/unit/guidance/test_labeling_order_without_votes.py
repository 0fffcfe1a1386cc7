"""Rows to label where no label model knows anything, or all agree."""

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
    assert "disagree" not in table.to_text()


def test_items_on_which_all_label_models_agree_are_not_shown_as_disagreement():
    dense = np.full((400, 3), 1)
    dense[:200] = 0
    dense[:3, 0] = 1  # the only items with a conflict
    found = rows_to_label(VoteMatrix.from_dense(dense, LABELS), n=12).frame
    learn = found.filter(found["purpose"] == "learn")
    assert len(found) == 12
    assert set(learn["row"]) <= {0, 1, 2}
    assert (learn["score"] >= 0.005).all()


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
