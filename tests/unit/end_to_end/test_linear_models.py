"""Soft labels can use inputs of every kind, and classes that are not linear in a few columns."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.linear_model import Ridge

from wiesel import FeatureEM, VoteMatrix, load_model
from wiesel.end_to_end import linear_models
from wiesel.end_to_end.linear_models import CrossFit, InputVectors, LinearModel
from wiesel.errors import FeatureError
from wiesel.training import as_inputs

N_ITEMS = 600
GOLD = np.random.default_rng(0).integers(0, 2, N_ITEMS)


def weak_votes() -> VoteMatrix:
    """Three voters that are right two times of three."""
    right = np.random.default_rng(1).random((N_ITEMS, 3)) < 0.67
    return VoteMatrix.from_dense(np.where(right, GOLD[:, None], 1 - GOLD[:, None]), ["no", "yes"])


def images() -> torch.Tensor:
    noise = np.random.default_rng(2).normal(size=(N_ITEMS, 3, 8, 8))
    noise[:, 0, :4] += 0.4 * GOLD[:, None, None]
    return torch.tensor(noise)


def wide() -> sp.csr_array:
    """3,000 words, of which each class has its own, ten in a text."""
    rows = np.repeat(np.arange(N_ITEMS), 10)
    words = np.random.default_rng(3).integers(0, 1000, len(rows)) + 1000 * GOLD[rows]
    values = np.ones(len(rows), dtype=np.float32)
    return sp.csr_array((values, (rows, words)), shape=(N_ITEMS, 3000))


def token_ids() -> np.ndarray:
    """Texts of 6 to 12 words; 0 pads, and half of the words depend on the class."""
    rng = np.random.default_rng(4)
    ids = rng.integers(1, 100, (N_ITEMS, 12))
    ids[:, :3] += 100 * (1 + GOLD[:, None])
    ids[np.arange(12) >= rng.integers(6, 13, N_ITEMS)[:, None]] = 0
    return ids


KINDS: dict[str, Any] = {
    "images": images(),
    "wide": wide(),
    "token ids": token_ids(),
    "a tokenizer's": {"input_ids": token_ids(), "attention_mask": (token_ids() > 0).astype(int)},
}


def ring() -> np.ndarray:
    """Four columns; the items of the second class are far from the middle, in any direction."""
    points = np.random.default_rng(5).normal(size=(N_ITEMS, 4))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return points * np.random.default_rng(6).normal(1 + GOLD, 0.3)[:, None]


def line() -> np.ndarray:
    """Four columns, the first of which is larger in the second class."""
    noise = np.random.default_rng(7).normal(size=(N_ITEMS, 4))
    noise[:, 0] += 2 * GOLD
    return noise


def accuracy(model: FeatureEM, votes: VoteMatrix, X: np.ndarray) -> float:
    return float((model.predict_proba(votes, X).argmax(axis=1) == GOLD).mean())


def test_random_units_find_classes_that_are_not_linear_in_few_columns(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    votes, X = weak_votes(), ring()
    model = FeatureEM().fit(votes, X=X)
    assert len(model.coefficients_) == X.shape[1] + model.units_.shape[1]
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert np.array_equal(again.predict_proba(votes, X), model.predict_proba(votes, X))
    monkeypatch.setattr(linear_models, "_NARROW", 0)
    linear = FeatureEM().fit(votes, X=X)
    assert linear.units_ is None
    assert accuracy(model, votes, X) > accuracy(linear, votes, X) + 0.08


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_there_are_no_random_units_where_a_line_predicts_better(scale: float):
    votes, X = weak_votes(), scale * line()
    assert FeatureEM().fit(votes, X=X).units_ is None


def test_random_units_are_chosen_on_a_sample_of_many_items(monkeypatch: pytest.MonkeyPatch):
    votes, X = weak_votes(), ring()
    monkeypatch.setattr(linear_models, "_MOST_FITTED", 300)
    monkeypatch.setattr(linear_models, "_MOST_KEPT", 0)
    monkeypatch.setattr(linear_models, "_AT_ONCE", 1000)  # three items and their units
    model = FeatureEM().fit(votes, X=X)
    assert model.units_ is not None
    assert accuracy(model, votes, X) > accuracy(FeatureEM().fit(votes, X=0 * X), votes, 0 * X)


def test_random_units_do_not_depend_on_the_scale_of_a_column():
    votes = weak_votes()
    first, second = (FeatureEM().fit(votes, X=ring() * scale) for scale in (1, [1, 1e3, 1, 1e-3]))
    np.testing.assert_allclose(
        first.predict_proba(votes, ring()),
        second.predict_proba(votes, ring() * [1, 1e3, 1, 1e-3]),
        atol=1e-3,
    )


@pytest.mark.parametrize("X", KINDS.values(), ids=KINDS)
def test_soft_labels_use_inputs_of_every_kind(X: Any):
    votes = weak_votes()
    model = FeatureEM().fit(votes, X=X)
    alone, both = model.predict_proba(votes), model.predict_proba(votes, X)
    right = [(proba.argmax(axis=1) == GOLD).mean() for proba in (alone, both)]
    assert right[1] > right[0] + 0.05
    assert len(model.coefficients_) == InputVectors.of(as_inputs(X)).width


def test_a_set_of_tokens_has_length_one_and_unknown_tokens_are_left_out():
    ids = as_inputs(np.array([[5, 2, 5, 2], [1, 1, 1, 1], [7, 9, 6, 9], [0, -1, 0, -9]]))
    ((_, found),) = InputVectors(ids, 6).read(np.arange(4))
    half = 1 / np.sqrt(2)
    expected = [[0, 0, half, 0, 0, half], [0, 1, 0, 0, 0, 0], [0] * 6, [1, 0, 0, 0, 0, 0]]
    assert np.allclose(found.toarray(), expected)


def test_features_of_other_items_or_of_another_width_are_refused():
    votes, X = weak_votes(), images()
    with pytest.raises(FeatureError, match="X has 599 items, the votes have 600"):
        FeatureEM().fit(votes, X=X[:-1])
    model = FeatureEM().fit(votes, X=X)
    for other, found in ((X[:, :2], "128 numbers"), ({"pixels": X}, "no numbers")):
        with pytest.raises(FeatureError, match=f"has {found}, but the model learned from 192"):
            model.predict_proba(votes, other)


def test_what_is_no_vector_is_not_read(monkeypatch: pytest.MonkeyPatch):
    assert InputVectors.of(as_inputs({"pixels": images()})) is None
    assert InputVectors.of(as_inputs(np.zeros((4, 2, 2), dtype=np.int64))) is None
    monkeypatch.setattr(linear_models, "_WIDEST_OF_ALL", 100)
    assert InputVectors.of(as_inputs(token_ids())) is None


@pytest.mark.parametrize("at_once", [4_000_000, 20])
def test_a_linear_model_adds_up_columns_and_random_units(at_once: int, monkeypatch):
    monkeypatch.setattr(linear_models, "_AT_ONCE", at_once)
    rng = np.random.default_rng(8)
    X, units = rng.normal(size=(9, 3)), rng.normal(size=(4, 5))
    coefficients, intercept = rng.normal(size=(8, 2)), rng.normal(size=2)
    hidden = np.maximum(X @ units[:3] + units[3], 0)  # the last row of the units is their offset
    expected = X @ coefficients[:3] + hidden @ coefficients[3:] + intercept
    found = LinearModel(coefficients, intercept, units).predict(as_inputs(X))
    assert np.allclose(found, expected, atol=1e-5)
    alone = LinearModel(coefficients[:3], intercept).predict(as_inputs(X))
    assert np.allclose(alone, X @ coefficients[:3] + intercept, atol=1e-5)


@pytest.mark.parametrize("kept", [30_000_000, 0])
def test_a_cross_fit_is_ridge_regression_in_five_folds(kept: int, monkeypatch):
    """On standardized features, with a tenth of the variance as penalty for every item."""
    monkeypatch.setattr(linear_models, "_MOST_KEPT", kept)
    monkeypatch.setattr(linear_models, "_AT_ONCE", 60)  # twenty items
    rng = np.random.default_rng(9)
    X = rng.normal(size=(90, 3)) * [1, 10, 0.1] + [0, 5, -2]
    X, targets = X.astype(np.float32), rng.normal(size=(90, 2))
    rows = np.arange(5, 90)
    cross = CrossFit(InputVectors.of(as_inputs(X)), rows)
    found = cross.fit(targets)
    scaled = (X - X[rows].mean(axis=0)) / X[rows].std(axis=0)
    ridge = Ridge(alpha=0.1 * 85, fit_intercept=False)
    for fold in cross._folds:
        out = cross._rows[fold]
        assert len(out) == 17
        others = np.setdiff1d(rows, out)
        expected = ridge.fit(scaled[others], targets[others]).predict(scaled[out])
        assert np.allclose(found.held_out[out], expected, atol=1e-4)
    everything = ridge.fit(scaled[rows], targets[rows]).predict(scaled)
    assert np.allclose(found.in_sample[rows], everything[rows], atol=1e-4)
    assert np.allclose(found.model.predict(as_inputs(X)), everything, atol=1e-4)
    assert (found.held_out[:5] == 0).all()
    assert (found.in_sample[:5] == 0).all()
