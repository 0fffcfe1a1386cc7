"""The evidence of EM is the log probability of votes and parameters, computed item by item."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta
from sklearn.base import clone

from wiesel import GLAD, MACE, DataProgramming, DawidSkene, LabelModel, OneCoin, VoteMatrix
from wiesel.datasets.synthetic import make_votes
from wiesel.label_models.dawid_skene import PSEUDO_ITEMS
from wiesel.label_models.glad import _best_abilities
from wiesel.label_models.mace import _dirichlet_divergence


def some_votes() -> VoteMatrix:
    return make_votes(60, 4, 3, coverage=0.7, class_balance=[0.5, 0.3, 0.2], seed=1)[0]


def log_likelihood(dense: np.ndarray, balance: np.ndarray, confusions: np.ndarray) -> float:
    """Sum over items of log sum_c p_c prod_j P(vote of j | c); `dense` has columns."""
    total = 0.0
    for cast in dense:
        joint = balance.copy()
        for j in np.flatnonzero(cast >= 0):
            joint *= confusions[j, :, cast[j]]
        total += np.log(joint.sum())
    return total


@pytest.mark.parametrize("smoothing", [0.5, 2.0])
@pytest.mark.parametrize("silence", [False, True])
def test_dawid_skene_adds_the_log_density_of_its_pseudo_votes(smoothing: float, silence: bool):
    votes = some_votes()
    dense = votes.dense().astype(int)
    model = DawidSkene(
        smoothing=smoothing, abstain_as_vote=silence, max_iter=3, stop_at_drift=False
    ).fit(votes)
    # Pseudo-votes: the confusions of all voters together by the vote shares, one for each cell.
    covered = (dense >= 0).any(axis=1)
    proba = np.full((60, 3), 1 / 3)
    proba[covered] = votes.counts()[covered] / votes.counts()[covered].sum(axis=1, keepdims=True)
    answers = [0, 1, 2, -1] if silence else [0, 1, 2]
    pooled = np.array([((dense == v).sum(axis=1)[:, None] * proba).sum(axis=0) for v in answers]).T
    pooled += PSEUDO_ITEMS
    pseudo = smoothing * len(answers) * pooled / pooled.sum(axis=1, keepdims=True)
    density = (pseudo * np.log(model.confusions_)).sum()
    density += PSEUDO_ITEMS * np.log(model.class_balance_).sum()
    counted = np.where(dense < 0, 3, dense) if silence else dense
    expected = density + log_likelihood(counted, model.class_balance_, model.confusions_)
    assert model.evidence_[-1] == pytest.approx(expected)


@pytest.mark.parametrize("learned", [False, True])
def test_one_coin_adds_the_log_density_of_its_pseudo_votes(learned: bool):
    votes, balance = some_votes(), np.array([0.5, 0.3, 0.2])
    model = OneCoin(
        smoothing=0.4, learn_class_balance=learned, max_iter=3, stop_at_drift=False
    ).fit(votes, None if learned else balance)
    right = model.accuracies_
    wrong = (1 - right) / 2
    confusions = np.where(np.eye(3) == 1, right[:, None, None], wrong[:, None, None])
    # 0.4 pseudo-votes in every cell of one row: one is right, two are wrong.
    density = 0.4 * (np.log(right) + 2 * np.log(wrong)).sum()
    density += 0.4 * np.log(model.class_balance_).sum() * learned
    dense = votes.dense().astype(int)
    expected = density + log_likelihood(dense, model.class_balance_, confusions)
    assert model.evidence_[-1] == pytest.approx(expected)


def test_glad_adds_the_log_density_of_its_abilities():
    votes, balance = some_votes(), np.array([0.5, 0.3, 0.2])
    model = GLAD(max_iter=4).fit(votes, balance)
    nodes, weights = np.polynomial.hermite_e.hermegauss(7)
    right = 1 / (1 + np.exp(-model.abilities_[:, None] * np.exp(1 + nodes)))
    expected = -np.square(model.abilities_ - 1).sum() / 2
    for cast in votes.dense():
        by_class = [
            np.where((cast == c)[:, None], right, (1 - right) / 2)[cast >= 0].prod(axis=0)
            for c in range(3)
        ]
        expected += np.log(balance @ np.array(by_class) @ weights / weights.sum())
    assert model.evidence_[-1] == pytest.approx(expected)


def test_glads_abilities_are_where_their_log_density_is_flat():
    rng = np.random.default_rng(0)
    cast = 20 * rng.random((3, 7))
    right = cast * rng.random((3, 7))
    easiness = np.exp(1 + np.polynomial.hermite_e.hermegauss(7)[0])
    found = _best_abilities(right, cast, np.ones(3))
    chance = 1 / (1 + np.exp(-found[:, None] * easiness))
    # d/da of sum right log s(a b) + (cast - right) log(1 - s(a b)) - (a - 1)^2 / 2
    slope = ((right - cast * chance) * easiness).sum(axis=1) - (found - 1)
    assert np.abs(slope).max() < 1e-6


def test_data_programming_adds_the_log_density_of_its_accuracies():
    votes, balance = some_votes(), np.array([0.5, 0.3, 0.2])
    model = DataProgramming(accuracy=0.6, smoothing=3.0, max_iter=3).fit(votes, balance)
    right = model.accuracies_
    confusions = np.where(np.eye(3) == 1, right[:, None, None], (1 - right)[:, None, None] / 2)
    density = 3 * (0.6 * np.log(right) + 0.4 * np.log(1 - right)).sum()
    expected = density + log_likelihood(votes.dense().astype(int), balance, confusions)
    assert model.evidence_[-1] == pytest.approx(expected)


@pytest.mark.parametrize("model", [DawidSkene(), OneCoin(), DataProgramming(), GLAD(), MACE()])
def test_em_ends_with_the_first_step_that_gains_less_than_the_tolerance(model: LabelModel):
    votes, _ = make_votes(400, 6, 3, coverage=0.7, accuracies=0.75, seed=3)
    model = clone(model, safe=False).set_params(tol=1e-3, max_iter=300).fit(votes)
    gains = np.diff(model.evidence_) / votes.covered.sum()
    assert len(gains) > 1
    assert gains[-1] < 1e-3
    assert gains[:-1].min() >= 1e-3


def test_maces_divergence_of_two_shares_is_that_of_beta_distributions():
    parameters = np.array([[3.0, 2.0], [0.7, 1.5], [4.0, 1.1]])
    expected = 0.0
    for own in parameters:
        density, prior = beta(*own), beta(0.5, 0.5)
        expected += quad(
            lambda x, f=density, g=prior: f.pdf(x) * (f.logpdf(x) - g.logpdf(x)), 0, 1
        )[0]
    assert _dirichlet_divergence(parameters, 0.5) == pytest.approx(expected, rel=1e-4)
