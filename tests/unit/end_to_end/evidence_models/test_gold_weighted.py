"""Votes count as much as gold labels confirm them."""

import numpy as np
import pytest

from wiesel import GoldWeighted, LabelSpace, MajorityVote, TwoStage, VoteMatrix
from wiesel.datasets.synthetic import make_votes
from wiesel.errors import ParameterError, VoteError
from wiesel.nn import Linear

LABELS = LabelSpace("no", "yes")
LABELED = VoteMatrix.from_dense([[0, 1], [0, 0], [1, 0], [1, 1], [1, -1]], LABELS)
GOLD = np.array([0, 0, 1, 1, 0])


def test_the_formula_by_hand():
    """Voter 0 said yes three times, and was right twice."""
    model = GoldWeighted(shrinkage=4.0, power=0.0).fit(LABELED, gold=(LABELED, GOLD))
    balance = np.array([4, 3]) / 7
    # How often the truth was (no, yes) where anyone said it: 6 of 9 votes were right.
    said_no, said_yes = np.array([3, 1]), np.array([2, 3])
    right = (6 + 1) / (9 + 2)
    pooled_no = (said_no + 4 * np.array([right, 1 - right])) / 8
    pooled_yes = (said_yes + 4 * np.array([1 - right, right])) / 9
    first = (np.array([1, 2]) + 4 * pooled_yes) / 7
    second = (np.array([1, 1]) + 4 * pooled_no) / 6
    joint = balance * (first / balance) * (second / balance)
    found = model.predict_proba(VoteMatrix.from_dense([[1, 0]], LABELS, LABELED.voters))
    assert np.allclose(found[0], joint / joint.sum())


def test_with_boundless_shrinkage_every_voter_has_the_pooled_precision():
    model = GoldWeighted(shrinkage=1e9).fit(LABELED, gold=(LABELED, GOLD))
    assert np.allclose(model.evidence_[0], model.evidence_[1])


def test_evidence_is_divided_by_a_power_of_the_number_of_votes():
    one = GoldWeighted(power=1.0).fit(LABELED, gold=(LABELED, GOLD))
    log_odds = np.log(one.predict_proba(LABELED))
    expected = one.offsets_ + (one.evidence_[0, 0] + one.evidence_[1, 1]) / 2
    assert np.allclose(np.diff(log_odds[0]), np.diff(expected))


def test_without_votes_an_item_has_the_class_balance():
    silent = VoteMatrix.from_dense([[-1, -1]], LABELS, LABELED.voters)
    model = GoldWeighted().fit(LABELED, gold=(LABELED, ["no", "no", "yes", "yes", "no"]))
    assert np.allclose(model.predict_proba(silent), [[4 / 7, 3 / 7]])
    known = GoldWeighted().fit(LABELED, [0.2, 0.8], gold=(LABELED, GOLD))
    assert np.allclose(known.predict_proba(silent), [[0.2, 0.8]])


def test_an_adversary_is_read_the_other_way_round():
    votes, gold = make_votes(600, n_voters=3, accuracies=[0.1, 0.1, 0.8], coverage=1.0, seed=0)
    model = GoldWeighted().fit(votes, gold=(votes[:100], gold[:100]))
    majority = (MajorityVote().fit(votes).predict_proba(votes).argmax(axis=1) == gold).mean()
    assert majority < 0.3
    assert (model.predict_proba(votes).argmax(axis=1) == gold).mean() > 0.85


def test_what_is_missing_is_said():
    with pytest.raises(ParameterError, match=r"give validation=\.\.\. as \(X, y, votes\)"):
        GoldWeighted().fit(LABELED)
    with pytest.raises(ParameterError, match=r"give validation=\.\.\. as \(X, y, votes\)"):
        TwoStage(GoldWeighted(), Linear(1, 2)).fit(np.ones((5, 1)), LABELED)
    with pytest.raises(ParameterError, match="shrinkage"):
        GoldWeighted(shrinkage=0.0).fit(LABELED, gold=(LABELED, GOLD))
    with pytest.raises(VoteError):
        GoldWeighted().fit(LABELED, gold=(LABELED.select(LABELED.voters[:1]), GOLD))
