"""Confidences from crowd answers, by hand."""

import numpy as np
import pytest

from wiesel import DawidSkene, VoteMatrix
from wiesel.label_models.confidence import (
    Calibration,
    calibrated_proba,
    comparable_answers,
    fit_calibration,
    proba_of_evidence,
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
    found = calibrated_proba(model, votes, proba, Calibration(0.5))
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


def test_the_calibration_follows_known_classes(votes):
    model = DawidSkene().fit(votes)
    proba = model.predict_proba(votes)
    right = proba.argmax(axis=1)
    often_wrong = np.where(np.arange(200) % 3 == 0, 1 - right, right)
    assert fit_calibration(model, votes, proba, np.full(200, -1)) == Calibration()
    for gold, share in ((right, 1.0), (often_wrong, 2 / 3)):
        found = fit_calibration(model, votes, proba, gold)
        calibrated = calibrated_proba(model, votes, proba, found)
        assert calibrated[1:].max(axis=1).mean() == pytest.approx(share, abs=0.02)
        np.testing.assert_array_equal(calibrated.argmax(axis=1), right)
        np.testing.assert_allclose(calibrated.sum(axis=1), 1)


def test_a_shift_moves_log_odds_and_keeps_the_label_and_the_order_of_the_others():
    evidence = np.log([[0.5, 0.3, 0.2], [0.4, 0.35, 0.25]])
    counts = np.eye(3)[[0, 0]]
    found = proba_of_evidence(evidence, counts, 1e12, Calibration(0.4, 1.0, np.log(3)))
    # Odds of 1 become odds of 3; the other classes share the rest as 3 : 2.
    np.testing.assert_allclose(found[0], [0.75, 0.15, 0.1], atol=1e-9)
    found = proba_of_evidence(evidence, counts, 1e12, Calibration(0.4, 1.0, -9.0))
    # The label stays as probable as the next class: 5/3 : 5/3 : 1 of 0.6, 0.35, 0.25.
    np.testing.assert_allclose(found[0], [0.375, 0.375, 0.25], atol=1e-9)


def test_the_regression_is_that_of_scikit_learn(votes):
    """Without the priors' pull, with many known items, slope and shift are those of a logit."""
    from sklearn.linear_model import LogisticRegression

    model = DawidSkene().fit(votes)
    proba = model.predict_proba(votes)
    rng = np.random.default_rng(0)
    right = proba.argmax(axis=1)
    gold = np.where(rng.random(200) < 0.8, right, 1 - right)
    many = votes[np.tile(np.arange(200), 200)]
    found = fit_calibration(model, many, np.tile(proba, (200, 1)), np.tile(gold, 200))
    top = calibrated_proba(model, many, np.tile(proba, (200, 1))).max(axis=1)
    known = many.covered
    x, y = np.log(top / (1 - top))[known, None], (np.tile(gold == right, 200))[known]
    logit = LogisticRegression(C=1e9, tol=1e-8).fit(x, y)
    assert found.slope == pytest.approx(logit.coef_[0, 0], abs=0.02)
    assert found.shift == pytest.approx(logit.intercept_[0], abs=0.02)


def test_the_slope_and_shift_are_the_most_probable_under_their_priors(votes):
    model = DawidSkene().fit(votes)
    proba = model.predict_proba(votes)
    gold = np.full(votes.n_items, -1)
    gold[1:30] = proba[1:30].argmax(axis=1)
    gold[5:9] = 1 - gold[5:9]
    found = fit_calibration(model, votes, proba, gold)
    sure = calibrated_proba(model, votes, proba)[1:30].max(axis=1)
    right = proba[1:30].argmax(axis=1) == gold[1:30]
    log_odds = np.log(sure / (1 - sure))
    # Where the slope of the log posterior is zero: priors N(1, 0.4) and N(0, 0.7).
    error = 1 / (1 + np.exp(-(found.slope * log_odds + found.shift))) - right
    assert error @ log_odds + (found.slope - 1) / 0.4**2 == pytest.approx(0, abs=1e-2)
    assert error.sum() + found.shift / 0.7**2 == pytest.approx(0, abs=1e-2)
