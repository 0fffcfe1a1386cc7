"""Batches as slices: items are gathered by the thousand, and steps look at views of that."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor

from wiesel.labels import FloatArray
from wiesel.training.entries import VoteEntries, vote_entries
from wiesel.training.inputs import Batchable, Inputs, move, part
from wiesel.votes import VoteMatrix

__all__ = ["Batch", "StackedItems", "TrainingData", "batch_bounds"]

_CHUNK_BYTES = 64 * 2**20
_CHUNK_ITEMS = 2048
_WHOLE_BYTES = 2**30


@dataclass(frozen=True)
class Batch:
    """Some items, as tensors on the training device. What a method does not use is None."""

    rows: Tensor
    """The position of every item in the training data."""
    inputs: Batchable
    """What the end model reads."""
    votes: Tensor | None = None
    """(n_items, n_voters, n_classes): one-hot votes, or their distributions; zeros abstain.

    In memory an item's votes lie class by class, so that what is done for each class is fast."""
    features: Tensor | None = None
    """What the encoder reads beside the votes."""
    targets: Tensor | None = None
    """(n_items, n_classes): fixed soft labels."""
    entries: VoteEntries | None = None
    """The votes one by one, in place of `votes`, for methods that ask for it."""
    lessons: tuple[Tensor, ...] | None = None
    """What `Objective.taught` adds: targets of this step."""

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, start: int, stop: int) -> "Batch":
        """Return some consecutive items, without copying."""
        return Batch(
            self.rows[start:stop],
            part(self.inputs, start, stop),
            None if self.votes is None else self.votes[start:stop],
            None if self.features is None else self.features[start:stop],
            None if self.targets is None else self.targets[start:stop],
            None if self.entries is None else self.entries.part(start, stop),
        )

    def take(self, positions: Tensor) -> "Batch":
        """Return the items at these positions (members, n_items), as a batch for a stack."""
        features = _taken(self.features, positions)
        shared = getattr(self.inputs, "_base", None) is self.features is not None
        # Copied as they lie in memory, class by class.
        votes = None if self.votes is None else _taken(self.votes.mT, positions).mT
        return Batch(
            _taken(self.rows, positions),
            features[..., _columns(self.inputs)] if shared else _taken(self.inputs, positions),  # type: ignore[arg-type]
            votes,
            features,
            _taken(self.targets, positions),
        )

    def compact(self) -> "Batch":
        """Return the batch with a view in place of inputs that `features` holds anyway.

        An encoder reads votes and inputs beside each other: taken from there, they are copied
        once.
        """
        if self.features is None:
            return self
        return replace(self, inputs=_within(self.inputs, self.features))


@dataclass(frozen=True)
class TrainingData:
    """Everything `fit` was given, item by item, on the CPU and as compact as it came.

    >>> from wiesel.training.inputs import as_inputs
    >>> data = TrainingData(as_inputs(np.zeros((4, 2))), votes=votes)
    >>> [len(batch) for batch in data.batches(data.items, 3)]
    [4]
    """

    inputs: Inputs
    votes: VoteMatrix | None = None
    features: Inputs | None = None
    targets: FloatArray | None = None
    used: npt.NDArray[np.int64] | None = None
    """The positions of the items to train on; None is all of them."""
    sparse_votes: bool = False
    """Give batches their votes as `entries`: right for thousands of voters."""

    @cached_property
    def items(self) -> npt.NDArray[np.int64]:
        """The positions of the items to train on."""
        return np.arange(len(self.inputs)) if self.used is None else self.used

    def sample(self, size: int) -> npt.NDArray[np.int64]:
        """Return up to `size` of the training items, evenly spread and always the same."""
        chosen = np.linspace(0, len(self.items) - 1, min(size, len(self.items)))
        return self.items[chosen.astype(np.int64)]

    def sampled(self, size: int, device: torch.device | None = None) -> Batch:
        """Return the items of `sample` as a batch, gathered once: it is looked at every epoch."""
        key = size, device
        if key not in self._samples:
            self._samples[key] = self.gather(self.sample(size), device)
        return self._samples[key]

    def gather(self, rows: npt.NDArray[np.int64], device: torch.device | None = None) -> Batch:
        """Return the items at these positions as one batch."""
        device = device or torch.device("cpu")
        dense, sparse = self._votes_of(rows)
        inputs = move(self.inputs.take(rows), device)
        return Batch(
            torch.from_numpy(rows).to(device),
            inputs,
            None if dense is None else dense.to(device),
            self._features_of(rows, inputs, device),
            None if self._targets is None else self._targets[torch.from_numpy(rows)].to(device),
            None if sparse is None else sparse.to(device),
        )

    def batches(
        self,
        rows: npt.NDArray[np.int64],
        batch_size: int,
        device: torch.device | None = None,
        prepare: Callable[[Batch], Batch] = lambda batch: batch,
    ) -> Iterator[Batch]:
        """Yield the items at these positions, in this order, `batch_size` at a time.

        Items are gathered, moved and prepared in large chunks and handed out as views, so that a
        step does no work that can be done once.
        """
        bounds = batch_bounds(len(rows), batch_size)
        per_chunk = max(1, self._chunk_items // batch_size)
        for first in range(0, len(bounds), per_chunk):
            group = bounds[first : first + per_chunk]
            offset = group[0][0]
            chunk = prepare(self.gather(rows[offset : group[-1][1]], device))
            for start, stop in group:
                yield chunk.part(start - offset, stop - offset)

    @property
    def prepared_bytes(self) -> int:
        """How much memory an item takes once it is gathered and prepared."""
        item_bytes = self.inputs.item_bytes
        item_bytes += 0 if self.features is None else self.features.item_bytes
        if self.votes is not None and not self.sparse_votes:
            # The votes are needed twice: as they are, and as what the encoder makes of them.
            item_bytes += 8 * self.votes.n_voters * self.votes.n_classes
        return item_bytes

    @property
    def _chunk_items(self) -> int:
        return min(_CHUNK_ITEMS, _CHUNK_BYTES // max(1, self.prepared_bytes))

    @cached_property
    def _samples(self) -> dict[tuple[int, torch.device | None], Batch]:
        return {}

    @cached_property
    def _one_hot(self) -> sp.csr_array[np.float32, tuple[int, int]]:
        return self.votes.one_hot()  # type: ignore[union-attr]

    @cached_property
    def _by_class(self) -> sp.csr_array[np.float32, tuple[int, int]]:
        """One-hot votes in columns `class * n_voters + voter`."""
        votes: VoteMatrix = self.votes  # type: ignore[assignment]
        one_hot = self._one_hot
        voters, classes = np.divmod(one_hot.indices, votes.n_classes)
        columns = classes * votes.n_voters + voters
        return sp.csr_array((one_hot.data, columns, one_hot.indptr), shape=one_hot.shape)

    @cached_property
    def _targets(self) -> Tensor | None:
        if self.targets is None:
            return None
        return torch.from_numpy(np.asarray(self.targets, dtype=np.float32))

    def _features_of(
        self, rows: npt.NDArray[np.int64], inputs: Batchable, device: torch.device
    ) -> Tensor | None:
        if self.features is None:
            return None
        # Most encoders read what the end model reads: it is gathered once.
        same = self.features is self.inputs
        return inputs if same else move(self.features.take(rows), device)  # type: ignore[return-value]

    def _votes_of(self, rows: npt.NDArray[np.int64]) -> tuple[Tensor | None, VoteEntries | None]:
        if self.votes is None:
            return None, None
        n_classes = self.votes.n_classes
        if self.sparse_votes:
            return None, vote_entries(self._one_hot[rows], n_classes)
        dense = torch.from_numpy(self._by_class[rows].toarray())
        return dense.view(len(rows), n_classes, self.votes.n_voters).mT, None


class StackedItems:
    """Batches for a stack of networks, each of which has an order of its own.

    Where they fit in memory all items are gathered and prepared once, and a batch is copied from
    that: the members would otherwise do it for every item again.
    """

    def __init__(self, data: TrainingData, prepare: Callable[[Batch], Batch]) -> None:
        self._data, self._prepare = data, prepare
        fits = len(data.items) * data.prepared_bytes <= _WHOLE_BYTES
        self._whole = prepare(data.gather(data.items)).compact() if fits else None

    def batches(self, orders: Tensor, batch_size: int) -> Iterator[Batch]:
        """Yield batches of a first dimension of members; an order is of positions in `items`."""
        for start, stop in batch_bounds(orders.shape[1], batch_size):
            yield self._batch(orders[:, start:stop])

    def _batch(self, positions: Tensor) -> Batch:
        if self._whole is not None:
            return self._whole.take(positions)
        rows = self._data.items[positions.reshape(-1).numpy()]
        flat = self._prepare(self._data.gather(rows))
        return flat.take(torch.arange(len(rows)).view(positions.shape))


def _taken(values: Any, positions: Tensor) -> Any:
    if values is None:
        return None
    if isinstance(values, dict):
        return {key: _taken(value, positions) for key, value in values.items()}
    return values.index_select(0, positions.reshape(-1)).view(*positions.shape, *values.shape[1:])


def _columns(values: Tensor) -> slice:
    """Which columns of its base a view is."""
    start = values.storage_offset()
    return slice(start, start + values[0].numel())


def _within(values: Any, features: Tensor) -> Any:
    """The same values as a view of the first or the last features, if they are there."""
    if not isinstance(values, Tensor) or values.numel() > features.numel():
        return values
    width = values[0].numel()
    for found in (features[:, :width], features[:, features.shape[1] - width :]):
        if torch.equal(found, values.flatten(start_dim=1)):
            return found.view(values.shape)
    return values


def batch_bounds(n_items: int, batch_size: int) -> list[tuple[int, int]]:
    """Return where batches start and stop; a last item alone joins the batch before it.

    BatchNorm cannot train on a single item.

    >>> batch_bounds(7, 3)
    [(0, 3), (3, 7)]
    """
    starts = list(range(0, n_items, batch_size))
    if len(starts) > 1 and n_items - starts[-1] == 1:
        starts.pop()
    return list(itertools.pairwise([*starts, n_items]))
