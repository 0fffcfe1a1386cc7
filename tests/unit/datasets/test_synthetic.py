import tracemalloc

import numpy as np
import pytest

from wiesel.datasets.synthetic import make_features, make_votes, planted_confusions
from wiesel.errors import ParameterError


def test_the_same_seed_gives_the_same_votes_and_another_seed_others():
    first, gold = make_votes(500, 5, seed=3)
    second, same_gold = make_votes(500, 5, seed=3)
    assert first.equals(second)
    assert (gold == same_gold).all()
    assert not first.equals(make_votes(500, 5, seed=4)[0])


def test_votes_are_right_as_often_as_planted():
    accuracies = [0.55, 0.7, 0.95]
    votes, gold = make_votes(50_000, 3, 3, accuracies=accuracies, coverage=0.5)
    right = votes.class_index == gold[votes.item_index]
    measured = [right[votes.voter_index == j].mean() for j in range(3)]
    assert measured == pytest.approx(accuracies, abs=0.01)


def test_coverage_and_class_balance_are_as_planted():
    rates = [0.02, 0.3, 1.0]
    votes, gold = make_votes(50_000, 3, coverage=rates, class_balance=[0.9, 0.1])
    assert (np.bincount(votes.voter_index) / 50_000) == pytest.approx(rates, abs=0.01)
    assert np.bincount(gold) / 50_000 == pytest.approx([0.9, 0.1], abs=0.01)


def test_votes_follow_the_confusion_matrix():
    confusions = np.array([[[0.9, 0.1, 0.0], [0.0, 0.5, 0.5], [0.2, 0.2, 0.6]]])
    votes, gold = make_votes(50_000, 1, 3, accuracies=confusions, coverage=1.0)
    table = np.zeros((3, 3))
    np.add.at(table, (gold, votes.class_index), 1)
    assert np.allclose(table / table.sum(1, keepdims=True), confusions[0], atol=0.015)
    assert table[0, 2] == 0
    assert table[1, 0] == 0


def test_the_planted_confusions_are_the_default_of_make_votes():
    confusions = planted_confusions(7, 4)
    default, _ = make_votes(200, 7, 4)
    given, _ = make_votes(200, 7, 4, accuracies=confusions)
    assert default.equals(given)
    assert np.allclose(confusions.sum(axis=2), 1)


def test_nobody_votes_at_coverage_zero_and_everybody_at_one():
    assert make_votes(10, 3, coverage=0.0)[0].n_votes == 0
    assert make_votes(10, 3, coverage=1.0)[0].n_votes == 30


def test_memory_grows_with_the_votes_not_with_items_times_voters():
    tracemalloc.start()
    votes, _ = make_votes(20_000, 10_000, coverage=0.0005, seed=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert votes.n_votes == pytest.approx(100_000, rel=0.02)
    assert peak < 100e6  # a dense int8 table alone would need 200 MB


@pytest.mark.parametrize("wrong", [1.5, [0.5, 0.5], -0.1, [np.nan, 0.5, 0.5]])
def test_rates_that_are_no_rates_are_refused(wrong):
    with pytest.raises(ParameterError, match=r"coverage must be .* 3 of them"):
        make_votes(10, 3, coverage=wrong)
    with pytest.raises(ParameterError, match=r"accuracies must be .* 3 of them"):
        make_votes(10, 3, accuracies=wrong)


def test_confusions_that_are_no_distributions_are_refused():
    with pytest.raises(ParameterError, match="rows that sum to 1"):
        make_votes(10, 2, accuracies=np.ones((2, 2, 2)))
    with pytest.raises(ParameterError, match=r"\(2, 2, 2\)"):
        make_votes(10, 2, accuracies=np.full((3, 2, 2), 0.5))


@pytest.mark.parametrize("n_features", [2, 8])
def test_features_are_blobs_around_one_center_per_class(n_features):
    gold = np.tile(np.arange(4), 2000)
    features = make_features(gold, n_features, separation=5.0)
    centers = np.array([features[gold == c].mean(axis=0) for c in range(4)])
    assert np.linalg.norm(centers, axis=1) == pytest.approx(np.full(4, 5), abs=0.2)
    spread = np.array([features[gold == c].std(axis=0) for c in range(4)])
    assert spread == pytest.approx(np.ones((4, n_features)), abs=0.1)
    assert features.dtype == np.float32
