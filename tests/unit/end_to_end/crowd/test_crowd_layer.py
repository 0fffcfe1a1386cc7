"""CrowdLayer: its five layers, what they start as, and what they learn."""

import numpy as np
import pytest
import torch
from crowd_tasks import (
    QUICK,
    adversaries,
    busy_spammers,
    confused_class,
    majority_right,
    network,
    right,
)
from tiny_task import linear, tiny_task

from wiesel import CrowdLayer
from wiesel.end_to_end.crowd.crowd_layer import CrowdLayerObjective, VoterLayer, vote_cross_entropy
from wiesel.end_to_end.crowd.crowd_model import all_entries
from wiesel.end_to_end.vote_payloads import EntryPayload
from wiesel.errors import ParameterError
from wiesel.training import TrainingData, as_inputs

VARIANTS = ("MW", "VW", "VB", "VW+B", "SW")
PROBA = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])


@pytest.mark.parametrize("variant", VARIANTS)
def test_at_the_start_every_voter_votes_what_the_end_model_says(variant: str):
    """Oracle 9 of methods.md 19: at the identity, argmax of o_r = argmax of z."""
    logits = VoterLayer(4, 3, variant)(PROBA, torch.tensor([0, 3]))
    assert torch.equal(logits, PROBA)
    assert logits.argmax(dim=1).tolist() == [0, 2]


def test_the_layers_are_the_formulas_of_the_paper():
    voter = torch.tensor([1, 1])
    vectors = VoterLayer(2, 3, "VW+B")
    with torch.no_grad():
        vectors.scale[1] = torch.tensor([1.0, 2.0, 3.0])
        vectors.shift[1] = torch.tensor([0.5, 0.0, 0.0])
    assert torch.allclose(vectors(PROBA, voter)[0], torch.tensor([1.0, 0.6, 0.6]))
    matrix = VoterLayer(2, 3, "MW")
    with torch.no_grad():
        matrix.matrices.left[1] = torch.tensor([[-1.0, 1, 0], [1, -1, 0], [0, 0, 0]])
    assert torch.allclose(matrix(PROBA, voter)[0], torch.tensor([0.3, 0.5, 0.2]))
    assert torch.equal(matrix(PROBA, torch.tensor([0, 0])), PROBA)


@pytest.mark.parametrize("variant", VARIANTS)
def test_confusions_are_what_the_layer_makes_of_a_certain_end_model(variant: str):
    layer = VoterLayer(4, 3, variant)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)
    for voter in (0, 3):
        expected = torch.softmax(layer(torch.eye(3), torch.tensor([voter] * 3)), dim=1)
        assert torch.allclose(layer.confusions(torch.tensor([voter]))[0], expected)


def test_the_loss_is_the_mean_over_votes_and_ignores_who_did_not_vote(votes):
    entries = all_entries(votes)
    log_proba = torch.log_softmax(torch.randn(len(entries), 2), dim=1)
    expected = -log_proba[torch.arange(len(entries)), entries.classes].mean()
    assert torch.allclose(vote_cross_entropy(log_proba, entries), expected)


def test_only_voters_in_the_batch_get_a_gradient():
    X, votes, _ = tiny_task()
    data = TrainingData(as_inputs(X), payload=EntryPayload(votes))
    objective = CrowdLayerObjective(linear(), VoterLayer(4, 2, "MW"))
    batch = data.gather(np.array([0]))
    objective.losses(batch)["votes"].backward()
    moved = objective.voters.matrices.left.grad.abs().sum(dim=(1, 2)) > 0
    assert moved.nonzero().flatten().tolist() == votes[0].voter_index.tolist()


def test_a_low_rank_layer_has_fewer_numbers_and_starts_the_same():
    full, low = VoterLayer(50, 10, "MW"), VoterLayer(50, 10, "MW", rank=2)
    count = [sum(p.numel() for p in layer.parameters()) for layer in (full, low)]
    assert count == [50 * 100, 50 * 20 + 20]
    voters = torch.tensor([7])
    assert torch.equal(full.confusions(voters), low.confusions(voters))


@pytest.mark.parametrize("variant", ["MW", "VW", "VW+B", "SW"])
def test_it_beats_majority_vote_where_workers_mislead(variant: str):
    model = CrowdLayer(network(), variant=variant, **{**QUICK, "lr": 0.01})
    assert right(model, adversaries()) > majority_right(adversaries) + 0.1


def test_biases_alone_beat_majority_vote_where_spammers_prefer_a_class():
    task = busy_spammers()
    model = CrowdLayer(network(), variant="VB", **{**QUICK, "lr": 0.05})
    assert right(model, task) > majority_right(busy_spammers) + 0.1


def test_low_rank_layers_beat_majority_vote_where_a_class_is_confused():
    task = confused_class()
    assert (
        right(CrowdLayer(network(), rank=2, **QUICK), task) > majority_right(confused_class) + 0.05
    )


def test_the_accuracies_tell_good_workers_from_adversaries():
    task = adversaries()
    model = CrowdLayer(network(), **QUICK).fit(task.X, task.votes)
    found = model.voter_accuracies()
    assert found[:2].max() < 0.33 < 0.6 < found[2:].min()
    assert np.allclose(model.confusions(["voter_1"])[0], model.confusions()[1])


def test_an_unknown_variant_is_refused():
    X, votes, _ = tiny_task()
    with pytest.raises(ParameterError, match=r"'VW\+B'"):
        CrowdLayer(linear(), variant="VWB").fit(X, votes)
