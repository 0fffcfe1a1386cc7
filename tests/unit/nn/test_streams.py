"""Random numbers from a seed: those of torch, without what torch does besides."""

import pytest
import torch

from wiesel.nn.streams import seeded, set_seed


@pytest.mark.parametrize("seed", [0, 7, 2**40])
def test_numbers_are_those_of_torch(seed: int):
    before = torch.get_rng_state()
    with seeded(seed):
        drawn = torch.rand(5)
    assert torch.equal(torch.get_rng_state(), before)
    with seeded(0):
        torch.manual_seed(seed)
        expected = torch.rand(5)
        set_seed(seed)
        again = torch.rand(5)
    assert torch.equal(drawn, expected)
    assert torch.equal(again, expected)


@pytest.mark.skipif(torch.accelerator.is_available(), reason="there, torch has to seed it, too")
def test_a_seed_costs_no_stack_trace(monkeypatch: pytest.MonkeyPatch):
    def remember(*_: object) -> None:
        pytest.fail("torch.manual_seed keeps where it was called from, for accelerators to come")

    monkeypatch.setattr(torch, "manual_seed", remember)
    with seeded(3):
        assert torch.rand(1).item() < 1
