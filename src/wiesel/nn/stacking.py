"""Networks of one architecture as a single stack: (members, items, features) in and out."""

import copy
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wiesel.nn.end_models import Dropout, shipped_module, shipped_spec

__all__ = [
    "NotStackable",
    "RandomStreams",
    "StackedBatchNorm",
    "StackedDropout",
    "count_batch",
    "flat",
    "items_first",
    "members_first",
    "reseeded",
    "seeded",
    "set_seed",
    "share_tensors",
    "stack_modules",
]

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


_INTERNAL = {*vars(nn.Module()), "training", "_first_weights"}
"""Attributes that do not affect what a module computes: torch's, and one of Wiesel's modules."""


class _Turns:
    """Lets one thread at a time use torch's global generator, which all threads share."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        if hasattr(os, "register_at_fork"):  # a forked process has no thread to release the lock
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self.lock = threading.RLock()


_TURNS = _Turns()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw everything inside from `seed`, then restore torch's global generator.

    Another thread that comes here waits: it would draw from the same generator.

    >>> before = torch.get_rng_state()
    >>> with seeded(3):
    ...     first = torch.rand(1).item()
    >>> with seeded(3):
    ...     first == torch.rand(1).item()
    True
    >>> torch.equal(before, torch.get_rng_state())
    True
    """
    with _TURNS.lock, torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        set_seed(seed)
        yield


def reseeded(network: Any, seed: int, again: bool = True) -> Any:
    """Return a Wiesel end model initialized from the seed; a user's module unchanged.

    `again=False` also leaves a model unchanged whose weights somebody has trained or set.
    """
    spec = shipped_spec(network) if isinstance(network, nn.Module) else None
    if spec is None or not (again or network.is_untrained):
        return network
    with seeded(seed):
        return shipped_module(spec)


def set_seed(seed: int) -> None:
    """Do what `torch.manual_seed` does, but faster.

    That function loads torch's compiler, and records its call site for each kind of accelerator
    that this machine lacks. This costs seconds per process and milliseconds per call.
    """
    if torch.accelerator.is_available():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


class RandomStreams:
    """One stream of random numbers for each member of a stack.

    Every member draws the numbers that it would draw if trained alone, in the same order, from a
    generator in the same state. That is why a stack learns the same weights as separate training.

    >>> alone = torch.rand(2, 3, generator=torch.Generator().manual_seed(5))
    >>> states = [torch.Generator().manual_seed(seed).get_state() for seed in (4, 5)]
    >>> torch.equal(RandomStreams(states).uniform(2, 3)[1], alone)
    True
    """

    def __init__(self, states: Sequence[Tensor]) -> None:
        self._generators = [torch.Generator() for _ in states]
        self.set_states(states)

    def __len__(self) -> int:
        return len(self._generators)

    @property
    def states(self) -> list[Tensor]:
        """The current state of every stream."""
        return [generator.get_state() for generator in self._generators]

    def set_states(self, states: Sequence[Tensor]) -> None:
        """Continue from states returned by `states` or `torch.get_rng_state`."""
        for generator, state in zip(self._generators, states, strict=True):
            generator.set_state(state)

    def permutations(self, size: int) -> Tensor:
        """Return a random order of `size` positions for each member: (members, size)."""
        orders = [torch.randperm(size, generator=generator) for generator in self._generators]
        return torch.stack(orders)

    def uniform(self, *size: int) -> Tensor:
        """Return numbers from [0, 1) for each member: (members, *size)."""
        numbers = torch.empty(len(self), *size)
        for own, generator in zip(numbers.unbind(), self._generators, strict=True):
            own.uniform_(generator=generator)
        return numbers

    def bernoulli(self, p: float, *size: int) -> Tensor:
        """Return ones with probability `p`, else zeros, for each member: (members, *size)."""
        numbers = torch.empty(len(self), *size)
        for own, generator in zip(numbers.unbind(), self._generators, strict=True):
            own.bernoulli_(p, generator=generator)
        return numbers


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
    if isinstance(first, torch.jit.ScriptModule):
        raise NotStackable(f"{name} is compiled")
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
    _stack_tensors(stack, modules)
    return stack


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
    options = {key: value for key, value in vars(module).items() if key not in _INTERNAL}
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


def _stack_tensors(stack: nn.Module, modules: Sequence[nn.Module]) -> None:
    """Give a module the members' parameters and buffers, stacked along a first dimension."""
    first = modules[0]
    stack._parameters, stack._buffers = {}, {}
    for key, parameter in first._parameters.items():
        if parameter is not None:
            values = torch.stack([module._parameters[key].detach() for module in modules])  # type: ignore[union-attr]
            stack._parameters[key] = nn.Parameter(values, parameter.requires_grad)
        else:
            stack._parameters[key] = None
    for key, buffer in first._buffers.items():
        buffers = [module._buffers[key] for module in modules]
        stack._buffers[key] = None if buffer is None else torch.stack(buffers)  # type: ignore[arg-type]


class _StackedLayer(nn.Module):
    """A layer with the parameters and options of one layer of each member."""

    def __init__(self, layers: Sequence[nn.Module], streams: RandomStreams) -> None:
        super().__init__()
        self.streams = streams
        for key, value in vars(layers[0]).items():
            if key not in _INTERNAL:
                setattr(self, key, value)
        _stack_tensors(self, layers)
        self.train(layers[0].training)


class StackedLinear(_StackedLayer):
    """A linear layer for each member."""

    weight: nn.Parameter
    bias: nn.Parameter | None

    def __init__(self, layers: Sequence[nn.Module], streams: RandomStreams) -> None:
        super().__init__(layers, streams)
        # In memory by columns, as autograd returns the gradient: no step has to transpose it.
        by_columns = self.weight.detach().mT.contiguous().mT
        self.weight = nn.Parameter(by_columns, self.weight.requires_grad)

    def forward(self, values: Tensor) -> Tensor:
        """Return (members, items, outputs)."""
        products = torch.bmm(values, self.weight.transpose(1, 2))
        # Not baddbmm, which first writes the bias to every item.
        return products if self.bias is None else products.add_(self.bias.unsqueeze(1))


class StackedBatchNorm(_StackedLayer):
    """Batch normalization with the statistics of each member.

    All members' features side by side are the features of one large layer.
    """

    weight: nn.Parameter | None
    bias: nn.Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None
    momentum: float | None
    eps: float

    def forward(self, values: Tensor) -> Tensor:
        """Return the normalized values: (members, items, features)."""
        use_batch = self.training or self.running_mean is None
        if use_batch and values.shape[1] == 1:
            raise ValueError("BatchNorm cannot be trained with a batch of one item.")
        momentum = count_batch(self) if self.training else 0.0
        running = flat(self.running_mean), flat(self.running_var)
        affine = flat(self.weight), flat(self.bias)
        normalized = F.batch_norm(
            items_first(values), *running, *affine, use_batch, momentum, self.eps
        )
        return members_first(normalized, len(values))


def count_batch(layer: Any) -> float:
    """Count a batch of a BatchNorm layer, and return its weight in the running statistics."""
    counted: Tensor | None = layer.num_batches_tracked
    if counted is not None:
        counted.add_(1)
    if layer.momentum is not None:
        return float(layer.momentum)
    return 0.0 if counted is None else 1 / float(counted.reshape(-1)[0])


def items_first(values: Tensor) -> Tensor:
    """Return (members, items, features) as (items, features of all members)."""
    return values.transpose(0, 1).reshape(values.shape[1], -1)


def members_first(side_by_side: Tensor, n_members: int) -> Tensor:
    """Undo `items_first`."""
    return side_by_side.view(len(side_by_side), n_members, -1).transpose(0, 1)


def flat(tensor: Tensor | None) -> Tensor | None:
    """Return a parameter of all members as one row."""
    return None if tensor is None else tensor.reshape(-1)


class StackedDropout(_StackedLayer):
    """Our dropout, with the masks that each member would draw."""

    p: float

    def forward(self, values: Tensor) -> Tensor:
        """Return the values with a share `p` of them set to 0 and the rest scaled up."""
        keep = self.mask(values)
        return values if keep is None else values * keep

    def mask(self, values: Tensor) -> Tensor | None:
        """Return the factor for the values, or None if they stay unchanged."""
        if not self.training or self.p == 0:
            return None
        return self._keep(*values.shape[1:]) if self.p < 1 else torch.zeros_like(values)

    def _keep(self, *size: int) -> Tensor:
        return self.streams.uniform(*size).ge_(self.p).mul_(1 / (1 - self.p))


class StackedTorchDropout(StackedDropout):
    """torch's own dropout, with the masks that each member would draw."""

    def _keep(self, *size: int) -> Tensor:
        return self.streams.bernoulli(1 - self.p, *size).div_(1 - self.p)


class StackedFlatten(_StackedLayer):
    """Flattening, with one additional leading dimension."""

    start_dim: int
    end_dim: int

    def forward(self, values: Tensor) -> Tensor:
        """Return the values with some dimensions merged into one."""
        start, end = (d + 1 if d >= 0 else d for d in (self.start_dim, self.end_dim))
        return values.flatten(start, end)


_STACKED: dict[type[nn.Module], Callable[[Sequence[nn.Module], RandomStreams], nn.Module]] = {
    nn.Linear: StackedLinear,
    nn.BatchNorm1d: StackedBatchNorm,
    Dropout: StackedDropout,
    nn.Dropout: StackedTorchDropout,
    nn.Flatten: StackedFlatten,
}
