"""The class balance from triples of groups of voters."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import softmax

from wiesel import VoteMatrix, estimate_class_balance
from wiesel.datasets.synthetic import make_votes
from wiesel.errors import WieselWarning
from wiesel.label_models import class_balance
from wiesel.label_models.class_balance import (
    NO_GAIN,
    _deal,
    _group_votes,
    _TripleCounts,
    _TripleModel,
)
from wiesel.label_models.vote_products import vote_totals


@pytest.mark.parametrize("balance", [(0.5, 0.5), (0.8, 0.2), (0.4, 0.3, 0.2, 0.1)])
@pytest.mark.parametrize(("n_voters", "coverage"), [(4, 0.9), (12, 0.5), (100, 0.03)])
def test_a_planted_balance_is_found(balance, n_voters, coverage):
    votes, _ = make_votes(
        20_000, n_voters, len(balance), coverage=coverage, class_balance=balance, seed=1
    )
    np.testing.assert_allclose(estimate_class_balance(votes), balance, atol=0.05)


def test_the_gradient_is_exact():
    votes, _ = make_votes(500, 6, 3, coverage=0.6, seed=2)
    groups = _deal(vote_totals(votes), votes.voters)
    (tables,) = votes.sum(_TripleCounts(groups, 1))
    model = _TripleModel(tables)
    logits = model.start() + np.random.default_rng(0).normal(size=len(model.start()))
    step = 1e-6 * np.eye(len(logits))
    numeric = [(model(logits + e)[0] - model(logits - e)[0]) / 2e-6 for e in step]
    np.testing.assert_allclose(model(logits)[1], numeric, atol=1e-8)


def test_triples_are_counted_with_abstains_as_an_outcome():
    votes = VoteMatrix.from_dense([[0, 1, -1], [0, 1, -1], [1, 1, 1], [-1, -1, -1]], ["a", "b"])
    (tables,) = votes.sum(_TripleCounts(np.array([0, 1, 2]), 1))
    assert tables.shape == (1, 3, 3, 3)
    assert tables[0, 0, 1, 2] == 2
    assert tables[0, 1, 1, 1] == 1
    assert tables[0, 2, 2, 2] == 1
    assert tables.sum() == 4


def test_a_group_says_what_most_of_it_say_and_nothing_on_a_tie():
    said = np.array([[[2, 1, 0, 3], [1, 1, 0, 0], [0, 0, 0, 3]]], dtype=np.float64)
    assert _group_votes(said).tolist() == [[0, 3, 3, 3]]


def test_groups_have_like_numbers_of_votes_for_every_class():
    totals = np.zeros((40, 2))
    totals[:20, 0] = totals[20:, 1] = np.arange(1, 21) * 10
    groups = _deal(totals, [f"voter {j:02}" for j in range(40)])
    per_group = np.array([totals[groups == g].sum(axis=0) for g in range(5)])
    assert per_group.min() > 0.8 * per_group.max()


def test_a_sample_of_the_items_is_enough(monkeypatch):
    votes, _ = make_votes(60_000, 30, 2, coverage=0.5, class_balance=[0.7, 0.3], seed=3)
    everything = estimate_class_balance(votes)
    monkeypatch.setattr(class_balance, "ENOUGH_ITEMS", 20_000)
    sample = estimate_class_balance(votes)
    assert (sample != everything).any()
    np.testing.assert_allclose(sample, everything, atol=0.02)


def test_votes_that_say_nothing_leave_the_classes_equal():
    rng = np.random.default_rng(4)
    votes = VoteMatrix.from_dense(rng.integers(0, 2, size=(300, 5)), ["a", "b"])
    np.testing.assert_allclose(estimate_class_balance(votes), 0.5, atol=0.25)
    silent = VoteMatrix.from_dense(np.full((5, 4), -1), ["a", "b"])
    np.testing.assert_allclose(estimate_class_balance(silent), 0.5)


def test_fewer_than_three_voters_give_the_shares_of_the_votes():
    votes = VoteMatrix.from_dense([[0, 0], [0, 1], [0, -1]], ["a", "b"])
    with pytest.warns(WieselWarning, match="at least three voters; there are 2"):
        balance = estimate_class_balance(votes)
    np.testing.assert_allclose(balance, [0.8, 0.2])


def test_no_class_is_ruled_out():
    dense = np.zeros((50, 4), dtype=int)
    balance = estimate_class_balance(VoteMatrix.from_dense(dense, ["a", "b", "c"]))
    assert (balance > 0).all()
    assert balance.sum() == pytest.approx(1)


def test_cells_that_occur_are_as_good_as_whole_tables(monkeypatch):
    votes, _ = make_votes(300, 6, 4, coverage=0.6, seed=2)
    groups = _deal(vote_totals(votes), votes.voters)
    (tables,) = votes.sum(_TripleCounts(groups, 1))
    monkeypatch.setattr(class_balance, "LOOK_UP_COST", 1e9)
    whole = _TripleModel(tables)
    monkeypatch.setattr(class_balance, "LOOK_UP_COST", 0)
    seen = _TripleModel(tables)
    assert whole.cells is None
    assert seen.cells is not None
    logits = whole.start() + np.random.default_rng(0).normal(size=len(whole.start()))
    (loss, gradient), (seen_loss, seen_gradient) = whole(logits), seen(logits)
    assert seen_loss == pytest.approx(loss, rel=1e-12)
    np.testing.assert_allclose(seen_gradient, gradient, atol=1e-12)


@pytest.mark.parametrize("cost", [0, 1e9])
def test_what_was_seen_and_is_held_impossible_costs_a_finite_loss(cost, monkeypatch):
    monkeypatch.setattr(class_balance, "LOOK_UP_COST", cost)
    votes = VoteMatrix.from_dense([[0, 1, 1], [1, 1, 1]], ["a", "b"])
    (tables,) = votes.sum(_TripleCounts(np.array([0, 1, 2]), 1))
    model = _TripleModel(tables)
    loss, gradient = model(1e4 * model.start())  # groups are always right
    # One of two items is impossible; its probability is taken as 1e-300. The other's is 1/2.
    assert loss == pytest.approx((300 * np.log(10) + np.log(2)) / 2)
    assert np.isfinite(gradient).all()


def test_the_start_has_equal_classes_and_groups_that_are_mostly_right():
    model = _TripleModel(np.ones((4, 4, 4, 4)))
    prior, outcomes = model.unpack(model.start())
    assert prior == pytest.approx(np.full(3, 1 / 3))
    # 7 right for 3 of each other class and 5 without an outcome.
    assert np.allclose(outcomes, np.array([[7, 3, 3, 5], [3, 7, 3, 5], [3, 3, 7, 5]]) / 18)


def test_the_work_for_many_classes_is_bounded_by_the_items():
    votes, _ = make_votes(1000, 7, 40, coverage=0.8, seed=0)
    groups = _deal(vote_totals(votes), votes.voters)
    (tables,) = votes.sum(_TripleCounts(groups, 1))
    model = _TripleModel(tables)
    assert tables.size == 10 * 41**3
    assert model.cells is not None
    assert len(model.cells[0]) <= 10 * 1000


def test_more_classes_than_can_be_learned_get_the_shares_of_the_votes():
    votes, _ = make_votes(2000, 7, 70, coverage=0.8, seed=0)
    with pytest.warns(WieselWarning, match="at most 64 classes .* there are 70"):
        found = estimate_class_balance(votes)
    shares = vote_totals(votes).sum(axis=0) / votes.n_votes
    np.testing.assert_allclose(found, shares, atol=0.001)


def test_the_estimate_is_shrunk_toward_equal_classes_by_a_likelihood_ratio():
    """Three voters on 400 items: the likelihoods and both maxima computed without the model."""
    confusions = np.tile([[0.8, 0.2], [0.25, 0.75]], (3, 1, 1))
    votes, _ = make_votes(
        400, 3, accuracies=confusions, coverage=1.0, class_balance=[0.65, 0.35], seed=4
    )
    cast = votes.dense()

    def loss(logits: np.ndarray, equal: bool = False) -> float:
        prior = np.array([0.5, 0.5]) if equal else softmax([logits[0], 0])
        right = 1 / (1 + np.exp(-logits[1:].reshape(3, 2)))  # P(right | class) of each voter
        of_class = [np.where(cast == c, right[:, c], 1 - right[:, c]).prod(axis=1) for c in (0, 1)]
        return -np.log(prior @ np.array(of_class)).sum()

    start = np.r_[0.0, np.full(6, np.log(7 / 3))]
    free = minimize(loss, start, tol=1e-9)
    equal = minimize(loss, start, args=(True,), tol=1e-9)
    gain, prior = 2 * (equal.fun - free.fun), softmax([free.x[0], 0])
    trust = 1 - NO_GAIN / gain
    assert 0.5 < trust < 0.9
    assert estimate_class_balance(votes) == pytest.approx(0.5 + trust * (prior - 0.5), abs=1e-3)


def test_a_sample_of_the_items_is_about_as_large_as_asked_for():
    """Whole chunks of 131,072 votes made it five times as large with 64 classes."""
    votes, _ = make_votes(60_000, 8, 2, coverage=0.5, seed=2)
    groups = _deal(vote_totals(votes), votes.voters)
    (tables,) = votes.sum(_TripleCounts(groups, 6))
    counted = tables.sum() / len(tables)
    assert 5_000 < counted < 20_000


@pytest.mark.filterwarnings("ignore::wiesel.errors.WieselWarning")
def test_without_votes_all_classes_are_equally_frequent():
    silent = VoteMatrix.from_dense(np.full((3, 2), -1), ["a", "b", "c", "d"])
    assert estimate_class_balance(silent).tolist() == [0.25] * 4
