"""Snorkel's label model: moments, loss, optimizers, and what it does with little data."""

import numpy as np
import pytest
import scipy.sparse as sp

from wiesel import MajorityVote, Snorkel, VoteMatrix
from wiesel.datasets.synthetic import make_votes
from wiesel.errors import ParameterError, WieselWarning
from wiesel.label_models import moment_matching, pair_statistics
from wiesel.label_models.moment_matching import MomentLoss, Moments, VotePairs, moments_of
from wiesel.label_models.snorkel import FITS_WELL, _evenly_wrong, _start

GRID = [
    (100, 0.01, 0.0),
    (200, 0.05, 0.0),
    (2000, 0.0003, 0.0),
    (500, 0.003, 0.0),
    (1000, 0.003, 0.1),
    (5000, 0.01, 0.0),
]
"""The six settings (epochs, lr, l2) that the WeaSEL paper chose among."""


def population(n_voters=4, n_classes=3, seed=0):
    """The exact moments of voters with random P(vote | class), and those probabilities."""
    rng = np.random.default_rng(seed)
    prior = rng.dirichlet(np.full(n_classes, 5.0))
    outcomes = rng.dirichlet(np.ones(n_classes + 1), size=(n_voters, n_classes))
    mu = outcomes[:, :, :-1].transpose(0, 2, 1).reshape(-1, n_classes)
    pairs = (mu * prior) @ mu.T
    for j in range(n_voters):
        own = slice(j * n_classes, (j + 1) * n_classes)
        pairs[own, own] = 0
    singles = (mu @ prior).reshape(n_voters, n_classes)
    return Moments(pairs, singles, 10**9), prior, mu


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_the_loss_at_the_truth_is_zero(n_classes):
    moments, prior, mu = population(n_classes=n_classes)
    loss, gradient = MomentLoss(moments, prior, mu, 0.0)(mu)
    assert loss == pytest.approx(0, abs=1e-14)
    np.testing.assert_allclose(gradient, 0, atol=1e-12)


def test_the_loss_is_the_one_of_the_paper():
    moments, prior, _ = population()
    rng = np.random.default_rng(1)
    mu, start = rng.uniform(size=(2, 12, 3))
    mask = np.kron(1 - np.eye(4), np.ones((3, 3)))
    expected = np.sum((mask * (moments.pairs - (mu * prior) @ mu.T)) ** 2)
    expected += np.sum((mu @ prior - moments.singles.ravel()) ** 2)
    expected += np.sum((0.3 * (mu - start)) ** 2)
    loss, _ = MomentLoss(moments, prior, start, 0.3)(mu)
    assert loss == pytest.approx(expected, rel=1e-12)


def test_the_gradient_is_exact():
    moments, prior, _ = population()
    rng = np.random.default_rng(2)
    mu, start = rng.uniform(size=(2, 12, 3))
    loss = MomentLoss(moments, prior, start, 0.3)
    step = 1e-6 * np.eye(mu.size).reshape(-1, *mu.shape)
    numeric = [(loss(mu + e)[0] - loss(mu - e)[0]) / 2e-6 for e in step]
    np.testing.assert_allclose(loss(mu)[1].ravel(), numeric, rtol=1e-6, atol=1e-8)


def test_the_moments_are_frequencies_of_pairs_of_votes():
    votes = VoteMatrix.from_dense([[0, 0, -1], [0, 1, -1], [1, 1, 1], [-1, 1, 0]], ["a", "b"])
    moments = moments_of(votes)
    np.testing.assert_allclose(moments.singles, [[0.5, 0.25], [0.25, 0.75], [0.25, 0.25]])
    assert moments.pairs[0, 2] == 0.25  # voters 0 and 1 both vote a on item 0
    assert moments.pairs[3, 4] == 0.25  # voter 1 votes b and voter 2 votes a on item 3
    assert moments.pairs[0, 1] == 0  # two votes of one voter are no pair
    np.testing.assert_array_equal(moments.pairs, moments.pairs.T)


def test_moments_of_many_voters_are_sparse_and_the_same(monkeypatch):
    votes, _ = make_votes(400, 30, 2, coverage=0.1, seed=3)
    dense = moments_of(votes)
    whole = Snorkel(optimizer="sgd").fit(votes).predict_proba(votes)
    monkeypatch.setattr(pair_statistics, "BLOCK_CELLS", 1000)
    in_blocks = moments_of(votes)
    assert sp.issparse(in_blocks.pairs)
    np.testing.assert_array_equal(in_blocks.pairs.toarray(), dense.pairs)
    assert in_blocks.noise == pytest.approx(dense.noise)
    blocks = Snorkel(optimizer="sgd").fit(votes).predict_proba(votes)
    np.testing.assert_allclose(blocks, whole, atol=1e-9)


def test_estimates_converge_with_the_number_of_items():
    accuracies = np.linspace(0.6, 0.9, 8)
    errors = []
    for n_items in (1_000, 16_000, 256_000):
        squares = []
        for seed in range(3):
            votes, _ = make_votes(n_items, 8, 2, accuracies=accuracies, coverage=0.7, seed=seed)
            found = Snorkel(smoothing=0).fit(votes, [0.5, 0.5]).accuracies_
            squares.append(np.mean((found - accuracies) ** 2))
        errors.append(np.sqrt(np.mean(squares)))
    # n^-1/2: sixteen times the items, a fourth of the error, give or take.
    assert 2.5 < errors[0] / errors[1] < 6.5
    assert 2.5 < errors[1] / errors[2] < 6.5


@pytest.mark.parametrize(("epochs", "lr", "l2"), GRID)
def test_the_settings_of_the_weasel_paper_can_be_expressed(epochs, lr, l2):
    votes, gold = make_votes(600, 8, 2, coverage=0.5, seed=5)
    model = Snorkel(optimizer="sgd", epochs=epochs, lr=lr, l2=l2).fit(votes)
    assert len(model.loss_) == epochs + 1
    assert model.loss_[-1] < model.loss_[0]
    assert (model.predict_proba(votes).argmax(axis=1) == gold)[votes.covered].mean() > 0.75


def test_one_step_of_sgd_is_a_step_down_the_gradient():
    votes, _ = make_votes(300, 5, 2, coverage=0.6, seed=6)
    moments, prior = moments_of(votes), np.array([0.5, 0.5])
    scale = np.random.default_rng(9).uniform()
    start = np.zeros((10, 2))
    start[np.arange(10), np.arange(10) % 2] = 0.7 * moments.singles.ravel() / 0.5
    _, gradient = MomentLoss(moments, prior, start, 0.1)(start * scale)
    # Weight decay is the second use that Snorkel makes of l2.
    expected = start * scale - 0.05 * (gradient + 0.1 * start * scale)
    model = Snorkel(optimizer="sgd", epochs=1, lr=0.05, l2=0.1, seed=9).fit(votes)
    found = model.conditionals_.transpose(0, 2, 1).reshape(10, 2)
    np.testing.assert_allclose(found, np.clip(expected, 0.001, 0.999), rtol=1e-4)


def test_steps_that_explode_are_shortened_and_said():
    votes, _ = make_votes(300, 40, 2, coverage=1.0, seed=7)
    with pytest.warns(WieselWarning, match=r"lr=2\.0 made the loss explode"):
        model = Snorkel(optimizer="sgd", lr=2.0).fit(votes)
    assert np.isfinite(model.loss_[-1])
    assert np.isfinite(model.predict_proba(votes)).all()


def test_adam_lowers_the_loss():
    votes, _ = make_votes(600, 8, 3, coverage=0.5, seed=8)
    model = Snorkel(optimizer="adam", epochs=200).fit(votes)
    assert model.loss_[-1] < 0.5 * model.loss_[0]


def test_the_class_balance_is_not_estimated_from_dependent_voters():
    votes, _ = make_votes(5000, 8, 2, coverage=0.5, class_balance=[0.7, 0.3], seed=9)
    independent = Snorkel().fit(votes)
    assert independent.misfit_ < FITS_WELL
    assert independent.class_balance_[0] > 0.65
    copies = np.concatenate([votes.dense()] + [votes.dense()[:, :3]] * 3, axis=1)
    dependent = Snorkel().fit(VoteMatrix.from_dense(copies, votes.labels))
    assert dependent.misfit_ > 10
    np.testing.assert_array_equal(dependent.class_balance_, [0.5, 0.5])


def test_a_skewed_class_balance_is_estimated_where_voters_are_independent():
    votes, gold = make_votes(20_000, 12, 2, coverage=0.5, class_balance=[0.8, 0.2], seed=10)
    model = Snorkel().fit(votes)
    np.testing.assert_allclose(model.class_balance_, [0.8, 0.2], atol=0.02)
    right = (model.predict_proba(votes).argmax(axis=1) == gold)[votes.covered].mean()
    majority = MajorityVote().fit(votes).predict_proba(votes).argmax(axis=1)
    assert right > (majority == gold)[votes.covered].mean() + 0.01


@pytest.mark.parametrize("n_voters", [1, 2])
def test_one_and_two_voters_fall_back_and_say_so(n_voters):
    dense = np.array([[0, 0], [1, 1], [0, 1], [-1, 1], [-1, -1]])[:, :n_voters]
    votes = VoteMatrix.from_dense(dense, ["a", "b"])
    with pytest.warns(WieselWarning, match=f"at least three voters; there are {n_voters}"):
        model = Snorkel().fit(votes)
    proba = model.predict_proba(votes)
    # One vote with the assumed precision of 70 %.
    assert proba[3, 1] == pytest.approx(0.7 if n_voters == 2 else 0.5, abs=1e-4)
    assert proba[0, 0] > 0.69
    np.testing.assert_allclose(proba[4], 0.5)
    assert np.isnan(model.misfit_)


def test_voters_that_never_meet_fall_back_and_say_so():
    votes = VoteMatrix.from_dense([[0, -1, -1], [-1, 1, -1], [-1, -1, 0]], ["a", "b"])
    with pytest.warns(WieselWarning, match="no two of these do"):
        model = Snorkel().fit(votes)
    assert list(model.predict(votes)) == ["a", "b", "a"]


@pytest.mark.parametrize("optimizer", ["lbfgs", "sgd", "adam"])
@pytest.mark.parametrize("coverage", [0.02, 0.3])
def test_no_label_goes_against_a_unanimous_vote(optimizer, coverage):
    for seed, balance in enumerate(([0.5, 0.5], [0.85, 0.15], [0.6, 0.3, 0.1])):
        votes, _ = make_votes(
            800, 20, len(balance), coverage=coverage, class_balance=balance, seed=seed
        )
        counts = votes.counts()
        unanimous = votes.covered & (counts.max(axis=1) == votes.votes_per_item)
        assert unanimous.sum() > 20
        label = Snorkel(optimizer=optimizer).fit(votes).predict_proba(votes).argmax(axis=1)
        np.testing.assert_array_equal(label[unanimous], counts.argmax(axis=1)[unanimous])


def test_a_given_class_balance_may_overrule_unless_told_otherwise():
    votes, _ = make_votes(3000, 20, 2, coverage=0.05, class_balance=[0.95, 0.05], seed=11)
    counts = votes.counts()
    lone = (counts[:, 1] == 1) & (votes.votes_per_item == 1)
    bayes = Snorkel().fit(votes, [0.95, 0.05])
    with pytest.warns(WieselWarning, match=r"'class_0' at 0.95, outweighs all votes"):
        proba = bayes.predict_proba(votes)
    assert (proba[lone].argmax(axis=1) == 0).all()
    kept = Snorkel(keep_unanimous=True).fit(votes, [0.95, 0.05])
    assert (kept.predict_proba(votes)[lone].argmax(axis=1) == 1).all()
    np.testing.assert_allclose(kept.predict_proba(votes).sum(axis=1), 1)


def test_five_hundred_voters_on_ten_thousand_items_give_no_nan():
    votes, gold = make_votes(10_000, 500, 2, coverage=0.05, seed=12)
    proba = Snorkel().fit(votes).predict_proba(votes)
    assert np.isfinite(proba).all()
    assert (proba.argmax(axis=1) == gold).mean() > 0.95


def test_a_voter_that_never_votes_has_no_accuracy():
    votes, _ = make_votes(300, 5, 2, coverage=[0.5, 0.5, 0.5, 0.5, 0.0], seed=13)
    accuracies = Snorkel().fit(votes).accuracies_
    assert np.isnan(accuracies[4])
    assert np.isfinite(accuracies[:4]).all()


def test_a_vote_says_nothing_against_its_own_class():
    votes, _ = make_votes(500, 6, 3, accuracies=[0.2, 0.2, 0.8, 0.8, 0.8, 0.8], seed=14)
    own = Snorkel().fit(votes, [1 / 3] * 3).conditionals_
    for c in range(3):
        assert (own[:, c, c][:, None] >= own[:, :, c]).all()


def test_wrong_options_are_refused(votes):
    with pytest.raises(ParameterError, match=r"optimizer.*'lbfgs'"):
        Snorkel(optimizer="bfgs").fit(votes)
    with pytest.raises(ParameterError, match="precision"):
        Snorkel(precision=70).fit(votes)


@pytest.mark.parametrize("probabilistic", [False, True])
def test_pairs_that_are_never_written_out_are_the_same(monkeypatch, probabilistic):
    votes, _ = make_votes(300, 9, 3, coverage=0.5, seed=3)
    if probabilistic:
        cells = votes.one_hot().toarray().reshape(300, 9, 3)
        votes = VoteMatrix.from_proba(
            0.8 * cells + 0.2 * cells.mean(axis=2, keepdims=True), votes.labels, votes.voters
        )
    written = moments_of(votes)
    monkeypatch.setattr(moment_matching, "BLOCK_CELLS", 100)
    implied = moments_of(votes)
    assert isinstance(implied.pairs, VotePairs)
    mu = np.random.default_rng(0).random((27, 3))
    np.testing.assert_allclose(implied.pairs @ mu, written.pairs @ mu, rtol=1e-5)
    assert implied.squares == pytest.approx(written.squares, rel=1e-5)
    assert implied.noise == pytest.approx(written.noise, rel=1e-5)
    assert implied.pairs.mean() == pytest.approx(written.pairs.mean(), rel=1e-5)
    # One column or one item at a time: whichever is less work.
    turned = moments_of(votes[:5])
    assert turned.squares == pytest.approx(_written_squares(votes[:5]), rel=1e-9)


def _written_squares(votes):
    one_hot = votes.one_hot().toarray().astype(float)
    pairs = one_hot.T @ one_hot / len(one_hot)
    own = np.kron(np.eye(votes.n_voters), np.ones((votes.n_classes, votes.n_classes)))
    return float(np.square(pairs * (1 - own)).sum())


def test_the_start_assumes_that_votes_are_right_so_often():
    # P(vote c | class c) = P(vote c) * 0.7 / P(class c), at most 1; wrong votes start at 0.
    singles, prior = np.array([[0.3, 0.3], [0.1, 0.6]]), np.array([0.8, 0.2])
    own = _start(singles, prior, 0.7).reshape(2, 2, 2)
    assert np.allclose([np.diag(each) for each in own], [[0.2625, 1.0], [0.0875, 1.0]])
    assert (own[:, [0, 1], [1, 0]] == 0).all()


def test_errors_of_voters_with_few_votes_are_spread_evenly():
    # Voters that vote on every item, right in 70 and 80 %; the second never says the last class.
    prior = np.array([0.5, 0.3, 0.2])
    first = np.array([[0.8, 0.1, 0.1], [0.1, 0.7, 0.55], [0.1, 0.2, 0.35]])  # (voted, true)
    second = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.5], [0.0, 0.0, 0.0]])
    mu = np.concatenate([first, second])
    singles = np.stack([first @ prior, second @ prior])
    moments = Moments(np.zeros((6, 6)), singles, n_items=40)
    found = _evenly_wrong(mu, moments, prior, smoothing=10.0).reshape(2, 3, 3)
    right = np.diag(first) @ prior
    even = np.where(np.eye(3) == 1, right, (1 - right) / 2)
    # Of 40 items, each class has 20, 12 and 8; ten more have evenly spread errors.
    share = 10 / (10 + np.array([20, 12, 8]))
    assert np.allclose(found[0], (1 - share) * first + share * even)
    assert np.allclose(found[1], second)


def test_pairs_kept_without_their_zeros_give_the_same_fit(monkeypatch):
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 40, 600)
    dense = np.where(rng.random((600, 4)) < 0.97, gold[:, None], rng.integers(0, 40, (600, 4)))
    many = VoteMatrix.from_dense(dense, [f"c{number}" for number in range(40)])
    expected = Snorkel().fit(many).conditionals_
    monkeypatch.setattr("wiesel.label_models.moment_matching._LARGE", 0)
    assert sp.issparse(moments_of(many).pairs)
    assert np.allclose(Snorkel().fit(many).conditionals_, expected, atol=1e-6)


def test_a_thousand_classes_are_refused_at_once_with_the_number_that_works():
    labels = [f"c{number}" for number in range(1000)]
    votes = VoteMatrix.from_dense(np.arange(30).reshape(10, 3), labels)
    with pytest.raises(ParameterError, match=r"3,000,000 numbers.*up to 816 classes"):
        Snorkel().fit(votes)


def test_quasi_newton_steps_find_a_minimum_at_the_bounds():
    # (x - 2)^2 + 3 (y - 0.3)^2 + (z + 1)^2 is smallest within [0, 1] at (1, 0.3, 0).
    center, weight = np.array([2.0, 0.3, -1.0]), np.array([1.0, 3.0, 1.0])

    def loss(x):
        return float(weight @ np.square(x - center)), 2 * weight * (x - center)

    found = moment_matching._projected_lbfgs(loss, np.array([0.5, 0.9, 0.5]), 50)
    np.testing.assert_allclose(found, [1.0, 0.3, 0.0], atol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_many_unknowns_are_found_without_scipy_and_are_the_same(n_classes, monkeypatch):
    votes, _ = make_votes(5000, 8, n_classes, coverage=0.5, seed=3)
    expected = Snorkel().fit(votes)
    monkeypatch.setattr(moment_matching, "_MANY_UNKNOWNS", 0)
    found = Snorkel().fit(votes)
    assert found.loss_[-1] == pytest.approx(expected.loss_[-1], rel=1e-6)
    np.testing.assert_allclose(found.conditionals_, expected.conditionals_, atol=1e-4)
