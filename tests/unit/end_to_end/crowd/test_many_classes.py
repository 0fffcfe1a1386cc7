"""Crowd methods on so many classes that training would take hours."""

import numpy as np
import pytest

from wiesel import LabelSpace, VoteMatrix
from wiesel.end_to_end import (
    MBEM,
    AggNet,
    COINNet,
    CoNAL,
    ConfusionNet,
    CrowdLayer,
    MaxMIG,
    Raykar,
)
from wiesel.errors import ParameterError
from wiesel.nn import Linear

METHODS = [CrowdLayer, ConfusionNet, CoNAL, COINNet, MaxMIG, Raykar, MBEM, AggNet]


def votes_on(n_classes: int) -> tuple[np.ndarray, VoteMatrix]:
    """3,000 items with votes of three voters."""
    rng = np.random.default_rng(0)
    labels = LabelSpace.of([f"c{number}" for number in range(n_classes)])
    dense = rng.integers(0, n_classes, (3_000, 3))
    return rng.normal(size=(3_000, 4)).astype(np.float32), VoteMatrix.from_dense(dense, labels)


@pytest.mark.parametrize("method", METHODS)
def test_a_thousand_classes_are_refused_at_once_with_what_works(method):
    X, votes = votes_on(1_000)
    with pytest.raises(ParameterError, match=r"1,000 epochs for 1,000.*minutes.*classes.*epochs="):
        method(Linear(4, 1_000)).fit(X, votes)


@pytest.mark.parametrize("method", METHODS)
def test_two_hundred_classes_are_not_refused(method):
    X, votes = votes_on(200)
    model = method(Linear(4, 200))
    model.planned(model.fit_inputs(X, votes), None)


def test_who_gives_the_number_of_epochs_has_decided():
    X, votes = votes_on(1_000)
    model = MaxMIG(Linear(4, 1_000), epochs=1, epoch_size=64, weight_average=None)
    assert model.fit(X, votes).predict_proba(X[:2]).shape == (2, 1_000)


def test_a_large_data_set_of_few_classes_is_not_refused():
    rng = np.random.default_rng(0)
    votes = VoteMatrix.from_dense(rng.integers(0, 10, (200_000, 3)), [*"abcdefghij"])
    model = Raykar(Linear(4, 10))
    model.planned(model.fit_inputs(rng.normal(size=(200_000, 4)).astype(np.float32), votes), None)
