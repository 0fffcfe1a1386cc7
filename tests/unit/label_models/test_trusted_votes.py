"""Which votes raise the probability of their own class, by each kind of learned values."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from wiesel.label_models.base import _trusted_votes


def model(**learned: Any) -> SimpleNamespace:
    return SimpleNamespace(voters_=("a", "b"), labels_=("x", "y"), **learned)


@pytest.mark.parametrize("name", ["confusions_", "conditionals_"])
def test_a_vote_must_be_likelier_for_its_class_by_the_margin(name: str):
    # P(votes x | x), P(votes y | x); P(votes x | y), P(votes y | y); and silence, which is no vote.
    likelihood = [[[0.54, 0.46, 0.9], [0.5, 0.5, 0.9]], [[0.2, 0.8, 0.9], [0.1, 0.9, 0.9]]]
    found = model(**{name: np.array(likelihood)})
    assert _trusted_votes(found).tolist() == [[True, True], [True, True]]
    # 0.54 < 1.1 * 0.5; 0.5 < 1.1 * 0.46; 0.2 > 1.1 * 0.1; 0.9 > 1.1 * 0.8
    assert _trusted_votes(found, margin=0.1).tolist() == [[False, False], [True, True]]


def test_a_weight_must_be_higher_for_its_class_than_for_the_others():
    weights = np.array([[[0.3, 0.25], [0.0, 0.1]], [[-0.2, -0.1], [-0.5, -0.1]]])
    assert _trusted_votes(model(weights_=weights)).tolist() == [[True, True], [False, True]]
    assert _trusted_votes(model(weights_=weights), margin=0.1).tolist() == [
        [False, True],
        [False, True],
    ]


def test_one_weight_or_accuracy_stands_for_all_classes():
    assert _trusted_votes(model(weights_=np.array([0.1, 0.0]))).tolist() == [
        [True] * 2,
        [False] * 2,
    ]
    accuracies = np.array([0.5, 0.54])
    assert _trusted_votes(model(accuracies_=accuracies)).all()
    assert not _trusted_votes(model(accuracies_=accuracies), margin=0.1).any()
    assert _trusted_votes(model()).all()
