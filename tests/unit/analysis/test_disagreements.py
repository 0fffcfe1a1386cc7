import numpy as np
import pytest

from wiesel import VoteMatrix
from wiesel.analysis import disagreements, findings
from wiesel.errors import DataError, ParameterError, VoteError

ROWS = [{"text": "one"}, {"text": "two"}, {"text": "three"}, {"text": "four"}]


def texts(frame):
    return frame["text"].to_list()


def test_rows_on_which_any_two_voters_disagree_most_disputed_first(votes):
    wide = VoteMatrix.from_dense([[0, 0, 1], [0, 1, -1], [1, 1, 1], [-1, 1, 0]], ["ham", "spam"])
    assert texts(disagreements(wide, ROWS)) == ["two", "four", "one"]
    shown = disagreements(votes, ROWS)
    assert texts(shown) == ["two", "four"]
    assert shown["votes: spam"].to_list() == [1, 1]


def test_rows_on_which_the_named_voters_disagree(votes):
    shown = disagreements(votes, ROWS, ["link", "length"])
    assert shown.to_dicts() == [
        {"item": 3, "text": "four", "vote: link": "spam", "vote: length": "ham"}
    ]


def test_one_voter_against_any_other_with_an_abstain_as_null(votes):
    assert texts(disagreements(votes, ROWS, ["keyword"])) == ["two"]
    shown = disagreements(votes, ROWS, ["keyword", "link", "length"])
    assert shown["vote: length"].to_list() == [None, "ham"]


def test_with_gold_the_rows_on_which_a_voter_is_wrong(votes):
    shown = disagreements(votes, ROWS, ["link"], gold=["spam", "spam", None, "ham"])
    assert texts(shown) == ["one", "four"]
    assert shown["gold"].to_list() == ["spam", "ham"]


def test_the_limit_cuts_the_rows(votes):
    assert len(disagreements(votes, ROWS, limit=1)) == 1


def test_the_id_column_of_the_rows_is_kept(votes):
    shown = disagreements(votes, [{"item": f"m{k}"} for k in range(4)])
    assert shown["item"].to_list() == ["m1", "m3"]


def test_rows_that_do_not_fit_the_votes_are_refused(votes):
    with pytest.raises(DataError, match="2 rows but votes on 4 items"):
        disagreements(votes, ROWS[:2])


def test_an_unknown_voter_is_refused_with_the_nearest(votes):
    with pytest.raises(VoteError, match="Did you mean 'keyword'"):
        disagreements(votes, ROWS, ["keywrd"])


def test_the_rows_behind_every_kind_of_finding():
    a = np.tile([0, 1], 20)
    nearly = a.copy()
    nearly[0] = 1
    dense = np.column_stack([a, a, nearly, 1 - a])
    dense = np.vstack([dense, np.full((60, 4), -1)])
    votes = VoteMatrix.from_dense(dense, ["x", "y"], ["a", "twin", "nearly", "against"])
    rows, gold = {"text": np.arange(100)}, np.tile([0, 1], 50)
    records = {r["kind"]: r for r in reversed(findings(votes, gold).to_records())}
    # "against" contradicts everybody: that is one finding, and no conflict with each of them.
    assert "conflict" not in records
    records["conflict"] = {"kind": "conflict", "voters": ["a", "against"]}

    def behind(kind):
        return texts(disagreements(votes, rows, finding=records[kind], gold=gold_of(kind)))

    def gold_of(kind):
        return gold if kind == "worse_than_chance" else None

    assert behind("duplicate") == list(range(40))
    assert behind("near_duplicate") == [0]
    assert behind("conflict") == list(range(40))
    assert behind("contrary") == list(range(40))
    assert behind("worse_than_chance") == list(range(40))
    assert behind("low_coverage") == list(range(40, 100))


def test_a_finding_about_gold_asks_for_gold(votes):
    finding = {"kind": "worse_than_chance", "voters": ["keyword"]}
    with pytest.raises(ParameterError, match="gold="):
        disagreements(votes, ROWS, finding=finding)
