"""Calibrated votes are right as often as they say."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import log_softmax

from wiesel import VoteMatrix
from wiesel.datasets import make_panel
from wiesel.errors import ParameterError, VoteError
from wiesel.label_models import calibrate_votes, calibration

LABELS = ["ham", "spam"]


def log_loss(votes: VoteMatrix, gold: np.ndarray) -> float:
    assert votes.distribution is not None
    own = votes.distribution[np.arange(votes.n_votes), gold[votes.item_index]]
    return float(-np.log(own).mean())


def test_a_voter_that_is_too_sure_gets_its_precision() -> None:
    """It always says 99 %, and is right on 75 of 100 items of each class."""
    said = np.repeat([[0.99, 0.01], [0.01, 0.99]], 100, axis=0)
    gold = ["ham"] * 75 + ["spam"] * 25 + ["spam"] * 75 + ["ham"] * 25
    votes = VoteMatrix.from_proba(said[:, None], LABELS)
    calibrated = calibrate_votes(votes, gold, shrinkage=1e-6)
    assert calibrated.distribution[0] == pytest.approx([0.75, 0.25], abs=1e-3)
    assert calibrated.distribution[150] == pytest.approx([0.25, 0.75], abs=1e-3)


def test_a_voter_that_is_calibrated_stays_as_it_is() -> None:
    said = np.repeat([[0.8, 0.2], [0.4, 0.6]], 100, axis=0)
    gold = [0] * 80 + [1] * 20 + [0] * 40 + [1] * 60
    votes = VoteMatrix.from_proba(said[:, None], LABELS)
    assert calibrate_votes(votes, gold).distribution == pytest.approx(said, abs=0.01)


def test_a_habit_of_one_voter_is_removed_and_the_other_keeps_its_votes() -> None:
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 2, 2000)
    right = np.where(rng.random((2000, 2)) < 0.8, gold[:, None], 1 - gold[:, None])
    sure = np.where(right == 1, 0.8, 0.2)
    sure[:, 1] = np.where(right[:, 1] == 1, 0.97, 0.9)  # nearly everything is spam
    votes = VoteMatrix.from_proba(np.stack([1 - sure, sure], axis=2), LABELS)
    spam = calibrate_votes(votes, gold).distribution[:, 1].reshape(2000, 2)
    for voter in (0, 1):
        for vote, share in ((1, 0.8), (0, 0.2)):
            said = spam[right[:, voter] == vote, voter]
            assert said == pytest.approx(share, abs=0.07)


@pytest.mark.parametrize("n_gold", [0, 50, 200])
def test_calibration_of_a_panel_improves_on_new_items(n_gold: int) -> None:
    votes, gold = make_panel(1500, 8, seed=1)
    known = np.where(np.arange(1500) < n_gold, gold, -1)
    calibrated = calibrate_votes(votes, known if n_gold else None)
    raw = log_loss(votes[500:], gold[500:])
    assert log_loss(calibrated[500:], gold[500:]) < 0.85 * raw
    assert calibrated.voters == votes.voters
    assert (calibrated.indptr == votes.indptr).all()


def test_hard_votes_become_probabilities() -> None:
    votes = VoteMatrix.from_dense([[0], [1]] * 50, LABELS)
    gold = [0, 1, 0, 1, 0, 1, 0, 1, 1, 0] * 10  # 80 % right
    assert calibrate_votes(votes, gold).distribution[0, 0] == pytest.approx(0.8, abs=0.02)


def test_a_single_voter_without_gold_is_unchanged() -> None:
    votes = VoteMatrix.from_proba([[[0.3, 0.7]], [[0.6, 0.4]]], LABELS)
    assert calibrate_votes(votes).distribution == pytest.approx(votes.distribution, abs=1e-6)


def test_gold_that_does_not_fit_is_refused() -> None:
    votes = VoteMatrix.from_proba([[[0.3, 0.7]], [[0.6, 0.4]]], LABELS)
    with pytest.raises(VoteError, match="1 gold labels for 2 items"):
        calibrate_votes(votes, ["ham"])
    with pytest.raises(ParameterError, match="All gold labels are unknown"):
        calibrate_votes(votes, [None, None])
    with pytest.raises(ParameterError, match="shrinkage"):
        calibrate_votes(votes, ["ham", None], shrinkage=-1)


def test_a_panel_is_as_it_is_described() -> None:
    votes, gold = make_panel(4000, 20, seed=3)
    dense = votes.dense()
    voted = dense >= 0
    accuracies = [(dense[voted[:, j], j] == gold[voted[:, j]]).mean() for j in range(20)]
    assert 0.72 < max(accuracies) < 0.8
    refused = ~voted
    assert 0.005 < refused.mean() < 0.05
    expected = refused.mean() ** 2  # if judges refused independently
    pairs = (refused[:, 0] & refused[:, 1]).mean()
    assert pairs > 3 * expected
    same_family, others = [
        np.corrcoef(dense[:, 16] == gold, dense[:, other] == gold)[0, 1] for other in (19, 18)
    ]
    assert same_family > others + 0.05


def test_the_slope_and_offsets_are_where_the_penalized_likelihood_is_largest() -> None:
    rng = np.random.default_rng(0)
    logs = np.log(rng.dirichlet(np.ones(3), size=60))
    sharper = np.exp(1.5 * logs) / np.exp(1.5 * logs).sum(axis=1, keepdims=True)
    targets = np.eye(3)[[rng.choice(3, p=own) for own in sharper]]
    start = np.array([0.5, 0.2, -0.1, 0.0])
    found = calibration._fitted(logs, targets, start, 2.0)

    def loss(learned: np.ndarray) -> float:
        log_proba = log_softmax(learned[0] * logs + learned[1:], axis=1)
        return float(-(targets * log_proba).sum() + ((learned - start) ** 2).sum())

    assert found[0] > 0.01  # inside of its bound
    assert np.abs(approx_fprime(found, loss)).max() < 1e-2
