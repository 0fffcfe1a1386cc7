"""Networks without memory, to compare the shapes of their tensors with those in a file."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

__all__ = ["shapes_only"]


@contextmanager
def shapes_only() -> Iterator[None]:
    """Make every tensor inside without memory and values, as `torch.device("meta")` does.

    There, torch computes the shape of random numbers and of simple arithmetic in Python, for which
    it loads its compiler: two seconds in every process. Initial values are nothing but such
    numbers, and here they cost nothing.

    >>> with shapes_only():
    ...     table = torch.nn.Embedding(10**9, 10**6).weight
    >>> table.shape, table.is_meta
    (torch.Size([1000000000, 1000000]), True)
    """
    with torch.device("meta"), _NoValues():
        yield


class _NoValues(TorchFunctionMode):
    """Replaces functions that give initial values by those that only give their shape."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.randn:
            return torch.empty(*args, **kwargs)
        if func is torch.eye:
            return torch.empty(args[0], args[-1], **kwargs)
        if func in _IN_PLACE or (func in _OF_EACH_NUMBER and _of_one_tensor(args)):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


_IN_PLACE: set[Any] = {Tensor.normal_, Tensor.uniform_, nn.init.normal_, nn.init.uniform_}
_OF_EACH_NUMBER: set[Any] = {Tensor.log, Tensor.add, Tensor.mul, Tensor.div, Tensor.__rsub__}


def _of_one_tensor(args: tuple[Any, ...]) -> bool:
    """Whether nothing can change the shape of the first tensor: no other, or one of its shape."""
    tensors = [value for value in args if isinstance(value, Tensor)]
    return all(other.shape == tensors[0].shape for other in tensors)
