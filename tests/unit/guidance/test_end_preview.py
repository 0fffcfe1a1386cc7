import numpy as np
import pytest
from planted import LABELS, noisy_votes, planted

from wiesel import VoteMatrix
from wiesel.errors import FeatureError
from wiesel.guidance import preview_end_model


def test_the_preview_learns_the_planted_truth_and_reaches_items_without_votes():
    data = planted()
    votes = noisy_votes(data, (0.8, 0.8, 0.75), coverage=0.3)
    preview = preview_end_model(data.X, votes)
    right = preview.proba.argmax(axis=1) == data.gold
    assert right.mean() > 0.85
    assert right[~votes.covered].mean() > 0.8
    assert np.allclose(preview.proba.sum(axis=1), 1)


def test_a_good_voter_is_trusted_more_than_a_coin_and_a_liar_least():
    data = planted(600)
    trust = preview_end_model(data.X, noisy_votes(data, (0.9, 0.9, 0.5, 0.2))).trust
    assert trust[0] > trust[2] > trust[3]
    assert abs(trust[2] - 0.5) < 0.12


def test_a_voter_that_never_voted_has_unknown_trust():
    data = planted(40)
    dense = np.column_stack([data.gold, np.full(40, -1)])
    trust = preview_end_model(data.X, VoteMatrix.from_dense(dense, LABELS)).trust
    assert np.isnan(trust[1])
    assert not np.isnan(trust[0])


def test_gold_alone_is_enough():
    data = planted(100)
    nobody = VoteMatrix.from_dense(np.full((100, 1), -1), LABELS)
    gold = np.where(np.arange(100) < 20, data.gold, -1)
    preview = preview_end_model(data.X, nobody, gold)
    assert (preview.proba.argmax(axis=1) == data.gold).mean() > 0.75


def test_nothing_to_learn_from_says_what_to_do():
    nobody = VoteMatrix.from_dense(np.full((3, 1), -1), LABELS)
    with pytest.raises(FeatureError, match="write a labeling function, or label a row"):
        preview_end_model(np.zeros((3, 2)), nobody)


def test_features_of_other_items_are_refused(votes):
    with pytest.raises(FeatureError, match="features of 3 items, votes on 4"):
        preview_end_model(np.zeros((3, 2)), votes)


def test_permuting_the_classes_permutes_the_answer():
    data = planted(120)
    votes = noisy_votes(data, (0.8, 0.7))
    flipped = VoteMatrix.from_dense(
        np.where(votes.dense() >= 0, 1 - votes.dense(), -1), ["spam", "ham"], votes.voters
    )
    first, second = preview_end_model(data.X, votes), preview_end_model(data.X, flipped)
    assert np.allclose(first.proba, second.proba[:, ::-1], atol=1e-6)
