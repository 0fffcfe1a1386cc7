"""Random numbers from a seed: those of torch, without what torch does besides."""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from wiesel.nn.stacking import seeded, set_seed


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


def _drawn(seed: int) -> list[float]:
    with seeded(seed):
        numbers = []
        for _ in range(200):
            numbers.append(torch.rand(1).item())
            time.sleep(0)  # lets another thread run, as many functions of torch do
        return numbers


def test_threads_do_not_disturb_each_other():
    alone, before = [_drawn(seed) for seed in range(4)], torch.get_rng_state()
    start = threading.Barrier(4)

    def drawn(seed: int) -> list[float]:
        start.wait()
        return _drawn(seed)

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(drawn, range(4))) == alone
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_process_does_not_wait_for_a_thread_that_it_does_not_have():
    entered, leave = threading.Event(), threading.Event()

    def hold():
        with seeded(1):
            entered.set()
            leave.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    entered.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # a child that waits for ever fails
        with seeded(2):
            os._exit(0)
    leave.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
