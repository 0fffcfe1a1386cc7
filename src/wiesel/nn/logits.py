"""Calls a network with any kind of inputs and outputs."""

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

from torch import Tensor, nn

from wiesel.errors import FeatureError

__all__ = ["logits_of"]


def logits_of(module: nn.Module, inputs: Tensor | dict[str, Tensor]) -> Tensor:
    """Return a module's logits for a batch: the tensor it returns, or its output's `.logits`.

    A dict of tensors is passed as keyword arguments if `forward` has parameters with these names,
    as Hugging Face models do, and as one dict otherwise.
    """
    by_keyword = isinstance(inputs, dict) and _takes_keywords(type(module).forward, tuple(inputs))
    output = module(**inputs) if by_keyword else module(inputs)  # type: ignore[arg-type]
    logits = getattr(output, "logits", output)
    if not isinstance(logits, Tensor):
        raise FeatureError(
            "The end model must return a tensor of logits (or an object with .logits); "
            f"it returned {type(output).__name__}."
        )
    return logits


@cache
def _takes_keywords(forward: Callable[..., Any], names: tuple[str, ...]) -> bool:
    parameters = inspect.signature(forward).parameters
    return all(name in parameters for name in names)
