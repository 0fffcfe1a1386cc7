"""Triplet methods: the algebra, the readings, and voters without a triplet."""

import warnings

import numpy as np
import pytest

from wiesel import Triplet, VoteMatrix
from wiesel.datasets.synthetic import make_votes
from wiesel.errors import ParameterError, WieselWarning
from wiesel.label_models.triplet import (
    _Aggregate,
    _joint_of_agreements,
    _joint_of_differences,
    _repaired,
    find_partners,
    pair_sums,
    shuffled,
    solve_triplets,
)

READINGS = ("flyingsquid", "chen", "class_conditional")


def mean_of(n_voters):
    return _Aggregate("mean", list(range(n_voters)))


@pytest.mark.parametrize("how", ["mean", "median", "random"])
def test_exact_moments_give_the_exact_agreement(how):
    agreement = np.array([0.1, 0.25, 0.4, 0.55, 0.7])
    moments = np.outer(agreement, agreement)
    pick = _Aggregate(how, [3, 1, 4, 0, 2])
    solved = solve_triplets(moments, np.ones((5, 5)), pick, only_positive=False, most=1.0)
    np.testing.assert_allclose(solved, agreement, atol=1e-12)


def test_the_joint_is_the_one_the_votes_were_drawn_from():
    # A voter that votes on 60 % of the items, whatever the class, and is right in 80 %.
    prior, coverage, right = np.array([0.3, 0.7]), 0.6, 0.8
    truth = coverage * np.array([[right, 1 - right], [1 - right, right]]) * prior  # voted, true
    singles = truth.sum(axis=1)[None]
    agreement = np.full((1, 2), coverage * (2 * right - 1))
    joint = _joint_of_agreements(agreement, singles, prior)
    np.testing.assert_allclose(joint[0, 0], np.diag(truth), atol=1e-12)
    np.testing.assert_allclose(joint[1, 0], [truth[0, 1], truth[1, 0]], atol=1e-12)
    np.testing.assert_allclose(joint[2, 0], [truth[1, 0], truth[0, 1]], atol=1e-12)
    np.testing.assert_allclose(joint[3, 0], np.diag(truth)[::-1], atol=1e-12)
    np.testing.assert_allclose(joint.sum(axis=0), coverage)


def test_the_joint_of_differences_is_exact_for_lopsided_voters():
    # P(votes a | a) = 0.5, P(votes a | b) = 0.1; P(votes b | b) = 0.7, P(votes b | a) = 0.2.
    prior = np.array([0.4, 0.6])
    on_class, on_rest = np.array([0.5, 0.7]), np.array([0.1, 0.2])
    singles = (prior * on_class + (1 - prior) * on_rest)[None]
    joint = _joint_of_differences((on_class - on_rest)[None], singles, prior)
    np.testing.assert_allclose(joint[0, 0], prior * on_class)
    np.testing.assert_allclose(joint[1, 0], (1 - prior) * on_rest)
    # The votes for the other class are taken to say nothing about this one.
    np.testing.assert_allclose(joint[2, 0], prior * singles[0, ::-1])
    np.testing.assert_allclose(joint[3, 0], (1 - prior) * singles[0, ::-1])


def test_negative_probabilities_change_their_sign_or_become_tiny():
    joint = np.array([0.5, -0.1, 0.3, 0.3]).reshape(4, 1, 1)
    flipped = _repaired(joint, flip=True, least=1e-6).ravel()
    np.testing.assert_allclose(flipped, np.array([0.5, 0.1, 0.3, 0.3]) / 1.2)
    cut = _repaired(joint, flip=False, least=1e-6).ravel()
    np.testing.assert_allclose(cut, np.array([0.5, 1e-6, 0.3, 0.3]) / 1.100001)


def test_pair_sums_are_sums_of_products_of_signs():
    dense = np.array([[0, 1, 2], [2, 2, -1], [1, 1, 1], [-1, 0, 0], [2, 0, 1]])
    sums = pair_sums(VoteMatrix.from_dense(dense, ["a", "b", "c"]))
    for c in range(3):
        signs = np.where(dense < 0, 0, np.where(dense == c, 1, -1))
        np.testing.assert_array_equal(sums.signed[c], signs.T @ signs)
        np.testing.assert_array_equal(sums.both[c], (dense == c).T.astype(int) @ (dense == c))
    np.testing.assert_array_equal(sums.together, (dense >= 0).T.astype(int) @ (dense >= 0))


def test_chen_drops_triplets_with_a_negative_ratio():
    agreement = np.array([0.5, 0.5, 0.5, 0.5])
    moments = np.outer(agreement, agreement)
    moments[0, 1] = moments[1, 0] = -0.04
    ones = np.ones((4, 4))
    taken = solve_triplets(moments, ones, mean_of(4), only_positive=True, most=1.0)
    # Voter 2 has the pairs (0, 1), (0, 3), (1, 3): the first has a negative ratio.
    assert taken[2] == pytest.approx(0.5)
    folded = solve_triplets(moments, ones, mean_of(4), only_positive=False, most=10.0)
    # Its absolute value is sqrt(0.25 * 0.25 / 0.04) = 1.25; the others are 0.5.
    assert folded[2] == pytest.approx((1.25 + 0.5 + 0.5) / 3)


def test_roots_are_cut():
    moments = np.outer([0.9, 0.9, 0.9], [0.9, 0.9, 0.9])
    moments[1, 2] = moments[2, 1] = 0.01
    solved = solve_triplets(moments, np.ones((3, 3)), mean_of(3), only_positive=True, most=0.99)
    assert solved[0] == 0.99


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("aggregate", ["mean", "median"])
def test_planted_accuracies_are_found(reading, aggregate):
    accuracies = np.linspace(0.6, 0.9, 9)
    votes, gold = make_votes(
        30_000, 9, 2, accuracies=accuracies, coverage=0.6, class_balance=[0.7, 0.3], seed=1
    )
    model = Triplet(reading=reading, aggregate=aggregate).fit(votes, [0.7, 0.3])
    np.testing.assert_allclose(model.accuracies_, accuracies, atol=0.03)
    majority = votes.counts().argmax(axis=1)
    right = (model.predict_proba(votes).argmax(axis=1) == gold).mean()
    assert right > (majority == gold).mean() + 0.01


def test_class_conditional_triplets_find_lopsided_voters():
    confusions = np.tile([[0.95, 0.05], [0.4, 0.6]], (7, 1, 1))
    votes, _ = make_votes(40_000, 7, 2, accuracies=confusions, coverage=0.8, seed=2)
    model = Triplet(reading="class_conditional").fit(votes, [0.5, 0.5])
    found = np.exp(model.weights_)  # (voter, voted, class)
    np.testing.assert_allclose(found[:, 0, 0], 0.8 * 0.95, atol=0.03)
    np.testing.assert_allclose(found[:, 1, 1], 0.8 * 0.6, atol=0.03)
    np.testing.assert_allclose(found[:, 0, 1], 0.8 * 0.4, atol=0.03)


@pytest.mark.parametrize("reading", READINGS)
def test_many_classes_are_renormalized(reading):
    votes, gold = make_votes(4000, 10, 5, coverage=0.6, seed=3)
    proba = Triplet(reading=reading).fit(votes).predict_proba(votes)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert (proba.argmax(axis=1) == gold)[votes.covered].mean() > 0.9
    # Probabilities, not a softmax of probabilities: sure items are near 0 and 1.
    assert proba.max(axis=1).mean() > 0.8


@pytest.mark.parametrize("reading", ["flyingsquid", "chen"])
def test_a_voter_without_a_usable_triplet_falls_back_and_says_so(reading):
    votes, _ = make_votes(500, 5, 2, coverage=0.8, seed=4)
    dense = votes.dense()
    lonely = np.full((200, 6), -1)
    lonely[:, 5] = np.arange(200) % 2  # votes only where nobody else does
    dense = np.concatenate([np.column_stack([dense, np.full(500, -1)]), lonely])
    votes = VoteMatrix.from_dense(dense, ["a", "b"], [*"abcde", "lonely"])
    with pytest.warns(WieselWarning, match=r"'lonely'.*no usable triplet.*60 %"):
        model = Triplet(reading=reading).fit(votes)
    assert list(model.predict(votes)[500:504]) == ["a", "b", "a", "b"]


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("n_voters", [1, 2])
def test_fewer_than_three_voters_fall_back(n_voters, reading):
    votes = VoteMatrix.from_dense(np.array([[0, 0], [1, 1], [1, -1]])[:, :n_voters], ["a", "b"])
    with pytest.warns(WieselWarning, match="no usable triplet"):
        model = Triplet(reading=reading).fit(votes)
    assert list(model.predict(votes)) == ["a", "b", "b"]
    np.testing.assert_allclose(model.accuracies_, 0.6, atol=1e-3)


def test_the_random_order_depends_on_names_and_seed_only():
    names = [f"voter {j}" for j in range(20)]
    order = [names[j] for j in shuffled(names, seed=1)]
    assert order != names
    assert order == [names[::-1][j] for j in shuffled(names[::-1], seed=1)]
    assert order != [names[j] for j in shuffled(names, seed=2)]


def test_with_many_voters_each_meets_the_ones_it_shares_most_with(monkeypatch):
    monkeypatch.setattr("wiesel.label_models.triplet.MOST_PARTNERS", 6)
    accuracies = np.linspace(0.65, 0.9, 30)
    votes, _ = make_votes(20_000, 30, 2, accuracies=accuracies, coverage=0.5, seed=5)
    found = Triplet(aggregate="median").fit(votes).accuracies_
    np.testing.assert_allclose(found, accuracies, atol=0.04)


def test_wrong_options_are_refused(votes):
    with pytest.raises(ParameterError, match=r"aggregate.*'median'"):
        Triplet(aggregate="mode").fit(votes)
    with pytest.raises(ParameterError, match=r"reading.*'chen'"):
        Triplet(reading="chan").fit(votes)


def test_partners_do_not_depend_on_the_order_of_the_voters(monkeypatch):
    monkeypatch.setattr("wiesel.label_models.triplet.MOST_PARTNERS", 4)
    votes, _ = make_votes(300, 12, 2, coverage=1.0, seed=6)
    turned = votes.select(voters=votes.voters[::-1])
    np.testing.assert_allclose(
        Triplet().fit(votes).accuracies_, Triplet().fit(turned).accuracies_[::-1], atol=1e-12
    )


@pytest.mark.parametrize("reading", ["flyingsquid", "chen", "class_conditional"])
@pytest.mark.parametrize("rare", [1e-2, 1e-5])
def test_an_extreme_class_balance_never_flips_votes_for_its_own_class(reading, rare):
    votes, _ = make_votes(500, 8, 2, accuracies=0.85, coverage=0.9, seed=2)
    counts = votes.counts()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WieselWarning)
        proba = Triplet(reading=reading).fit(votes, [1 - rare, rare]).predict_proba(votes)
    for_the_common_class = votes.covered & (counts[:, 1] == 0)
    assert for_the_common_class.sum() > 50
    assert (proba[for_the_common_class].argmax(axis=1) == 0).all()


@pytest.mark.filterwarnings("ignore::wiesel.errors.WieselWarning")
def test_a_trusted_vote_is_evidence_for_its_own_class_whatever_the_class_balance():
    """log P(vote | its class) of a voter better than chance is above that of the rest."""
    votes, _ = make_votes(500, 8, 2, accuracies=0.85, coverage=0.9, seed=2)
    model = Triplet(reading="class_conditional").fit(votes, [1 - 1e-5, 1e-5])
    weights = model.weights_.reshape(8, 2, 2)  # voter, voted, class
    for_its_class = weights[:, [0, 1], [0, 1]] - weights[:, [0, 1], [1, 0]]
    assert for_its_class.min() == pytest.approx(1e-6, rel=1e-3), "some were below the least"
    assert (for_its_class > 0).all()


def test_a_class_balance_that_outweighs_all_votes_is_named_in_a_warning():
    votes, _ = make_votes(500, 3, 2, accuracies=0.85, coverage=1.0, seed=2)
    model = Triplet(reading="class_conditional").fit(votes, [1 - 1e-5, 1e-5])
    with pytest.warns(WieselWarning, match=r"all votes agree.*'class_0' at 0.99999, outweighs"):
        model.predict_proba(votes)


def test_very_many_voters_are_solved_with_a_panel(monkeypatch):
    votes, _ = make_votes(3000, 60, 2, coverage=0.3, seed=5)
    whole = Triplet().fit(votes).accuracies_
    monkeypatch.setattr("wiesel.label_models.triplet.MOST_PAIRS", 1000)
    monkeypatch.setattr("wiesel.label_models.triplet.PANEL_CELLS", 60 * 4 * 30)
    by_panel = Triplet().fit(votes).accuracies_
    np.testing.assert_allclose(by_panel, whole, atol=0.03)
    turned = Triplet().fit(votes.select(votes.voters[::-1])).accuracies_
    np.testing.assert_allclose(by_panel, turned[::-1], atol=1e-12)


def test_the_partners_of_ten_thousand_voters_are_bounded():
    partners = find_partners(np.ones((10_000, 2)), np.arange(10_000)[::-1])
    assert 16 <= len(partners) <= 256
    assert partners[-1] == 9999
    # One number per voter, partner and pair of classes: 256 MiB of them at most.
    partners = find_partners(np.ones((200_000, 2)), np.arange(200_000))
    assert 200_000 * len(partners) * 2**2 * 8 <= 2**28


@pytest.mark.filterwarnings("ignore::wiesel.errors.WieselWarning")
@pytest.mark.parametrize(("reading", "seed"), [("flyingsquid", 50), ("chen", 56)])
def test_only_a_voter_worse_than_chance_may_count_against_its_own_class(reading: str, seed: int):
    n_classes = 3 if reading == "flyingsquid" else 4
    rng = np.random.default_rng(seed)
    votes, _ = make_votes(
        200, 5, n_classes, accuracies=rng.uniform(0.05, 0.9, 5), coverage=0.8, seed=seed
    )
    model = Triplet(reading=reading).fit(votes, rng.dirichlet(np.full(n_classes, 2.0)))
    own = np.einsum("jcc->jc", model.weights_)
    others = np.where(np.eye(n_classes) == 1, -np.inf, model.weights_).max(axis=2)
    against = (own < others).any(axis=1)
    assert against.any()
    assert (model.accuracies_[against] < 1 / n_classes).all()


def test_the_prior_counts_as_its_odds_against_the_rest():
    votes, _ = make_votes(400, 5, 3, coverage=0.8, seed=4)
    balance = np.array([0.6, 0.3, 0.1])
    model = Triplet().fit(votes, class_balance=balance)
    odds = votes.one_hot() @ model.weights_.reshape(-1, 3) + np.log(balance / (1 - balance))
    expected = 1 / (1 + np.exp(-odds))
    expected /= expected.sum(axis=1, keepdims=True)
    covered = votes.covered
    np.testing.assert_allclose(model.predict_proba(votes)[covered], expected[covered], rtol=1e-9)


@pytest.mark.filterwarnings("ignore:Triplet. on:wiesel.errors.WieselWarning")
@pytest.mark.parametrize("reading", READINGS)
def test_a_voter_that_was_silent_in_training_says_nothing_later(reading: str):
    """Without votes nothing is known about it, so the posterior is that of the other votes."""
    dense = np.column_stack([make_votes(500, 5, 2, seed=4)[0].dense(), np.full(500, -1)])
    votes = VoteMatrix.from_dense(dense, ["a", "b"])
    dense[:, 5] = np.arange(500) % 2
    later = VoteMatrix.from_dense(dense, ["a", "b"])
    model = Triplet(reading=reading).fit(votes, class_balance=[0.8, 0.2])
    assert np.isnan(model.accuracies_[5])
    np.testing.assert_allclose(model.predict_proba(later), model.predict_proba(votes))
