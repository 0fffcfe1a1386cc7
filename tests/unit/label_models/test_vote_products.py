"""Sparse products with votes: scores, counts of pairs, and folded patterns."""

import numpy as np
import pytest

from wiesel import VoteMatrix
from wiesel.datasets.synthetic import make_votes
from wiesel.label_models import pair_statistics, vote_products
from wiesel.label_models.expectation_maximization import VoteSums
from wiesel.label_models.pair_statistics import pair_counts
from wiesel.label_models.patterns import fold
from wiesel.label_models.vote_products import (
    LogJoint,
    item_scores,
    normalize_rows,
    one_hot_chunks,
    posterior,
    vote_totals,
)

PRODUCTS = (
    pair_statistics._sparse_product,
    pair_statistics._dense_product,
    pair_statistics._state_product,
)


@pytest.fixture
def probabilistic() -> VoteMatrix:
    array = np.random.default_rng(0).dirichlet([1, 1, 1], size=(20, 4))
    array[3] = 0
    array[5, 2] = 0
    return VoteMatrix.from_proba(array, ["a", "b", "c"])


def test_chunks_together_are_the_one_hot_votes(monkeypatch, probabilistic):
    hard, _ = make_votes(50, 6, 3, seed=1)
    for votes in (hard, probabilistic):
        chunks = list(one_hot_chunks(votes, chunk_votes=7))
        assert len(chunks) > 3
        together = np.concatenate([chunk.one_hot.toarray() for chunk in chunks])
        np.testing.assert_allclose(together, votes.one_hot().toarray())
        assert chunks[-1].rows.stop == votes.n_items


def test_every_third_chunk_is_a_sample_of_the_items():
    votes, _ = make_votes(90, 6, 3, seed=1)
    everything = list(one_hot_chunks(votes, chunk_votes=7))
    sample = list(one_hot_chunks(votes, chunk_votes=7, every=3))
    assert [chunk.rows for chunk in sample] == [chunk.rows for chunk in everything[::3]]


def test_no_items_are_one_empty_chunk(votes):
    (chunk,) = one_hot_chunks(votes[:0])
    assert chunk.one_hot.shape == (0, 6)


def test_scores_add_up_the_weights_of_the_votes(monkeypatch):
    votes, _ = make_votes(40, 5, 3, seed=2)
    weights = np.random.default_rng(0).normal(size=(15, 4))
    monkeypatch.setattr(vote_products, "CHUNK_VOTES", 16)
    np.testing.assert_allclose(item_scores(votes, weights), votes.one_hot().toarray() @ weights)


def test_the_posterior_of_an_uncovered_item_is_the_prior():
    votes = VoteMatrix.from_dense([[-1, -1], [0, 1]], ["a", "b"])
    prior = np.array([0.9, 0.1])
    proba = posterior(votes, LogJoint(np.zeros((4, 2)), np.zeros(2)), prior)
    # Weights that say nothing leave the second item at the offset, which is uniform here.
    np.testing.assert_allclose(proba, [[0.9, 0.1], [0.5, 0.5]])


def test_rows_are_normalized_however_small_they_are():
    log_joint = np.array([[-5000.0, -5000.0 + np.log(3)], [0.0, -np.inf]])
    evidence = normalize_rows(log_joint)
    np.testing.assert_allclose(log_joint, [[0.25, 0.75], [1, 0]])
    np.testing.assert_allclose(evidence, [-5000 + np.log(4), 0])


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_all_three_ways_count_pairs_alike(n_classes):
    votes, _ = make_votes(70, 7, n_classes, coverage=0.4, seed=3)
    dense = votes.one_hot().toarray()
    width = 7 * n_classes
    for product in PRODUCTS:
        counts = product(votes, slice(0, width), (width, width))
        np.testing.assert_array_equal(counts, dense.T @ dense, err_msg=product.__name__)


def test_pairs_of_probabilistic_votes_are_products_of_their_probabilities(probabilistic):
    ((_, counts),) = pair_counts(probabilistic)
    dense = probabilistic.one_hot().toarray()
    np.testing.assert_allclose(counts, dense.T @ dense, rtol=1e-5)
    np.testing.assert_allclose(vote_totals(probabilistic).ravel(), dense.sum(axis=0), rtol=1e-5)


def test_many_voters_are_counted_block_by_block(monkeypatch):
    votes, _ = make_votes(60, 9, 2, coverage=0.4, seed=4)
    ((_, whole),) = pair_counts(votes)
    monkeypatch.setattr(pair_statistics, "BLOCK_CELLS", 80)
    blocks = list(pair_counts(votes))
    assert [(block.start, block.stop) for block, _ in blocks] == [
        (0, 2),
        (2, 4),
        (4, 6),
        (6, 8),
        (8, 9),
    ]
    np.testing.assert_array_equal(np.concatenate([counts for _, counts in blocks]), whole)


@pytest.mark.parametrize(
    ("n_voters", "n_classes", "coverage", "expected"),
    [(100, 2, 0.01, 0), (100, 2, 0.6, 1), (50, 10, 0.5, 2)],
)
def test_the_way_of_counting_follows_the_density_of_the_votes(
    monkeypatch, n_voters, n_classes, coverage, expected
):
    votes, _ = make_votes(200, n_voters, n_classes, coverage=coverage, seed=5)
    used = []
    for number, product in enumerate(PRODUCTS):

        def spy(*arguments, number=number, product=product):
            used.append(number)
            return product(*arguments)

        monkeypatch.setattr(pair_statistics, product.__name__, spy)
    list(pair_counts(votes))
    assert used == [expected]


def test_folding_keeps_counts_and_tells_gold_items_apart():
    dense = [[0, 1]] * 5 + [[-1, -1]] * 2 + [[-1, 1]]
    votes = VoteMatrix.from_dense(dense, ["a", "b"])
    gold = np.array([-1, -1, 1, -1, 1, -1, -1, -1])
    patterns = fold(votes, gold)
    rows = {
        (*row, known): weight
        for row, known, weight in zip(
            patterns.votes.dense().tolist(),
            patterns.gold.tolist(),
            patterns.weights.tolist(),
            strict=True,
        )
    }
    assert rows == {(0, 1, -1): 3, (0, 1, 1): 2, (-1, -1, -1): 2, (-1, 1, -1): 1}


def test_folding_pays_only_where_patterns_repeat():
    few, _ = make_votes(6000, 3, 2, coverage=0.5, seed=6)
    many, _ = make_votes(6000, 60, 2, coverage=0.5, seed=6)
    assert len(fold(few, np.full(6000, -1)).votes) == 27
    assert fold(many, np.full(6000, -1)).votes is many


def test_expected_counts_are_the_same_folded_or_not(monkeypatch):
    votes, _ = make_votes(500, 3, 2, coverage=0.5, seed=7)
    joint = LogJoint(np.log(np.random.default_rng(0).uniform(size=(6, 2))), np.log([0.3, 0.7]))
    folded = VoteSums(votes).expect(joint)
    monkeypatch.setattr("wiesel.label_models.patterns.WORTH_FOLDING", 0.0)
    plain = VoteSums(votes).expect(joint)
    np.testing.assert_allclose(folded.votes, plain.votes)
    np.testing.assert_allclose(folded.covered, plain.covered)
    assert folded.evidence == pytest.approx(plain.evidence)
