"""The order in which an epoch goes through the items; millions of items are shuffled by blocks.

A random order of millions of items takes much memory, and reads a file of features in millions of
places. So blocks of neighboring items are shuffled, and then the items within a window of many
blocks. The order depends on the number of items, not on where their features are: a memory-mapped
array trains the same network as one in memory.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["shuffled"]

Permutation = Callable[[int], Tensor]
"""Draws a random order of `size` positions: (size,), or (members, size) for a stack."""

_MANY = 2**20
"""Up to this many items are shuffled as a whole."""
_BLOCK = 256
_WINDOW = 64
"""How many blocks are shuffled together: 16,384 items."""


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
