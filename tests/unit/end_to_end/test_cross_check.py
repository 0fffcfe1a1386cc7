"""Votes count as much as the features confirm them."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from wiesel import LabelSpace, MajorityVote, VoteMatrix
from wiesel.end_to_end import cross_fitting
from wiesel.end_to_end.cross_check import cross_checked, own_parts
from wiesel.training import as_inputs

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


def checked(X: object, votes: VoteMatrix, balance: np.ndarray = EVEN) -> np.ndarray | None:
    return cross_checked(votes, as_inputs(X), balance)


def accuracy(proba: np.ndarray | None, gold: np.ndarray) -> float:
    assert proba is not None
    return float((proba.argmax(axis=1) == gold).mean())


@pytest.mark.parametrize(
    ("accuracies", "copies"),
    [([1.0] + [0.5] * 10, 1), ([1.0, 0.5], 4), ([1.0, 0.5], 400)],
    ids=["ten coins", "four copies of a coin", "four hundred copies of a coin"],
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
    assert proba is not None
    assert proba[-1, 0] > 0.6


def test_copies_count_as_one_voter():
    _, votes, _ = task(0.8, 0.8, 0.8, copies=5)
    assert own_parts(votes) == pytest.approx([1, 1, *[0.2] * 5], abs=0.01)


def test_near_copies_count_in_part_and_good_voters_fully():
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 2, N_ITEMS)
    good = np.where(rng.random((N_ITEMS, 2)) < 0.85, gold[:, None], 1 - gold[:, None])
    near = np.where(rng.random(N_ITEMS) < 0.95, good[:, 0], 1 - good[:, 0])
    votes = VoteMatrix.from_dense(np.column_stack([good, near]), LabelSpace("no", "yes"))
    first, second, third = own_parts(votes)
    assert second == 1
    assert first == third == pytest.approx(1 / 1.75, abs=0.03)


def test_a_few_equal_votes_are_no_proof_of_copying():
    votes = VoteMatrix.from_dense([[0, 0]] * 6 + [[0, -1]] * 50, LabelSpace("no", "yes"))
    assert own_parts(votes).tolist() == [1, 1]
    rare = VoteMatrix.from_dense([[0, 0, -1]] * 6 + [[-1, -1, 0]] * 50, LabelSpace("no", "yes"))
    assert own_parts(rare).tolist() == [1, 1, 1]


def test_thousands_of_voters_are_not_compared():
    votes = VoteMatrix.from_dense(np.zeros((20, 3_001), dtype=int), LabelSpace("no", "yes"))
    assert own_parts(votes).tolist() == [1.0] * 3_001


def test_items_without_votes_have_the_class_balance():
    X, votes, _ = task(0.9, 0.7)
    dense = votes.dense().copy()
    dense[:20] = -1
    balance = np.array([0.4, 0.6])
    proba = checked(X, VoteMatrix.from_dense(dense, votes.labels), balance)
    assert proba is not None
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
    assert first is not None
    assert np.allclose(first, second, atol=0.02)


def test_sparse_features_and_small_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch):
    X, votes, _ = task(0.9, 0.6, 0.5)
    expected = checked(X.astype(np.float32), votes)
    monkeypatch.setattr(cross_fitting, "_AT_ONCE", 600)
    found = checked(sp.csr_array(X.astype(np.float32)), votes)
    assert expected is not None
    assert np.allclose(found, expected)


def test_a_sample_of_many_items_is_enough(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cross_fitting, "_MOST_FITTED", 300)
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
def test_features_that_cannot_tell_are_not_asked(features: object):
    _, votes, _ = task(0.9, 0.7)
    assert checked(features, votes) is None


def test_too_few_items_are_not_asked():
    X, votes, _ = task(0.9, 0.7)
    assert checked(X[:9], votes[np.arange(9)]) is None
