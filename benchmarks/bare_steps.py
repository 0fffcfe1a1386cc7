"""Training steps of stacked networks as bare torch calls: a lower bound on the time with torch.

There are no modules, no autograd, no history and no diagnosis. A step consists of gathered batches,
dropout masks for each network, the forward and backward pass of all layers, the cross-entropy with
soft labels, Adam, and the running average of the weights.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from wiesel.training.objective import FusedAdam

__all__ = ["BareSteps", "bare_products"]

_DROPPED = 0.3


def bare_products(n_members: int, sizes: Sequence[int], batch_size: int, n_steps: int) -> None:
    """Multiply the matrices of these steps, with inputs already in memory."""
    layers = [
        (torch.randn(n_members, batch_size, ahead), torch.randn(n_members, ahead, back))
        for ahead, back in pairwise(sizes)
    ]
    for _ in range(n_steps):
        for place, (inputs, weights) in enumerate(layers):
            outputs = torch.bmm(inputs, weights)
            torch.bmm(inputs.transpose(1, 2), outputs)
            if place:  # the gradient of the features is not needed
                torch.bmm(outputs, weights.transpose(1, 2))


class BareSteps:
    """Networks of one architecture, and their training step.

    As in the default network, there is ReLU between layers, and dropout except after the last
    hidden layer.
    """

    def __init__(self, X: Tensor, n_members: int, sizes: Sequence[int], batch_size: int) -> None:
        self.X, self.size = X, (n_members, batch_size)
        shapes = [
            shape for a, b in pairwise(sizes) for shape in ((n_members, b, a), (n_members, 1, b))
        ]
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
        self.flat = torch.randn(int(ends[-1])) / 10
        self.flat.grad = torch.zeros_like(self.flat)
        self.average = self.flat.clone()
        self.weights, self.biases = _views(self.flat, shapes)
        self.of_weights, self.of_biases = _views(self.flat.grad, shapes)
        self.optimizer = FusedAdam([([self.flat], 1e-3)])
        self.targets = torch.softmax(torch.randn(len(X), sizes[-1]), dim=-1)
        self.draws = [torch.Generator().manual_seed(seed) for seed in range(n_members)]

    def step(self) -> None:
        """Take one step on random items."""
        rows = torch.randint(len(self.X), (self.size[0] * self.size[1],))
        values = self.X.index_select(0, rows).view(*self.size, -1)
        wanted = self.targets.index_select(0, rows).view(*self.size, -1)
        logits, inputs, masks = self.ahead(values)
        gradient = torch.softmax(logits, dim=-1).sub_(wanted).div_(self.size[1])
        self.back(gradient, inputs, masks)
        self.optimizer.step()
        self.average.lerp_(self.flat, 0.01)

    def ahead(self, values: Tensor) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Run the forward pass; return the logits, the layer inputs, and the dropout masks."""
        inputs, masks, last = [], [], len(self.weights) - 1
        for place, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            inputs.append(values)
            values = torch.bmm(values, weight.transpose(1, 2)).add_(bias)
            if place < last:
                values.relu_()
            if place < last - 1:
                masks.append(self.mask(values))
                values.mul_(masks[-1])
        return values, inputs, masks

    def back(self, gradient: Tensor, inputs: list[Tensor], masks: list[Tensor]) -> None:
        """Run the backward pass: set all parameter gradients from the gradient of the logits."""
        last = len(inputs) - 1
        for place in range(last, -1, -1):
            torch.bmm(gradient.transpose(1, 2), inputs[place], out=self.of_weights[place])
            torch.sum(gradient, dim=1, keepdim=True, out=self.of_biases[place])
            if place:
                gradient = torch.bmm(gradient, self.weights[place])
                if place < last:
                    gradient.mul_(masks[place - 1])
                gradient = torch.ops.aten.threshold_backward(gradient, inputs[place], 0)

    def mask(self, values: Tensor) -> Tensor:
        """Return the dropout mask, drawn separately for each network."""
        keep = torch.empty_like(values)
        for own, draw in zip(keep.unbind(), self.draws, strict=True):
            own.uniform_(generator=draw)
        return keep.ge_(_DROPPED).mul_(1 / (1 - _DROPPED))


def _views(flat: Tensor, shapes: Sequence[tuple[int, ...]]) -> tuple[list[Tensor], list[Tensor]]:
    """Return the weights and biases as views of a flat vector."""
    parts = flat.split([int(np.prod(shape)) for shape in shapes])
    views = [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]
    return views[::2], views[1::2]
