import numpy as np

from wiesel.training.validation import stratified_folds


def test_folds_are_all_items_once_with_like_class_shares():
    gold = np.array([0] * 20 + [1] * 5)
    folds = stratified_folds(gold, 5, seed=3)
    assert sorted(np.concatenate(folds)) == list(range(25))
    assert [int(gold[fold].sum()) for fold in folds] == [1, 1, 1, 1, 1]


def test_folds_are_the_same_each_time():
    gold = np.array([0, 1, 1, 0, 1, 0, 0])
    first, again = stratified_folds(gold, 3), stratified_folds(gold, 3)
    assert all(np.array_equal(*pair) for pair in zip(first, again, strict=True))
