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
    votes = VoteMatrix.from_dense([[0, 0], [1, 0], [0, 2], [-1, -1]], ["a", "b", "c"])
    # The first item is 'a', the second and third are half 'a', nobody votes on the fourth.
    assert vote_balance(votes) == pytest.approx([4 / 6, 1 / 6, 1 / 6], abs=0.002)


def test_disagreement_tells_how_often_the_voters_of_a_binary_task_err():
    votes, gold = make_votes(4000, 9, 2, accuracies=0.8, coverage=0.6, class_balance=[0.1, 0.9])
    shares = np.bincount(votes.class_index) / votes.n_votes
    assert shares == pytest.approx([0.26, 0.74], abs=0.02), "0.1 * 0.8 + 0.9 * 0.2"
    true = np.bincount(gold) / len(gold)
    assert vote_balance(votes) == pytest.approx(true, abs=0.02)
    cells = votes.one_hot().toarray().reshape(4000, 9, 2)
    soft = VoteMatrix.from_proba(0.9999 * cells + 0.0001 * cells[:, :, ::-1], votes.labels)
    assert vote_balance(soft) == pytest.approx(true, abs=0.02)


def test_voters_that_are_hardly_better_than_chance_do_not_move_the_balance_far():
    rows = np.random.default_rng(0).integers(0, 2, (2000, 5))
    rows[:800, 0] = 1
    shares = np.bincount(rows.ravel()) / rows.size
    votes = VoteMatrix.from_dense(rows, ["no", "yes"])
    assert vote_balance(votes)[1] == pytest.approx(0.5 + (shares[1] - 0.5) / 0.5, abs=0.01)


def test_one_sided_voters_count_by_their_share_of_the_votes():
    # Half of the votes are of a voter that says 'yes' or abstains; the other says 'no' at 80 %.
    rows = [[0, 1]] * 80 + [[1, 1]] * 20
    balance = vote_balance(VoteMatrix.from_dense(rows, ["no", "yes"]))
    assert balance[1] == pytest.approx(0.2 / 2 + 0.6 / 2, abs=0.002)
    named = vote_balance(VoteMatrix.from_dense([[row[0], 2] for row in rows], ["a", "b", "c"]))
    # By the majority of all votes: nobody abstains, so these shares stay as they are.
    everyone = np.array([0.4, 0.1, 0.5])
    assert named == pytest.approx(everyone / 2 + np.array([0.8, 0.2, 0]) / 2, abs=0.002)


def test_one_sided_voters_of_a_binary_task_tell_the_shares_of_their_votes():
    votes = VoteMatrix.from_dense([[0, 0, 1], [0, 0, -1], [-1, -1, -1]], ["no", "yes"])
    assert vote_balance(votes) == pytest.approx([5 / 6, 1 / 6], abs=0.002)


def test_one_sided_voters_that_abstain_bring_shares_closer_together():
    rows = [[0, -1, -1]] * 80 + [[-1, 1, -1]] * 10 + [[-1, -1, 2]] * 10
    balance = vote_balance(VoteMatrix.from_dense(rows, ["a", "b", "c"]))
    # All votes are one-sided and two of three abstain: shares to the power of 1 - (2/3) / 2.
    expected = np.array([0.8, 0.1, 0.1]) ** (2 / 3)
    assert balance == pytest.approx(expected / expected.sum(), abs=0.002)
