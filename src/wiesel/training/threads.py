"""How many threads a network is worth."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

__all__ = ["fitting_threads"]

_SMALL = 2_000_000


@contextmanager
def fitting_threads(module: nn.Module) -> Iterator[None]:
    """Train a small network on one thread, and leave torch's setting as it was.

    The matrices of a small network are so small that handing them out to threads takes longer
    than multiplying them: with two threads the paper's networks take several times the CPU time.

    >>> before = torch.get_num_threads()
    >>> with fitting_threads(nn.Linear(3, 2)):
    ...     torch.get_num_threads()
    1
    >>> before == torch.get_num_threads()
    True
    """
    before = torch.get_num_threads()
    n_parameters = sum(parameter.numel() for parameter in module.parameters())
    try:
        torch.set_num_threads(1 if n_parameters < _SMALL else before)
        yield
    finally:
        torch.set_num_threads(before)
