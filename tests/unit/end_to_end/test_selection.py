"""Greedy selection of members on a few gold labels."""

import numpy as np
import pytest

from wiesel.end_to_end.selection import greedy_weights as chosen
from wiesel.training import Validation, as_inputs


def validation(n_items: int) -> Validation:
    gold = np.arange(n_items) % 2
    return Validation(as_inputs(np.zeros((n_items, 1))), gold, 2)


def member(held_out: Validation, accuracy: float, seed: int) -> np.ndarray:
    """Probabilities that are right so often, and unequally sure."""
    rng = np.random.default_rng(seed)
    n_items = len(held_out.gold)
    right = rng.random(n_items) < accuracy
    sure = rng.uniform(0.6, 0.9, n_items)
    voted = np.where(right, held_out.gold, 1 - held_out.gold)
    return np.where(voted[:, None] == np.arange(2), sure[:, None], 1 - sure[:, None])


def greedy_weights(probas: np.ndarray, held_out: Validation) -> np.ndarray:
    return chosen(probas, held_out, np.full(len(probas), 1 / len(probas)))


def test_one_member_has_all_the_weight():
    held_out = validation(20)
    assert greedy_weights(member(held_out, 0.8, 0)[None], held_out).tolist() == [1.0]


def test_members_that_say_the_same_count_the_same():
    held_out = validation(60)
    one = member(held_out, 0.8, 0)
    assert greedy_weights(np.stack([one] * 3), held_out) == pytest.approx([1 / 3] * 3)


@pytest.mark.parametrize(("n_items", "most"), [(10, 0.6), (50, 0.75), (5000, 1.0)])
def test_the_better_one_gets_more_the_more_gold_there_is(n_items: int, most: float):
    held_out = validation(n_items)
    probas = np.stack([member(held_out, 1.0, 0), *(member(held_out, 0.5, s) for s in (1, 2))])
    weights = greedy_weights(probas, held_out)
    assert weights.sum() == pytest.approx(1)
    assert (weights > 0).all()
    assert weights.argmax() == 0
    assert weights[0] < most


def test_members_that_complement_each_other_are_both_taken():
    held_out = validation(2000)
    probas = np.stack([member(held_out, a, s) for s, a in enumerate((0.75, 0.75, 0.3))])
    first, second, wrong = greedy_weights(probas, held_out)
    assert min(first, second) > 0.3
    assert wrong < 0.05


def test_few_gold_items_leave_the_weights_that_members_had():
    held_out = validation(4)
    probas = np.stack([member(held_out, 1.0, 0)] * 2)
    heavy, light = chosen(probas, held_out, np.array([0.8, 0.2]))
    assert heavy == pytest.approx(0.8, abs=0.05)
    assert heavy + light == pytest.approx(1)
