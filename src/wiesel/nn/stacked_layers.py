"""The layers of a stack: each computes, for every member, what the member's layer computes."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wiesel.nn.streams import RandomStreams

__all__ = [
    "INTERNAL",
    "StackedBatchNorm",
    "StackedDropout",
    "StackedFlatten",
    "StackedLinear",
    "StackedTorchDropout",
    "flat",
    "items_first",
    "members_first",
    "stack_tensors",
]

INTERNAL = {*vars(nn.Module()), "training"}
"""Attributes that torch sets on every module and that do not affect what it computes."""


def stack_tensors(stack: nn.Module, modules: Sequence[nn.Module]) -> None:
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
            if key not in INTERNAL:
                setattr(self, key, value)
        stack_tensors(self, layers)
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
        momentum = self.count() if self.training else 0.0
        running = flat(self.running_mean), flat(self.running_var)
        affine = flat(self.weight), flat(self.bias)
        normalized = F.batch_norm(
            items_first(values), *running, *affine, use_batch, momentum, self.eps
        )
        return members_first(normalized, len(values))

    def count(self) -> float:
        """Count the batch, and return how much it weighs in the running statistics."""
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        if self.momentum is not None:
            return self.momentum
        counted = self.num_batches_tracked
        return 0.0 if counted is None else 1 / float(counted[0])


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
