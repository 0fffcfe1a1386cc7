"""Ordinal Dawid-Skene: its M-step against a general optimizer, and planted voters."""

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

from wiesel import DawidSkene, LabelSpace, OrdinalDawidSkene, VoteMatrix, aggregate
from wiesel.errors import ParameterError, WieselWarning
from wiesel.label_models.ordinal_dawid_skene import _best, _moments, _Natural

RANKS = LabelSpace("1", "2", "3", "4", "5", ordered=True)


def ratings(seed: int = 0, n_items: int = 600, n_voters: int = 30, each: int = 4):
    """Normal errors with a bias and a spread for each voter; the last voter rolls a die."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, 5, n_items)
    bias, spread = rng.normal(0, 0.7, n_voters), rng.uniform(0.4, 1.2, n_voters)
    dense = np.full((n_items, n_voters), -1)
    for i in range(n_items):
        asked = rng.choice(n_voters - 1, each, replace=False)
        noise = spread[asked] * rng.normal(size=each)
        dense[i, asked] = np.clip(np.rint(gold[i] + bias[asked] + noise), 0, 4)
    dense[:300, -1] = rng.integers(0, 5, 300)
    return VoteMatrix.from_dense(RANKS.from_indices(dense), RANKS), gold, bias, spread


@pytest.fixture(scope="module")
def fitted():
    votes, gold, bias, spread = ratings()
    return OrdinalDawidSkene().fit(votes), votes, gold, bias, spread


def test_the_best_bias_and_spread_are_those_of_a_general_optimizer():
    counts = np.random.default_rng(1).gamma(1.0, 5.0, (3, 4, 4)) + 40 * np.eye(4)
    found = _best(counts, _Natural(np.full(3, 0.5), np.zeros(3)))
    apart = np.arange(4) - np.arange(4)[:, None]
    for voter in range(3):

        def loss(values, own=counts[voter]):
            scores = values[1] * apart - values[0] * apart**2
            return -(own * log_softmax(scores, axis=1)).sum()

        best = minimize(loss, (0.5, 0.0), method="Nelder-Mead", options={"xatol": 1e-9})
        assert found.precision[voter] == pytest.approx(best.x[0], abs=1e-4)
        assert found.slope[voter] == pytest.approx(best.x[1], abs=1e-4)


def test_planted_biases_and_spreads_are_found_and_a_die_tells_nothing(fitted):
    model, _, _, bias, spread = fitted
    assert np.corrcoef(model.biases_[:-1], bias[:-1])[0, 1] > 0.85
    assert np.corrcoef(model.spreads_[:-1], spread[:-1])[0, 1] > 0.7
    ends = np.abs(model.confusions_[:, 0] - model.confusions_[:, 4]).sum(axis=1) / 2
    assert ends[-1] < 0.3 < 0.6 < ends[:-1].min()


def test_it_is_better_than_dawid_skene_on_ratings(fitted):
    model, votes, gold, *_ = fitted
    with warnings.catch_warnings(action="ignore", category=WieselWarning):
        skene = DawidSkene().fit(votes).predict_proba(votes).argmax(axis=1)
    best = model.predict_proba(votes).argmax(axis=1)
    assert (best == gold).mean() > (skene == gold).mean() + 0.03
    assert np.abs(best - gold).mean() < np.abs(skene - gold).mean()


def test_the_posterior_is_bayes_rule_and_evidence_grows(fitted):
    model, votes, *_ = fitted
    np.testing.assert_allclose(model.confusions_.sum(axis=2), 1)
    assert (np.diff(model.evidence_) > -1e-6).all()
    one = votes[0].to_long()
    joint = model.class_balance_.copy()
    for voter, label in one.select("voter", "label").rows():
        joint *= model.confusions_[votes.voters.index(voter), :, RANKS.index(label)]
    np.testing.assert_allclose(model.predict_proba(votes[0])[0], joint / joint.sum(), atol=1e-12)


def test_aggregate_needs_to_know_the_order():
    names = ("bad", "fair", "good")
    rows = [(str(k), worker, names[k % 3]) for k in range(12) for worker in ("x", "y", "z")]
    table = [dict(zip(("task", "worker", "label"), row, strict=True)) for row in rows]
    with pytest.raises(ParameterError, match=r"from the lowest to the highest.*labels"):
        aggregate(table, method="ordinal_dawid_skene")
    found = aggregate(table, method="ordinal_dawid_skene", labels=names)
    assert found.votes.labels.ordered
    numbers = [{**row, "label": {"good": 10, "fair": 9, "bad": 1}[row["label"]]} for row in table]
    assert aggregate(numbers, ordered=True).votes.labels.names == ("1", "9", "10")


def test_a_thousand_ranks_are_refused_at_once_with_what_works():
    ranks = LabelSpace(*(f"{rank:03}" for rank in range(1_000)), ordered=True)
    votes = VoteMatrix.from_dense(np.zeros((3_000, 3), dtype=int), ranks)
    with pytest.raises(ParameterError, match=r"3,000,000 numbers.*up to 707 classes work"):
        OrdinalDawidSkene().fit(votes)


def test_moments_are_those_of_the_distances():
    chance = np.random.default_rng(0).dirichlet(np.ones(7), (2, 7))
    apart = np.arange(7)[None, :] - np.arange(7)[:, None]
    expected = [(chance * apart**power).sum(axis=2) for power in (1, 2, 3, 4)]
    np.testing.assert_allclose(_moments(chance), expected, atol=1e-10)
