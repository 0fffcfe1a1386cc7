"""Stacked layers compute, and differentiate, what the members' own layers do."""

import pytest
import torch
from torch import nn

from wiesel.nn.end_models import Dropout
from wiesel.nn.stacking import NotStackable, RandomStreams, stack_modules
from wiesel.training import seeded

LAYERS = {
    "a ReLU and dropout": lambda: [nn.ReLU(), Dropout(0.4)],
    "a ReLU and dropout of nothing": lambda: [nn.ReLU(), Dropout(0.0)],
    "a ReLU and dropout of everything": lambda: [nn.ReLU(), Dropout(1.0)],
    "a ReLU and torch's dropout": lambda: [nn.ReLU(), nn.Dropout(0.4)],
    "dropout and a ReLU": lambda: [Dropout(0.4), nn.ReLU()],
    "BatchNorm": lambda: [nn.BatchNorm1d(4)],
    "BatchNorm without weights": lambda: [nn.BatchNorm1d(4, affine=False)],
    "BatchNorm without running statistics": lambda: [nn.BatchNorm1d(4, track_running_stats=False)],
    "a ReLU and something else": lambda: [nn.ReLU(), nn.Tanh(), nn.ReLU(), nn.Identity()],
    "no bias": lambda: [nn.Linear(4, 4, bias=False)],
}


def network(seed: int, layers: str) -> nn.Sequential:
    with seeded(seed):
        return nn.Sequential(nn.Linear(3, 4), *LAYERS[layers](), nn.Linear(4, 2))


@pytest.mark.parametrize("layers", LAYERS)
def test_a_stack_has_the_members_values_and_gradients(layers):
    members = [network(seed, layers) for seed in range(3)]
    with seeded(9):
        values = torch.randn(3, 6, 3, requires_grad=True)
        state = torch.get_rng_state()
    stack = stack_modules(members, RandomStreams([state] * 3))
    found = stack(values)
    found.square().sum().backward()
    assert list(stack.state_dict()) == list(members[0].state_dict())
    for k, member in enumerate(members):
        own = values.detach()[k].requires_grad_()
        with seeded(0):
            torch.set_rng_state(state)
            expected = member(own)
        expected.square().sum().backward()
        assert torch.allclose(found[k], expected, atol=1e-6)
        assert torch.allclose(values.grad[k], own.grad, atol=1e-5)
        for stacked, alone in zip(stack.parameters(), member.parameters(), strict=True):
            assert torch.allclose(stacked.grad[k], alone.grad, atol=1e-5)


@pytest.mark.parametrize("layers", LAYERS)
def test_a_stack_predicts_like_its_members(layers):
    members = [network(seed, layers) for seed in range(2)]
    stack = stack_modules(members, RandomStreams([torch.get_rng_state()] * 2)).eval()
    for member in members:
        member.eval()
    values = torch.randn(2, 6, 3)
    for k, member in enumerate(members):
        assert torch.allclose(stack(values)[k], member(values[k]), atol=1e-6)


def test_batch_norm_refuses_one_item_as_torch_does():
    members = [network(seed, "BatchNorm") for seed in range(2)]
    stack = stack_modules(members, RandomStreams([torch.get_rng_state()] * 2))
    for trained, values in ((stack, torch.randn(2, 1, 3)), (members[0], torch.randn(1, 3))):
        with pytest.raises(ValueError, match="train"):
            trained(values)


@pytest.mark.parametrize("dimensions", [(1, -1), (1, 2), (2, 3), (-2, -1), (-3, -2)])
def test_flattening_is_that_of_every_member(dimensions: tuple[int, int]):
    values = torch.randn(3, 5, 2, 4, 3)
    flat = nn.Sequential(nn.Flatten(*dimensions))
    stack = stack_modules([flat] * 3, RandomStreams([torch.get_rng_state()] * 3))
    for found, own in zip(stack(values), values, strict=True):
        assert torch.equal(found, flat(own))


@pytest.mark.parametrize("others", [Dropout(0.2), nn.ReLU(), nn.Sequential(nn.ReLU())])
def test_a_first_member_unlike_the_others_is_not_stacked(others: nn.Module):
    """The others are alike, and computing as they do would be wrong for the first."""
    streams = RandomStreams([torch.get_rng_state()] * 3)
    with pytest.raises(NotStackable, match=r"differ in the 'p'|not of the same class"):
        stack_modules([Dropout(0.1), others, others], streams)
