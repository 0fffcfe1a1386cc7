import numpy as np
import pytest

from wiesel import VoteMatrix
from wiesel.analysis import changed_votes, summarize
from wiesel.analysis.summary import wilson_interval
from wiesel.analysis.table import UNKNOWN
from wiesel.errors import DataError, NotFittedError, VoteError
from wiesel.label_models import MajorityVote

# Rows:  a  b  c  silent
DENSE = [
    [0, 0, -1, -1],
    [0, 1, -1, -1],
    [-1, 1, 1, -1],
    [0, -1, -1, -1],
    [-1, -1, -1, -1],
]


@pytest.fixture
def four_voters():
    return VoteMatrix.from_dense(DENSE, ["ham", "spam"], ["a", "b", "c", "silent"])


def column(table, name):
    return dict(zip(table.frame["voter"], table.frame[name], strict=True))


def test_coverage_overlap_and_conflict_are_shares_of_all_items(four_voters):
    table = summarize(four_voters)
    # a votes on rows 0, 1, 3; not alone on 0 and 1; against b on row 1.
    assert column(table, "votes") == {"a": 3, "b": 3, "c": 1, "silent": 0}
    assert column(table, "coverage") == {"a": 0.6, "b": 0.6, "c": 0.2, "silent": 0.0}
    assert column(table, "overlap") == {"a": 0.4, "b": 0.6, "c": 0.2, "silent": 0.0}
    assert column(table, "conflict") == {"a": 0.2, "b": 0.2, "c": 0.0, "silent": 0.0}


def test_polarity_names_the_classes_a_voter_emits(four_voters):
    polarity = column(summarize(four_voters), "polarity")
    assert polarity["a"].to_list() == ["ham"]
    assert polarity["b"].to_list() == ["ham", "spam"]
    assert polarity["silent"].to_list() == []


def test_precision_counts_only_items_whose_label_is_known(four_voters):
    table = summarize(four_voters, gold=["ham", "spam", "spam", None, "ham"])
    # a: right on row 0, wrong on row 1, row 3 is not known.
    assert column(table, "support") == {"a": 2, "b": 3, "c": 1, "silent": 0}
    assert column(table, "correct") == {"a": 1, "b": 3, "c": 1, "silent": 0}
    assert column(table, "precision") == {"a": 0.5, "b": 1.0, "c": 1.0, "silent": None}


def test_recall_is_the_share_of_a_class_that_the_voter_finds(four_voters):
    table = summarize(four_voters, gold=["ham", "spam", "spam", None, "ham"])
    # Two items are ham (rows 0 and 4), two are spam (rows 1 and 2).
    assert column(table, "recall_ham") == {"a": 0.5, "b": 0.5, "c": 0.0, "silent": 0.0}
    assert column(table, "recall_spam") == {"a": 0.0, "b": 1.0, "c": 0.5, "silent": 0.0}


def test_recall_of_a_class_without_gold_items_is_unknown(four_voters):
    table = summarize(four_voters, gold=[0, 0, 0, 0, 0])
    assert set(column(table, "recall_spam").values()) == {None}


def test_unknown_precision_is_a_dash_never_zero(four_voters):
    table = summarize(four_voters, gold=[0, 1, 1, 0, 0])
    line = table.to_text(width=100).splitlines()[-1]
    assert line.split() == ["silent", UNKNOWN, *["0.0", "%"] * 3, "0", UNKNOWN]


def test_gold_may_be_names_or_indices(four_voters):
    names = summarize(four_voters, gold=["ham", "spam", None, "ham", "ham"])
    indices = summarize(four_voters, gold=np.array([0, 1, -1, 0, 0]))
    assert names.frame.equals(indices.frame)


def test_gold_of_another_length_is_refused_with_both_numbers(four_voters):
    with pytest.raises(DataError, match=r"2 gold labels for 5 items"):
        summarize(four_voters, gold=["ham", "spam"])


def test_the_wilson_interval_of_half_of_ten_is_the_textbook_one():
    low, high = wilson_interval(np.array([5]), np.array([10]))
    # z = 1.96, n = 10, p = 0.5: 0.5 +- 0.2634.
    assert (low[0], high[0]) == pytest.approx((0.2366, 0.7634), abs=1e-4)


def test_the_wilson_interval_stays_within_zero_and_one():
    low, high = wilson_interval(np.array([0, 7]), np.array([7, 7]))
    assert low[0] == 0
    assert high[1] == 1
    assert 0 < high[0] < 0.5 < low[1] < 1


class WithAccuracies(MajorityVote):
    def voter_accuracies(self):
        return np.array([0.9, np.nan, 0.5, 0.25])


def test_learned_accuracies_are_those_of_the_label_model(four_voters):
    model = WithAccuracies().fit(four_voters)
    learned = column(summarize(four_voters, label_model=model), "learned")
    assert learned == {"a": 0.9, "b": None, "c": 0.5, "silent": 0.25}


def test_learned_accuracies_come_from_an_attribute_or_from_confusions(votes):
    model = MajorityVote().fit(votes, class_balance=[0.75, 0.25])
    # Right: 3/4 * 0.8 + 1/4 * 0.4 = 0.7; silence is no vote: 0.3 / (0.3 + 0.3), 0.5 / (0.5 + 0).
    model.confusions_ = np.array(
        [
            [[0.8, 0.2, 0.0], [0.6, 0.4, 0.0]],
            [[0.3, 0.3, 0.4], [0.3, 0.3, 0.4]],
            [[0.5, 0.0, 0.5], [0.0, 0.5, 0.5]],
        ]
    )
    learned = summarize(votes, label_model=model).frame["learned"].to_list()
    assert learned == pytest.approx([0.7, 0.5, 1.0])
    model.accuracies_ = np.array([0.6, 0.7, 0.8])
    assert summarize(votes, label_model=model).frame["learned"].to_list() == [0.6, 0.7, 0.8]


def test_a_label_model_without_accuracies_leaves_them_unknown(four_voters):
    table = summarize(four_voters, label_model=MajorityVote().fit(four_voters))
    assert table.frame["learned"].null_count() == 4


def test_a_label_model_of_other_voters_is_refused(four_voters, votes):
    with pytest.raises(VoteError, match="silent"):
        summarize(four_voters, label_model=MajorityVote().fit(votes))


def test_a_label_model_that_is_not_fitted_is_refused(votes):
    with pytest.raises(NotFittedError, match="fit"):
        summarize(votes, label_model=MajorityVote())


def test_accuracies_of_the_wrong_shape_are_refused(votes):
    with pytest.raises(DataError, match=r"shape \(4,\).*3 voters"):
        summarize(votes, label_model=WithAccuracies().fit(votes))


def test_no_items_are_summarized_as_unknown_shares():
    nothing = VoteMatrix.from_dense(np.empty((0, 2), int), ["ham", "spam"])
    assert summarize(nothing).frame["coverage"].to_list() == [None, None]


def test_probabilistic_votes_count_for_their_most_probable_class():
    proba = [[[0.7, 0.3], [0.2, 0.8]], [[0, 0], [0.6, 0.4]]]
    soft = summarize(VoteMatrix.from_proba(proba, ["ham", "spam"]), gold=[0, 0])
    hard = summarize(VoteMatrix.from_dense([[0, 1], [-1, 0]], ["ham", "spam"]), gold=[0, 0])
    assert soft.frame.equals(hard.frame)


def test_changes_count_the_votes_that_were_cast_before_or_after():
    before = VoteMatrix.from_dense([[0, -1], [1, 0], [-1, -1]], ["no", "yes"])
    after = VoteMatrix.from_dense([[1, -1], [-1, 0], [-1, 1]], ["no", "yes"])
    # Of four places with a vote before or after, three differ; two have none at either time.
    assert "3 of 4 votes changed (voter_0: 2, voter_1: 1)" in str(changed_votes(before, after))
