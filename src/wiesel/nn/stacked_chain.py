"""A chain of stacked layers that knows its gradient: one operation for torch instead of dozens.

The layers of small networks take some microseconds each, and noting each of them for the way back
takes as long again. A chain of linear layers, ReLU and dropout has so simple a gradient that it is
written down here, and added to where the parameters keep theirs.
"""

from typing import Any

import torch
from torch import Tensor, nn

from wiesel.nn.stacked_layers import StackedDropout, StackedLinear, StackedTorchDropout

__all__ = ["StackedChain"]

_KINDS = (StackedLinear, nn.ReLU, StackedDropout, StackedTorchDropout)
_relu_backward = torch.ops.aten.threshold_backward.default


class StackedChain(nn.Sequential):
    """`nn.Sequential` of stacked layers, the first of which is linear."""

    @staticmethod
    def fits(layers: list[nn.Module]) -> bool:
        """Whether the gradient of these layers, in this order, is known here."""
        return isinstance(layers[0] if layers else None, StackedLinear) and all(
            type(layer) in _KINDS for layer in layers
        )

    def forward(self, values: Tensor) -> Tensor:
        """Return (members, items, outputs)."""
        layers = list(self._modules.values())
        # Only in training do all parameters have a place where their gradients are kept.
        if torch.is_grad_enabled() and all(_keeps_gradients(layer) for layer in layers):
            # With a parameter among its arguments torch asks for the way back.
            outputs: Tensor = _Chain.apply(values, layers[0].weight, layers)  # type: ignore[no-untyped-call]
            return outputs
        return super().forward(values)  # type: ignore[no-untyped-call]


def _keeps_gradients(layer: nn.Module | None) -> bool:
    # Not `parameters()`, which would take longer than a layer.
    own = layer._parameters.values() if layer is not None else ()
    return all(parameter is None or parameter.grad is not None for parameter in own)


class _Chain(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, weight: Tensor, layers: list[nn.Module]) -> Tensor:
        """Go through the layers; what is not an input of a linear layer is changed in place."""
        ctx.way = []
        for layer in layers:
            if isinstance(layer, StackedLinear):
                ctx.way.append((layer, values))
                values = torch.bmm(values, layer.weight.mT)
                if layer.bias is not None:
                    values.add_(layer.bias.unsqueeze(1))
            elif isinstance(layer, StackedDropout):
                keep = layer.mask(values)
                if keep is not None:
                    values.mul_(keep)
                    ctx.way.append((None, keep))
            else:
                # What dropout sets to 0 later has no gradient, so the final values will do.
                ctx.way.append((layer, values.relu_()))
        return values

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, None, None]:
        """Add to the gradients of the parameters, and return that of the input if it is needed."""
        for place, (layer, values) in reversed(list(enumerate(ctx.way))):
            if layer is None:
                gradient = gradient * values
            elif isinstance(layer, StackedLinear):
                layer.weight.grad.baddbmm_(gradient.mT, values)  # type: ignore[union-attr]
                if layer.bias is not None:
                    layer.bias.grad.add_(gradient.sum(dim=1))  # type: ignore[union-attr]
                if place or ctx.needs_input_grad[0]:
                    gradient = torch.bmm(gradient, layer.weight)
            else:
                gradient = _relu_backward(gradient, values, 0)
        return gradient if ctx.needs_input_grad[0] else None, None, None
