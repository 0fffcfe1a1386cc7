import math

import numpy as np
import pytest
import torch
from torch import Tensor

from wiesel import LabelSpace, MajorityVote, TwoStage, VoteMatrix
from wiesel.nn import MLP
from wiesel.nn.losses import (
    AGREEMENT_LOSSES,
    DIVERGENCES,
    mutual_information_loss,
    ranked_probability_loss,
    soft_cross_entropy,
)


def logits(seed: int, n_items: int = 7, n_classes: int = 3) -> Tensor:
    values = torch.randn(n_items, n_classes, generator=torch.Generator().manual_seed(seed))
    return values.double().requires_grad_()


def log_softmax(values: Tensor) -> Tensor:
    return values - values.logsumexp(dim=1, keepdim=True)


def cross_entropy(prediction: Tensor, target: Tensor) -> Tensor:
    return -(torch.exp(log_softmax(target)) * log_softmax(prediction)).sum(dim=1).mean()


def test_cross_entropy_to_a_hard_target_is_the_negative_log_likelihood():
    scores = logits(0)
    classes = torch.tensor([0, 1, 2, 0, 1, 2, 0])
    targets = torch.eye(3, dtype=torch.double)[classes]
    expected = torch.nn.functional.cross_entropy(scores, classes)
    assert torch.allclose(soft_cross_entropy(scores, targets), expected)


def test_the_symmetric_loss_is_algorithm_one():
    end, label = logits(0), logits(1)
    losses = AGREEMENT_LOSSES["symmetric"](end, label)
    assert torch.allclose(losses["end_model"], cross_entropy(end, label))
    assert torch.allclose(losses["encoder"], cross_entropy(label, end))


def test_no_gradient_crosses_the_stop_sign():
    end, label = logits(0), logits(1)
    losses = AGREEMENT_LOSSES["symmetric"](end, label)
    of_end = torch.autograd.grad(losses["end_model"], [end, label], allow_unused=True)
    of_label = torch.autograd.grad(losses["encoder"], [end, label], allow_unused=True)
    assert of_end[1] is None
    assert of_label[0] is None
    # d CE / d logits = (softmax(logits) - target) / n_items, with the target a constant.
    difference = (torch.softmax(end, 1) - torch.softmax(label, 1)) / len(end)
    assert torch.allclose(of_end[0], difference)
    assert torch.allclose(of_label[1], -difference)


@pytest.mark.parametrize("name", sorted(set(AGREEMENT_LOSSES) - {"symmetric"}))
def test_the_other_losses_are_one_number_with_gradients_for_both(name: str):
    end, label = logits(0), logits(1)
    losses = AGREEMENT_LOSSES[name](end, label)
    assert list(losses) == ["agreement"]
    gradients = torch.autograd.grad(losses["agreement"], [end, label])
    assert all(gradient.abs().sum() > 0 for gradient in gradients)


def test_the_asymmetric_losses_differ_in_which_network_is_the_target():
    end, label = logits(0), logits(1)
    to_encoder = AGREEMENT_LOSSES["encoder_target"](end, label)["agreement"]
    to_end_model = AGREEMENT_LOSSES["end_model_target"](end, label)["agreement"]
    both = AGREEMENT_LOSSES["no_stop_gradient"](end, label)["agreement"]
    assert torch.allclose(to_encoder, cross_entropy(end, label))
    assert torch.allclose(to_end_model, cross_entropy(label, end))
    assert torch.allclose(both, (to_encoder + to_end_model) / 2)


def test_l1_and_hellinger_by_hand():
    # P_f = (0.8, 0.2), P_e = (0.2, 0.8): |0.6| on both entries; 2 (sqrt 0.8 - sqrt 0.2)^2 = 0.4
    end = torch.tensor([[math.log(4), 0.0]])
    label = -end
    assert AGREEMENT_LOSSES["l1"](end, label)["agreement"].item() == pytest.approx(0.6)
    assert AGREEMENT_LOSSES["hellinger"](end, label)["agreement"].item() == pytest.approx(0.4)


@pytest.mark.parametrize("name", sorted(AGREEMENT_LOSSES))
def test_certain_networks_that_contradict_each_other_have_finite_gradients(name: str):
    end = torch.tensor([[200.0, -200.0], [-200.0, 200.0]], requires_grad=True)
    label = (-end.detach()).requires_grad_()
    losses = AGREEMENT_LOSSES[name](end, label)
    torch.autograd.backward(tuple(losses.values()))
    assert all(torch.isfinite(loss) for loss in losses.values())
    assert torch.isfinite(end.grad).all()
    assert torch.isfinite(label.grad).all()


@pytest.mark.parametrize("name", ["l1", "hellinger"])
def test_equal_networks_have_no_distance(name: str):
    assert AGREEMENT_LOSSES[name](logits(3), logits(3))["agreement"].item() == pytest.approx(0)


def test_relabeling_the_classes_changes_no_loss():
    end, label, order = logits(0), logits(1), [2, 0, 1]
    for name, loss in AGREEMENT_LOSSES.items():
        before, after = loss(end, label), loss(end[:, order], label[:, order])
        for part in before:
            assert torch.allclose(before[part], after[part]), name


def test_agreeing_on_every_item_gains_information():
    # Two classes, half of the items each, both sure: K_aa = 2, K_ab = 2 or 0 (mean 2/3 over the
    # 12 pairs of 4 items): gain = 1 + log 2 - 2/3.
    sure = torch.eye(2)[torch.tensor([0, 0, 1, 1])]
    gain = -mutual_information_loss(sure, sure).item()
    assert gain == pytest.approx(1 + math.log(2) - 2 / 3, abs=1e-5)


def test_what_others_share_lowers_the_gain_of_every_divergence():
    # Two items, both sure of their own class, and the prior (1/4, 3/4): K_aa = 4 and 4/3; K_ab = 0,
    # which is taken as a millionth. Jensen-Shannon: f(t) = t log t - (t + 1) log((t + 1)/2)
    # has f'(t) = log(2 t / (1 + t)) and f*(f'(t)) = log((1 + t) / 2).
    sure, prior = torch.eye(2, dtype=torch.double), torch.tensor([0.25, 0.75]).double()
    own = (math.log(8 / 5) + math.log(8 / 7)) / 2
    gain = -mutual_information_loss(sure, sure, prior, "jensen_shannon").item()
    assert gain == pytest.approx(own - math.log((1 + 1e-6) / 2), abs=1e-9)


GENERATORS = {
    "kl": lambda t: t * t.log(),
    "reverse_kl": lambda t: -t.log(),
    "pearson": lambda t: (t - 1).square(),
    "hellinger": lambda t: (t.sqrt() - 1).square(),
    "jensen_shannon": lambda t: t * t.log() - (t + 1) * ((t + 1) / 2).log(),
}
"""f(t) of every divergence whose f has a derivative everywhere (Nowozin et al. 2016, table 6)."""


@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_gain_and_cost_are_the_derivative_and_its_conjugate(name: str):
    pairing = torch.tensor([0.1, 0.5, 1.0, 2.0, 7.0], dtype=torch.double, requires_grad=True)
    values = GENERATORS[name](pairing)
    (slope,) = torch.autograd.grad(values.sum(), pairing)
    divergence = DIVERGENCES[name]
    assert torch.allclose(divergence.gain(pairing.log()), slope)
    assert torch.allclose(divergence.cost(pairing.log()), pairing * slope - values)


def test_total_variation_is_a_smooth_sign_of_half_a_unit():
    # tanh(log K) = (K^2 - 1) / (K^2 + 1), and f*(t) = t between -1/2 and 1/2.
    pairing = torch.tensor([1e-6, 0.5, 1.0, 2.0, 1e6], dtype=torch.double)
    expected = torch.tensor([-0.5, -0.3, 0.0, 0.3, 0.5], dtype=torch.double)
    divergence = DIVERGENCES["total_variation"]
    assert set(DIVERGENCES) == {*GENERATORS, "total_variation"}
    assert torch.allclose(divergence.gain(pairing.log()), expected)
    assert torch.allclose(divergence.cost(pairing.log()), expected)


def test_the_ordinal_loss_counts_the_distance_of_classes():
    # P = (0.2, 0.3, 0.5), the truth is the first: (0.2 - 1)^2 + (0.5 - 1)^2 + 0 = 0.89.
    logits = torch.log(torch.tensor([[0.2, 0.3, 0.5]]))
    found = ranked_probability_loss(logits, torch.tensor([[1.0, 0.0, 0.0]]))
    assert float(found) == pytest.approx(0.89)
    stack = ranked_probability_loss(logits.expand(4, 2, 3), torch.eye(3)[:2].expand(4, 2, 3))
    assert stack.shape == (4,)


def test_two_stages_learn_by_the_ordinal_loss():
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 4, 400)
    X = (gold[:, None] + rng.normal(0, 0.3, (400, 2))).astype(np.float32)
    votes = VoteMatrix.from_dense(gold[:, None], LabelSpace(*"abcd", ordered=True))
    model = TwoStage(MajorityVote(), MLP(2, 4), loss="ordinal", epochs=15, epoch_size=400, lr=0.02)
    assert (model.fit(X, votes).predict_proba(X).argmax(axis=1) == gold).mean() > 0.8


@pytest.mark.parametrize("name", sorted(AGREEMENT_LOSSES))
def test_an_agreement_loss_of_a_stack_is_that_of_each_network(name):
    first, second = (torch.stack([logits(k), logits(k + 1)]) for k in (0, 5))
    together = AGREEMENT_LOSSES[name](first, second)
    alone = [AGREEMENT_LOSSES[name](a, b) for a, b in zip(first, second, strict=True)]
    for part, values in together.items():
        torch.testing.assert_close(values, torch.stack([own[part] for own in alone]))
