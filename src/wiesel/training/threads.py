"""The number of threads that suits a network."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from torch.nn.parameter import is_lazy

from wiesel.threads import one_thread

__all__ = ["fitting_threads"]

_SMALL = 2_000_000


@contextmanager
def fitting_threads(module: nn.Module) -> Iterator[None]:
    """Run a small network on one thread, and a large one with torch's setting, then restore it.

    The matrices of a small network are so small that distributing them to threads takes longer
    than multiplying them. With two threads the paper's networks take several times the CPU time.

    >>> import torch
    >>> before = torch.get_num_threads()
    >>> with fitting_threads(nn.Linear(3, 2)):
    ...     torch.get_num_threads()
    1
    >>> before == torch.get_num_threads()
    True
    """
    known = [parameter for parameter in module.parameters() if not is_lazy(parameter)]
    if sum(parameter.numel() for parameter in known) < _SMALL:
        with one_thread():
            yield
    else:
        yield
