"""Networks of one architecture as a single stacked one: (members, items, features) in and out."""

import copy
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from wiesel.nn.layers import Dropout
from wiesel.nn.streams import RandomStreams

__all__ = ["NotStackable", "share_tensors", "stack_modules", "weight_gradients"]

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
# What torch keeps in every module, and what says nothing about what a module computes.
_INTERNAL = {*vars(nn.Module()), "training"}


class NotStackable(Exception):
    """A module cannot be stacked; the message says which one and why."""


def stack_modules(modules: Sequence[nn.Module], streams: RandomStreams) -> nn.Module:
    """Return one module that does for every member k what `modules[k]` does, all at once.

    It has the parameters and buffers of a member under the same names, with a first dimension of
    members. Random numbers of member k come from stream k. A module of our own takes part if its
    class declares `stackable = True`: its `forward` may only address dimensions from the last.

    >>> networks = [nn.Sequential(nn.Linear(3, 2), nn.Tanh()) for _ in range(5)]
    >>> stack = stack_modules(networks, RandomStreams([torch.get_rng_state()] * 5))
    >>> values = torch.randn(5, 4, 3)
    >>> torch.allclose(stack(values)[1], networks[1](values[1]), atol=1e-6)
    True
    """
    _refuse_shared(modules[0])
    return _stacked(modules, streams, type(modules[0]).__name__)


def share_tensors(stack: nn.Module, modules: Sequence[nn.Module]) -> None:
    """Let the members' buffers and frozen parameters be views of the stack's.

    What a step changes in the stack, such as the statistics of BatchNorm, is changed in the
    members. (The parameters that are trained are shared by `FlatParameters`.)
    """
    for k, module in enumerate(modules):
        own = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        for name, tensor in (*stack.named_parameters(), *stack.named_buffers()):
            if not tensor.requires_grad:
                own[name].data = tensor.data[k]


def weight_gradients(stack: nn.Module) -> "list[WeightGradient]":
    """Return the gradients of a stack that its layers write themselves."""
    layers = [layer for layer in stack.modules() if isinstance(layer, StackedLinear)]
    return [layer.gradient for layer in layers if layer.weight.requires_grad]


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
    """A module like the first, with stacked parts."""
    stack = copy.copy(modules[0])
    stack.__dict__ = dict(stack.__dict__)
    stack._modules = {
        key: part
        if part is None
        else _stacked([module._modules[key] for module in modules], streams, f"{name}.{key}")  # type: ignore[misc]
        for key, part in modules[0]._modules.items()
    }
    _stack_tensors(stack, modules)
    if isinstance(stack, nn.Sequential):
        _join_rectified(stack)
    return stack


def _join_rectified(stack: nn.Sequential) -> None:
    """Let dropout do the work of a ReLU before it; places and names stay."""
    parts = stack._modules
    for before, after in itertools.pairwise(list(parts)):
        dropout = parts[after]
        if type(parts[before]) is nn.ReLU and type(dropout) is StackedDropout:
            parts[before] = nn.Identity()
            parts[after] = StackedRectifiedDropout([dropout], dropout.streams)


def _stack_tensors(stack: nn.Module, modules: Sequence[nn.Module]) -> None:
    """Give a module the members' own parameters and buffers, with a first dimension of members."""
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
        self.gradient = WeightGradient(self.weight)

    def forward(self, values: Tensor) -> Tensor:
        """Return (members, items, outputs)."""
        result: Tensor = _BatchedLinear.apply(values, self.weight, self.bias, self.gradient)  # type: ignore[no-untyped-call]
        return result


class WeightGradient:
    """Where the gradient of a weight lies, and whether what is there is of an earlier step."""

    def __init__(self, weight: nn.Parameter) -> None:
        self.weight = weight
        self.stale = False

    def add(self, gradient: Tensor, values: Tensor) -> None:
        """Add a batched product; the first one of a step replaces what is there."""
        if self.stale:
            torch.bmm(gradient, values, out=self.weight.grad)
        else:
            self.weight.grad.baddbmm_(gradient, values)  # type: ignore[union-attr]
        self.stale = False

    def settle(self) -> None:
        """After all products were added: where none was, the gradient is zero."""
        if self.stale:
            self.weight.grad.zero_()  # type: ignore[union-attr]
            self.stale = False


class _BatchedLinear(torch.autograd.Function):
    """A batched product that writes the gradient of the weights where it belongs.

    Autograd would make the gradient first, transposed, and add it then: two more passes over
    all the weights of all members.
    """

    @staticmethod
    def forward(
        ctx: Any, values: Tensor, weight: Tensor, bias: Tensor | None, own: WeightGradient
    ) -> Tensor:
        ctx.save_for_backward(values, weight)
        ctx.own = own
        products = torch.bmm(values, weight.transpose(1, 2))
        # Not baddbmm, which first writes the bias to every item.
        return products if bias is None else products.add_(bias.unsqueeze(1))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        values, weight = ctx.saved_tensors
        to_values, to_weight, to_bias, _ = ctx.needs_input_grad
        weights = None
        if to_weight and weight.grad is None:
            weights = torch.bmm(gradient.transpose(1, 2), values)
        elif to_weight:
            ctx.own.add(gradient.transpose(1, 2), values)
        return (
            torch.bmm(gradient, weight) if to_values else None,
            weights,
            gradient.sum(dim=1) if to_bias else None,
            None,
        )


class StackedBatchNorm(_StackedLayer):
    """Batch normalization with the statistics of each member."""

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
        momentum = self._count() if self.training else 0.0
        running = _joined(self.running_mean), _joined(self.running_var)
        result: Tensor = _SideBySideNorm.apply(  # type: ignore[no-untyped-call]
            values, self.weight, self.bias, running, (use_batch, momentum, self.eps)
        )
        return result

    def _count(self) -> float:
        """Count the batch, and return how much it weighs in the running statistics."""
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        if self.momentum is not None:
            return self.momentum
        counted = self.num_batches_tracked
        return 0.0 if counted is None else 1 / float(counted[0])


class _SideBySideNorm(torch.autograd.Function):
    """All members' features side by side, normalized as the features of one large layer.

    torch's own kernels; as one operation, because what autograd does for views and copies of
    them takes as long as they do.
    """

    @staticmethod
    def forward(
        ctx: Any,
        values: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        running: tuple[Tensor | None, Tensor | None],
        how: tuple[bool, float, float],
    ) -> Tensor:
        use_batch, momentum, eps = how
        side_by_side = _side_by_side(values)
        normalized, mean, scale = torch.native_batch_norm(
            side_by_side, _joined(weight), _joined(bias), *running, use_batch, momentum, eps
        )
        ctx.save_for_backward(side_by_side, weight, mean, scale)
        # Not needed beside the batch's own statistics, and later batches change them.
        ctx.running = (None, None) if use_batch else running
        ctx.how = use_batch, eps
        return _members_first(normalized, len(values))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        side_by_side, weight, mean, scale = ctx.saved_tensors
        wanted = list(ctx.needs_input_grad[:3])
        values, *parameters = torch.ops.aten.native_batch_norm_backward(
            _side_by_side(gradient),
            *(side_by_side, _joined(weight), *ctx.running, mean, scale, *ctx.how, wanted),
        )
        n_members = len(gradient)
        gradients = [part.view(n_members, -1) if part is not None else None for part in parameters]
        return (_members_first(values, n_members) if wanted[0] else None, *gradients, None, None)


def _side_by_side(values: Tensor) -> Tensor:
    return values.transpose(0, 1).reshape(values.shape[1], -1)


def _members_first(side_by_side: Tensor, n_members: int) -> Tensor:
    return side_by_side.view(len(side_by_side), n_members, -1).transpose(0, 1)


def _joined(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.reshape(-1)


class StackedDropout(_StackedLayer):
    """Our dropout, with the masks that each member would draw."""

    p: float

    def forward(self, values: Tensor) -> Tensor:
        """Return the values with a share `p` of them set to 0 and the rest scaled up."""
        if not self.training or self.p == 0:
            return values
        if self.p == 1:
            return values * 0.0
        return values * self._keep(*values.shape[1:])

    def _keep(self, *size: int) -> Tensor:
        return self.streams.uniform(*size).ge(self.p).mul(1 / (1 - self.p))


class StackedRectifiedDropout(StackedDropout):
    """A ReLU and the dropout after it, in one."""

    def forward(self, values: Tensor) -> Tensor:
        """Return what is positive, with a share `p` of it set to 0 and the rest scaled up."""
        if not self.training or not 0 < self.p < 1:
            return super().forward(torch.relu(values))
        result: Tensor = _RectifiedDropout.apply(values, self)  # type: ignore[no-untyped-call]
        return result


class _RectifiedDropout(torch.autograd.Function):
    """max(values, 0) times a mask. Where that is positive the gradient is 1 / (1 - p), else 0."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, layer: StackedDropout) -> Tensor:
        numbers = layer.streams.uniform(*values.shape[1:])
        ctx.kept = 1 / (1 - layer.p)
        # Values where the numbers are above a threshold, else 0: what this kernel computes.
        result = torch.ops.aten.threshold_backward(values, numbers, _just_below(layer.p))
        result.relu_().mul_(ctx.kept)
        ctx.save_for_backward(result)
        return result

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (result,) = ctx.saved_tensors
        return torch.ops.aten.threshold_backward(gradient, result, 0).mul_(ctx.kept), None


@functools.cache
def _just_below(p: float) -> float:
    """The float32 number before `p`: above it is what is not below `p`."""
    return float(np.nextafter(np.float32(p), np.float32(0)))


class StackedTorchDropout(StackedDropout):
    """torch's own dropout, with the masks that each member would draw."""

    def _keep(self, *size: int) -> Tensor:
        return self.streams.bernoulli(1 - self.p, *size).div_(1 - self.p)


class StackedFlatten(_StackedLayer):
    """Flattening, with one dimension more in front."""

    start_dim: int
    end_dim: int

    def forward(self, values: Tensor) -> Tensor:
        """Return the values with some dimensions made one."""
        start, end = (d + 1 if d >= 0 else d for d in (self.start_dim, self.end_dim))
        return values.flatten(start, end)


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
    """What members must have in common: options, the names of parts, the kinds of tensors."""
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
