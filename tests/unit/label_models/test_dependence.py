"""Dependent voters are found from their votes; independent ones are not."""

import numpy as np
import pytest

from wiesel import VoteMatrix
from wiesel.datasets.synthetic import make_votes
from wiesel.label_models import dependence, find_dependencies
from wiesel.label_models.dependence import _agreements, _alike, _excess, _probable_classes

N_ITEMS = 1500


def planted(kind: str, n_classes: int = 2, seed: int = 0) -> VoteMatrix:
    """Six independent voters, then five dependent ones: a block of copies, or a chain."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(n_classes, size=N_ITEMS)

    def noisy(of, right):
        other = (of + rng.integers(1, n_classes, size=N_ITEMS)) % n_classes
        return np.where(rng.random(N_ITEMS) < right, of, other)

    columns = [noisy(gold, 0.75) for _ in range(6)]
    source = noisy(gold, 0.65)
    for _ in range(5):
        if kind == "block":
            columns.append(noisy(source, 0.9))
        else:
            columns.append(source)
            source = np.where(rng.random(N_ITEMS) < 0.5, source, noisy(gold, 0.65))
    return VoteMatrix.from_dense(np.stack(columns, axis=1), [f"c{c}" for c in range(n_classes)])


@pytest.mark.parametrize("n_classes", [2, 4])
def test_a_block_of_noisy_copies_is_joined_and_nobody_else(n_classes):
    pairs = find_dependencies(planted("block", n_classes))
    assert set(pairs.ravel()) == {6, 7, 8, 9, 10}
    assert len(pairs) >= 5


def test_a_chain_is_found_link_by_link():
    pairs = {tuple(pair) for pair in find_dependencies(planted("chain")).tolist()}
    assert {(6, 7), (7, 8), (8, 9), (9, 10)} <= pairs
    assert min(min(pair) for pair in pairs) >= 6


@pytest.mark.parametrize("coverage", [0.2, 1.0])
def test_independent_voters_are_not_joined(coverage):
    votes, _ = make_votes(N_ITEMS, 12, 3, coverage=coverage, seed=3)
    assert len(find_dependencies(votes)) <= 1


def test_at_most_so_many_pairs_are_brought_in_by_each_voter():
    assert len(find_dependencies(planted("block"), neighbors=1)) <= 5


def test_the_order_of_voters_does_not_matter():
    votes = planted("block")
    names = votes.voters
    turned = votes.select(names[::-1])
    expected = {frozenset((names[a], names[b])) for a, b in find_dependencies(votes)}
    found = {frozenset((names[10 - a], names[10 - b])) for a, b in find_dependencies(turned)}
    assert expected == found


def test_too_few_votes_or_too_many_voters_give_no_pairs(monkeypatch):
    silent = VoteMatrix.from_dense(np.full((4, 5), -1), ["no", "yes"])
    assert find_dependencies(silent).shape == (0, 2)
    assert find_dependencies(planted("block").select(["voter_6", "voter_7"])).shape == (0, 2)
    monkeypatch.setattr(dependence, "_MOST_VOTERS", 10)
    assert find_dependencies(planted("block")).shape == (0, 2)


def test_the_steps_are_their_formulas_voter_by_voter():
    """Three classes and four voters that often abstain, with loops."""
    rng = np.random.default_rng(1)
    dense = rng.integers(-1, 3, (12, 4))
    dense[5] = -1
    votes = VoteMatrix.from_dense(dense, ["a", "b", "c"])
    weights = np.array([1.0, 0.5, 0.25, 2.0])
    indicators = np.stack([dense == c for c in range(3)]).astype(float)  # (class, item, voter)

    together = np.array(
        [[(indicators[:, :, j] * indicators[:, :, k]).sum() for k in range(4)] for j in range(4)]
    )
    assert np.allclose(_agreements(votes), together)

    # The squared correlations of voters: covariances of their votes for each class, added up.
    shares = indicators.mean(axis=1)
    covariance = together / 12 - shares.T @ shares
    correlation = covariance / np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    assert np.allclose(_alike(votes, together), np.square(correlation).sum(axis=1))

    start = np.full((12, 3), 1 / 3)
    for item in np.flatnonzero((dense >= 0).any(axis=1)):
        cast = [(j, u) for j, u in enumerate(dense[item]) if u >= 0]
        own = [sum(weights[j] for j, u in cast if u == c) for c in range(3)]
        start[item] = np.array(own) / sum(own)
    scores = np.tile(np.log(start.mean(axis=0)), (12, 1))
    for j in range(4):
        counts = np.array([start[dense[:, j] == u].sum(axis=0) for u in range(3)]) + 1 / 3
        likelihood = counts / counts.sum(axis=0)  # P(voted | class): columns sum to 1
        for item in np.flatnonzero(dense[:, j] >= 0):
            scores[item] += weights[j] * np.log(likelihood[dense[item, j]])
    q = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    assert np.allclose(_probable_classes(votes, weights), q)

    rates = np.array(
        [[q[dense[:, j] == u].sum(axis=0) / q.sum(axis=0) for u in range(3)] for j in range(4)]
    )
    for j in range(4):
        for k in range(j):
            expected = (q.sum(axis=0) * rates[j] * rates[k]).sum()
            excess = (together[j, k] - expected) / np.sqrt(expected + 1)
            assert _excess(votes, together, weights)[j, k] == pytest.approx(excess)


def test_what_cannot_have_dependent_pairs_has_none():
    two = VoteMatrix.from_dense(np.tile([0, 1], (50, 1)), ["a", "b"])
    silent = VoteMatrix.from_dense(np.full((50, 4), -1), ["a", "b"])
    assert find_dependencies(two).shape == find_dependencies(silent).shape == (0, 2)
    assert len(find_dependencies(planted("block"))) > 0
    assert find_dependencies(planted("block"), neighbors=0).shape == (0, 2)
