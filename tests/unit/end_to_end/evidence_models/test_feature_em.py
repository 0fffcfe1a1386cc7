"""EM over the votes and a linear model of the features."""

from pathlib import Path

import numpy as np
import pytest
import torch

from wiesel import (
    DawidSkene,
    FeatureChecked,
    FeatureEM,
    LabelSpace,
    MajorityVote,
    TwoStage,
    VoteMatrix,
    load_model,
)
from wiesel.end_to_end.plan import FitInputs
from wiesel.errors import FeatureError, ParameterError
from wiesel.training import as_inputs

N_ITEMS = 1200
LABELS = LabelSpace("no", "yes")


def task(*accuracies: float, separation: float = 1.2, coverage: float = 1.0, seed: int = 0):
    """Features that tell the classes apart so well, voters so often right, and the gold labels."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, 2, N_ITEMS)
    X = rng.normal(size=(N_ITEMS, 4)) + separation * (gold[:, None] == np.array([1, 0, 1, 0]))
    right = rng.random((N_ITEMS, len(accuracies))) < accuracies
    votes = np.where(right, gold[:, None], 1 - gold[:, None])
    votes[rng.random(votes.shape) > coverage] = -1
    return X.astype(np.float32), VoteMatrix.from_dense(votes, LABELS), gold


def accuracy(proba: np.ndarray, gold: np.ndarray) -> float:
    return float((proba.argmax(axis=1) == gold).mean())


def test_features_add_what_the_votes_do_not_know():
    X, votes, gold = task(0.7, 0.7, 0.7)
    model = FeatureEM().fit(votes, X=X)
    by_votes = accuracy(model.predict_proba(votes), gold)
    assert by_votes < 0.82
    assert accuracy(model.predict_proba(votes, X), gold) > by_votes + 0.05


def test_an_adversary_counts_for_the_other_class():
    X, votes, gold = task(0.8, 0.8, 0.8, 0.8, 0.2, 0.2, 0.2)
    assert accuracy(MajorityVote().fit(votes).predict_proba(votes), gold) < 0.7
    model = FeatureEM().fit(votes, X=X)
    assert accuracy(model.predict_proba(votes, X), gold) > 0.95
    assert (model.evidence_[4:, 1, 0] > model.evidence_[4:, 1, 1]).all()


def test_soft_labels_have_the_class_balance_and_items_without_votes_nothing_else():
    X, votes, _ = task(0.8, 0.7, coverage=0.6)
    balance = np.array([0.3, 0.7])
    model = FeatureEM().fit(votes, balance, X=X)
    proba = model.predict_proba(votes, X)
    assert not votes.covered.all()
    assert proba[votes.covered].mean(axis=0) == pytest.approx(balance, abs=0.01)
    assert np.allclose(proba[~votes.covered], balance)


def test_without_vectors_the_voters_alone_are_learned():
    _, votes, gold = task(0.9, 0.8, 0.8, 0.3)
    model = FeatureEM().fit(votes, X={"pixels": torch.zeros(N_ITEMS, 3, 4, 4)})
    assert model.coefficients_.shape == (0, 2)
    expected = DawidSkene().fit(votes).predict_proba(votes)
    assert accuracy(model.predict_proba(votes), gold) > accuracy(expected, gold) - 0.02


def test_a_class_nobody_names_and_a_voter_who_never_votes_are_no_problem():
    X, votes, _ = task(0.8, 0.7)
    dense = np.hstack([votes.dense(), np.full((N_ITEMS, 1), -1)])
    three = VoteMatrix.from_dense(dense, LabelSpace("no", "yes", "maybe"))
    proba = FeatureEM().fit(three, X=X).predict_proba(three, X)
    assert np.isfinite(proba).all()
    assert proba[:, 2].max() < 0.1


def test_new_items_are_read_with_what_was_learned():
    X, votes, _ = task(0.9, 0.7, 0.6)
    model = FeatureEM().fit(votes, X=X)
    assert np.allclose(model.predict_proba(votes[:7], X[:7]), model.predict_proba(votes, X)[:7])


def test_two_stage_explains_with_the_features(tmp_path: Path):
    X, votes, _ = task(0.9, 0.7, 0.6)
    model = TwoStage(FeatureEM(), torch.nn.Linear(4, 2), epochs=1, progress=False).fit(X, votes)
    soft = model.soft_labels(X[5:6], votes[5:6])
    assert np.allclose(model.explain(X[5], votes[5]).soft_label, soft[0])
    model.save(tmp_path / "model")
    assert np.allclose(
        load_model(tmp_path / "model", end_model=torch.nn.Linear(4, 2)).soft_labels(X, votes)[5],
        soft[0],
    )


def test_wrong_input_is_refused():
    X, votes, _ = task(0.9, 0.7)
    with pytest.raises(FeatureError, match=r"FeatureEM needs the features: fit\(votes, X=X\)"):
        FeatureEM().fit(votes)
    with pytest.raises(FeatureError, match="X has 5 items, the votes have 1200"):
        FeatureEM().fit(votes, X=X).predict_proba(votes, X[:5])
    with pytest.raises(ParameterError, match="rounds"):
        FeatureEM(rounds=0).fit(votes, X=X)


@pytest.mark.parametrize("coverage", [1.0, 0.4])
def test_a_network_is_trained_on_what_the_fitted_model_predicts(coverage: float):
    X, votes, _ = task(0.8, 0.7, 0.6, coverage=coverage)
    plan = (
        TwoStage(FeatureEM(), torch.nn.Linear(4, 2))
        .planned(FitInputs(as_inputs(X), votes), None)
        .plan
    )
    predicted = plan.learned["label_model_"].predict_proba(votes, X)
    np.testing.assert_allclose(plan.targets, predicted, atol=1e-6)  # single precision


def judged() -> tuple[VoteMatrix, np.ndarray, np.ndarray, np.ndarray]:
    """Votes on three classes, soft labels, predictions for other folds, and class shares."""
    rng = np.random.default_rng(2)
    dense = rng.integers(-1, 3, (40, 3))
    dense[:4] = -1
    votes = VoteMatrix.from_dense(dense, LabelSpace("a", "b", "c"))
    soft_labels = rng.dirichlet(np.ones(3), size=40)
    held_out = np.eye(3)[dense.clip(0)].mean(axis=1) - 1 / 3 + 0.1 * rng.normal(size=(40, 3))
    return votes, soft_labels, held_out, np.array([0.5, 0.3, 0.2])


def test_what_a_vote_means_is_counted_from_soft_labels_with_ten_pseudo_votes():
    votes, soft_labels, held_out, shares = judged()
    dense = votes.dense()
    found = FeatureEM()._class_given_vote(votes, soft_labels, held_out, shares)
    for v in range(3):
        everybody = sum(soft_labels[dense[:, j] == v].sum(axis=0) for j in range(3))
        pooled = (everybody + shares) / ((dense == v).sum() + 1)
        for j in range(3):
            cast = dense[:, j] == v
            expected = (soft_labels[cast].sum(axis=0) + 10 * pooled) / (cast.sum() + 10)
            assert np.allclose(found[j, v], expected)


def test_a_vote_is_confirmed_by_what_the_features_say_of_its_items():
    votes, soft_labels, held_out, shares = judged()
    dense, covered = votes.dense(), votes.covered
    model = FeatureChecked()
    found = model._class_given_vote(votes, soft_labels, held_out, shares)
    assert model.confirmed_
    # The mean prediction where voter j votes v, minus that over all items, with ten more at 0.
    lift = np.zeros((3, 3, 3))
    for j in range(3):
        for v in range(3):
            cast = dense[:, j] == v
            apart = held_out[cast] - held_out[covered].mean(axis=0)
            lift[j, v] = apart.sum(axis=0) / (cast.sum() + 10)
    own = [lift[j, v, v] for j, v in np.ndindex(3, 3) for _ in range((dense[:, j] == v).sum())]
    votes_for = np.array([(dense == v).sum() for v in range(3)])
    half_of_the_way = 0.5 * (1 - (shares * votes_for).sum() / votes_for.sum())
    assert np.allclose(found, shares + half_of_the_way / np.mean(own) * lift)
