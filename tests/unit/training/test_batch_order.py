"""Orders of items, as a whole and by blocks; memory-mapped features train the same network."""

from pathlib import Path

import numpy as np
import pytest
import torch

from wiesel import MajorityVote, TwoStage
from wiesel.datasets import make_features, make_votes
from wiesel.nn.stacking import RandomStreams
from wiesel.training import batches
from wiesel.training.batches import shuffled


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few items are many here."""
    monkeypatch.setattr(batches, "_MANY", 10)
    monkeypatch.setattr(batches, "_BLOCK", 4)
    monkeypatch.setattr(batches, "_WINDOW", 3)


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("n_items", [11, 12, 47, 48, 49])
@pytest.mark.parametrize("epoch_size", [1, 5, 30, 100])
def test_by_blocks_no_item_comes_again_before_all_have_come(n_items: int, epoch_size: int) -> None:
    order = shuffled(torch.randperm, n_items, epoch_size).tolist()
    assert len(order) == epoch_size
    for start in range(0, epoch_size, n_items):
        part = order[start : start + n_items]
        assert len(set(part)) == len(part)
        assert set(part) <= set(range(n_items))


@pytest.mark.usefixtures("blocks")
def test_members_of_a_stack_draw_the_orders_they_would_draw_alone() -> None:
    states = [torch.Generator().manual_seed(seed).get_state() for seed in (3, 4)]
    together = shuffled(RandomStreams(states).permutations, 49, 60)
    for state, order in zip(states, together, strict=True):
        alone = shuffled(RandomStreams([state]).permutations, 49, 60)
        assert alone[0].tolist() == order.tolist()


@pytest.mark.usefixtures("blocks")
def test_an_epoch_reads_neighbors_and_mixes_what_lies_apart() -> None:
    torch.manual_seed(0)
    window = shuffled(torch.randperm, 4800, 12)
    assert len({position // 4 for position in window.tolist()}) == 3  # whole blocks, three of them
    assert max(window.tolist()) - min(window.tolist()) > 100  # which lie anywhere


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("members", [1, 2])
def test_a_memory_mapped_array_trains_the_network_of_one_in_memory(
    members: int, tmp_path: Path
) -> None:
    votes, gold = make_votes(101, 5, accuracies=0.9, coverage=0.9)
    X = make_features(gold, n_features=3)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert isinstance(mapped, np.memmap)
    torch.manual_seed(0)
    net = torch.nn.Linear(3, 2)
    trained = [
        TwoStage(MajorityVote(), net, epochs=2, lr=0.05, members=members, progress=False)
        .fit(features, votes)
        .predict_proba(features)
        for features in (X, mapped)
    ]
    assert trained[1] == pytest.approx(trained[0], abs=1e-5)
