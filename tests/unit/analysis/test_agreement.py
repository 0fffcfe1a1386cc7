import sys
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from wiesel import VoteMatrix
from wiesel.analysis import agreement
from wiesel.analysis.agreement import pair_counts
from wiesel.errors import VoteError


def row(table, first, second):
    match = table.frame.filter((pl.col("first") == first) & (pl.col("second") == second))
    assert len(match) == 1
    return match.row(0, named=True)


def test_counts_and_kappa_of_a_hand_checked_pair():
    # Both vote on four items: a says 0 0 1 1, b says 0 1 1 1.
    dense = [[0, 0], [0, 1], [1, 1], [1, 1], [0, -1]]
    pair = row(agreement(VoteMatrix.from_dense(dense, ["x", "y"], ["a", "b"])), "a", "b")
    assert (pair["both"], pair["agree"], pair["agreement"]) == (4, 3, 0.75)
    # Chance: 1/2 * 1/4 + 1/2 * 3/4 = 1/2, so kappa = (3/4 - 1/2) / (1 - 1/2).
    assert pair["kappa"] == pytest.approx(0.5)
    # Five items have a vote of either, three have the same vote of both.
    assert pair["same"] == pytest.approx(0.6)


def test_voters_that_never_meet_are_no_pair():
    apart = VoteMatrix.from_dense([[0, -1], [-1, 0]], ["x", "y"])
    assert len(agreement(apart)) == 0


def test_kappa_is_unknown_where_both_always_say_the_same_class():
    pair = row(agreement(VoteMatrix.from_dense([[0, 0]] * 4, ["x", "y"], ["a", "b"])), "a", "b")
    assert pair["kappa"] is None
    assert pair["agreement"] == 1


def test_duplicates_and_near_duplicates_are_named():
    a = np.tile([0, 1], 20)
    nearly = a.copy()
    nearly[0] = 1
    other = np.repeat([0, 1], 20)
    votes = VoteMatrix.from_dense(
        np.column_stack([a, a, nearly, other]), ["x", "y"], ["a", "twin", "nearly", "other"]
    )
    table = agreement(votes)
    assert row(table, "a", "twin")["relation"] == "duplicate"
    assert row(table, "a", "nearly")["relation"] == "near-duplicate"  # 39 of 40
    assert row(table, "a", "other")["relation"] is None
    assert "1 duplicates, 2 near-duplicates" in table.caption
    assert row(agreement(votes, near=0.99), "a", "nearly")["relation"] is None


def test_voters_with_other_items_are_no_duplicates_though_they_always_agree():
    votes = VoteMatrix.from_dense([[0, 0]] * 4 + [[0, -1]] * 4, ["x", "y"], ["a", "b"])
    assert row(agreement(votes), "a", "b")["relation"] is None


def test_two_shared_votes_are_too_few_for_duplicates():
    votes = VoteMatrix.from_dense([[0, 0], [1, 1], [-1, -1]], ["x", "y"], ["a", "b"])
    assert row(agreement(votes), "a", "b")["relation"] is None


@pytest.mark.parametrize("coverage", [0.01, 0.5])
def test_sparse_and_dense_counting_equal_counting_by_hand(coverage):
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((300, 8)) < coverage, rng.integers(0, 3, (300, 8)), -1)
    pairs = pair_counts(VoteMatrix.from_dense(dense, ["x", "y", "z"]))
    assert len(pairs.first) > 0
    for k, (i, j) in enumerate(zip(pairs.first, pairs.second, strict=True)):
        a, b = dense[:, i], dense[:, j]
        both = (a >= 0) & (b >= 0)
        shares = [(a[both] == c).mean() * (b[both] == c).mean() for c in range(3)]
        assert pairs.both[k] == both.sum()
        assert pairs.agree[k] == (a == b)[both].sum()
        assert pairs.either[k] == ((a >= 0) | (b >= 0)).sum()
        assert pairs.chance[k] == pytest.approx(sum(shares))


def test_ten_thousand_sparse_voters_are_counted():
    rng = np.random.default_rng(0)
    n_items, n_voters = 5000, 10_000
    voter = np.sort(rng.integers(0, n_voters // 2, (n_items, 2)), axis=1) + np.array(
        [0, n_voters // 2]
    )
    votes = VoteMatrix(
        np.arange(n_items + 1) * 2,
        voter.ravel().astype(np.int32),
        rng.integers(0, 2, 2 * n_items).astype(np.int16),
        VoteMatrix.from_dense([[0]], ["x", "y"]).labels,
        tuple(f"w{j}" for j in range(n_voters)),
        np.arange(n_items),
    )
    assert agreement(votes).frame["both"].sum() == n_items


def test_pairs_that_do_not_fit_into_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 columns of one row are 200 million pairs, which ended the process."""
    together = VoteMatrix.from_dense(np.zeros((2, 200), int), ["ham", "spam"])
    apart = VoteMatrix.from_dense(np.where(np.eye(200), 0, -1), ["ham", "spam"])
    module = sys.modules["wiesel.analysis.agreement"]  # the function has the same name
    monkeypatch.setattr(module, "memory_size", lambda: 2**20)
    with pytest.raises(VoteError, match="19,900 pairs of the 200 voters vote together: too many"):
        agreement(together)
    assert agreement(apart).frame.is_empty()


def test_votes_in_parts_with_too_many_pairs_are_refused(monkeypatch):
    # 2 classes x 5 x 5 voters are 50 sums.
    source = SimpleNamespace(voters=tuple("abcde"), labels=("no", "yes"), parts=None)
    monkeypatch.setattr(sys.modules["wiesel.analysis.agreement"], "_SUMMED_CELLS", 49)
    with pytest.raises(VoteError, match="5 voters and 2 classes are too many"):
        pair_counts(source)
