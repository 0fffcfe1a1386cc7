import numpy as np
import pytest

from wiesel.training import Validation, as_inputs
from wiesel.training.loop import stratified_folds


def test_folds_are_all_items_once_with_like_class_shares():
    gold = np.array([0] * 20 + [1] * 5)
    folds = stratified_folds(gold, 5, seed=3)
    assert sorted(np.concatenate(folds)) == list(range(25))
    assert [int(gold[fold].sum()) for fold in folds] == [1, 1, 1, 1, 1]


def test_folds_are_the_same_each_time():
    gold = np.array([0, 1, 1, 0, 1, 0, 0])
    first, again = stratified_folds(gold, 3), stratified_folds(gold, 3)
    assert all(np.array_equal(*pair) for pair in zip(first, again, strict=True))


@pytest.mark.parametrize(
    ("gold", "n_classes", "metric"),
    [
        ([0, 1], 2, "auc"),
        ([1, 1], 2, "accuracy"),
        ([0, 1], 3, "accuracy"),
        ([2], 3, "accuracy"),
    ],
)
def test_two_classes_that_occur_are_scored_by_the_area_under_the_curve(gold, n_classes, metric):
    inputs = as_inputs(np.zeros((len(gold), 1)))
    assert Validation(inputs, np.array(gold), n_classes).metric == metric
