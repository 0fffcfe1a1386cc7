import numpy as np
import pytest
from scipy.special import softmax

from wiesel import VoteCounts, VoteMatrix
from wiesel.datasets.synthetic import make_votes
from wiesel.errors import ParameterError

VOTES = VoteMatrix.from_dense([[0, 0, 1], [1, -1, -1], [1, 1, 1], [-1, -1, -1]], ["no", "yes"])


def test_every_vote_adds_the_same():
    found = VoteCounts(log_odds=0.7).fit(VOTES).predict_proba(VOTES)
    assert np.allclose(found, softmax(0.7 * VOTES.counts(), axis=1))


def test_more_votes_make_it_surer_than_their_share_does():
    proba = VoteCounts().fit(VOTES).predict_proba(VOTES)
    assert proba[2, 1] > proba[1, 1] > 0.5


def test_a_class_balance_is_the_prior_of_the_count():
    votes, _ = make_votes(800, n_voters=4, n_classes=3, coverage=0.6, seed=0)
    balance = np.array([0.2, 0.3, 0.5])
    found = VoteCounts(log_odds=1.5).fit(votes, class_balance=balance).predict_proba(votes)
    assert not votes.covered.all()
    assert np.allclose(found, softmax(1.5 * votes.counts() + np.log(balance), axis=1))


def test_the_log_odds_are_checked():
    with pytest.raises(ParameterError, match="log_odds"):
        VoteCounts(log_odds=-1).fit(VOTES)
