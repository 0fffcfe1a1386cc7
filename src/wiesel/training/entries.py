"""Votes as a list of entries, for methods that look at one vote at a time."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor

__all__ = ["VoteEntries", "vote_entries"]


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
