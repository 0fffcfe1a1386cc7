"""Label models and end-to-end methods on any votes and features: numbers, or a refusal."""

import warnings

import numpy as np
import pytest
from attacks import Tally, tries
from hypothesis import HealthCheck, given, settings

from strategies import vote_matrices
from wiesel import label_models
from wiesel.catalog import METHODS
from wiesel.compare import build_method
from wiesel.errors import WieselWarning
from wiesel.nn import Linear
from wiesel.votes import VoteMatrix

pytestmark = pytest.mark.filterwarnings("ignore")

LABEL_MODELS = sorted(label_models.REGISTRY)
END_TO_END = sorted(
    name
    for name, one in METHODS.items()
    if one.needs == "features and votes" and name != "two_stage"
)


def random_votes(rng: np.random.Generator) -> VoteMatrix:
    """Votes of any shape and skew: classes without votes, voters without votes, one voter."""
    n_classes = int(rng.choice([2, 2, 3, 5, 12]))
    n_items, n_voters = int(rng.integers(1, 80)), int(rng.integers(1, 9))
    shares = rng.dirichlet(np.full(n_classes, rng.choice([0.05, 1.0])))
    truth = rng.choice(n_classes, size=n_items, p=shares)
    right = rng.random((n_items, n_voters)) < rng.uniform(0.2, 1.0, n_voters)
    cells = np.where(right, truth[:, None], rng.integers(n_classes, size=(n_items, n_voters)))
    cells[rng.random(cells.shape) < rng.choice([0.0, 0.3, 0.95])] = -1
    return VoteMatrix.from_dense(cells, [f"class {n}" for n in range(n_classes)])


def balance_of(votes: VoteMatrix, rng: np.random.Generator):
    """None, an even balance, or an extreme one."""
    kind, n_classes = rng.integers(3), votes.n_classes
    if kind == 0:
        return None
    rare = rng.choice([1e-5, 1e-4, 0.01, 1 / n_classes])
    return [1 - rare * (n_classes - 1), *[rare] * (n_classes - 1)]


def flipped(votes: VoteMatrix, proba) -> bool:
    """Whether an item on which three voters or more agree got another class."""
    dense = votes.dense()
    for row, given_proba in zip(dense, proba, strict=True):
        cast = row[row >= 0]
        if len(cast) >= 3 and (cast == cast[0]).all() and given_proba.argmax() != cast[0]:
            return True
    return False


def test_label_models():
    """Finite distributions; unanimous votes are overruled only with a warning."""
    tally = Tally("label models")
    for source in tries("label models", least=10):
        rng = np.random.default_rng(source.getrandbits(32))
        votes, name = random_votes(rng), LABEL_MODELS[int(rng.integers(len(LABEL_MODELS)))]
        balance = balance_of(votes, rng)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            what = (name, balance, votes)
            model = tally.attempt(what, METHODS[name].cls().fit, votes, balance)
            if model is None:
                continue
            proba = tally.attempt(what, model.predict_proba, votes)
        if proba is None:
            continue
        assert np.isfinite(proba).all(), what
        assert np.allclose(proba.sum(axis=1), 1), what
        if flipped(votes, proba):
            tally.counts["flipped"] += 1
            warned = any(issubclass(one.category, WieselWarning) for one in said)
            tally.counts["flipped in silence"] += not warned and _trusted(model)
            assert not tally.counts["flipped in silence"], what
    tally.report()
    assert tally.counts["worked"]


def _trusted(model) -> bool:
    """Whether the model itself calls every voter better than chance."""
    accuracies = np.asarray(getattr(model, "accuracies_", 0.0))
    known = accuracies[~np.isnan(accuracies)]
    return bool((known > 1 / len(model.labels_)).all())


def fitted(name: str, X, votes: VoteMatrix):
    options = {"epochs": 1, "batch_size": 16, "seed": 0}
    return build_method(name, Linear(3, votes.n_classes), votes.labels, options).fit(X, votes)


def test_end_to_end_methods():
    """Features of any scale, classes without votes, one voter: finite or refused."""
    tally = Tally("end-to-end methods")
    for source in tries("end-to-end methods", least=6):
        rng = np.random.default_rng(source.getrandbits(32))
        votes, name = random_votes(rng), END_TO_END[int(rng.integers(len(END_TO_END)))]
        scale, shift = rng.choice([1e-12, 1.0, 1e6, 1e30]), rng.choice([0.0, 1e4])
        X = (rng.normal(size=(votes.n_items, 3)) * scale + shift).astype(np.float32)
        what = (name, votes, scale, shift)
        model = tally.attempt(what, fitted, name, X, votes)
        if model is None:
            continue
        proba = tally.attempt(what, model.predict_proba, X)
        assert proba is None or np.isfinite(proba).all(), what
        if hasattr(model, "soft_labels"):
            soft = tally.attempt(what, model.soft_labels, X, votes)
            assert soft is None or np.isfinite(soft).all(), what
    tally.report()
    assert tally.counts["worked"]


def test_every_label_model_takes_any_votes_or_refuses_them():
    tally = Tally("label models on small votes")

    @settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
    @given(vote_matrices())
    def check(votes: VoteMatrix) -> None:
        for name in LABEL_MODELS:
            model = tally.attempt((name, votes), METHODS[name].cls().fit, votes)
            if model is not None:
                proba = model.predict_proba(votes)
                assert np.isfinite(proba).all(), (name, votes)

    check()
    tally.report()
    assert tally.counts["worked"]
