"""Figures of merit against hand-made numbers and scikit-learn."""

import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from wiesel.evaluation.metrics import (
    FIGURES,
    accuracy,
    average_precision,
    brier,
    calibration_bins,
    calibration_error,
    class_figures,
    confusion_matrix,
    f1_binary,
    f1_macro,
    figures,
    log_loss,
    predicted_classes,
    roc_auc,
)


def random_predictions(n_classes: int, n_items: int = 200) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n_classes)
    gold = rng.integers(n_classes, size=n_items)
    # Rounded to one digit, so that there are many ties.
    scores = np.round(rng.random((n_items, n_classes)) + 0.3 * np.eye(n_classes)[gold], 1) + 0.1
    return gold, scores / scores.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_figures_are_those_of_scikit_learn(n_classes: int) -> None:
    gold, proba = random_predictions(n_classes)
    predicted = proba.argmax(axis=1)
    one_hot = np.eye(n_classes)[gold]
    got = figures(gold, proba, predicted)
    assert tuple(got) == FIGURES
    assert got["accuracy"] == pytest.approx(sklearn_metrics.accuracy_score(gold, predicted))
    average = "binary" if n_classes == 2 else "macro"
    assert got["f1"] == pytest.approx(sklearn_metrics.f1_score(gold, predicted, average=average))
    assert got["log_loss"] == pytest.approx(sklearn_metrics.log_loss(gold, proba))
    if n_classes == 2:
        assert got["auc"] == pytest.approx(sklearn_metrics.roc_auc_score(gold, proba[:, 1]))
        expected = sklearn_metrics.average_precision_score(gold, proba[:, 1])
        assert got["average_precision"] == pytest.approx(expected)
        assert got["brier"] == pytest.approx(sklearn_metrics.brier_score_loss(gold, proba[:, 1]))
    else:
        expected = sklearn_metrics.roc_auc_score(gold, proba, multi_class="ovr")
        assert got["auc"] == pytest.approx(expected)
        expected = sklearn_metrics.average_precision_score(one_hot, proba)
        assert got["average_precision"] == pytest.approx(expected)
        assert got["brier"] == pytest.approx(((proba - one_hot) ** 2).sum(axis=1).mean())


def test_precision_recall_and_f1_by_hand() -> None:
    # Class 1: two predicted, one of them right; two true, one of them found.
    confusion = confusion_matrix(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), 2)
    assert confusion.tolist() == [[1, 1], [1, 1]]
    assert class_figures(confusion).f1.tolist() == [0.5, 0.5]


def test_what_is_not_defined_is_nan_and_warns_of_nothing() -> None:
    gold, proba = np.array([0, 0]), np.array([[0.9, 0.1], [0.8, 0.2]])
    predicted = np.array([0, 0])
    assert np.isnan(roc_auc(gold, proba))
    assert np.isnan(average_precision(gold, proba))
    assert np.isnan(f1_binary(gold, predicted))
    assert f1_macro(gold, predicted, 2) == 1.0
    assert np.isnan(class_figures(confusion_matrix(gold, predicted, 2)).recall[1])
    assert accuracy(gold, predicted) == 1.0


def test_a_class_that_is_predicted_but_never_true_has_f1_zero() -> None:
    assert f1_binary(np.array([0, 0]), np.array([0, 1])) == 0.0


def test_auc_of_many_classes_is_over_those_that_occur() -> None:
    gold = np.array([0, 0, 1, 1])
    proba = np.array([[0.8, 0.1, 0.1], [0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.7, 0.1]])
    assert roc_auc(gold, proba) == 1.0
    assert average_precision(gold, proba) == 1.0


def test_certainty_in_the_wrong_class_costs_much_but_not_infinity() -> None:
    loss = log_loss(np.array([1]), np.array([[1.0, 0.0]]))
    assert np.isfinite(loss)
    assert loss > 80


def test_brier_of_two_classes_is_of_the_second() -> None:
    assert brier(np.array([1]), np.array([[0.25, 0.75]])) == 0.0625


def test_calibration_error_by_hand() -> None:
    # Confidence 0.8 twice, right once: gap 0.3; confidence 0.6 twice, right twice: gap 0.4.
    proba = np.array([[0.8, 0.2], [0.2, 0.8], [0.6, 0.4], [0.4, 0.6]])
    gold = np.array([0, 0, 0, 1])
    assert calibration_error(gold, proba) == pytest.approx(0.35)
    bins = calibration_bins(gold, proba, n_bins=5)
    assert bins.n_items.tolist() == [0, 0, 2, 2, 0]
    assert bins.accuracy[2:4].tolist() == [1.0, 0.5]
    assert np.isnan(bins.confidence[0])


def test_confidence_zero_and_one_have_a_group() -> None:
    proba = np.array([[1.0, 0.0], [0.0, 1.0]])
    bins = calibration_bins(np.array([0, 1]), proba, predicted=np.array([0, 0]))
    assert bins.n_items[[0, -1]].tolist() == [1, 1]


def test_the_threshold_itself_is_positive() -> None:
    proba = np.array([[0.7, 0.3], [0.71, 0.29]])
    assert predicted_classes(proba, 0.3).tolist() == [1, 0]
    assert predicted_classes(proba).tolist() == [0, 0]


def test_certainty_is_in_the_last_bin_even_if_it_is_rounded_up() -> None:
    proba = np.array([[1.0, 0.0], [1.0004, -0.0004], [0.0, 1.0]])
    bins = calibration_bins(np.array([0, 0, 0]), proba, predicted=np.array([0, 0, 0]), n_bins=5)
    assert bins.n_items.tolist() == [1, 0, 0, 0, 2]
