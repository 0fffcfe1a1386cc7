"""The representation of an item: the input of the end model's last linear layer.

If the logits of a network do not come from a linear layer, the logits themselves are used as the
representation.
"""

import torch
from torch import Tensor, nn

from wiesel.nn.end_models import evaluating, logits_of
from wiesel.training import TrainingData
from wiesel.training.inputs import Batchable

__all__ = ["find_last_layer", "represent", "representation_width"]

_TRIED_ITEMS = 4


@torch.no_grad()
def find_last_layer(network: nn.Module, n_classes: int, data: TrainingData) -> str | None:
    """Return the name of the linear layer whose output the network returns, or None.

    >>> import numpy as np
    >>> from wiesel.training import as_inputs
    >>> data = TrainingData(as_inputs(np.ones((4, 3))))
    >>> find_last_layer(nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)), 2, data)
    '2'
    """
    names = [
        name
        for name, layer in network.named_modules()
        if isinstance(layer, nn.Linear) and layer.out_features == n_classes
    ]
    if not names:
        return None
    seen: list[tuple[Tensor, Tensor]] = []
    hook = network.get_submodule(names[-1]).register_forward_hook(
        lambda _, arguments, output: seen.append((arguments[0], output))
    )
    try:
        with evaluating(network):
            logits = logits_of(network, data.gather(data.sample(_TRIED_ITEMS)).inputs)
    finally:
        hook.remove()
    makes_logits = len(seen) == 1 and seen[0][0].ndim == 2 and torch.equal(seen[0][1], logits)
    return names[-1] if makes_logits else None


def represent(
    network: nn.Module, last_layer: str | None, inputs: Batchable
) -> tuple[Tensor, Tensor]:
    """Return the logits of some items, and the input of the last layer."""
    if last_layer is None:
        logits = logits_of(network, inputs)
        return logits, logits
    seen: list[Tensor] = []
    hook = network.get_submodule(last_layer).register_forward_pre_hook(
        lambda _, arguments: seen.append(arguments[0])
    )
    try:
        return logits_of(network, inputs), seen[0]
    finally:
        hook.remove()


def representation_width(network: nn.Module, last_layer: str | None, n_classes: int) -> int:
    """Return the number of features of a representation."""
    if last_layer is None:
        return n_classes
    layer: nn.Linear = network.get_submodule(last_layer)  # type: ignore[assignment]
    return layer.in_features
