"""The decision threshold."""

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import f1_score, precision_recall_curve

from wiesel.errors import FeatureError
from wiesel.evaluation import choose_threshold, supported_threshold, threshold_curve


def test_the_threshold_separates_what_can_be_separated() -> None:
    assert choose_threshold(np.array([0.1, 0.3, 0.5, 0.9]), [0, 0, 1, 1]) == pytest.approx(0.4)


def test_no_other_threshold_has_a_better_f1() -> None:
    rng = np.random.default_rng(0)
    gold = rng.integers(2, size=100)
    scores = np.round(rng.random(100) + 0.3 * gold, 1) / 1.3
    chosen = f1_score(gold, scores >= choose_threshold(scores, gold))
    others = [f1_score(gold, scores >= t) for t in np.linspace(0.0, 1.0, 201)]
    assert chosen == pytest.approx(max(others))


def test_two_columns_are_taken_as_both_classes() -> None:
    scores = np.array([0.1, 0.3, 0.5, 0.9])
    proba = np.column_stack([1 - scores, scores])
    assert choose_threshold(proba, [0, 0, 1, 1]) == choose_threshold(scores, [0, 0, 1, 1])


def test_of_equal_thresholds_the_one_nearest_to_a_half_is_taken() -> None:
    # At 0.1 (all): precision 3/6, F1 2/3; at 0.4: 2 of 3 right, 2 of 3 found, F1 2/3 as well.
    scores = np.array([0.1, 0.15, 0.2, 0.5, 0.6, 0.7])
    gold = np.array([1, 0, 0, 1, 0, 1])
    assert choose_threshold(scores, gold) == pytest.approx(0.35)


@pytest.mark.parametrize("gold", [[0, 0, 0], [1, 1, 1]])
def test_one_class_alone_says_nothing(gold: list[int]) -> None:
    assert choose_threshold(np.array([0.1, 0.2, 0.9]), gold) == 0.5


def test_the_curve_ascends_and_ends_before_predicting_nothing() -> None:
    curve = threshold_curve(np.array([0.9, 0.1, 0.5]), [1, 0, 0])
    assert curve.threshold.tolist() == [0.1, 0.5, 0.9]
    assert curve.recall.tolist() == [1, 1, 1]
    assert curve.precision.tolist() == [1 / 3, 1 / 2, 1]


def test_the_curve_is_that_of_scikit_learn_also_with_ties() -> None:
    rng = np.random.default_rng(1)
    gold, scores = rng.integers(2, size=200), rng.random(200).round(1)
    curve = threshold_curve(scores, gold)
    precision, recall, threshold = precision_recall_curve(gold, scores)
    assert curve.threshold.tolist() == threshold.tolist()
    # Its last point predicts nothing.
    assert curve.precision == pytest.approx(precision[:-1])
    assert curve.recall == pytest.approx(recall[:-1])


@pytest.mark.parametrize(
    ("proba", "gold", "words"),
    [
        (np.ones((2, 3)) / 3, [0, 1], r"two classes.*\(2, 3\)"),
        ([0.5], [0, 1], r"as many gold labels"),
        ([], [], "as many gold labels"),
        ([0.5, np.nan], [0, 1], "NaN or infinity"),
        ([0.5, 0.6], [0, 2], "0 or 1"),
    ],
)
def test_what_does_not_fit_is_refused(proba: Any, gold: Any, words: str) -> None:
    with pytest.raises(FeatureError, match=words):
        choose_threshold(proba, gold)


def test_a_curve_without_positive_items_is_refused() -> None:
    with pytest.raises(FeatureError, match="at least one item of the second class"):
        threshold_curve(np.array([0.5]), [0])


def shifted(n_items: int, seed: int = 0) -> tuple[Any, Any]:
    """Scores that separate the classes well, at 0.25."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(2, size=n_items)
    return np.clip(rng.normal(0.15 + 0.2 * gold, 0.06), 0, 1), gold


def test_a_threshold_moves_only_where_gold_shows_beyond_chance_that_it_helps() -> None:
    scores, gold = shifted(400)
    # Shrunk toward 1/2 as by fifty further items.
    assert supported_threshold(scores, gold) == pytest.approx(0.25 * 400 / 450 + 0.5 / 9, abs=0.02)
    rng = np.random.default_rng(1)
    for n_items in (15, 50, 200):
        moved = [
            supported_threshold(rng.random(n_items), rng.integers(2, size=n_items)) != 0.5
            for _ in range(20)
        ]
        assert np.mean(moved) <= 0.2, "scores that say nothing"


def test_more_gold_moves_a_threshold_further() -> None:
    found = [supported_threshold(*shifted(n_items)) for n_items in (60, 250, 1000)]
    assert found == sorted(found, reverse=True)
    assert found[0] < 0.5


@pytest.mark.parametrize("gold", [[0, 0, 0], [1, 1, 1], [0, 1, 1]])
def test_gold_that_tells_nothing_leaves_the_threshold(gold: list[int]) -> None:
    assert supported_threshold(np.array([0.1, 0.2, 0.3]), gold) == 0.5
