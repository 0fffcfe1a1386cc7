"""Networks of one architecture as a single stack: (members, items, features) in and out."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import nn

from wiesel.nn.layers import Dropout
from wiesel.nn.stacked_layers import (
    INTERNAL,
    StackedBatchNorm,
    StackedDropout,
    StackedFlatten,
    StackedLinear,
    StackedTorchDropout,
    stack_tensors,
)
from wiesel.nn.streams import RandomStreams

__all__ = ["NotStackable", "share_tensors", "stack_modules"]

_ELEMENTWISE = (
    nn.CELU,
    nn.ELU,
    nn.GELU,
    nn.Hardswish,
    nn.Hardtanh,
    nn.Identity,
    nn.LeakyReLU,
    nn.LogSigmoid,
    nn.Mish,
    nn.ReLU,
    nn.ReLU6,
    nn.SELU,
    nn.Sigmoid,
    nn.SiLU,
    nn.Softplus,
    nn.Softsign,
    nn.Tanh,
)


class NotStackable(Exception):
    """A module cannot be stacked; the message says which one and why."""


def stack_modules(modules: Sequence[nn.Module], streams: RandomStreams) -> nn.Module:
    """Return one module that computes what each `modules[k]` does for member k, all at once.

    It has the parameters and buffers of a member under the same names, with a first dimension of
    members. Random numbers of member k come from stream k. A custom module can be stacked if its
    class declares `stackable = True`: its `forward` must count dimensions from the last.

    >>> import torch
    >>> networks = [nn.Sequential(nn.Linear(3, 2), nn.Tanh()) for _ in range(5)]
    >>> stack = stack_modules(networks, RandomStreams([torch.get_rng_state()] * 5))
    >>> values = torch.randn(5, 4, 3)
    >>> torch.allclose(stack(values)[1], networks[1](values[1]), atol=1e-6)
    True
    """
    _refuse_shared(modules[0])
    return _stacked(modules, streams, type(modules[0]).__name__)


def share_tensors(stack: nn.Module, modules: Sequence[nn.Module]) -> None:
    """Make the members' buffers and frozen parameters views of the stack's.

    So a step that changes the stack, such as its BatchNorm statistics, also changes the members.
    (`FlatParameters` shares the trained parameters.)
    """
    for k, module in enumerate(modules):
        own = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        for name, tensor in (*stack.named_parameters(), *stack.named_buffers()):
            if not tensor.requires_grad:
                own[name].data = tensor.data[k]


def _stacked(modules: Sequence[nn.Module], streams: RandomStreams, name: str) -> nn.Module:
    first = modules[0]
    _refuse_differences(modules, name)
    _refuse_hooks(modules, name)
    cls = type(first)
    if cls in _STACKED:
        return _STACKED[cls](modules, streams)
    if cls in _ELEMENTWISE:
        return copy.deepcopy(first)
    if cls is nn.Sequential or vars(cls).get("stackable", False):
        return _composed(modules, streams, name)
    kind = "" if name == cls.__name__ else f" ({cls.__name__})"
    raise NotStackable(f"{name}{kind} has no stacked form")


def _composed(modules: Sequence[nn.Module], streams: RandomStreams, name: str) -> nn.Module:
    """A module like the first, with stacked submodules."""
    stack = copy.copy(modules[0])
    stack.__dict__ = dict(stack.__dict__)
    stack._modules = {
        key: part
        if part is None
        else _stacked([module._modules[key] for module in modules], streams, f"{name}.{key}")  # type: ignore[misc]
        for key, part in modules[0]._modules.items()
    }
    stack_tensors(stack, modules)
    return stack


_STACKED: dict[type[nn.Module], Callable[[Sequence[nn.Module], RandomStreams], nn.Module]] = {
    nn.Linear: StackedLinear,
    nn.BatchNorm1d: StackedBatchNorm,
    Dropout: StackedDropout,
    nn.Dropout: StackedTorchDropout,
    nn.Flatten: StackedFlatten,
}


def _refuse_shared(module: nn.Module) -> None:
    named = dict(module.named_parameters(remove_duplicate=False))
    if len({id(parameter) for parameter in named.values()}) < len(named):
        raise NotStackable(f"the parts of {type(module).__name__} share parameters")
    parts = [part for _, part in module.named_modules(remove_duplicate=False)]
    if len({id(part) for part in parts}) < len(parts):
        raise NotStackable(f"{type(module).__name__} uses one part several times")


def _refuse_hooks(modules: Sequence[nn.Module], name: str) -> None:
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    for module in modules:
        if any(getattr(module, kind) for kind in hooks) or "forward" in vars(module):
            raise NotStackable(f"{name} has hooks or a forward of its own")


def _refuse_differences(modules: Sequence[nn.Module], name: str) -> None:
    described = _description(modules[0])
    for module in modules[1:]:
        if type(module) is not type(modules[0]):
            raise NotStackable(f"{name} is not of the same class in all members")
        other = _description(module)
        if other.keys() != described.keys():
            raise NotStackable(f"{name} does not have the same parts in all members")
        for key, value in described.items():
            if not _equal(value, other[key]):
                raise NotStackable(f"the members differ in the {key!r} of {name}")


def _description(module: nn.Module) -> dict[str, Any]:
    """What members must have in common: options, names of submodules, types of tensors."""
    options = {key: value for key, value in vars(module).items() if key not in INTERNAL}
    tensors = {**module._parameters, **module._buffers}
    kinds = {
        key: tensor
        if tensor is None
        else (tuple(tensor.shape), tensor.dtype, tensor.device, tensor.requires_grad)
        for key, tensor in tensors.items()
    }
    return {**options, **kinds, "parts": list(module._modules)}


def _equal(first: Any, second: Any) -> bool:
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        return np.array_equal(first, second)
    return first is second or bool(first == second)
