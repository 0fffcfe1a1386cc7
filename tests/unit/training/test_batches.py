from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from wiesel.training import TrainingData, as_inputs
from wiesel.training.batches import StackedItems, batch_bounds


@dataclass(frozen=True)
class Squares:
    """The square of the position of every item: what an objective reads besides is its own."""

    values: torch.Tensor

    def part(self, start: int, stop: int) -> "Squares":
        return Squares(self.values[start:stop])


class SquaresPayload:
    item_bytes = 8

    def gather(self, rows: np.ndarray, inputs: torch.Tensor, device: torch.device) -> Squares:
        assert len(inputs) == len(rows), "the inputs of the same items, gathered already"
        return Squares(torch.from_numpy(rows**2).to(device))


def data_of(n_items: int) -> TrainingData:
    X = np.arange(n_items * 3, dtype=np.float32).reshape(n_items, 3)
    return TrainingData(as_inputs(X), payload=SquaresPayload())


@settings(deadline=None)
@given(st.integers(0, 200), st.integers(2, 50))
def test_batches_cover_every_item_once_and_none_is_a_single_item(n_items: int, batch_size: int):
    bounds = batch_bounds(n_items, batch_size)
    assert [row for start, stop in bounds for row in range(start, stop)] == list(range(n_items))
    sizes = [stop - start for start, stop in bounds]
    assert all(size <= batch_size + 1 for size in sizes)
    assert n_items == 1 or 1 not in sizes


def test_a_batch_holds_the_rows_asked_for_in_their_order():
    data = data_of(10)
    batch = data.gather(np.array([7, 2, 7]))
    assert batch.rows.tolist() == [7, 2, 7]
    assert batch.inputs[:, 0].tolist() == [21, 6, 21]
    assert batch.payload.values.tolist() == [49, 4, 49]


@pytest.mark.parametrize("chunk", [1, 4, 5, 1000])
def test_chunks_do_not_change_the_batches(chunk: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("wiesel.training.batches._CHUNK_ITEMS", chunk)
    data, order = data_of(23), np.random.default_rng(0).permutation(23)
    batches = list(data.batches(order, 5))
    assert [len(batch) for batch in batches] == [5, 5, 5, 5, 3]
    assert np.concatenate([batch.rows.numpy() for batch in batches]).tolist() == order.tolist()
    for batch in batches:
        assert torch.equal(batch.inputs, data.gather(batch.rows.numpy()).inputs)
        assert torch.equal(batch.payload.values, batch.rows**2)


def test_what_is_prepared_once_for_a_chunk_reaches_every_batch():
    sizes = []

    def prepare(batch):
        sizes.append(len(batch))
        return batch

    batches = list(data_of(23).batches(np.arange(23), 5, prepare=prepare))
    assert len(batches) == 5
    assert sizes == [23]


def test_batches_are_views_of_their_chunk():
    first, second = list(data_of(10).batches(np.arange(10), 5))
    assert first.inputs.untyped_storage().data_ptr() == second.inputs.untyped_storage().data_ptr()


def test_only_the_items_in_use_are_trained_on():
    data = data_of(10)
    assert data.items.tolist() == list(range(10))
    some = TrainingData(data.inputs, used=np.array([1, 4, 9]))
    assert some.items.tolist() == [1, 4, 9]
    assert some.sample(2).tolist() == [1, 9]
    assert some.sample(100).tolist() == [1, 4, 9]


@pytest.mark.parametrize(("room", "prepared"), [(120, [10]), (119, [6, 6, 8])])
def test_a_stack_prepares_all_items_once_if_they_fit(
    room: int, prepared: list[int], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("wiesel.training.batches._WHOLE_BYTES", room)  # ten items of three floats
    sizes = []

    def prepare(batch):
        sizes.append(len(batch))
        return batch

    data = TrainingData(data_of(10).inputs)
    orders = torch.stack([torch.arange(10), torch.arange(9, -1, -1)])
    found = list(StackedItems(data, prepare).batches(orders, 3))
    assert sizes == prepared
    assert torch.cat([batch.rows for batch in found], dim=1).tolist() == orders.tolist()


def test_a_chunk_is_as_many_batches_as_it_has_room_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("wiesel.training.batches._CHUNK_ITEMS", 12)
    sizes = []

    def prepare(batch):
        sizes.append(len(batch))
        return batch

    list(data_of(23).batches(np.arange(23), 5, prepare=prepare))
    assert sizes == [10, 10, 3]


def test_no_rows_are_a_batch_of_nothing():
    batch = TrainingData(data_of(10).inputs).gather(np.arange(0))
    assert len(batch) == 0
    assert batch.inputs.shape == (0, 3)
