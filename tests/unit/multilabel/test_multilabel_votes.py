"""Votes on several labels behind one object."""

import threading

import numpy as np
import polars as pl
import pytest
from scipy.special import expit

from wiesel import DawidSkene, MajorityVote, VoteMatrix, apply_lfs, findings, summarize, threads
from wiesel.errors import DataError, ParameterError, VoteError
from wiesel.multilabel import (
    MultiLabelVotes,
    PerLabel,
    label_models,
    multilabel_function,
    read_multilabel_votes,
    write_multilabel_votes,
)
from wiesel.multilabel.label_models import _offset

LONG = pl.DataFrame(
    {
        "item": ["p", "p", "q", "q"],
        "voter": ["ann", "bob", "ann", "ann"],
        "label": ["sports", "sports", "sports", "money"],
        "present": [True, False, True, False],
    }
)


def test_a_long_table_becomes_a_matrix_for_each_label():
    votes = MultiLabelVotes.from_long(LONG, labels=["sports", "money"])
    assert votes.voters == ("ann", "bob")
    assert votes["sports"].dense().tolist() == [[1, 0], [1, -1]]
    assert votes["money"].dense().tolist() == [[-1, -1], [0, -1]]
    assert isinstance(votes["sports"], VoteMatrix)
    assert votes.directions == {"sports": "both", "money": "absent"}


def test_long_and_back():
    votes = MultiLabelVotes.from_long(LONG, labels=["sports", "money"])
    assert votes.to_long().rows() == LONG.rows()
    assert MultiLabelVotes.from_long(votes.to_long(), labels=["sports", "money"]).equals(votes)


def test_without_a_column_of_what_was_said_every_row_says_yes():
    votes = MultiLabelVotes.from_long(LONG.drop("present"))
    assert votes.directions == {"money": "present", "sports": "present"}


@pytest.mark.parametrize("yes", [1, "true", "yes", "present"])
def test_several_ways_to_say_yes(yes):
    row = {"item": 1, "voter": "ann", "label": "a", "present": yes}
    votes = MultiLabelVotes.from_long([row], labels=["a", "b"])
    assert votes["a"].dense().tolist() == [[1]]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"label": "sprots"}, "the label 'sprots'"),
        ({"present": "perhaps"}, "'perhaps'.*true or false"),
    ],
)
def test_a_wrong_cell_is_named(change, words):
    row = {"item": 1, "voter": "ann", "label": "sports", "present": "1"} | change
    with pytest.raises(VoteError, match=words):
        MultiLabelVotes.from_long([row], labels=["sports", "money"])


def test_an_answer_given_twice_is_refused():
    with pytest.raises(VoteError, match="'ann' answers 'p' twice for 'sports'"):
        MultiLabelVotes.from_long(pl.concat([LONG, LONG]), labels=["sports", "money"])


def test_items_that_appear_twice_are_refused():
    with pytest.raises(VoteError, match="unique"):
        MultiLabelVotes.from_dense(np.ones((2, 1, 2)), ["a", "b"], ids=["p", "p"])


def test_rows_and_voters_are_selected_for_all_labels(task):
    votes = task.votes
    part = votes[[3, 1]]
    assert part.ids.tolist() == [3, 1]
    assert all(part[name].equals(votes[name][[3, 1]]) for name in votes.labels)
    assert votes.select(["voter_2"]).voters == ("voter_2",)


def test_a_split_holds_every_item_once(task):
    first, second = task.votes.split(0.25, seed=3)
    assert (len(first), len(second)) == (75, 225)
    assert sorted([*first.ids, *second.ids]) == list(range(300))


def test_a_file_gives_back_the_same_votes(tmp_path, task):
    silent = task.said.copy()
    silent[5] = -1
    votes = MultiLabelVotes.from_dense(silent, ["a", "b", "c"], ids=[f"m{k}" for k in range(300)])
    write_multilabel_votes(votes, tmp_path / "votes.parquet")
    assert read_multilabel_votes(tmp_path / "votes.parquet").equals(votes)
    with pytest.raises(DataError, match="expected"):
        read_multilabel_votes(tmp_path / "votes.parquet", labels=["a", "b"])


def test_matrices_must_be_of_the_same_items_and_voters():
    first = VoteMatrix.from_dense([[1]], ["no", "yes"], ["ann"])
    other = VoteMatrix.from_dense([[1]], ["no", "yes"], ["bob"])
    with pytest.raises(VoteError, match="other voters"):
        MultiLabelVotes.from_matrices({"a": first, "b": other})


def test_the_summary_has_a_row_for_each_label_and_voter(task):
    table = task.votes.summary(gold=task.gold)
    assert len(table) == 3 * 6
    own = table.frame.filter((pl.col("label") == "money") & (pl.col("voter") == "voter_0"))
    voted = task.said[:, 0, 1] >= 0
    right = (task.said[:, 0, 1] == task.gold[:, 1])[voted].mean()
    assert own["precision"][0] == pytest.approx(right)


def test_the_overview_says_which_way_votes_go(task):
    frame = task.one_sided().overview().frame
    assert frame["direction"].to_list() == ["both", "both", "present only"]
    assert frame["said_present"][2] == 1


def test_every_label_model_works_on_the_votes_on_one_label(task):
    votes = task.votes["sports"]
    predicted = MajorityVote().fit(votes).predict(votes)
    assert (predicted == np.where(task.gold[:, 0] == 1, "sports", "not sports")).mean() > 0.8


def test_labels_are_fitted_in_threads_with_the_same_result(task, monkeypatch):
    names = []

    class Noted(DawidSkene):
        def fit(self, votes, class_balance=None):
            names.append(threading.current_thread().name)
            return super().fit(votes, class_balance)

    alone = PerLabel(Noted()).fit(task.votes).predict_proba(task.votes)
    assert set(names) == {threading.current_thread().name}
    monkeypatch.setattr(label_models, "_WORTH_THREADS", 1)
    monkeypatch.setattr(threads, "usable_cores", lambda: 2)
    names.clear()
    model = PerLabel(Noted()).fit(task.votes)
    assert all(name.startswith("wiesel") for name in names)
    assert list(model.models_) == list(task.votes.labels)
    assert np.array_equal(model.predict_proba(task.votes), alone)


def test_many_votes_of_one_kind_still_give_the_mean_asked_for():
    # A hundred votes for one item and one for another: sigmoid(offset + 110) is nearly 3/5.
    evidence = np.log(3) * np.array([100.0, 1.0])
    offset = _offset(evidence, 0.3)
    assert expit(offset + evidence).mean() == pytest.approx(0.3)
    assert offset + evidence[0] == pytest.approx(np.log(0.6 / 0.4))


def test_gold_of_other_items_and_votes_of_another_kind_are_refused(task):
    with pytest.raises(DataError, match="gold labels of 1 items"):
        task.votes.overview([set()])
    for read in (summarize, findings, MajorityVote().fit):
        with pytest.raises(VoteError, match="PerLabel"):
            read(task.votes)
    function = multilabel_function(name="both")(lambda row: {"sports"})
    with pytest.raises(ParameterError, match="apply_multilabel_lfs"):
        apply_lfs([function], [{"text": "a"}], labels=["sports", "money"])


def test_advice_about_one_direction_names_the_missing_one():
    against = MultiLabelVotes.from_dense([[[0, 1]], [[0, 0]]], ["a", "b"])
    with pytest.raises(VoteError, match=r"votes where it is present\.$"):
        PerLabel(MajorityVote()).fit(against)


@pytest.mark.parametrize("dense", [np.zeros((3, 2)), np.zeros((3, 2, 3))])
def test_dense_votes_of_another_shape_are_refused(dense):
    with pytest.raises(VoteError, match=r"items x voters x 2 labels; got the shape \(3, 2"):
        MultiLabelVotes.from_dense(dense, ["sports", "money"])


def test_the_summary_names_the_label_first():
    votes = MultiLabelVotes.from_long(LONG, labels=["sports", "money"])
    assert votes.summary().frame.columns[:2] == ["label", "voter"]
