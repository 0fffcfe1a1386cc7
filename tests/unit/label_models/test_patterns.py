"""Items with the same votes are folded into one pattern, where that saves work."""

import itertools

import numpy as np
import pytest

from wiesel import GLAD, DawidSkene, VoteMatrix
from wiesel.label_models import patterns
from wiesel.label_models.patterns import Patterns, _looks_repetitive, fold, fold_parts
from wiesel.labels import ABSTAIN
from wiesel.testing.label_models import _Parts
from wiesel.votes import VoteSource

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


def source(whole: VoteMatrix, *cuts: int) -> VoteSource:
    """The votes as parts that are only summed, like those in files."""
    return _Parts(whole, *cuts)


def rows_of(found: Patterns) -> list[tuple[list[int], int, float]]:
    rows = zip(found.votes.dense().tolist(), found.gold.tolist(), found.weights, strict=True)
    return sorted(rows)


def test_parts_have_the_patterns_of_the_whole():
    rng = np.random.default_rng(0)
    whole = votes(rng.choice([-1, -1, -1, 0, 1], size=(300, 4)))
    gold = {item: item % 2 for item in range(0, 300, 7)}
    found = fold_parts(source(whole, 1, 20, 120, 250), gold)
    assert found is not None
    expected = fold(whole, np.array([gold.get(item, ABSTAIN) for item in range(300)]))
    assert rows_of(found) == rows_of(expected)
    assert found.weights.sum() == 300


def test_probable_votes_are_one_pattern_only_if_their_probabilities_are_equal():
    half, most = [0.5, 0.5], [0.75, 0.25]
    nothing = [0.0, 0.0]
    proba = np.array([[half, nothing], [nothing, half], [most, nothing], [half, nothing]])
    whole = VoteMatrix.from_proba(proba, ["a", "b"])
    found = fold_parts(source(whole, 2), {})
    assert found is not None
    assert sorted(found.weights.tolist()) == [1, 1, 2]
    assert found.votes.distribution is not None
    twice = found.votes[int(np.argmax(found.weights))]
    assert twice.distribution is not None
    assert twice.distribution.tolist() == [half]
    assert twice.voter_index.tolist() == [0]


def test_more_patterns_than_memory_are_summed_at_every_step(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(0)
    whole = votes(rng.choice([-1, 0, 1], size=(200, 6)))
    model = DawidSkene(max_iter=5, tol=0.0)
    folded = model.fit(source(whole, 50, 90)).confusions_
    monkeypatch.setattr(patterns, "MOST_BYTES", 2_000)
    assert fold_parts(source(whole, 50, 90), {}) is None
    np.testing.assert_allclose(model.fit(source(whole, 50, 90)).confusions_, folded, rtol=1e-10)
    np.testing.assert_allclose(
        GLAD().fit(source(whole, 50)).abilities_, GLAD().fit(whole).abilities_
    )
