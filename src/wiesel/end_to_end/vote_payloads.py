"""The votes of a batch: sparse entries for large crowds, a dense block for an encoder."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor

from wiesel.training.batches import taken
from wiesel.training.inputs import Batchable, Inputs, move
from wiesel.votes import VoteMatrix

__all__ = [
    "DensePayload",
    "DenseVotes",
    "EntryPayload",
    "VoteEntries",
    "statistic_columns",
    "vote_entries",
]

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class VoteEntries:
    """The votes on some items, one entry each: memory grows with the votes, not with the voters.

    A probabilistic vote is one entry for each class, with the probability as its mass.
    """

    bounds: npt.NDArray[np.int64]
    """Entries `bounds[i]:bounds[i + 1]` are of item i."""
    items: Tensor
    """The position of the item in the batch."""
    voters: Tensor
    classes: Tensor
    mass: Tensor

    def __len__(self) -> int:
        return len(self.mass)

    @property
    def n_items(self) -> int:
        """The number of items, with votes or without."""
        return len(self.bounds) - 1

    def part(self, start: int, stop: int) -> "VoteEntries":
        """Return the votes on some consecutive items, without copying."""
        first, last = int(self.bounds[start]), int(self.bounds[stop])
        return VoteEntries(
            self.bounds[start : stop + 1] - first,
            self.items[first:last] - start,
            self.voters[first:last],
            self.classes[first:last],
            self.mass[first:last],
        )

    def to(self, device: torch.device) -> "VoteEntries":
        """Return the entries on the device."""
        moved = (part.to(device) for part in (self.items, self.voters, self.classes, self.mass))
        return VoteEntries(self.bounds, *moved)

    def sum_by_item(self, values: Tensor) -> Tensor:
        """Return, for every item, the sum of its votes' values (n_votes, n_classes)."""
        total = values.new_zeros(self.n_items, values.shape[1])
        return total.index_add(0, self.items, values * self.mass[:, None])

    def counts(self, n_classes: int) -> Tensor:
        """Return how many votes each class got: (n_items, n_classes)."""
        total = self.mass.new_zeros(self.n_items * n_classes)
        return total.index_add(0, self.items * n_classes + self.classes, self.mass).view(
            self.n_items, n_classes
        )


def vote_entries(one_hot: "sp.csr_array[Any, tuple[int, int]]", n_classes: int) -> VoteEntries:
    """Return one-hot votes (columns `voter * n_classes + class`) as entries.

    >>> entries = vote_entries(votes.one_hot(), 2)
    >>> entries.voters[:4], entries.classes[:4]
    (tensor([0, 1, 0, 1]), tensor([0, 0, 0, 1]))
    """
    bounds = one_hot.indptr.astype(np.int64)
    columns = one_hot.indices.astype(np.int64)
    items = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    return VoteEntries(
        bounds,
        torch.from_numpy(items),
        torch.from_numpy(columns // n_classes),
        torch.from_numpy(columns % n_classes),
        torch.from_numpy(one_hot.data.astype(np.float32)),
    )


@dataclass(frozen=True)
class EntryPayload:
    """Gives batches their votes as `VoteEntries`: right for thousands of voters."""

    votes: VoteMatrix

    @property
    def item_bytes(self) -> int:
        """A few votes need negligible memory compared with an item's inputs."""
        return 0

    def gather(self, rows: Rows, inputs: Batchable, device: torch.device) -> VoteEntries:
        """Return the votes on these items."""
        return vote_entries(self._one_hot[rows], self.votes.n_classes).to(device)

    @cached_property
    def _one_hot(self) -> "sp.csr_array[np.float32, tuple[int, int]]":
        return self.votes.one_hot()


@dataclass(frozen=True, eq=False)
class DenseVotes:
    """The votes on some items as one block, and the encoder's features."""

    votes: Tensor
    """(n_items, n_voters, n_classes): one-hot votes, or their distributions; zeros abstain.

    After the voters there is a column for each statistic of two voters. In memory, an item's votes
    are stored class by class, so that operations per class are fast."""
    features: Tensor | None = None
    """The encoder's features; once a batch is prepared, its whole input."""
    n_inputs: int = 0
    """How many of the last features are also the end model's inputs."""

    @property
    def inputs(self) -> Tensor | None:
        """The end model's inputs, if they are among the features."""
        if self.features is None or not self.n_inputs:
            return None
        return self.features[..., self.features.shape[-1] - self.n_inputs :]

    def part(self, start: int, stop: int) -> "DenseVotes":
        """Return the votes on some consecutive items, without copying."""
        features = None if self.features is None else self.features[start:stop]
        return DenseVotes(self.votes[start:stop], features, self.n_inputs)

    def take(self, positions: Tensor) -> "DenseVotes":
        """Return the items at these positions (members, n_items), for a stack."""
        # Keep the memory layout: class by class.
        votes = taken(self.votes.mT, positions).mT
        return DenseVotes(votes, taken(self.features, positions), self.n_inputs)


@dataclass(frozen=True)
class DensePayload:
    """Gives batches their votes as `DenseVotes`."""

    votes: VoteMatrix
    inputs: Inputs
    features: Inputs | None = None
    statistics: tuple[tuple[str, int, int], ...] = ()
    """Kinds and positions of two voters: additional columns after the votes."""

    @property
    def item_bytes(self) -> int:
        """Votes are stored twice: in raw and in encoded form."""
        own = 0 if self.features is None else self.features.item_bytes
        return own + 8 * (self.votes.n_voters + len(self.statistics)) * self.votes.n_classes

    def gather(self, rows: Rows, inputs: Batchable, device: torch.device) -> DenseVotes:
        """Return the votes on these items, and the encoder's features."""
        n_voters, n_classes = self.votes.n_voters, self.votes.n_classes
        by_class = torch.from_numpy(self._by_class[rows].toarray())
        votes = by_class.view(len(rows), n_classes, n_voters)
        if self.statistics:
            votes = torch.cat([votes, statistic_columns(votes, self.statistics)], dim=-1)
        return DenseVotes(votes.mT.to(device), self._features_of(rows, inputs, device))

    def _features_of(self, rows: Rows, inputs: Batchable, device: torch.device) -> Tensor | None:
        if self.features is None:
            return None
        # Most encoders and end models read the same features: gather them once.
        same = self.features is self.inputs
        return inputs if same else move(self.features.take(rows), device)  # type: ignore[return-value]

    @cached_property
    def _by_class(self) -> "sp.csr_array[np.float32, tuple[int, int]]":
        """One-hot votes in columns `class * n_voters + voter`."""
        one_hot = self.votes.one_hot()
        voters, classes = np.divmod(one_hot.indices, self.votes.n_classes)
        columns = classes * self.votes.n_voters + voters
        return sp.csr_array((one_hot.data, columns, one_hot.indptr), shape=one_hot.shape)


def statistic_columns(by_class: Tensor, statistics: Sequence[tuple[str, int, int]]) -> Tensor:
    """Return the columns that statistics add to votes (n_items, n_classes, n_voters).

    Let a and b be the one-hot votes of the first and the second voter. If both vote, `fixes` is
    a - b and `prioritizes` is a; `reinforces` is 1 for a class that both vote for.

    >>> votes = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])  # the first votes 0, the second 1
    >>> kinds = ("fixes", "prioritizes", "reinforces")
    >>> statistic_columns(votes, [(kind, 0, 1) for kind in kinds]).mT.tolist()
    [[[1.0, -1.0], [1.0, 0.0], [0.0, 0.0]]]
    """
    columns = []
    for kind, first, second in statistics:
        a, b = by_class[..., first], by_class[..., second]
        if kind == "reinforces":
            columns.append(a * b)
            continue
        counted = a * b.sum(dim=-1, keepdim=True)
        against = b * a.sum(dim=-1, keepdim=True) if kind == "fixes" else 0
        columns.append(counted - against)
    return torch.stack(columns, dim=-1)
