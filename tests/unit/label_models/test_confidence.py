"""Confidences from crowd answers, by hand."""

import numpy as np
import pytest

from wiesel import DawidSkene, VoteMatrix
from wiesel.label_models.confidence import (
    DEPENDENCE,
    calibrated_proba,
    comparable_answers,
    fit_dependence,
)


@pytest.fixture(scope="module")
def votes() -> VoteMatrix:
    rng = np.random.default_rng(3)
    gold = rng.integers(0, 2, 200)
    dense = np.where(rng.random((200, 5)) < 0.8, gold[:, None], 1 - gold[:, None])
    dense[0] = -1
    return VoteMatrix.from_dense(dense, ["no", "yes"])


def test_five_answers_count_as_many_as_the_formula_says(votes):
    model = DawidSkene().fit(votes)
    proba = model.predict_proba(votes)
    found = calibrated_proba(model, votes, proba, 0.5)
    # 199 items with five answers each: 4 of each can be compared. 5 / (1 + 4 * 0.5) = 5 / 3.
    trust = comparable_answers(votes) / (comparable_answers(votes) + 20)
    assert comparable_answers(votes) == 199 * 4
    known = proba ** (1 / 3) / (proba ** (1 / 3)).sum(axis=1, keepdims=True)
    assumed = (7 / 3) ** (votes.counts() / 3)
    assumed /= assumed.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found[1:], (trust * known + (1 - trust) * assumed)[1:], atol=1e-9)
    assert found[0].tolist() == proba[0].tolist() == model.class_balance_.tolist()


def test_a_thousand_answers_do_not_lose_their_evidence():
    dense = np.zeros((50, 1000), dtype=int)
    dense[::2] = 1
    votes = VoteMatrix.from_dense(dense, ["no", "yes"])
    model = DawidSkene().fit(votes)
    evidence = model.log_evidence(votes, model.predict_proba(votes))
    assert np.abs(evidence[:, 0] - evidence[:, 1]).min() > 2000
    assert calibrated_proba(model, votes, model.predict_proba(votes)).max(axis=1).min() > 0.9


def test_the_dependence_follows_known_classes(votes):
    model = DawidSkene().fit(votes)
    proba = model.predict_proba(votes)
    right = proba.argmax(axis=1)
    often_wrong = np.where(np.arange(200) % 3 == 0, 1 - right, right)
    unknown = np.full(200, -1)
    assert fit_dependence(model, votes, proba, unknown) == DEPENDENCE
    assert fit_dependence(model, votes, proba, right) < DEPENDENCE / 2
    assert fit_dependence(model, votes, proba, often_wrong) > DEPENDENCE * 2
