import pytest
import torch
from torch import nn

from wiesel.nn.stacking import RandomStreams, stack_modules
from wiesel.training import seeded
from wiesel.training.objective import FlatParameters, FusedAdam


def network() -> nn.Module:
    with seeded(0):
        return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def step(module: nn.Module, optimizer: torch.optim.Optimizer, flat=None) -> None:
    loss = module(torch.ones(5, 3)).square().sum()
    if flat is None:
        optimizer.zero_grad()
        loss.backward()
    else:
        flat.differentiate([loss])
    optimizer.step()


def test_adam_on_the_joined_vector_is_adam_on_the_parameters():
    plain, joined = network(), network()
    flat = FlatParameters([joined])
    one = torch.optim.Adam(plain.parameters(), lr=0.1, weight_decay=1e-3, fused=True)
    other = torch.optim.Adam(flat.vectors, lr=0.1, weight_decay=1e-3, fused=True)
    for _ in range(5):
        step(plain, one)
        step(joined, other, flat)
    for ours, theirs in zip(joined.parameters(), plain.parameters(), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-7)


@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
def test_our_adam_takes_the_steps_of_torchs_and_goes_on_from_its_state(weight_decay: float):
    drawn = torch.Generator().manual_seed(0)
    starts = [
        torch.randn(size, generator=drawn, dtype=kind)
        for size, kind in ((3, torch.float32), (2, torch.float64), (4, torch.float32))
    ]
    ours, theirs = ([start.clone() for start in starts] for _ in range(2))
    rates = (0.1, 0.03)
    groups = [([ours[0], ours[1]], rates[0]), ([ours[2]], rates[1])]
    one = FusedAdam(groups, weight_decay)
    other = torch.optim.Adam(
        [{"params": theirs[:2], "lr": rates[0]}, {"params": theirs[2:], "lr": rates[1]}],
        weight_decay=weight_decay,
        fused=True,
    )
    for number in range(6):
        if number == 3:
            kept = {k: {n: v.clone() for n, v in own.items()} for k, own in one.state.items()}
            one = FusedAdam(groups, weight_decay)
            one.load(kept)
        for mine, its in zip(ours, theirs, strict=True):
            its.grad = torch.randn(its.shape, generator=drawn, dtype=its.dtype)
            mine.grad = its.grad.clone()
        one.step()
        other.step()
    assert all(torch.equal(mine, its) for mine, its in zip(ours, theirs, strict=True))
    for number, values in other.state_dict()["state"].items():
        assert all(torch.equal(values[name], one.state[number][name]) for name in values)


def test_frozen_and_other_parameters_stay_as_they_are():
    module = network()
    module[0].requires_grad_(False)
    before = module[0].weight.clone()
    flat = FlatParameters([module])
    assert [len(vector) for vector in flat.vectors] == [4 * 2 + 2]
    step(module, torch.optim.Adam(flat.vectors, lr=0.1, fused=True), flat)
    assert torch.equal(module[0].weight, before)


def test_numbers_of_two_kinds_make_two_vectors():
    module = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2).double()])
    assert [vector.dtype for vector in FlatParameters([module]).vectors] == [
        torch.float32,
        torch.float64,
    ]


def test_tied_weights_stay_tied():
    module = nn.ModuleList([nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)])
    module[1].weight = module[0].weight
    flat = FlatParameters([module])
    assert [len(vector) for vector in flat.vectors] == [9]
    assert module[1].weight is module[0].weight


def test_release_gives_every_parameter_memory_of_its_own():
    module = network()
    flat = FlatParameters([module])
    storages = {parameter.untyped_storage().data_ptr() for parameter in module.parameters()}
    assert len(storages) == 1
    flat.release()
    storages = {parameter.untyped_storage().data_ptr() for parameter in module.parameters()}
    assert len(storages) == 4
    assert all(parameter.grad is None for parameter in module.parameters())


def test_a_state_dict_can_be_loaded_into_joined_parameters():
    module, other = network(), network()
    flat = FlatParameters([module])
    with torch.no_grad():
        other[0].weight.fill_(7)
    module.load_state_dict(other.state_dict())
    assert flat.vectors[0][0].item() == pytest.approx(7)


def test_averages_are_shown_for_a_while_and_the_parameters_come_back():
    layer = nn.Linear(2, 1)
    before = layer.weight.detach().clone()
    flat = FlatParameters([layer])
    averages = [torch.zeros_like(vector) for vector in flat.vectors]
    with flat.showing(averages):
        assert (layer.weight == 0).all()
    assert torch.equal(layer.weight, before)


def test_an_average_moves_by_the_share_that_is_not_kept():
    layer = nn.Linear(1, 1, bias=False)
    nn.init.ones_(layer.weight)
    flat = FlatParameters([layer])
    averages = [torch.zeros_like(vector) for vector in flat.vectors]
    flat.average_into(averages, decay=0.75)
    assert averages[0].item() == 0.25


def test_a_stack_and_its_members_share_weights_and_gradients_in_the_layout_of_the_stack():
    members = [network(), network()]
    stack = stack_modules(members, RandomStreams([torch.get_rng_state()] * 2))
    flat = FlatParameters(members, stack)
    flat.differentiate([stack(torch.ones(2, 5, 3)).square().sum()])
    for k, member in enumerate(members):
        for whole, own in zip(stack.parameters(), member.parameters(), strict=True):
            assert whole.grad.stride() == whole.stride()
            assert own.data_ptr() == whole[k].data_ptr()
            assert torch.equal(own, whole[k])
            assert torch.equal(own.grad, whole.grad[k])
    alone = network()
    FlatParameters([alone]).differentiate([alone(torch.ones(5, 3)).square().sum()])
    flat.release()
    for own, its in zip(members[1].parameters(), alone.parameters(), strict=True):
        assert own.is_contiguous()
        assert torch.equal(own, its)
