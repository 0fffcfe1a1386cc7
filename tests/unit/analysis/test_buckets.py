import numpy as np
import pandas as pd
import pytest

from wiesel import VoteMatrix, label_buckets
from wiesel.errors import DataError, ParameterError

ROWS = {"text": ["a", "b", "c", "d"], "gold": [1, 2, 3, 4]}
VOTES = VoteMatrix.from_dense([[0, 1], [1, -1], [1, 1], [-1, -1]], ["ham", "spam"], ["x", "my y"])
GOLD = ["ham", "ham", "spam", None]
PREDICTED = np.array([0, 1, 1, 0])


def test_rows_are_found_by_gold_prediction_and_vote():
    found = label_buckets(ROWS, gold=GOLD, predicted=PREDICTED, votes=VOTES)
    assert found.rows(gold="ham", predicted="spam")["text"].to_list() == ["b"]
    assert found.rows(gold=None)["text"].to_list() == ["d"]
    assert found.rows(predicted="spam", x="spam")["text"].to_list() == ["b", "c"]
    assert found.rows(**{"my y": None})["text"].to_list() == ["b", "d"]
    assert len(found.rows()) == 4


def test_the_table_counts_every_combination_the_most_frequent_first():
    found = label_buckets({"text": list("abcd")}, predicted=PREDICTED, votes=VOTES.select(["x"]))
    frame = found.table.frame
    assert frame.columns == ["predicted", "x", "items", "share"]
    assert frame.rows() == [
        ("spam", "spam", 2, 0.5),
        ("ham", "ham", 1, 0.25),
        ("ham", None, 1, 0.25),
    ]
    assert len(found) == 3
    assert "predicted" in str(found)
    assert found._repr_html_().count("<tr>") == 4


def test_columns_of_the_rows_keep_their_names():
    found = label_buckets(ROWS, gold=GOLD, labels=["ham", "spam"])
    assert found.frame.columns == ["label: gold", "text", "gold"]
    assert found.rows(gold="spam")["gold"].to_list() == [3]


def test_voters_may_be_called_like_our_own_columns():
    votes = VoteMatrix.from_dense([[0, 1]], ["a", "b"], ["items", "share"])
    assert label_buckets({"text": ["x"]}, votes=votes).table.frame.rows() == [("a", "b", 1, 1.0)]


def test_pandas_rows_do():
    found = label_buckets(pd.DataFrame({"t": ["a", "b"]}), gold=["x", "y"], labels=["x", "y"])
    assert found.rows(gold="y")["t"].to_list() == ["b"]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"gold": GOLD}, ParameterError, r"votes=\.\.\. or labels"),
        ({"labels": ["ham", "spam"]}, ParameterError, "nothing to group by"),
        ({"gold": GOLD[:2], "labels": ["ham", "spam"]}, DataError, "4 rows, but gold for 2"),
        ({"votes": VOTES[:1]}, DataError, "4 rows, but votes for 1"),
    ],
)
def test_mistakes_are_named(options, error, words):
    with pytest.raises(error, match=words):
        label_buckets(ROWS, **options)


def test_an_unknown_name_is_refused_with_the_nearest_one():
    with pytest.raises(ParameterError, match="Did you mean 'predicted'"):
        label_buckets(ROWS, predicted=PREDICTED, labels=["ham", "spam"]).rows(predictd="ham")
