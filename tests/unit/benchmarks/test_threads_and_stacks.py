"""The tables of the benchmarks of threads and stacks say which bar is met."""

import time

import pytest
import torch
from benchmarks import stacks, threads
from benchmarks.bare_steps import BareSteps
from benchmarks.stack_parts import time_parts

from wiesel.training.objective import FusedAdam


def line(case: str, cpu: tuple[float, float], wall: tuple[float, float]) -> dict[str, object]:
    return {
        "case": case,
        "one_cpu": cpu[0],
        "defaults_cpu": cpu[1],
        "one_wall": wall[0],
        "defaults_wall": wall[1],
        "cpu_ratio": cpu[1] / cpu[0],
        "wall_ratio": wall[1] / wall[0],
    }


def test_defaults_may_take_a_tenth_more_in_cpu_and_in_wall_seconds() -> None:
    rows = [
        line("both", (1.0, 1.05), (1.0, 0.6)),
        line("cpu", (1.0, 1.2), (1.0, 0.6)),
        line("wall", (1.0, 1.0), (1.0, 1.2)),
    ]
    *_, both, cpu, wall = threads.results_table(rows).splitlines()
    assert "| met" in both
    assert "| missed" in cpu
    assert "| missed" in wall


def test_the_first_call_of_a_process_is_reported_beside_the_others() -> None:
    took = threads.timed({"work": "TF-IDF, 2,000 reviews", "quick": True})
    assert took["first"] > 0
    row = {**line("tfidf", (1.0, 1.0), (1.0, 1.0)), "one_first": 2.5, "defaults_first": 4.5}
    assert "2.5 s" in threads.results_table([row])
    assert "4.5 s" in threads.results_table([row])


def test_a_ratio_is_that_of_runs_under_the_same_load() -> None:
    # The second pair ran on a busy machine; the ratio of the medians would be 0.9.
    seconds = [(1.0, 1.2), (5.0, 5.5), (2.0, 1.8)]
    pairs = [{"one": {"cpu": one}, "defaults": {"cpu": both}} for one, both in seconds]
    assert threads.paired_ratio(pairs, "cpu") == pytest.approx(1.1)


def test_the_parts_of_a_fit_add_up_and_leave_the_code_as_it_was() -> None:
    before = FusedAdam.step
    fit = stacks.limit_job({"items": 40, "way": "default fit"})
    start = time.thread_time()
    parts = time_parts(fit)
    assert 0 < sum(parts.values()) <= time.thread_time() - start
    assert {"backward pass", "Adam", "forward: linear layers"} < set(parts)
    assert FusedAdam.step is before


def test_the_parts_are_a_table_of_their_own_the_largest_first() -> None:
    table = stacks.results_table([{"kind": "parts", "parts": {"small": 0.25, "large": 0.75}}])
    *_, large, small = table.splitlines()
    assert "large" in large
    assert "75%" in large
    assert "25%" in small


def test_the_committee_and_the_limit_have_a_bar() -> None:
    about = {"ways": ["a", "b"], "cpu_seconds": [9.0, 2.0]}
    rows = [
        {"case": "dear", "kind": "committee", "ratio": 5.5, **about},
        {"case": "cheap", "kind": "committee", "ratio": 4.5, **about},
        {"case": "near", "kind": "limit", "ratio": 0.5, **about},
        {"case": "far", "kind": "limit", "ratio": 0.4, **about},
        {"case": "bare", "kind": "floor", "ratio": 0.4, **about},
    ]
    *_, dear, cheap, near, far, bare = stacks.results_table(rows).splitlines()
    assert "5: missed" in dear
    assert "5: met" in cheap
    assert "0.5: met" in near
    assert "0.5: missed" in far
    assert "none" in bare


def test_the_quick_work_of_every_case_can_be_set_up() -> None:
    work = {name: size for name, (_, _, size) in threads.WORK.items()}
    assert len(work) >= 6
    set_up, *_ = threads.WORK["dawid_skene, 300k x 100"]
    proba = set_up(50)()
    assert proba.shape == (50, 2)  # type: ignore[attr-defined]


def test_bare_steps_have_the_gradients_that_torch_finds() -> None:
    networks = BareSteps(torch.randn(20, 4), n_members=2, sizes=[4, 5, 5, 3, 2], batch_size=6)
    values, wanted = torch.randn(2, 6, 4), torch.softmax(torch.randn(2, 6, 2), dim=-1)
    logits, inputs, masks = networks.ahead(values)
    own = networks.flat.detach().clone().requires_grad_()
    shapes = [shape for w, b in zip(networks.weights, networks.biases, strict=True)
              for shape in (w.shape, b.shape)]  # fmt: skip
    parts = own.split([shape.numel() for shape in shapes])
    weights, biases = (
        [part.view(shape) for part, shape in zip(parts, shapes, strict=True)][first::2]
        for first in (0, 1)
    )
    for place, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        values = values @ weight.mT + bias
        values = values.relu() if place < 3 else values
        values = values * masks[place] if place < 2 else values
    (-(wanted * torch.log_softmax(values, -1)).sum() / 6).backward()
    networks.back((torch.softmax(logits, -1) - wanted) / 6, inputs, masks)
    assert torch.allclose(networks.flat.grad, own.grad, atol=1e-5)
    before = networks.flat.clone()
    networks.step()
    assert not torch.equal(networks.flat, before)
