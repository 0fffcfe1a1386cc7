"""Paired comparisons."""

import json
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from wiesel.errors import FeatureError, ParameterError
from wiesel.evaluation import (
    compare_paired,
    compare_paired_proba,
    evaluate_presence,
    evaluate_proba,
)
from wiesel.evaluation.comparison import differences_to_first, f1_parts, mcnemar, verdict
from wiesel.labels import LabelSpace

LABELS = ["ham", "spam"]


def two_models(n_items: int = 400) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The second model is the first with one prediction in ten turned around."""
    rng = np.random.default_rng(0)
    gold = rng.integers(2, size=n_items)
    first = np.where(rng.random(n_items) < 0.8, gold, 1 - gold) * 0.6 + 0.2
    second = np.where(np.arange(n_items) % 10 == 0, 1 - first, first)
    return np.column_stack([1 - first, first]), np.column_stack([1 - second, second]), gold


def test_differences_are_first_minus_second_on_the_same_draws() -> None:
    first, second, gold = two_models()
    result = compare_paired_proba(first, second, gold, LABELS)
    right = [(proba.argmax(axis=1) == gold).mean() for proba in (first, second)]
    accuracy = result.differences["accuracy"]
    assert accuracy == pytest.approx(right[0] - right[1])
    assert accuracy.low < accuracy < accuracy.high
    # Only one item in ten differs, so the paired interval is narrower than either model's own.
    assert accuracy.high - accuracy.low < 2 * 1.96 * np.sqrt(0.16 / 400)
    assert result.only_first - result.only_second == round(400 * float(accuracy))


def test_without_resamples_there_are_no_intervals() -> None:
    first, second, gold = two_models()
    whole, plain = (
        compare_paired_proba(first, second, gold, LABELS, n_resamples=n) for n in (20, 0)
    )
    assert {**plain.differences} == {**whole.differences}
    assert all(np.isnan(score.low) and np.isnan(score.high) for score in plain.differences.values())
    assert "n/a" not in repr(plain)


@pytest.mark.parametrize("n_resamples", [-1, 2.5, "9", None, True])
def test_a_number_of_resamples_that_is_none_is_refused(n_resamples: Any) -> None:
    first, second, gold = two_models()
    several = np.stack([first[:, 1], second[:, 1]], axis=1)
    for judged in (
        lambda: compare_paired_proba(first, second, gold, LABELS, n_resamples=n_resamples),
        lambda: evaluate_proba(first, gold, LABELS, n_resamples=n_resamples),
        lambda: evaluate_presence(several, several > 0.5, LABELS, n_resamples=n_resamples),
    ):
        with pytest.raises(ParameterError, match="n_resamples is a whole number of at least 0"):
            judged()


def test_turning_the_models_around_turns_the_signs() -> None:
    first, second, gold = two_models()
    there = compare_paired_proba(first, second, gold, LABELS).differences["auc"]
    back = compare_paired_proba(second, first, gold, LABELS).differences["auc"]
    assert (back, back.low, back.high) == pytest.approx((-there, -there.high, -there.low))


def test_a_model_does_not_differ_from_itself() -> None:
    first, _, gold = two_models()
    result = compare_paired_proba(first, first, gold, LABELS)
    assert result.p_value == 1.0
    assert {float(score) for score in result.differences.values()} == {0.0}
    assert result.differences["f1"].high == 0.0


def test_mcnemar_is_a_binomial_test_of_the_items_that_differ() -> None:
    assert mcnemar(3, 10) == pytest.approx(2 * binom.cdf(3, 13, 0.5))


def test_thresholds_and_unknown_gold_are_respected() -> None:
    first, second, gold = two_models()
    gold = gold.copy()
    gold[:100] = -1
    result = compare_paired_proba(first, second, gold, LABELS, thresholds=(0.9, 0.9))
    assert result.n_items == 300
    assert (result.only_first, result.only_second) == (0, 0)


def test_models_are_compared_by_their_predictions() -> None:
    first, second, gold = two_models()

    class Fixed:
        labels_ = LabelSpace(*LABELS)

        def __init__(self, proba: Any) -> None:
            self.proba = proba

        def predict_proba(self, X: Any) -> Any:
            return self.proba[X]

    class Other(Fixed):
        labels_ = LabelSpace("no", "yes")

    result = compare_paired(Fixed(first), Fixed(second), np.arange(400), gold)
    expected = compare_paired_proba(first, second, gold, LABELS)
    assert result.to_dict() == expected.to_dict()
    with pytest.raises(ParameterError, match=r"different classes: .*'ham'.*'no'"):
        compare_paired(Fixed(first), Other(second), np.arange(400), gold)


def test_a_comparison_prints_and_is_plain_data() -> None:
    first, second, gold = two_models()
    result = compare_paired_proba(first, second, gold, LABELS)
    assert "McNemar p = " in str(result)
    assert "ROC-AUC" in str(result)
    assert "<table" in result._repr_html_()
    assert json.loads(json.dumps(result.to_dict(), allow_nan=False))["n_items"] == 400


def test_different_lengths_and_unknown_gold_are_refused() -> None:
    first, second, gold = two_models()
    with pytest.raises(FeatureError, match=r"399 and 400 items.*400 gold labels"):
        compare_paired_proba(first[1:], second, gold, LABELS)
    with pytest.raises(FeatureError, match="nothing to compare on"):
        compare_paired_proba(first, second, np.full(400, -1), LABELS)


def test_parts_of_f1_vary_as_f1_does_on_resamples():
    rng = np.random.default_rng(4)
    size = rng.integers(0, 5, size=400)
    right = rng.binomial(size // 2, 0.6)
    parts = f1_parts(right, size)
    assert parts.mean() == pytest.approx(2 * right.sum() / size.sum())
    draws = rng.multinomial(400, np.full(400, 1 / 400), size=4000)
    spread = (2 * draws @ right / (draws @ size)).std()
    assert parts.std() / 20 == pytest.approx(spread, rel=0.05)
    # Two labels: the mean of their F1; a label that is never there nor predicted is left out.
    both = f1_parts(np.stack([right, 0 * right], 1), np.stack([size, 0 * size], 1))
    assert np.allclose(both, parts)
    assert not len(f1_parts([0, 0], [0, 0]))


def test_a_better_f1_beats_the_labels_and_an_equal_one_does_not():
    size = np.full(200, 4)
    good, poor = (f1_parts(np.arange(200) % k, size) for k in (3, 2))
    apart = good.mean() - poor.mean()
    [_, (score, p_value)] = differences_to_first([poor[None], good[None]])
    assert float(score) == pytest.approx(apart)
    assert score.low > 0
    assert p_value < 0.01
    said = verdict(good[None], [poor[None]], "macro F1")
    assert said.startswith("Your votes beat your labels by")
    assert said.endswith("points of macro F1.")
    assert "Cannot tell yet" in verdict(poor[None, :30], [poor[None, :30][:, ::-1]], "F1")
