"""How an epoch is judged, and what validation says about the balance, beside scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from wiesel.label_sets import MultiLabelSpace
from wiesel.multilabel import MultiLabelVotes
from wiesel.tasks import SeveralLabelsTask
from wiesel.tasks.presence import MultiLabelValidation
from wiesel.training import as_inputs

PROBA = np.array([0.9, 0.2, 0.6, 0.5, 0.4])


def validation(*labels: list[int]) -> MultiLabelValidation:
    presence = np.array(labels).T
    n_items, n_labels = presence.shape
    inputs = as_inputs(np.zeros((n_items, 1)))
    return MultiLabelValidation(inputs, np.zeros(n_items, np.int64), n_labels, presence)


def both(*present: np.ndarray) -> np.ndarray:
    """(n_items, absent or present, n_labels)"""
    columns = np.stack(present, axis=1)
    return np.stack([1 - columns, columns], axis=1)


def test_the_score_is_the_mean_auc_of_the_labels_that_vary():
    mixed, other = [1, 0, -1, 0, 1], [0, 0, 1, 0, 1]
    held_out = validation(mixed, [1, 1, 1, -1, 1], [0, 0, 0, 0, -1], other, [-1] * 5)
    assert held_out.judged == [0, 3]
    assert held_out.metric == "mean_auc"
    known = np.array(mixed) >= 0
    areas = roc_auc_score(np.array(mixed)[known], PROBA[known]), roc_auc_score(other, 1 - PROBA)
    found = held_out.score(both(PROBA, PROBA, PROBA, 1 - PROBA, PROBA))
    assert found == pytest.approx(np.mean(areas))


def test_if_no_label_varies_the_score_is_the_accuracy_of_the_known_cells():
    held_out = validation([1, 1, 1, 1, -1], [0, -1, -1, 0, -1])
    assert held_out.judged == []
    assert held_out.metric == "accuracy"
    # The first label: right on 0.9, 0.6 and 0.5 of four; the second, at 0.1 and 0.5: on one of two.
    assert held_out.score(both(PROBA, 1 - PROBA)) == pytest.approx(4 / 6)
    assert validation([-1, -1]).score(both(PROBA[:2])) == 0


def test_the_balance_counts_one_more_item_with_and_one_without_each_label():
    labels = MultiLabelSpace("a", "b")
    held_out = validation([1, 0, -1, 1, 1], [-1, -1, -1, -1, -1])
    votes = MultiLabelVotes.from_dense(np.ones((5, 1, 2)), labels)
    found = SeveralLabelsTask(labels).class_balance("validation", votes, held_out)
    assert found.tolist() == pytest.approx([4 / 6, 1 / 2])
