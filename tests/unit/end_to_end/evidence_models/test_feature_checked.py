"""Votes count as much as the features confirm them."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from wiesel import FeatureChecked, LabelSpace, MajorityVote, VoteMatrix
from wiesel.end_to_end import linear_models
from wiesel.errors import FeatureError, WieselWarning

N_ITEMS = 1500
EVEN = np.array([0.5, 0.5])


def task(*accuracies: float, copies: int = 1, seed: int = 0):
    """Features, gold, and voters so often right; the last one is there in several copies."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, 2, N_ITEMS)
    X = rng.normal(size=(N_ITEMS, 6)) + 1.2 * (gold[:, None] == np.array([1, 0, 1, 0, 1, 0]))
    right = rng.random((N_ITEMS, len(accuracies))) < accuracies
    votes = np.where(right, gold[:, None], 1 - gold[:, None])
    votes = np.hstack([votes, *[votes[:, -1:]] * (copies - 1)])
    return X, VoteMatrix.from_dense(votes, LabelSpace("no", "yes")), gold


def checked(X: object, votes: VoteMatrix, balance: np.ndarray = EVEN) -> np.ndarray:
    return FeatureChecked().fit(votes, balance, X=X).predict_proba(votes, X)


def accuracy(proba: np.ndarray, gold: np.ndarray) -> float:
    return float((proba.argmax(axis=1) == gold).mean())


@pytest.mark.parametrize(
    ("accuracies", "copies"),
    [([1.0] + [0.5] * 10, 1), ([1.0, 0.5], 4)],
    ids=["ten coins", "four copies of a coin"],
)
def test_the_truth_is_found_among_coins(accuracies: list[float], copies: int):
    X, votes, gold = task(*accuracies, copies=copies)
    assert accuracy(MajorityVote().fit(votes).predict_proba(votes), gold) < 0.75
    assert accuracy(checked(X, votes), gold) > 0.97


def test_a_vote_that_the_features_contradict_counts_for_the_other_class():
    X, votes, _ = task(0.8, 0.8, 0.8, 0.8, 0.1)
    alone = np.full((1, 5), -1)
    alone[0, 4] = 1
    by_the_adversary = VoteMatrix.from_dense(alone, votes.labels, voters=votes.voters)
    together = VoteMatrix.concatenate([votes, by_the_adversary])
    proba = checked(np.vstack([X, np.zeros((1, 6))]), together)
    assert proba[-1, 0] > 0.6


def test_items_without_votes_have_the_class_balance():
    X, votes, _ = task(0.9, 0.7)
    dense = votes.dense().copy()
    dense[:20] = -1
    balance = np.array([0.4, 0.6])
    proba = checked(X, VoteMatrix.from_dense(dense, votes.labels), balance)
    assert np.allclose(proba[:20], balance)
    assert proba[20:].mean(axis=0) == pytest.approx(balance, abs=0.01)


def test_three_classes():
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 3, N_ITEMS)
    X = np.eye(3)[gold] + rng.normal(scale=0.7, size=(N_ITEMS, 3))
    coins = rng.integers(0, 3, (N_ITEMS, 5))
    votes = VoteMatrix.from_dense(np.hstack([gold[:, None], coins]), LabelSpace(*"abc"))
    assert accuracy(checked(X, votes, np.full(3, 1 / 3)), gold) > 0.97


def test_the_scale_of_the_features_does_not_matter():
    X, votes, _ = task(0.9, 0.6, 0.5)
    moved = np.hstack([1e6 + 1e3 * X, np.full((N_ITEMS, 1), 7.0)])
    first, second = checked(X.astype(np.float32), votes), checked(moved, votes)
    assert np.allclose(first, second, atol=0.02)


def test_sparse_features_and_small_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch):
    X, votes, _ = task(0.9, 0.6, 0.5)
    expected = checked(X.astype(np.float32), votes)
    monkeypatch.setattr(linear_models, "_AT_ONCE", 600)
    found = checked(sp.csr_array(X.astype(np.float32)), votes)
    assert np.allclose(found, expected)


def test_a_sample_of_many_items_is_enough(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(linear_models, "_MOST_FITTED", 300)
    X, votes, gold = task(1.0, *[0.5] * 6)
    assert accuracy(checked(X, votes), gold) > 0.97


@pytest.mark.parametrize(
    "features",
    [
        np.random.default_rng(5).normal(size=(N_ITEMS, 4)),
        np.zeros((N_ITEMS, 4)),
        torch.zeros(N_ITEMS, 3, 4, 4),
        np.zeros((N_ITEMS, 7), dtype=np.int64),
        np.zeros((N_ITEMS, 2_001), dtype=np.float32),
    ],
    ids=["noise", "constant", "images", "token ids", "too wide"],
)
def test_features_that_cannot_tell_leave_every_vote_the_same(features: object):
    _, votes, _ = task(0.9, 0.7)
    with pytest.warns(WieselWarning, match="do not confirm the votes") as caught:
        model = FeatureChecked().fit(votes, EVEN, X=features)
    assert caught[0].filename == __file__
    assert np.allclose(model.evidence_[0], model.evidence_[1])
    disagreed = votes.dense()[:, 0] != votes.dense()[:, 1]
    proba = model.predict_proba(votes)
    assert np.allclose(proba[disagreed], proba[disagreed][0])
    assert 0.4 < proba[disagreed][0, 0] < 0.6


def test_with_too_few_items_every_vote_is_the_same():
    X, votes, _ = task(0.9, 0.7)
    with pytest.warns(WieselWarning, match="do not confirm"):
        checked(X[:9], votes[np.arange(9)])


def test_without_features_it_says_what_is_missing():
    _, votes, _ = task(0.9, 0.7)
    with pytest.raises(FeatureError, match=r"fit\(votes, X=X\)"):
        FeatureChecked().fit(votes)


def test_a_batch_of_new_votes_is_read_with_what_was_learned():
    X, votes, _ = task(0.9, 0.7, 0.5)
    model = FeatureChecked().fit(votes, EVEN, X=X)
    assert np.array_equal(model.predict_proba(votes[:7]), model.predict_proba(votes)[:7])
