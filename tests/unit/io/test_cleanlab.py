"""Answers and out-of-sample probabilities as cleanlab takes them."""

import numpy as np
import pytest
import torch

from wiesel import MajorityVote, TwoStage, VoteMatrix
from wiesel.datasets.synthetic import make_features, make_votes
from wiesel.end_to_end import out_of_sample_proba
from wiesel.errors import DataError, ParameterError
from wiesel.io import from_cleanlab, to_cleanlab
from wiesel.nn import MLP
from wiesel.training import seeded


def test_answers_go_both_ways():
    dense = [[0, -1, 1], [-1, -1, -1], [1, -1, 1]]
    votes = VoteMatrix.from_dense(dense, ["no", "yes"], ["a", "b", "c"], ["i1", "i2", "i3"])
    table = to_cleanlab(votes)
    assert table.index.tolist() == ["i1", "i3"]  # cleanlab refuses items without answers
    assert table.columns.tolist() == ["a", "c"]
    assert table.to_numpy().tolist() == [[0, 1], [1, 1]]
    assert from_cleanlab(table, ["no", "yes"]).equals(votes[[0, 2]].select(["a", "c"]))


def test_missing_answers_abstain():
    votes = from_cleanlab(np.array([[0, np.nan], [np.nan, 1]]), ["no", "yes"])
    assert votes.dense().tolist() == [[0, -1], [-1, 1]]


def test_an_item_twice_is_refused():
    votes = VoteMatrix.from_dense([[0], [1]], ["no", "yes"], ["a"])
    table = to_cleanlab(votes)
    table.index = ["i", "i"]
    with pytest.raises(DataError, match="twice"):
        from_cleanlab(table, ["no", "yes"])


# After two epochs on thirty items a network need not have learned.
@pytest.mark.filterwarnings("ignore::wiesel.errors.CollapseWarning")
def test_no_item_is_predicted_by_a_model_that_learned_from_it():
    votes, gold = make_votes(60, 4, coverage=0.9, seed=1)
    X = make_features(gold, n_features=3, seed=1)
    with seeded(1):
        network = MLP(3, 2)
    model = TwoStage(MajorityVote(), network, epochs=2, epoch_size=None, batch_size=8, lr=0.05)
    proba = out_of_sample_proba(model, X, votes, folds=2)
    assert np.allclose(proba.sum(axis=1), 1)
    assert not hasattr(model, "end_model_")
    # Without its own votes the prediction of an item stays as it was.
    silent = votes.dense()
    silent[7] = -1
    again = out_of_sample_proba(
        model, X, VoteMatrix.from_dense(silent, votes.labels, votes.voters), folds=2
    )
    assert np.allclose(again[7], proba[7])
    assert not np.allclose(again, proba)


def test_wrong_folds_and_lengths_are_told():
    votes, _ = make_votes(10, 3)
    model = TwoStage(MajorityVote(), torch.nn.Linear(3, 2))
    with pytest.raises(ParameterError, match="folds=1"):
        out_of_sample_proba(model, np.zeros((10, 3)), votes, folds=1)
    with pytest.raises(ParameterError, match="9 items"):
        out_of_sample_proba(model, np.zeros((9, 3)), votes)
