import numpy as np
import pytest

from wiesel import VoteMatrix
from wiesel.datasets.synthetic import make_votes
from wiesel.label_models.majority_vote import vote_balance


def test_a_crowd_that_is_often_wrong_does_not_hide_a_rare_class():
    votes, gold = make_votes(
        4000, 9, 3, accuracies=0.7, coverage=1.0, class_balance=[0.1, 0.2, 0.7]
    )
    # Votes are right with 0.7, so their shares are 0.205, 0.26 and 0.535.
    assert vote_balance(votes) == pytest.approx(np.bincount(gold) / len(gold), abs=0.03)


def test_a_tie_counts_for_both_of_its_classes():
    votes = VoteMatrix.from_dense([[0, 0], [0, 1], [0, 2], [-1, -1]], ["a", "b", "c"])
    # The first item is 'a', the second and third are half 'a', nobody votes on the fourth.
    assert vote_balance(votes) == pytest.approx([4 / 6, 1 / 6, 1 / 6], abs=0.002)


def test_the_balance_of_a_binary_task_is_the_shares_of_its_votes():
    votes = VoteMatrix.from_dense([[0, 0, 1], [0, 0, 0], [-1, -1, -1]], ["no", "yes"])
    assert vote_balance(votes) == pytest.approx([5 / 6, 1 / 6], abs=0.002)


def test_one_sided_voters_that_abstain_bring_shares_closer_together():
    rows = [[0, -1, -1]] * 80 + [[-1, 1, -1]] * 10 + [[-1, -1, 2]] * 10
    balance = vote_balance(VoteMatrix.from_dense(rows, ["a", "b", "c"]))
    # All votes are one-sided and two of three abstain: shares to the power of 1 - (2/3) / 2.
    expected = np.array([0.8, 0.1, 0.1]) ** (2 / 3)
    assert balance == pytest.approx(expected / expected.sum(), abs=0.002)
