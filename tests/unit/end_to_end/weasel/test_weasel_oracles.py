"""What must hold of WeaSEL whatever it was trained on: methods.md section 19, 1-4 and 10."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import softmax
from tiny_task import linear, same_weights, tiny_task, weasel, weights_of
from torch import Tensor, nn

from wiesel import VoteMatrix, WeaSEL
from wiesel.datasets.synthetic import make_features, make_votes
from wiesel.end_to_end.vote_payloads import DensePayload
from wiesel.end_to_end.weasel import WeaSELObjective
from wiesel.nn.encoders import EncoderLayers, VoteEncoder, Weighing, mlp_encoder
from wiesel.training import TrainingData, as_inputs, seeded

NO_DROPOUT = EncoderLayers(hidden=(6,), dropout=0.0)
FROZEN_LINEAR = EncoderLayers(hidden=(), trained=False)


class Constant(nn.Module):
    """An encoder that scores every voter the same, whatever it reads."""

    def __init__(self, n_voters: int) -> None:
        super().__init__()
        self.score = nn.Parameter(torch.full((n_voters,), 0.7))

    def forward(self, encoded: Tensor) -> Tensor:
        return self.score.expand(len(encoded), -1)


def objective_of(votes: VoteMatrix, **options) -> WeaSELObjective:
    """An untrained objective in double precision: two networks and their losses."""
    with seeded(0):
        network = mlp_encoder(votes.n_voters * 3 + 3, votes.n_voters, NO_DROPOUT)
        end_model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))
    encoder = VoteEncoder(network, votes.n_voters, Weighing(tau_2=2.0, **options))
    objective = WeaSELObjective(end_model, encoder, "one_hot", "symmetric", np.array([0.5, 0.5]))
    return objective.train()


def training_data(X: np.ndarray, votes: VoteMatrix) -> TrainingData:
    inputs = as_inputs(X)
    return TrainingData(inputs, payload=DensePayload(votes, inputs, inputs))


def test_with_a_constant_encoder_the_soft_label_is_softmax_of_counts_over_root_m():
    X, votes, _ = tiny_task()
    model = weasel(encoder=Constant(4).requires_grad_(False)).fit(X, votes)
    expected = softmax(votes.counts() / np.sqrt(4), axis=1)
    assert np.allclose(model.soft_labels(X, votes), expected, atol=1e-6)


@pytest.mark.parametrize("balance", [[0.5, 0.5], [0.8, 0.2]])
def test_in_training_soft_labels_are_weighted_votes_times_the_class_balance(balance: list[float]):
    X, votes, _ = tiny_task()
    encoder = VoteEncoder(Constant(4), 4, Weighing(tau_2=2.0))
    objective = WeaSELObjective(linear(), encoder, "one_hot", "symmetric", np.array(balance))
    batch = objective.prepare(training_data(X, votes).gather(np.arange(len(X))))
    # Four equal voters share a total weight of two.
    label = softmax(votes.counts() / 2 + np.log(balance), axis=1)
    found = objective.weigh(batch)[1]
    assert np.allclose(softmax(found.detach().numpy(), axis=1), label, atol=1e-6)
    end = softmax(objective.end_model(torch.from_numpy(X)).detach().numpy(), axis=1)
    losses = objective.losses(batch)
    assert losses["end_model"].item() == pytest.approx(-(label * np.log(end)).sum(axis=1).mean())
    assert losses["encoder"].item() == pytest.approx(-(end * np.log(label)).sum(axis=1).mean())


def test_with_tau_1_zero_the_soft_label_is_the_same_whatever_the_encoder():
    X, votes, _ = tiny_task()
    model = weasel(tau_1=0.0).fit(X, votes)
    expected = softmax(votes.counts() / np.sqrt(4), axis=1)
    assert np.allclose(model.soft_labels(X, votes), expected, atol=1e-6)
    assert np.allclose(model.accuracies(X, votes), 1 / np.sqrt(4))


def test_scaling_the_encoder_equals_scaling_tau_1():
    X, votes, _ = tiny_task()
    model = weasel(encoder=FROZEN_LINEAR, tau_1=3.0).fit(X, votes)
    scaled = copy.deepcopy(model)
    scaled.encoder_.weighing = replace(scaled.encoder_.weighing, tau_1=1.0)
    with torch.no_grad():
        for parameter in scaled.encoder_.network.parameters():
            parameter *= 3.0
    assert np.allclose(scaled.soft_labels(X, votes), model.soft_labels(X, votes), atol=1e-6)


@pytest.mark.parametrize("class_conditional", [False, True])
def test_no_gradient_of_one_network_s_loss_reaches_the_other(class_conditional: bool):
    X, votes, _ = tiny_task()
    objective = objective_of(votes)
    if class_conditional:
        network = mlp_encoder(votes.n_voters * 3 + 3, votes.n_voters * 2, NO_DROPOUT)
        objective.encoder.network = network
        objective.encoder.weighing = replace(objective.encoder.weighing, class_conditional=True)
    data = training_data(X, votes)
    losses = objective.losses(objective.prepare(data.gather(data.items)))
    end_model = list(objective.end_model.parameters())
    encoder = list(objective.encoder.parameters())
    options = {"retain_graph": True, "allow_unused": True}
    end_loss = torch.autograd.grad(losses["end_model"], [*end_model, *encoder], **options)
    encoder_loss = torch.autograd.grad(losses["encoder"], [*end_model, *encoder], **options)
    assert all(g is not None and g.abs().sum() > 0 for g in end_loss[: len(end_model)])
    assert all(g is None for g in end_loss[len(end_model) :])
    assert all(g is None for g in encoder_loss[: len(end_model)])
    assert sum(g.abs().sum() for g in encoder_loss[len(end_model) :]) > 0


def test_the_gradient_of_the_sum_is_each_network_s_own():
    """One backward pass over both losses is Algorithm 1: nothing is counted twice."""
    X, votes, _ = tiny_task()
    data = training_data(X, votes)
    objective = objective_of(votes)
    losses = objective.losses(objective.prepare(data.gather(data.items)))
    parameters = list(objective.parameters())
    separate = [
        torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
        for loss in losses.values()
    ]
    torch.autograd.backward(tuple(losses.values()))
    for parameter, *parts in zip(parameters, *separate, strict=True):
        own = [part for part in parts if part is not None]
        assert len(own) == 1
        assert torch.allclose(parameter.grad, own[0])


def test_items_without_votes_get_the_prior_exactly():
    X, votes, _ = tiny_task(coverage=0.3)
    uncovered = ~votes.covered
    assert uncovered.sum() > 3
    model = weasel(class_balance=[0.8, 0.2]).fit(X, votes)
    assert np.array_equal(model.class_balance_, [0.8, 0.2])
    assert np.allclose(model.soft_labels(X, votes)[uncovered], [0.8, 0.2], rtol=0, atol=1e-15)


def test_items_without_votes_never_enter_the_loss():
    X, votes, _ = tiny_task(coverage=0.3)
    without = weasel(class_balance=[0.8, 0.2]).fit(X[votes.covered], votes[votes.covered])
    garbage = X.copy()
    garbage[~votes.covered] = 1e6
    model = weasel(class_balance=[0.8, 0.2]).fit(garbage, votes)
    assert model.trained_on_["items"] == votes.covered.sum() < votes.n_items
    assert same_weights(weights_of(model.end_model_), weights_of(without.end_model_))
    assert same_weights(weights_of(model.encoder_), weights_of(without.encoder_))


def permuted_classes(votes: VoteMatrix) -> VoteMatrix:
    dense = votes.dense().astype(int)
    swapped = np.where(dense < 0, dense, votes.n_classes - 1 - dense)
    return VoteMatrix.from_dense(swapped, votes.labels.names[::-1], votes.voters)


def test_relabeling_the_classes_permutes_the_outputs():
    """The encoder's first layer is permuted with its input; all else must follow."""
    X, votes, _ = tiny_task(n_classes=3)
    relabeled = permuted_classes(votes)
    model = weasel(linear(3, 3), encoder=FROZEN_LINEAR).fit(X, votes)
    other = copy.deepcopy(model)
    other.labels_ = relabeled.labels
    first = other.encoder_.network[0]
    width = votes.n_voters * 3
    with torch.no_grad():
        by_class = first.weight[:, :width].view(-1, votes.n_voters, 3)
        first.weight[:, :width] = by_class.flip(2).reshape(-1, width)
    before = model.soft_labels(X, votes)
    after = other.soft_labels(X, relabeled)
    assert np.allclose(before, after[:, ::-1], atol=1e-6)
    assert np.allclose(model.accuracies(X, votes), other.accuracies(X, relabeled), atol=1e-6)


def test_relabeling_the_classes_permutes_a_whole_training_run():
    """With an encoder that treats classes alike, training itself must not see their order."""
    X, votes, _ = tiny_task()
    net = linear()
    flipped = copy.deepcopy(net)
    with torch.no_grad():
        flipped.weight.copy_(net.weight.flip(0))
        flipped.bias.copy_(net.bias.flip(0))
    model = weasel(net, encoder=Constant(4), epochs=3).fit(X, votes)
    other = weasel(flipped, encoder=Constant(4), epochs=3).fit(X, permuted_classes(votes))
    assert np.allclose(model.predict_proba(X), other.predict_proba(X)[:, ::-1], atol=1e-6)


def test_permuting_the_voters_permutes_their_weights():
    X, votes, _ = tiny_task()
    order = [2, 0, 3, 1]
    shuffled = votes.select([votes.voters[j] for j in order])
    model = weasel(encoder=FROZEN_LINEAR).fit(X, votes)
    other = copy.deepcopy(model)
    other.voters_ = shuffled.voters
    layer = other.encoder_.network[0]
    with torch.no_grad():
        weight = model.encoder_.network[0].weight[order]
        cast = weight[:, :8].view(4, 4, 2)[:, order].reshape(4, 8)
        layer.weight.copy_(torch.cat([cast, weight[:, 8:12][:, order], weight[:, 12:]], dim=1))
        layer.bias.copy_(model.encoder_.network[0].bias[order])
    before, after = model.accuracies(X, votes), other.accuracies(X, shuffled)
    assert np.allclose(before[:, order], after, atol=1e-6)
    assert np.allclose(model.soft_labels(X, votes), other.soft_labels(X, shuffled), atol=1e-6)


def test_five_hundred_voters_and_ten_thousand_items_give_no_nan():
    votes, gold = make_votes(10_000, 500, accuracies=0.7, coverage=0.05)
    X = make_features(gold, n_features=3)
    model = WeaSEL.paper(linear(), epochs=1, batch_size=1000, lr=0.01, tau_1=1.0, encoder=(8,))
    model.fit(X, votes)
    for proba in (model.soft_labels(X, votes), model.predict_proba(X)):
        assert np.isfinite(proba).all()
        assert np.allclose(proba.sum(axis=1), 1)


def test_a_single_vote_moves_the_soft_label_by_its_accuracy_only():
    X, votes, _ = tiny_task()
    model = weasel().fit(X, votes)
    one = VoteMatrix.from_dense([[-1, 1, -1, -1]], votes.labels, votes.voters)
    accuracy = model.accuracies(X[:1], one)[0, 1]
    expected = softmax([0.0, accuracy])
    assert np.allclose(model.soft_labels(X[:1], one)[0], expected, atol=1e-6)
