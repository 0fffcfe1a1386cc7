"""Workers judged by the others, by hand."""

import numpy as np
import pytest

from wiesel import MajorityVote, VoteMatrix
from wiesel.analysis.crowd import _shared_mistakes, judge_workers, worker_mistakes


def answers(first: list[int], second: list[int], *others: list[int]) -> VoteMatrix:
    return VoteMatrix.from_dense(np.column_stack([first, second, *others]), ["no", "yes"])


@pytest.fixture
def three() -> VoteMatrix:
    """The last worker's answers beside those of two that agree: 3 of 4 and 1 of 2 are right."""
    truth = [0, 0, 0, 0, 1, 1]
    return answers(truth, truth, [0, 0, 0, 1, 0, 1])


def test_mistakes_are_counted_by_true_class(three: VoteMatrix):
    model = MajorityVote().fit(three)
    found = worker_mistakes(model, three, model.predict_proba(three), least=0.9).rows(named=True)
    last = [row for row in found if row["worker"] == "voter_2"]
    assert sorted((row["true"], row["answered"], row["times"], row["share"]) for row in last) == [
        ("no", "yes", 1.0, 0.25),
        ("yes", "no", 1.0, 0.5),
    ]


def test_accuracy_luck_and_skill_of_a_worker_by_hand(three: VoteMatrix):
    model = MajorityVote().fit(three)
    frame = judge_workers(model, three, model.predict_proba(three)).frame
    (last,) = frame.filter(frame["worker"] == "voter_2").rows(named=True)
    assert last["accuracy"] == pytest.approx(4 / 6)
    # `no` for 4 of 6 items, of which 4 of 6 are `no`; `yes` for 2, of which 2 of 6 are `yes`.
    assert last["luck"] == pytest.approx(4 / 6 * 4 / 6 + 2 / 6 * 2 / 6)
    # A quarter of an answer is added to each of the four cells.
    rows = np.array([[3.25, 1.25], [1.25, 1.25]]) / [[4.5], [2.5]]
    assert last["skill"] == pytest.approx((rows[0, 0] - rows[1, 0] + rows[1, 1] - rows[0, 1]) / 2)
    assert last["informativeness"] == pytest.approx((rows[0, 0] - rows[1, 0]) ** 2)


@pytest.mark.parametrize(("n_items", "flag"), [(8, ""), (12, "adversary")])
def test_a_worker_is_accused_from_ten_answers_on(n_items: int, flag: str):
    truth = [0, 1] * (n_items // 2)
    votes = answers(truth, truth, truth, [1, 0] * (n_items // 2))
    model = MajorityVote().fit(votes)
    frame = judge_workers(model, votes, model.predict_proba(votes)).frame
    flags = dict(zip(frame["worker"], frame["flag"], strict=True))
    assert flags == {"voter_0": "", "voter_1": "", "voter_2": "", "voter_3": flag}


def test_a_mistake_is_an_answer_against_a_lead_of_two():
    # Items: three others against both; two against both; two against the first only; one against
    # both; three to one against both; and no answer of the second.
    votes = answers(
        [1, 1, 1, 1, 1, 1],
        [1, 1, 0, 1, 1, -1],
        [0, 0, 0, 0, 0, 0],
        [0, 0, 0, -1, 0, 0],
        [0, -1, -1, -1, 0, 0],
        [-1, -1, -1, -1, 1, -1],
    )
    assert _shared_mistakes(votes, 0, 1) == (3, 4)


@pytest.mark.parametrize(("least", "flags"), [(30, ["copy", "copy"]), (31, ["", ""])])
def test_copies_are_searched_among_workers_with_enough_answers(least: int, flags: list[str]):
    # Both make the same ten mistakes of thirty answers; three others are right everywhere.
    truth = [0, 1] * 30
    copied = [1 - k for k in truth[:10]] + truth[10:30] + [-1] * 30
    votes = answers(copied, copied, truth, truth, truth)
    model = MajorityVote().fit(votes)
    found = judge_workers(model, votes, model.predict_proba(votes), least_answers=least).frame
    named = dict(zip(found["worker"], found["flag"], strict=True))
    assert [named["voter_0"], named["voter_1"]] == flags
