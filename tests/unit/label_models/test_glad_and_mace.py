"""GLAD and MACE: their oracles, and what they learn of planted crowds."""

import numpy as np
import pytest
from scipy.special import digamma, gammaln

from wiesel import GLAD, MACE, MajorityVote, VoteMatrix, rank_workers
from wiesel.datasets.synthetic import make_votes
from wiesel.errors import WieselWarning
from wiesel.label_models.glad import _best_abilities
from wiesel.label_models.mace import _confusions


def test_glad_with_equal_abilities_is_majority_vote():
    votes, _ = make_votes(200, 7, 3, coverage=0.7, seed=1)
    model = GLAD(max_iter=1).fit(votes)
    assert (model.abilities_ == 1).all()
    counts = votes.counts()
    winner = counts == counts.max(axis=1, keepdims=True)
    clear = votes.covered & (winner.sum(axis=1) == 1)
    labels = model.predict_proba(votes).argmax(axis=1)
    np.testing.assert_array_equal(labels[clear], counts[clear].argmax(axis=1))


def test_glad_is_bayes_rule_over_classes_and_easiness():
    votes, _ = make_votes(30, 4, 3, coverage=0.7, seed=2)
    balance = np.array([0.4, 0.3, 0.3])
    model = GLAD(max_iter=3).fit(votes, class_balance=balance)
    nodes, weights = np.polynomial.hermite_e.hermegauss(7)
    right = 1 / (1 + np.exp(-model.abilities_[:, None] * np.exp(1 + nodes)))
    for cast, found in zip(votes.dense(), model.predict_proba(votes), strict=True):
        for_class = [
            np.where((cast == c)[:, None], right, (1 - right) / 2)[cast >= 0].prod(axis=0)
            for c in range(3)
        ]
        joint = balance * (np.array(for_class) @ weights)
        np.testing.assert_allclose(found, joint / joint.sum(), rtol=1e-9)


def test_the_abilities_are_where_the_slope_is_zero():
    cast = np.random.default_rng(0).random((4, 7)) * 80
    right = cast * np.random.default_rng(1).random((4, 7))
    found = _best_abilities(right, cast, np.ones(4))
    assert np.abs(found - _best_abilities(right, cast, np.full(4, -2.0))).max() < 1e-6


@pytest.mark.parametrize("model", [GLAD(tol=0.0, max_iter=30), MACE(tol=0.0, max_iter=30)])
def test_the_evidence_never_decreases(model):
    votes, _ = make_votes(300, 6, 3, coverage=0.6, seed=3)
    evidence = np.array(model.fit(votes).evidence_)
    assert len(evidence) > 5
    assert (np.diff(evidence) > -1e-6 * np.abs(evidence[:-1])).all()


def test_glad_finds_abilities_adversaries_and_easy_items():
    accuracies = [0.95, 0.9, 0.85, 0.7, 0.5, 0.1]
    votes, _ = make_votes(1500, 6, accuracies=accuracies, coverage=1.0, seed=4)
    model = GLAD().fit(votes)
    assert (np.diff(model.abilities_) < 0).all()
    assert model.abilities_[5] < 0
    good = votes.select(voters=votes.voters[:3])
    easiness = GLAD().fit(good).easiness(good)
    agreed = good.counts().max(axis=1) == 3
    assert easiness[agreed].min() > easiness[~agreed].max()


def test_mace_calls_habits_by_their_name():
    votes, gold = make_votes(1000, 6, 3, accuracies=0.8, coverage=1.0, seed=5)
    dense = votes.dense()
    dense[:, 0], dense[:, 1] = 2, gold
    model = MACE().fit(VoteMatrix.from_dense(dense, votes.labels, votes.voters))
    assert model.competences_[0] < 0.05
    assert model.habits_[0, 2] > 0.95
    assert model.competences_[1] > 0.95
    # A voter that is right in 80 % knows 70 % and guesses right in a third of the rest.
    np.testing.assert_allclose(model.competences_[2:], 0.7, atol=0.08)


def test_mace_is_the_papers_unless_it_learns_the_class_balance():
    # With a uniform balance, votes for a very common class look like habits.
    accuracies = [0.9, 0.8, 0.75, 0.7, 0.65]
    votes, gold = make_votes(
        1500, 5, accuracies=accuracies, coverage=1.0, class_balance=[0.9, 0.1], seed=8
    )
    paper, learned = MACE().fit(votes), MACE(learn_class_balance=True).fit(votes)
    np.testing.assert_array_equal(paper.class_balance_, [0.5, 0.5])
    assert abs(learned.class_balance_[1] - 0.1) < 0.03
    right = [
        (model.predict_proba(votes).argmax(axis=1) == gold).mean() for model in (paper, learned)
    ]
    assert right[1] > right[0] + 0.03


def test_mace_takes_the_steps_of_variational_bayes():
    # Two voters and two items, one vote each way; all formulas of the docstring by hand.
    votes = VoteMatrix.from_dense([[0, 0], [0, 1]], ["a", "b"])
    model = MACE(max_iter=1, competence_prior=0.5, habit_prior=10.0).fit(votes)
    # Majority: item 0 is "a", item 1 either. Voter 0 voted "a" twice: its habit starts at
    # (2.5, 0.5) / 3, so a right vote for "a" was known with probability 1 / (1 + 5/6) = 6/11.
    known = 1.5 * 6 / 11
    np.testing.assert_allclose(model.known_votes_[0], [known + 0.5, 2 - known + 0.5])
    np.testing.assert_allclose(model.habit_votes_[0], [2 - known + 10, 10])
    t, s = np.exp(digamma(model.known_votes_[0]) - digamma(3.0))
    h = np.exp(digamma(model.habit_votes_[0]) - digamma(model.habit_votes_[0].sum()))
    of_a_vote_for_a = np.exp(model._log_joint().weights[0])
    np.testing.assert_allclose(of_a_vote_for_a, [t + s * h[0], s * h[0]])


def test_maces_confusions_are_distributions_and_rank_workers():
    known = np.array([0.0, 0.6, 1.0])
    confusions = _confusions(known, 1 - known, np.array([[0.2, 0.8]] * 3))
    np.testing.assert_allclose(confusions.sum(axis=2), 1)
    np.testing.assert_allclose(confusions[1], [[0.68, 0.32], [0.08, 0.92]])
    votes, _ = make_votes(400, 4, accuracies=[0.9, 0.85, 0.8, 0.5], coverage=1.0, seed=6)
    flags = dict(rank_workers(MACE().fit(votes), votes).frame.select("voter", "flag").rows())
    assert flags == {"voter_0": "", "voter_1": "", "voter_2": "", "voter_3": "spammer"}


@pytest.mark.parametrize("model", [GLAD(), MACE()])
def test_spammers_cost_less_than_in_a_majority_vote(model):
    accuracies = [0.9, 0.85, 0.8, 0.5, 0.5, 0.5, 0.5]
    votes, gold = make_votes(1500, 7, accuracies=accuracies, coverage=0.8, seed=7)
    ours = (model.fit(votes).predict_proba(votes).argmax(axis=1) == gold).mean()
    majority = (MajorityVote().fit(votes).predict_proba(votes).argmax(axis=1) == gold).mean()
    assert ours > majority + 0.03


@pytest.mark.parametrize("model", [GLAD(), MACE()])
def test_a_balance_that_makes_all_voters_liars_is_warned_about(model):
    """Under it the first labels are wrong already, and every voter seems to lie."""
    votes = VoteMatrix.from_dense(np.ones((30, 5), int), ["ham", "spam"])
    with pytest.warns(WieselWarning, match="100 % of the items with votes ended up as 'ham'"):
        labels = model.fit(votes, [1 - 1e-5, 1e-5]).predict_proba(votes).argmax(axis=1)
    assert (labels == 0).all()


def test_the_evidence_of_mace_is_the_bound_of_its_variational_inference():
    votes, _ = make_votes(40, 4, 3, coverage=0.7, seed=5)
    balance = np.array([0.5, 0.3, 0.2])
    model = MACE(max_iter=4, tol=0.0).fit(votes, class_balance=balance)
    by_class = _confusions(*model._geometric_means())
    bound = 0.0
    for cast in votes.dense():
        voted = [by_class[j, :, c] for j, c in enumerate(cast) if c >= 0]
        bound += np.log((balance * np.prod(voted, axis=0)).sum()) if voted else 0.0
    for found, prior in (
        (model.known_votes_, model.competence_prior),
        (model.habit_votes_, model.habit_prior),
    ):
        for a in found:  # Kullback-Leibler divergence of two Dirichlet distributions
            b = np.full(len(a), prior)
            bound -= gammaln(a.sum()) - gammaln(a).sum() - gammaln(b.sum()) + gammaln(b).sum()
            bound -= (a - b) @ (digamma(a) - digamma(a.sum()))
    assert model.evidence_[-1] == pytest.approx(bound, rel=1e-9)
