"""Class shares of a collection, corrected for the errors on a labeled sample."""

import numpy as np
import pytest

from wiesel.errors import DataError
from wiesel.evaluation import corrected_shares

LABELS = ["no", "yes"]


def drawn(gold: np.ndarray, rates: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.array([rng.choice(len(rates), p=rates[c]) for c in gold])


def test_two_classes_follow_the_formula_of_rogan_and_gladen() -> None:
    """Sensitivity .8, specificity .9, 30 % counted: (.3 + .9 - 1) / (.8 + .9 - 1) = .2857."""
    gold = [1] * 50 + [0] * 50
    said = [1] * 40 + [0] * 10 + [0] * 45 + [1] * 5
    table = corrected_shares([1] * 300 + [0] * 700, said, gold, LABELS).frame
    assert table["counted"].to_list() == pytest.approx([0.7, 0.3])
    assert table["corrected"].to_list() == pytest.approx([1 - 2 / 7, 2 / 7], abs=1e-6)
    low, high = table["low"][1], table["high"][1]
    assert 0.1 < low < 2 / 7 < high < 0.45


def test_intervals_cover_the_true_share_of_three_classes() -> None:
    rng = np.random.default_rng(0)
    rates = np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]])
    true, covered = np.array([0.6, 0.3, 0.1]), 0
    for seed in range(40):
        collection = drawn(rng.choice(3, 1000, p=true), rates, rng)
        gold = np.repeat([0, 1, 2], 60)  # other shares than the collection
        table = corrected_shares(
            collection, drawn(gold, rates, rng), gold, ["a", "b", "c"], n_resamples=200, seed=seed
        ).frame
        covered += int(
            ((table["low"].to_numpy() <= true) & (true <= table["high"].to_numpy())).sum()
        )
    assert covered / 120 > 0.88


def test_shares_are_never_negative_and_sum_to_one() -> None:
    gold = [0] * 20 + [1] * 20
    said = [0] * 14 + [1] * 8 + [1] * 18
    table = corrected_shares([0] * 99 + [1], said, gold, LABELS).frame
    assert table["corrected"].sum() == pytest.approx(1)
    assert table["corrected"].min() >= 0
    assert (table["low"] <= table["high"]).all()


def test_predictions_that_say_nothing_are_refused() -> None:
    """Otherwise the share of a class would be 0 or 1, with a narrow interval."""
    gold = [0] * 10 + [1] * 10
    for said in ([0, 1] * 10, [1] * 10 + [0] * 10, [0] * 20):
        with pytest.raises(DataError, match="hardly predicted more often where it is right"):
            corrected_shares([0] * 90 + [1] * 10, said, gold, LABELS)


def test_too_few_labels_are_refused() -> None:
    with pytest.raises(DataError, match="2 labels of 'yes': at least 5 of each class"):
        corrected_shares([0], [0] * 12, [0] * 10 + [1] * 2, LABELS)
    with pytest.raises(DataError, match="3 predictions and 2 gold labels"):
        corrected_shares([0], [0, 1, 0], [0, 1], LABELS)
