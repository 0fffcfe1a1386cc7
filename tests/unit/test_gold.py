"""One notion of gold: labels, their rows, and how these were chosen."""

from typing import Any

import numpy as np
import pytest

from wiesel import Gold
from wiesel.errors import ParameterError


def test_rows_are_random_unless_said_otherwise():
    assert Gold([0, 1, 1]).random.tolist() == [True, True, True]
    assert Gold([0, 1, 1], chosen="uncertain").random.tolist() == [False, False, False]
    assert Gold([0, 1], chosen=["random", "conflict"]).random.tolist() == [True, False]


def test_every_form_that_fit_takes_is_the_same():
    X, y, votes = np.zeros((2, 1)), np.array([0, 1]), object()
    assert (Gold.of((X, y)).X is X, Gold.of((X, y)).y is y) == (True, True)
    assert Gold.of((X, y, votes)).votes is votes
    assert Gold.of(y).X is None
    assert Gold.of(["ham", None]).y == ["ham", None]
    given = Gold(y, X, chosen="uncertain")
    assert Gold.of(given) is given


@pytest.mark.parametrize("labels", [("ham", "spam"), ({"a"}, {"a", "b"}), (None, "ham")])
def test_a_tuple_of_labels_is_no_pair_of_inputs_and_labels(labels: tuple[Any, ...]):
    assert Gold.of(labels).y == labels
    assert len(Gold.of(labels)) == 2


def test_several_labels_may_come_as_columns():
    assert len(Gold({"a": [0, 1, 1], "b": [1, 0, 0]})) == 3


def test_what_does_not_fit_is_refused():
    with pytest.raises(ParameterError, match="chosen needs a value for each of the 3 labels"):
        Gold([0, 1, 1], chosen=["random", "random"])
    with pytest.raises(ParameterError, match="probability needs a value for each of the 2"):
        Gold([0, 1], probability=[0.5])
    with pytest.raises(ParameterError, match="needs X"):
        Gold([0, 1], votes=object())
