"""Dependent voters are found from their votes; independent ones are not."""

import numpy as np
import pytest

from wiesel import VoteMatrix
from wiesel.datasets.synthetic import make_votes
from wiesel.label_models import dependence, find_dependencies

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
