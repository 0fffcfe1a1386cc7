"""Items with the same votes are folded into one pattern, where that saves work."""

import itertools

import numpy as np
import pytest

from wiesel import VoteMatrix
from wiesel.label_models import patterns
from wiesel.label_models.patterns import _looks_repetitive, fold
from wiesel.labels import ABSTAIN

EVERY = np.array(list(itertools.product([-1, 0, 1], repeat=4)))
"""81 items of four voters, all of them different."""


def votes(dense: np.ndarray) -> VoteMatrix:
    return VoteMatrix.from_dense(dense, ["a", "b"])


def test_items_with_the_same_votes_and_gold_are_one_pattern():
    dense = np.array([[0, 1], [1, 1], [0, 1], [-1, 1], [0, 1], [1, 1]])
    gold = np.array([ABSTAIN, ABSTAIN, ABSTAIN, ABSTAIN, 1, ABSTAIN])
    found = fold(votes(dense), gold)
    rows = zip(found.votes.dense().tolist(), found.gold.tolist(), found.weights, strict=True)
    expected = [([0, 1], -1, 2), ([1, 1], -1, 2), ([-1, 1], -1, 1), ([0, 1], 1, 1)]
    assert sorted(rows) == sorted(expected)


def test_distinct_items_are_left_as_they_are():
    found = fold(votes(EVERY), np.full(81, ABSTAIN))
    assert found.votes.dense().tolist() == EVERY.tolist()
    assert found.weights.tolist() == [1] * 81


def test_a_sample_tells_whether_items_repeat(monkeypatch: pytest.MonkeyPatch):
    assert _looks_repetitive(votes(EVERY))  # too few for a sample
    monkeypatch.setattr(patterns, "SAMPLE", 20)
    assert not _looks_repetitive(votes(EVERY))
    assert _looks_repetitive(votes(np.tile(EVERY[:3], (27, 1))))
