"""Predictions use the votes where there are any."""

import numpy as np
import pytest

from wiesel import Committee, MajorityVote, TwoStage, VoteMatrix
from wiesel.datasets import make_panel
from wiesel.end_to_end import Stacked, WithVotes
from wiesel.errors import NotFittedError, ParameterError
from wiesel.nn import Linear

FAST = {"epochs": 3, "epoch_size": 3200, "lr": 0.02}


@pytest.fixture(scope="module")
def panel():
    votes, gold = make_panel(1500, 8, seed=1)
    noise = np.random.default_rng(1).standard_normal((1500, 4))
    X = (noise + 0.35 * (2 * gold[:, None] - 1)).astype(np.float32)  # 76 % at best
    label_model = Stacked().fit(votes, gold=(votes[:200], gold[:200]))
    model = TwoStage(MajorityVote(), Linear(4, 2), **FAST).fit(X[400:], votes[400:])
    return X, votes, gold, label_model, model


def right(proba: np.ndarray, gold: np.ndarray) -> float:
    return float((proba.argmax(axis=1) == gold).mean())


def test_both_together_are_better_than_either(panel) -> None:
    X, votes, gold, label_model, model = panel
    both = WithVotes(model, label_model).fit(X[200:400], votes[200:400], gold[200:400])
    rest = slice(400, None)
    together = right(both.predict_proba(X[rest], votes[rest]), gold[rest])
    assert together > right(model.predict_proba(X[rest]), gold[rest]) + 0.02
    assert together > right(label_model.predict_proba(votes[rest]), gold[rest]) + 0.015


def test_without_votes_it_is_the_model(panel) -> None:
    X, votes, gold, label_model, model = panel
    both = WithVotes(model, label_model).fit(X[:400], votes[:400], gold[:400])
    alone = model.predict_proba(X)
    assert np.allclose(both.predict_proba(X), alone)
    silent = VoteMatrix.from_proba(np.zeros((5, 8, 2)), votes.labels, votes.voters)
    assert np.allclose(both.predict_proba(X[:5], silent), alone[:5])
    assert set(both.predict(X[:9], votes[:9])) <= {"no", "yes"}


def test_a_model_that_knows_nothing_gets_no_weight(panel) -> None:
    X, votes, gold, label_model, model = panel
    noise = np.random.default_rng(0).standard_normal(X.shape).astype(np.float32) * 4
    both = WithVotes(model, label_model).fit(noise[:1000], votes[:1000], gold[:1000])
    assert both.levels_[0] < 0.15 < both.levels_[1]


def test_a_committee_predicts_its_gold_items_without_having_seen_them(panel) -> None:
    X, votes, gold, label_model, _ = panel
    committee = Committee(Linear(4, 2), members=[TwoStage(MajorityVote(), Linear(4, 2), **FAST)])
    committee.fit(X[100:], votes[100:], validation=(X[:100], gold[:100], votes[:100]))
    both = WithVotes(committee, label_model).fit(X[:100], votes[:100], gold[:100])
    assert both.predict_proba(X, votes).shape == (1500, 2)


def test_what_does_not_fit_is_refused(panel) -> None:
    X, votes, gold, label_model, model = panel
    both = WithVotes(model, label_model)
    with pytest.raises(NotFittedError):
        both.predict_proba(X)
    with pytest.raises(ParameterError, match="got none"):
        both.fit(X, votes, [None] * 1500)
    with pytest.raises(ParameterError, match="X has 10 items"):
        both.fit(X[:10], votes, gold)
