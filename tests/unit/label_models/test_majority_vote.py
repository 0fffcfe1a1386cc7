"""Majority vote and weighted vote."""

import numpy as np
import pandas as pd
import pytest

from wiesel import MajorityVote, VoteMatrix, WeightedVote, load_model
from wiesel.errors import ParameterError

TIED = VoteMatrix.from_dense([[0, 1, -1], [2, 2, 1], [-1, -1, -1]], ["a", "b", "c"])


def test_soft_votes_are_shares():
    proba = MajorityVote().fit(TIED).predict_proba(TIED)
    np.testing.assert_allclose(proba, [[0.5, 0.5, 0], [0, 1 / 3, 2 / 3], [1 / 3] * 3])


def test_hard_ties_are_split():
    proba = MajorityVote(hard=True).fit(TIED, [0.2, 0.3, 0.5]).predict_proba(TIED)
    np.testing.assert_allclose(proba, [[0.5, 0.5, 0], [0, 0, 1], [0.2, 0.3, 0.5]])


def test_hard_ties_may_go_to_the_first_class():
    proba = MajorityVote(hard=True, ties="lowest").fit(TIED).predict_proba(TIED)
    np.testing.assert_allclose(proba[:2], [[1, 0, 0], [0, 0, 1]])


def test_random_ties_follow_the_seed():
    votes = VoteMatrix.from_dense(np.tile([0, 1], (200, 1)), ["a", "b"])
    first = MajorityVote(hard=True, ties="random", seed=1).fit(votes).predict_proba(votes)
    again = MajorityVote(hard=True, ties="random", seed=1).fit(votes).predict_proba(votes)
    np.testing.assert_array_equal(first, again)
    assert 60 < first[:, 0].sum() < 140


def test_probabilistic_votes_count_as_much_as_they_say():
    votes = VoteMatrix.from_proba([[[0.6, 0.4], [0.1, 0.9]]], ["a", "b"])
    np.testing.assert_allclose(MajorityVote().fit(votes).predict_proba(votes), [[0.35, 0.65]])


def test_an_unknown_way_to_break_ties_is_refused(votes):
    with pytest.raises(ParameterError, match=r"ties.*'split', 'lowest', 'random'"):
        MajorityVote(ties="coin").fit(votes)


def test_weights_go_by_name():
    model = WeightedVote(weights={"voter_2": 1.0, "voter_0": 3.0, "voter_1": 0.0})
    proba = model.fit(TIED, [0.2, 0.3, 0.5]).predict_proba(TIED)
    # Item 0: only voter 0 weighs. Item 1: 3 for c, 1 for b. Item 2: nobody voted.
    np.testing.assert_allclose(proba, [[1, 0, 0], [0, 0.25, 0.75], [0.2, 0.3, 0.5]])
    np.testing.assert_array_equal(model.weights_, [3, 0, 1])


def test_votes_that_weigh_nothing_are_no_votes():
    votes = VoteMatrix.from_dense([[0, -1]], ["a", "b"])
    proba = WeightedVote(weights=[0, 1]).fit(votes, [0.3, 0.7]).predict_proba(votes)
    np.testing.assert_allclose(proba, [[0.3, 0.7]])


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ({"keyword": 1, "link": 1}, "leave out 'length'"),
        ({"keyword": 1, "link": 1, "lenght": 1}, "'lenght'.*Did you mean 'length'"),
        ([1, 2], "3 numbers"),
        ([1, 2, -1], "at least 0"),
        ([1, 2, float("nan")], "3 numbers"),
    ],
)
def test_weights_that_do_not_fit_the_voters_are_refused(votes, weights, words):
    with pytest.raises(ParameterError, match=words):
        WeightedVote(weights=weights).fit(votes)


@pytest.mark.parametrize(
    "weights", [{"keyword": 2.0, "link": 1.0, "length": 0.5}, [2, 1, 0.5], np.array([2, 1, 0.5])]
)
def test_weights_survive_saving(votes, tmp_path, weights):
    model = WeightedVote(weights=weights).fit(votes)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(votes), model.predict_proba(votes))


def test_weights_of_a_series_belong_to_the_voters_of_its_index() -> None:
    votes = VoteMatrix.from_dense([[0, 1, 1]], ["a", "b"], voters=["x", "y", "z"])
    weights = pd.Series([5.0, 2.0, 1.0], index=["x", "z", "y"])
    assert WeightedVote(weights=weights).fit(votes).weights_.tolist() == [5.0, 1.0, 2.0]
