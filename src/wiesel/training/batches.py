"""The batches of an epoch: the order of its items, and slices of items gathered by the thousand.

A random order of millions of items takes much memory, and reads a file of features in millions of
places. So blocks of neighboring items are shuffled, and then the items within a window of many
blocks. The order depends on the number of items, not on where their features are: a memory-mapped
array trains the same network as one in memory.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wiesel.training.inputs import Batchable, Inputs, move, part

__all__ = ["Batch", "Payload", "StackedItems", "TrainingData", "batch_bounds", "shuffled", "taken"]

_CHUNK_BYTES = 64 * 2**20
_CHUNK_ITEMS = 2048
_WHOLE_BYTES = 2**30
_FIRST = np.arange(1)
_DIAGNOSED_ITEMS = 512
_DIAGNOSED_BYTES = 32 * 2**20
"""Enough items to estimate shares cheaply; fewer if thousands of voters make them large."""

Permutation = Callable[[int], Tensor]
"""Draws a random order of `size` positions: (size,), or (members, size) for a stack."""

_MANY = 2**20
"""Up to this many items are shuffled as a whole."""
_BLOCK = 256
_WINDOW = 64
"""How many blocks are shuffled together: 16,384 items."""


class Payload(Protocol):
    """What an objective needs for every item, in addition to the end model's inputs.

    The loop does not look inside: it gathers the payload of some items and cuts it into batches.
    What `gather` returns has `part(start, stop)`. For stacks it also has `take(positions)` and
    `inputs`: the end model's inputs if the payload contains them anyway, so that they are not
    copied twice, else None.
    """

    @property
    def item_bytes(self) -> int:
        """The memory that one item takes once it is gathered and prepared."""

    def gather(self, rows: npt.NDArray[np.int64], inputs: Batchable, device: torch.device) -> Any:
        """Return the payload of these items; `inputs` are their inputs, already gathered."""


@dataclass(frozen=True)
class Batch:
    """Some items, as tensors on the training device."""

    rows: Tensor
    """The position of every item in the training data."""
    inputs: Batchable
    """What the end model reads."""
    payload: Any = None
    """What else the objective reads; the type depends on the objective."""

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, start: int, stop: int) -> "Batch":
        """Return a range of consecutive items, without copying."""
        payload = None if self.payload is None else self.payload.part(start, stop)
        return Batch(self.rows[start:stop], part(self.inputs, start, stop), payload)

    def take(self, positions: Tensor) -> "Batch":
        """Return the items at these positions (members, n_items), as a batch for a stack."""
        payload = None if self.payload is None else self.payload.take(positions)
        inputs = None if payload is None else payload.inputs
        inputs = taken(self.inputs, positions) if inputs is None else inputs
        return Batch(taken(self.rows, positions), inputs, payload)


@dataclass(frozen=True)
class TrainingData:
    """The items to train on, on the CPU and in the compact form in which they were given.

    >>> from wiesel.training.inputs import as_inputs
    >>> data = TrainingData(as_inputs(np.zeros((4, 2))))
    >>> [len(batch) for batch in data.batches(data.items, 3)]
    [4]
    """

    inputs: Inputs
    used: npt.NDArray[np.int64] | None = None
    """The positions of the items to train on; None means all of them."""
    payload: Payload | None = None

    @cached_property
    def items(self) -> npt.NDArray[np.int64]:
        """The positions of the items to train on."""
        return np.arange(len(self.inputs)) if self.used is None else self.used

    def sample(self, size: int) -> npt.NDArray[np.int64]:
        """Return up to `size` of the training items, evenly spread and always the same."""
        chosen = np.linspace(0, len(self.items) - 1, min(size, len(self.items)))
        return self.items[chosen.astype(np.int64)]

    def diagnosed(self, device: torch.device) -> Batch:
        """Return the items to diagnose after every epoch: always the same, gathered once."""
        if device not in self._diagnosed:
            affordable = max(64, _DIAGNOSED_BYTES // max(1, self.prepared_bytes))
            rows = self.sample(min(_DIAGNOSED_ITEMS, affordable))
            self._diagnosed[device] = self.gather(rows, device)
        return self._diagnosed[device]

    def gather(self, rows: npt.NDArray[np.int64], device: torch.device | None = None) -> Batch:
        """Return the items at these positions as one batch."""
        device = device or torch.device("cpu")
        # A worker's part of a batch may be empty, and no Dataset can collate zero items.
        some = self.inputs.take(rows) if len(rows) else part(self.inputs.take(_FIRST), 0, 0)
        inputs = move(some, device)
        payload = None if self.payload is None else self.payload.gather(rows, inputs, device)
        return Batch(torch.from_numpy(rows).to(device), inputs, payload)

    def batches(
        self,
        rows: npt.NDArray[np.int64],
        batch_size: int,
        device: torch.device | None = None,
        prepare: Callable[[Batch], Batch] = lambda batch: batch,
    ) -> Iterator[Batch]:
        """Yield the items at these positions, in this order, `batch_size` at a time.

        Items are gathered, moved and prepared in large chunks, and batches are views of a chunk.
        So no step repeats work that can be done once.
        """
        return self.cut(rows, batch_bounds(len(rows), batch_size), device, prepare)

    def cut(
        self,
        rows: npt.NDArray[np.int64],
        bounds: Sequence[tuple[int, int]],
        device: torch.device | None,
        prepare: Callable[[Batch], Batch],
    ) -> Iterator[Batch]:
        """Yield the items at these positions, cut at the given batch boundaries."""
        largest = max((stop - start for start, stop in bounds), default=0)
        per_chunk = max(1, self._chunk_items // max(1, largest))
        for first in range(0, len(bounds), per_chunk):
            group = bounds[first : first + per_chunk]
            offset = group[0][0]
            chunk = prepare(self.gather(rows[offset : group[-1][1]], device))
            for start, stop in group:
                yield chunk.part(start - offset, stop - offset)

    @property
    def prepared_bytes(self) -> int:
        """How much memory an item takes once it is gathered and prepared."""
        return self.inputs.item_bytes + (0 if self.payload is None else self.payload.item_bytes)

    @property
    def _chunk_items(self) -> int:
        return min(_CHUNK_ITEMS, _CHUNK_BYTES // max(1, self.prepared_bytes))

    @cached_property
    def _diagnosed(self) -> dict[torch.device, Batch]:
        return {}


class StackedItems:
    """Batches for a stack of networks, each with a separate order of the items.

    If all items fit in memory, they are gathered and prepared once, and batches are copied from
    them. Otherwise each member would prepare every item again.
    """

    def __init__(self, data: TrainingData, prepare: Callable[[Batch], Batch]) -> None:
        self._data, self._prepare = data, prepare
        fits = len(data.items) * data.prepared_bytes <= _WHOLE_BYTES
        self._whole = prepare(data.gather(data.items)) if fits else None

    def batches(self, orders: Tensor, batch_size: int) -> Iterator[Batch]:
        """Yield batches whose first dimension is members; `orders` are positions in `items`."""
        return self.cut(orders, batch_bounds(orders.shape[1], batch_size))

    def cut(self, orders: Tensor, bounds: Sequence[tuple[int, int]]) -> Iterator[Batch]:
        """Yield a batch for each range of `bounds`, taken from every order."""
        for start, stop in bounds:
            yield self._batch(orders[:, start:stop])

    def _batch(self, positions: Tensor) -> Batch:
        if self._whole is not None:
            return self._whole.take(positions)
        rows = self._data.items[positions.reshape(-1).numpy()]
        flat = self._prepare(self._data.gather(rows))
        return flat.take(torch.arange(len(rows)).view(positions.shape))


def taken(values: Any, positions: Tensor) -> Any:
    """Return the rows at these positions (members, n_items) of a tensor or a dict of tensors."""
    if values is None:
        return None
    if isinstance(values, dict):
        return {key: taken(value, positions) for key, value in values.items()}
    return values.index_select(0, positions.reshape(-1)).view(*positions.shape, *values.shape[1:])


def batch_bounds(n_items: int, batch_size: int) -> list[tuple[int, int]]:
    """Return where batches start and stop; a single last item joins the batch before it.

    BatchNorm cannot train on a single item.

    >>> batch_bounds(7, 3)
    [(0, 3), (3, 7)]
    """
    starts = list(range(0, n_items, batch_size))
    if len(starts) > 1 and n_items - starts[-1] == 1:
        starts.pop()
    return list(itertools.pairwise([*starts, n_items]))


def shuffled(permutation: Permutation, n_items: int, epoch_size: int) -> Tensor:
    """Return the positions of an epoch's items; no item repeats before all have occurred.

    >>> order = shuffled(torch.randperm, n_items=4, epoch_size=6)
    >>> sorted(order[:4].tolist()), len(order)
    ([0, 1, 2, 3], 6)
    """
    if n_items > _MANY:
        return _shuffled_by_blocks(permutation, n_items, epoch_size)
    rounds = math.ceil(epoch_size / n_items)
    return torch.cat([permutation(n_items) for _ in range(rounds)], dim=-1)[..., :epoch_size]


def _shuffled_by_blocks(permutation: Permutation, n_items: int, epoch_size: int) -> Tensor:
    n_blocks = math.ceil(n_items / _BLOCK)
    windows: list[Tensor] = []
    found: Tensor | int = 0  # the last block may be short, so a window may have fewer items
    blocks = torch.empty(0, 0)
    while int(torch.as_tensor(found).min()) < epoch_size:
        start = len(windows) * _WINDOW % (math.ceil(n_blocks / _WINDOW) * _WINDOW)
        if start == 0:
            blocks = permutation(n_blocks)
        chosen = blocks[..., start : start + _WINDOW].unsqueeze(-1) * _BLOCK
        items = (chosen + torch.arange(_BLOCK)).flatten(-2)
        windows.append(items.gather(-1, permutation(items.shape[-1])))
        found = found + (windows[-1] < n_items).sum(dim=-1)
    order = torch.cat(windows, dim=-1)
    kept = [row[row < n_items][:epoch_size] for row in order.reshape(-1, order.shape[-1])]
    return torch.stack(kept).reshape(*order.shape[:-1], epoch_size)
