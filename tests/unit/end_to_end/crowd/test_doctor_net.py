"""DoctorNet: heads, how they are averaged, and what weights are for."""

import warnings

import numpy as np
import pytest
import torch
from crowd_tasks import (
    QUICK,
    busy_spammers,
    majority_right,
    many_lazy_spammers,
    network,
    right,
    untrained,
)
from tiny_task import ONE_PASS, linear, tiny_task
from torch import Tensor, nn

from wiesel import DoctorNet, VoteMatrix
from wiesel.end_to_end.crowd.crowd_model import find_last_layer, represent
from wiesel.end_to_end.vote_payloads import EntryPayload
from wiesel.errors import CollapseWarning, ParameterError
from wiesel.testing.modules import small_task
from wiesel.training import TrainingData, as_inputs


class Doubled(nn.Module):
    """Returns something else than what its only linear layer makes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = linear()

    def forward(self, features: Tensor) -> Tensor:
        return 2 * self.layer(features)


DATA = TrainingData(as_inputs(np.random.default_rng(0).standard_normal((6, 3))))


def test_the_heads_take_the_place_of_the_layer_that_makes_the_logits():
    deep = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 2))
    assert find_last_layer(deep, 2, DATA) == "2"
    assert find_last_layer(nn.Linear(3, 2), 2, DATA) == ""
    assert find_last_layer(Doubled(), 2, DATA) is None
    clipped = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    nn.init.constant_(clipped[0].bias, -10)  # by chance, ReLU might change nothing here
    assert find_last_layer(clipped, 2, DATA) is None


def test_the_representation_is_what_the_last_layer_reads():
    deep = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)).eval()
    X = torch.randn(4, 3)
    logits, read = represent(deep, "2", X)
    assert torch.equal(read, deep[1](deep[0](X)))
    assert torch.equal(logits, deep(X))
    assert not deep[2]._forward_pre_hooks, "no hook may stay behind"


@pytest.mark.parametrize("net", [Doubled(), linear(), nn.Sequential(linear(), nn.ReLU())])
def test_any_end_model_can_have_doctors(net: nn.Module):
    X, votes, _ = tiny_task()
    model = DoctorNet(net, **ONE_PASS, epochs=20, lr=0.02).fit(X, votes)
    assert np.isfinite(model.predict_proba(X)).all()


def test_the_prediction_is_the_mean_of_all_heads():
    X, votes, _ = tiny_task()
    model = DoctorNet(linear(), **ONE_PASS, epochs=3, lr=0.05).fit(X, votes)
    doctors = model.voter_model_
    heads = doctors.heads(torch.arange(4)).detach().numpy()
    logits = np.einsum("nd,jcd->njc", np.column_stack([X, np.ones(len(X))]), heads)
    proba = np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)
    assert np.allclose(model.predict_proba(X), proba.mean(axis=1), atol=1e-5)


def test_both_ways_to_find_the_votes_of_doctors_agree():
    X, votes, _ = tiny_task()
    data = TrainingData(as_inputs(X), payload=EntryPayload(votes))
    entries = data.gather(np.arange(20)).payload
    doctors = DoctorNet(linear())._doctors(4, 2, width=3)
    with torch.no_grad():
        doctors.heads.left.normal_(generator=torch.Generator().manual_seed(0))
    represented = torch.from_numpy(X[:20])
    for_all = doctors.votes(represented, entries)
    doctors.n_voters = 1000  # more doctors than features: a head for every vote
    assert torch.allclose(for_all, doctors.votes(represented, entries), atol=1e-6)


def test_a_head_learns_from_its_own_doctor_only():
    X, votes, _ = tiny_task()
    silent = votes.select(votes.voters[:3])
    dense = np.column_stack([silent.dense(), np.full(len(X), -1)])
    votes = type(votes).from_dense(dense, votes.labels)
    model = DoctorNet(linear(), **ONE_PASS, epochs=2, lr=0.05, weight_decay=0.0).fit(X, votes)
    moved = model.voter_model_.heads.left.detach().abs().sum(dim=(1, 2)) > 0
    assert moved.tolist() == [True, True, True, False]


@pytest.mark.parametrize("variant", ["WDN", "IWDN", "BIWDN"])
def test_training_the_weights_moves_neither_heads_nor_trunk(variant: str):
    X, votes, _ = tiny_task()
    data = TrainingData(as_inputs(X), payload=EntryPayload(votes))
    objective = untrained(DoctorNet(linear(), variant=variant), X, votes)
    objective.losses(data.gather(np.arange(8)))["weights"].backward()
    assert objective.voters.heads.left.grad is None
    assert all(p.grad is None for p in objective.end_model.network.parameters())
    assert all(p.grad is not None for p in objective.voters.weighting.parameters())


def test_equal_heads_beat_majority_vote_where_spammers_are_busy():
    task = busy_spammers()
    assert right(DoctorNet(network(), **QUICK), task) > majority_right(busy_spammers) + 0.1


@pytest.mark.parametrize("variant", ["WDN", "IWDN", "BIWDN"])
def test_learned_weights_beat_majority_vote_and_equal_ones_where_spammers_are_many(variant: str):
    task = many_lazy_spammers()
    weighted = right(DoctorNet(network(), variant=variant, **QUICK), task)
    assert weighted > majority_right(many_lazy_spammers) + 0.03
    assert weighted > 0.5  # more than equal ones: see the next test


def test_equal_heads_collapse_where_most_of_them_always_say_the_same():
    with pytest.warns(CollapseWarning):
        assert right(DoctorNet(network(), **QUICK), many_lazy_spammers()) < 0.5


def test_the_confusions_show_who_always_says_the_same():
    task = busy_spammers()
    model = DoctorNet(network(), **QUICK).fit(task.X, task.votes)
    assert model.confusions(["voter_0"])[0, :, 0].min() > 0.8
    assert model.confusions(["voter_8"])[0].argmax(axis=1).tolist() == [0, 1, 2]


def test_an_unknown_variant_is_refused():
    X, votes, _ = tiny_task()
    with pytest.raises(ParameterError, match="'BIWDN'"):
        DoctorNet(linear(), variant="BWDN").fit(X, votes)


def test_a_class_without_votes_and_features_of_any_scale_give_finite_soft_labels():
    task = small_task()
    dense = task.votes.dense()
    votes = VoteMatrix.from_dense(np.where(dense == 2, 1, dense), task.votes.labels)
    X = 100 * task.X + 1000
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)
        model = DoctorNet(nn.Linear(3, 3), epochs=3, lr=0.01, progress=False).fit(X, votes)
    np.testing.assert_allclose(model.confusions().sum(axis=2), 1, atol=1e-5)
    assert np.isfinite(model.soft_labels(X, votes)).all()
    assert "class_1" in str(model.explain(X[0], votes[0]))
