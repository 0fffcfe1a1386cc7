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


# A balance that is far from the votes overrules some of them, as a warning says.
@pytest.mark.filterwarnings("ignore:VoteCounts. on .* all votes agree")
def test_with_a_class_balance_the_class_shares_are_that_balance():
    votes, _ = make_votes(800, n_voters=4, n_classes=3, coverage=0.6, seed=0)
    balance = np.array([0.2, 0.3, 0.5])
    model = VoteCounts().fit(votes, class_balance=balance)
    proba = model.predict_proba(votes)
    assert not votes.covered.all()
    assert proba[votes.covered].mean(axis=0) == pytest.approx(balance, abs=0.005)
    assert np.allclose(proba[~votes.covered], balance)


def test_without_one_nothing_is_shifted():
    assert VoteCounts().fit(VOTES).offsets_.tolist() == [0, 0]
    with pytest.raises(ParameterError, match="log_odds"):
        VoteCounts(log_odds=-1).fit(VOTES)
