"""COINNet, annot-mix and deep probabilistic logic: their formulas, and planted crowds."""

import numpy as np
import pytest
import torch
from crowd_tasks import (
    QUICK,
    adversaries,
    confused_class,
    majority_right,
    many_lazy_spammers,
    network,
    right,
    untrained,
)
from tiny_task import linear, tiny_task
from torch import nn

from wiesel import AnnotMix, COINNet, DeepLogic, VoteMatrix
from wiesel.end_to_end.crowd.annot_mix import _mixed
from wiesel.end_to_end.crowd.deep_logic import VirtualEvidence
from wiesel.end_to_end.vote_payloads import EntryPayload, vote_entries
from wiesel.errors import ParameterError
from wiesel.training import TrainingData, as_inputs

ROWS = np.array([5, 2, 11, 7])


def objective_of(model):
    """An untrained objective, a batch of four items, and the probabilities of their classes."""
    X, votes, _ = tiny_task(n_classes=3)
    data = TrainingData(as_inputs(X), payload=EntryPayload(votes))
    objective = untrained(model, X, votes)
    proba = torch.softmax(model.end_model(torch.from_numpy(X[ROWS])), dim=1).detach().numpy()
    return objective, data.gather(ROWS), proba, votes


def confusion(accuracy: float) -> np.ndarray:
    return accuracy * np.eye(3) + (1 - accuracy) / 2 * (1 - np.eye(3))


@pytest.mark.parametrize("method", [COINNet, AnnotMix])
def test_before_training_votes_are_as_probable_as_the_common_matrix_says(method):
    options = {"alpha": 0.0} if method is AnnotMix else {}
    model = method(linear(n_classes=3), initial_accuracy=0.7, **options)
    objective, batch, proba, votes = objective_of(model)
    part = votes[ROWS]
    voted = (proba @ confusion(0.7))[part.item_index, part.class_index]
    assert objective.losses(batch)["votes"].item() == pytest.approx(-np.log(voted).mean(), rel=1e-5)


def test_an_exception_belongs_to_one_vote_and_sums_to_zero():
    objective, batch, proba, votes = objective_of(COINNet(linear(n_classes=3), volume=0.0))
    before = objective.log_cast(torch.from_numpy(proba).log(), batch).detach()
    # The second vote on item 2, which is the second item of the batch.
    place = int(votes.indptr[2]) + 1
    voted = int(votes.class_index[place])
    with torch.no_grad():
        objective.exceptions[place, voted] = 0.3
    after = objective.log_cast(torch.from_numpy(proba).log(), batch).detach()
    changed = (before != after).nonzero().ravel().tolist()
    assert changed == [int(votes[ROWS].indptr[1]) + 1]
    # 0.3 less its mean over the three classes; the other classes lose as much together.
    assert after[changed[0]].exp() - before[changed[0]].exp() == pytest.approx(0.2, abs=1e-5)


def test_exceptions_cost_by_the_power_of_their_size():
    model = COINNet(linear(n_classes=3), outliers=0.5)
    objective, batch, _, _ = objective_of(model)
    none = objective.losses(batch)["outliers"].item()
    assert none == pytest.approx(0.5 * 1e-6**0.2, rel=1e-4)
    with torch.no_grad():
        objective.exceptions[:, 0] = 0.3
    # (0.2, -0.1, -0.1) has the squared size 0.06.
    assert objective.losses(batch)["outliers"].item() == pytest.approx(0.5 * 0.06**0.2, rel=1e-3)


def test_mixed_inputs_lie_between_those_of_two_votes():
    inputs, items, others = torch.eye(3), torch.tensor([0, 0, 2]), torch.tensor([1, 0, 0])
    mixed = _mixed(inputs, items, others, torch.tensor(0.75))
    assert torch.allclose(mixed[0], torch.tensor([0.75, 0.25, 0.0]))
    assert torch.allclose(mixed[1], inputs[0])
    assert torch.allclose(_mixed({"x": inputs}, items, others, torch.tensor(0.75))["x"], mixed)


def test_inputs_that_cannot_be_mixed_are_learned_all_the_same():
    _, votes, gold = tiny_task()
    tokens = (gold[:, None] * 3 + np.arange(2)).astype(np.int64)
    net = nn.Sequential(nn.EmbeddingBag(6, 4), nn.Linear(4, 2))
    model = AnnotMix(net, epochs=15, lr=0.05, batch_size=16, epoch_size=None).fit(tokens, votes)
    assert (model.predict_proba(tokens).argmax(axis=1) == gold).mean() > 0.9


def test_virtual_evidence_weighs_voters_by_the_votes_expected_to_be_right():
    votes = VoteMatrix.from_dense([[0, 1], [1, 1], [0, -1]], ["no", "yes"])
    evidence = VirtualEvidence(2, 2, confidence=0.9, strength=0.0)
    assert evidence.weights.tolist() == pytest.approx([np.log(9)] * 2, rel=1e-5)
    soft_labels = torch.tensor([[0.8, 0.2], [0.4, 0.6], [0.7, 0.3]])
    evidence.count(vote_entries(votes.one_hot(), 2), soft_labels)
    # The first is right with 0.8 + 0.6 + 0.7 of 3 votes, the second with 0.2 + 0.6 of 2.
    odds = [0.7 / 0.3, 0.4 / 0.6]
    assert evidence.weights.tolist() == pytest.approx(np.log(odds).tolist(), rel=1e-3)


def test_the_soft_labels_of_deep_logic_are_the_end_model_times_the_weighted_votes():
    X, votes, _ = tiny_task(n_classes=3)
    model = DeepLogic(linear(n_classes=3), epochs=2, lr=0.01).fit(X, votes)
    weights = model.voter_model_.weights.numpy()
    added = np.zeros((len(X), 3))
    np.add.at(added, (votes.item_index, votes.class_index), weights[votes.voter_index])
    together = model.predict_proba(X) * np.exp(added)
    expected = together / together.sum(axis=1, keepdims=True)
    assert np.allclose(model.soft_labels(X, votes), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("method", "task"),
    [
        (COINNet, adversaries),
        (COINNet, confused_class),
        (AnnotMix, adversaries),
        (AnnotMix, confused_class),
        (AnnotMix, many_lazy_spammers),
        (DeepLogic, adversaries),
    ],
    ids=lambda part: part.__name__,
)
def test_mistakes_of_voters_are_learned(method, task):
    assert right(method(network(), **QUICK), task()) > majority_right(task) + 0.05


def test_a_step_moves_embedded_matrices_no_faster_than_free_ones():
    objective, batch, _, _ = objective_of(AnnotMix(linear(n_classes=3)))
    everybody = torch.arange(objective.voters.n_voters)
    before = objective.voters.confusions(everybody).detach().log()
    objective.losses(batch)["votes"].backward()
    with torch.no_grad():  # the first step of Adam; torch's own loads its compiler: two seconds
        for parameter in objective.voters.parameters():
            parameter -= 0.01 * parameter.grad / (parameter.grad.abs() + 1e-8)
    moved = (objective.voters.confusions(everybody).detach().log() - before).abs().max().item()
    # A free matrix moves its logits by the learning rate, each way; units are about 1 large.
    assert 0 < moved < 0.04


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (COINNet(linear(), outliers=-1.0), "'outliers'.*at least 0"),
        (COINNet(linear(), initial_accuracy=1.0), "'initial_accuracy'"),
        (AnnotMix(linear(), alpha=-0.1), "'alpha'.*at least 0"),
        (AnnotMix(linear(), embedding=0), "'embedding'.*at least 1"),
        (DeepLogic(linear(), confidence=1.0), "'confidence'"),
    ],
    ids=str,
)
def test_options_that_make_no_sense_are_refused(model, message):
    X, votes, _ = tiny_task()
    with pytest.raises(ParameterError, match=message):
        model.fit(X, votes)
