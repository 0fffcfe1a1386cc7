"""The layers of a stack: each does for every member what the member's own layer does.

A layer knows how values pass through it and how gradients come back, so that several in a row are
a single operation for autograd, and write the gradients of their parameters where they belong. In
small networks what autograd does for every node, and for gradients it adds up, can be noticed.
"""

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from wiesel.nn.streams import RandomStreams

__all__ = [
    "INTERNAL",
    "StackedBatchNorm",
    "StackedDropout",
    "StackedFlatten",
    "StackedLinear",
    "StackedReLU",
    "StackedSequential",
    "StackedTorchDropout",
    "layers_with_gradients",
    "stack_tensors",
]

INTERNAL = {*vars(nn.Module()), "training"}
"""What torch keeps in every module, and what says nothing about what a module computes."""

Kept = tuple[Tensor | None, ...]
"""What a layer needs again for the gradients."""


def stack_tensors(stack: nn.Module, modules: Sequence[nn.Module]) -> None:
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


def layers_with_gradients(stack: nn.Module) -> "list[PassedLayer]":
    """Return the layers of a stack that write gradients of their own."""
    layers = [layer for layer in stack.modules() if isinstance(layer, PassedLayer)]
    return [layer for layer in layers if layer.trained]


class _StackedLayer(nn.Module):
    """A layer with the parameters and options of one layer of each member."""

    def __init__(self, layers: Sequence[nn.Module], streams: RandomStreams) -> None:
        super().__init__()
        self.streams = streams
        for key, value in vars(layers[0]).items():
            if key not in INTERNAL:
                setattr(self, key, value)
        stack_tensors(self, layers)
        self.train(layers[0].training)


class PassedLayer(_StackedLayer):
    """A layer that values pass through, and gradients on their way back."""

    stale = False
    """Whether the gradients of its parameters are of an earlier step, to be overwritten."""

    @property
    def trained(self) -> list[nn.Parameter]:
        """The parameters that are trained."""
        return [parameter for parameter in self.parameters() if parameter.requires_grad]

    def ahead(self, values: Tensor) -> tuple[Tensor, Kept]:
        """Return what becomes of the values, and what `back` needs."""
        raise NotImplementedError

    def back(self, gradient: Tensor, kept: Kept, wanted: bool) -> Tensor | None:
        """Write the gradients of the parameters, and return that of the values if it is wanted."""
        raise NotImplementedError

    def forward(self, values: Tensor) -> Tensor:
        """Return what becomes of the values: (members, items, ...)."""
        return _Passage([self])(values)

    def settle(self) -> None:
        """After all gradients came back: where none did, they are zero."""
        if self.stale:
            torch._foreach_zero_([parameter.grad for parameter in self.trained])  # type: ignore[misc]
            self.stale = False

    def write(self, parameter: nn.Parameter | None, gradient: Tensor | None) -> None:
        """Set the gradient of a parameter, or add to it."""
        if parameter is None or gradient is None:
            return
        if parameter.grad is None:
            parameter.grad = gradient.clone()
        elif self.stale:
            parameter.grad.copy_(gradient)
        else:
            parameter.grad.add_(gradient)


class _Passage:
    """Layers in a row, as one operation."""

    def __init__(self, layers: Sequence[PassedLayer]) -> None:
        self.layers = layers
        # One stands for all: autograd only has to know that something is trained.
        self.trained = next((p for layer in layers for p in layer.trained), None)

    def __call__(self, values: Tensor) -> Tensor:
        result: Tensor = _PassThrough.apply(values, self.trained, self.layers)  # type: ignore[no-untyped-call]
        return result


class _PassThrough(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, values: Tensor, trained: Tensor | None, layers: Sequence[PassedLayer]
    ) -> Tensor:
        tensors: list[Tensor | None] = []
        ctx.layers, ctx.ends = layers, []
        for layer in layers:
            values, kept = layer.ahead(values)
            tensors += kept
            ctx.ends.append(len(tensors))
        ctx.save_for_backward(*tensors)
        return values

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, None, None]:
        tensors, wanted = ctx.saved_tensors, ctx.needs_input_grad[0]
        for k in reversed(range(len(ctx.layers))):
            kept = tensors[ctx.ends[k - 1] if k else 0 : ctx.ends[k]]
            layer = ctx.layers[k]
            gradient = layer.back(gradient, kept, wanted or k > 0)
            layer.stale = False
        return gradient, None, None


class StackedSequential(nn.Sequential):
    """A sequence that does as much as it can in one operation; names and places stay."""

    def __init__(self, parts: Mapping[str, nn.Module | None], training: bool) -> None:
        super().__init__()
        self.training = training
        self._modules = _with_joined_dropout(parts)  # type: ignore[assignment]
        self._steps = _steps_of(list(self))

    def forward(self, values: Tensor) -> Tensor:
        """Return what becomes of the values: (members, items, ...)."""
        for step in self._steps:
            values = step(values)
        return values


def _with_joined_dropout(parts: Mapping[str, nn.Module | None]) -> dict[str, nn.Module | None]:
    """Let dropout do the work of a ReLU before it."""
    joined = dict(parts)
    for before, after in itertools.pairwise(parts):
        dropout = parts[after]
        if type(parts[before]) is StackedReLU and type(dropout) is StackedDropout:
            joined[before] = nn.Identity()
            joined[after] = StackedRectifiedDropout([dropout], dropout.streams)
    return joined


def _steps_of(parts: Sequence[nn.Module]) -> list[Any]:
    """What is done in turn: passages of as many layers as there are in a row, and other modules."""
    steps: list[Any] = []
    needed = (part for part in parts if not isinstance(part, nn.Identity))
    for passed, group in itertools.groupby(needed, lambda part: isinstance(part, PassedLayer)):
        found = list(group)
        steps += [_Passage(found)] if passed else found  # type: ignore[arg-type]
    return steps


class StackedLinear(PassedLayer):
    """A linear layer for each member."""

    weight: nn.Parameter
    bias: nn.Parameter | None

    def ahead(self, values: Tensor) -> tuple[Tensor, Kept]:
        """Return (members, items, outputs)."""
        products = torch.bmm(values, self.weight.transpose(1, 2))
        if self.bias is not None:
            # Not baddbmm, which first writes the bias to every item.
            products.add_(self.bias.unsqueeze(1))
        return products, (values,)

    def back(self, gradient: Tensor, kept: Kept, wanted: bool) -> Tensor | None:
        """Add the gradients of weight and bias, and return that of the values."""
        if self.weight.requires_grad:
            self._write_product(gradient.transpose(1, 2), kept[0])  # type: ignore[arg-type]
        if self.bias is not None and self.bias.requires_grad:
            self.write(self.bias, gradient.sum(dim=1))
        return torch.bmm(gradient, self.weight) if wanted else None

    def _write_product(self, gradient: Tensor, values: Tensor) -> None:
        """Where it belongs at once: autograd makes it first and adds it then."""
        if self.weight.grad is None:
            self.weight.grad = torch.bmm(gradient, values)
        elif self.stale:
            torch.bmm(gradient, values, out=self.weight.grad)
        else:
            self.weight.grad.baddbmm_(gradient, values)


class StackedBatchNorm(PassedLayer):
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

    def ahead(self, values: Tensor) -> tuple[Tensor, Kept]:
        """Return the normalized values: (members, items, features)."""
        use_batch = self.training or self.running_mean is None
        if use_batch and values.shape[1] == 1:
            raise ValueError("BatchNorm cannot be trained with a batch of one item.")
        momentum = self._count() if self.training else 0.0
        side_by_side = _side_by_side(values)
        running = _flat(self.running_mean), _flat(self.running_var)
        normalized, mean, scale = torch.native_batch_norm(
            *(side_by_side, _flat(self.weight), _flat(self.bias), *running),
            *(use_batch, momentum, self.eps),
        )
        # Running statistics are not needed beside the batch's own, and later batches change them.
        used = (None, None) if use_batch else running
        return _members_first(normalized, len(values)), (side_by_side, *used, mean, scale)

    def back(self, gradient: Tensor, kept: Kept, wanted: bool) -> Tensor | None:
        """Add the gradients of weight and bias, and return that of the values."""
        side_by_side, *statistics = kept
        trained = [p is not None and p.requires_grad for p in (self.weight, self.bias)]
        values, weight, bias = torch.ops.aten.native_batch_norm_backward(
            *(_side_by_side(gradient), side_by_side, _flat(self.weight), *statistics),
            *(statistics[0] is None, self.eps, [wanted, *trained]),
        )
        n_members = len(gradient)
        self.write(self.weight, weight.view(n_members, -1) if trained[0] else None)
        self.write(self.bias, bias.view(n_members, -1) if trained[1] else None)
        return _members_first(values, n_members) if wanted else None

    def _count(self) -> float:
        """Count the batch, and return how much it weighs in the running statistics."""
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        if self.momentum is not None:
            return self.momentum
        counted = self.num_batches_tracked
        return 0.0 if counted is None else 1 / float(counted[0])


def _side_by_side(values: Tensor) -> Tensor:
    return values.transpose(0, 1).reshape(values.shape[1], -1)


def _members_first(side_by_side: Tensor, n_members: int) -> Tensor:
    return side_by_side.view(len(side_by_side), n_members, -1).transpose(0, 1)


def _flat(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.reshape(-1)


class StackedReLU(PassedLayer):
    """max(values, 0)."""

    def ahead(self, values: Tensor) -> tuple[Tensor, Kept]:
        """Return what is positive, and 0 for the rest."""
        result = torch.relu(values)
        return result, (result,)

    def back(self, gradient: Tensor, kept: Kept, wanted: bool) -> Tensor | None:
        """Return the gradient of what was positive."""
        return torch.ops.aten.threshold_backward(gradient, kept[0], 0)


class StackedDropout(PassedLayer):
    """Our dropout, with the masks that each member would draw."""

    p: float

    def ahead(self, values: Tensor) -> tuple[Tensor, Kept]:
        """Return the values with a share `p` of them set to 0 and the rest scaled up."""
        if not self.training or self.p == 0:
            return values, (None,)
        keep = self._keep(*values.shape[1:]) if self.p < 1 else torch.zeros_like(values)
        return values * keep, (keep,)

    def back(self, gradient: Tensor, kept: Kept, wanted: bool) -> Tensor | None:
        """Return the gradient of what was kept."""
        return gradient if kept[0] is None else gradient * kept[0]

    def _keep(self, *size: int) -> Tensor:
        return self.streams.uniform(*size).ge(self.p).mul(1 / (1 - self.p))


class StackedRectifiedDropout(StackedDropout):
    """A ReLU and our dropout after it, in one."""

    def ahead(self, values: Tensor) -> tuple[Tensor, Kept]:
        """Return what is positive, with a share `p` of it set to 0 and the rest scaled up."""
        if not self.training or not 0 < self.p < 1:
            result, _ = super().ahead(torch.relu(values))
            return result, (result,)
        numbers = self.streams.uniform(*values.shape[1:])
        # Values where the numbers are above a threshold, else 0: what this kernel computes.
        result = torch.ops.aten.threshold_backward(values, numbers, _just_below(self.p))
        result.relu_().mul_(self._scale)
        return result, (result,)

    def back(self, gradient: Tensor, kept: Kept, wanted: bool) -> Tensor | None:
        """Return the gradient of what was positive and kept."""
        return torch.ops.aten.threshold_backward(gradient, kept[0], 0).mul_(self._scale)

    @property
    def _scale(self) -> float:
        return 1 / (1 - self.p) if self.training and self.p < 1 else 1.0


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
