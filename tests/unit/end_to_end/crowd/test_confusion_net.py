"""ConfusionNet and CoNAL: the later methods, their likelihoods and regularizers."""

import numpy as np
import pytest
import torch
from crowd_tasks import (
    QUICK,
    adversaries,
    confused_class,
    majority_right,
    network,
    right,
    untrained,
)
from tiny_task import ONE_PASS, linear, tiny_task

from wiesel import CoNAL, ConfusionNet
from wiesel.end_to_end.vote_payloads import EntryPayload
from wiesel.errors import ParameterError
from wiesel.training import TrainingData, as_inputs


def objective_of(**options):
    """An untrained objective, its first items as a batch, and the end model's probabilities."""
    X, votes, _ = tiny_task(n_classes=3)
    data = TrainingData(as_inputs(X), payload=EntryPayload(votes))
    end_model = linear(n_classes=3)
    objective = untrained(ConfusionNet(end_model, **options), X, votes)
    proba = torch.softmax(end_model(torch.from_numpy(X[:8])), dim=1)
    return objective, data.gather(np.arange(8)), proba, votes


@pytest.mark.parametrize("structure", ["voters", "shared"])
def test_the_loss_is_the_mean_log_likelihood_of_a_vote(structure: str):
    objective, batch, proba, votes = objective_of(structure=structure, initial_accuracy=0.7)
    confusions = 0.7 * np.eye(3) + 0.15 * (1 - np.eye(3))
    voted = proba.detach().numpy() @ confusions
    part = votes[np.arange(8)]
    expected = -np.log(voted[part.item_index, part.class_index]).mean()
    assert objective.losses(batch)["votes"].item() == pytest.approx(expected, rel=1e-5)


def test_in_a_union_all_votes_of_all_voters_are_one_distribution():
    objective, batch, proba, votes = objective_of(structure="union")
    matrices = objective.voters.confusions(torch.arange(4)).detach().numpy() / 4
    assert matrices.sum(axis=(0, 2)) == pytest.approx([1, 1, 1])
    part = votes[np.arange(8)]
    share = np.einsum("nc,nc->n", proba.detach().numpy()[part.item_index],
                      matrices[part.voter_index, :, part.class_index])  # fmt: skip
    assert objective.losses(batch)["votes"].item() == pytest.approx(-np.log(share).mean(), rel=1e-5)


def test_the_regularizers_are_the_formulas_of_their_papers():
    objective, batch, _, _ = objective_of(regularizer="trace", strength=0.5, initial_accuracy=0.8)
    assert objective.losses(batch)["regularizer"].item() == pytest.approx(0.5 * 3 * 0.8, rel=1e-5)
    objective, batch, proba, _ = objective_of(regularizer="volume_f", strength=1.0)
    gram = (proba.T @ proba / 8).detach().double().numpy() + 1e-3 * np.eye(3)
    assert objective.losses(batch)["regularizer"].item() == pytest.approx(
        -np.log(np.linalg.det(gram)), rel=1e-4
    )
    objective, batch, _, _ = objective_of(regularizer="volume_w", strength=1.0)
    matrix = 0.8 * np.eye(3) + 0.1 * (1 - np.eye(3))
    gram = matrix @ matrix.T + 1e-3 * np.eye(3)
    assert objective.losses(batch)["regularizer"].item() == pytest.approx(
        -np.log(np.linalg.det(gram)), rel=1e-4
    )


def test_a_batch_of_one_prediction_keeps_the_volume_finite():
    objective, batch, _, _ = objective_of(regularizer="volume_f")
    losses = objective.losses(batch.part(0, 2))
    sum(losses.values()).backward()
    assert all(torch.isfinite(p.grad).all() for p in objective.end_model.parameters())


@pytest.mark.parametrize("regularizer", ["none", "trace", "volume_f", "volume_w"])
def test_matrices_of_voters_beat_majority_vote_where_workers_mislead(regularizer: str):
    task = adversaries()
    model = ConfusionNet(network(), regularizer=regularizer, **QUICK)
    assert right(model, task) > majority_right(adversaries) + 0.1


@pytest.mark.parametrize("structure", ["shared", "union"])
def test_other_structures_beat_majority_vote_where_a_class_is_confused(structure: str):
    task = confused_class()
    model = ConfusionNet(network(), structure=structure, **QUICK)
    assert right(model, task) > majority_right(confused_class) + 0.05


def test_a_shared_matrix_is_the_same_for_all():
    task = confused_class()
    found = ConfusionNet(network(), structure="shared", **ONE_PASS, epochs=2).fit(
        task.X, task.votes
    )
    assert np.ptp(found.confusions(), axis=0).max() == 0


def test_conal_beats_majority_vote_where_a_class_is_confused():
    task = confused_class()
    model = CoNAL(network(), **QUICK)
    assert right(model, task) > majority_right(confused_class) + 0.05
    shares = model.voter_model_.mean_shares
    assert ((shares > 0) & (shares < 1)).all()


def test_conal_starts_as_if_everybody_were_right():
    X, votes, _ = tiny_task()
    model = CoNAL(linear(), **ONE_PASS, epochs=1, lr=0.0).fit(X, votes)
    expected = np.exp(2) / (np.exp(2) + 1)
    assert np.allclose(model.voter_accuracies(), expected)


def test_conal_pushes_voters_away_from_the_shared_matrix():
    X, votes, _ = tiny_task()
    data = TrainingData(as_inputs(X), payload=EntryPayload(votes))
    objective = untrained(CoNAL(linear(), separation=0.5), X, votes)
    with torch.no_grad():
        objective.voters.own.left[:, 0, 0] += 3.0
    batch = data.gather(np.arange(16))
    n_voters = len(torch.unique(batch.payload.voters))
    assert objective.losses(batch)["separation"].item() == pytest.approx(-0.5 * 3 * n_voters)


def test_wrong_options_are_refused():
    X, votes, _ = tiny_task()
    for options, word in (
        ({"structure": "union_b"}, "union"),
        ({"regularizer": "volume"}, "volume_f"),
        ({"strength": -1.0}, "strength"),
        ({"initial_accuracy": 1.0}, "initial_accuracy"),
    ):
        with pytest.raises(ParameterError, match=word):
            ConfusionNet(linear(), **options).fit(X, votes)
