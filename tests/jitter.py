"""Noise where numbers come from: what another processor does to the last digits, but larger.

With `WIESEL_JITTER=1e-6` in the environment, importing this module lets drawn inputs and drawn
initial weights deviate by up to that share of their size; `WIESEL_JITTER_SEED` chooses other
noise. A test that passes without the noise and fails with it hangs on the last digits of one
processor. `make test-jitter` runs the tests so.

The noise is a function of the value alone. What is drawn twice from one seed is the same twice,
and items that are reordered, split or stacked keep their numbers: equality to the last digit
still holds wherever the same code takes the same path.
"""

import os
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["add_noise", "jittered"]

_DRAWS = ("normal", "random", "standard_normal", "uniform")
_INITIALIZERS = (
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "orthogonal_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
)


def jittered(values: Any, size: float) -> npt.NDArray[Any]:
    """Return the values, each off by up to `size` times itself.

    >>> first = jittered(np.array([3.0, -3.0, 0.0]), 1e-6)
    >>> abs(first / 3).round(5).tolist(), (first == [3, -3, 0]).tolist()
    ([1.0, 1.0, 0.0], [False, False, True])
    >>> bool((first == jittered(np.array([3.0, -3.0, 0.0]), 1e-6)).all())
    True
    """
    array = np.asarray(values)
    seed = np.uint32(os.environ.get("WIESEL_JITTER_SEED", 0))
    # Numbers between -1 and 1 from the bits of the values, by Knuth's multiplicative hash.
    with np.errstate(over="ignore"):
        bits = array.astype(np.float32).view(np.uint32) ^ (seed * np.uint32(0x9E3779B9))
        hashed = bits * np.uint32(2654435761)
    noise = (hashed >> np.uint32(8)).astype(np.float64) / 2**23 - 1
    return np.asarray(array * (1 + size * noise), dtype=array.dtype)


def add_noise(size: float) -> None:
    """Let NumPy's generators and torch's initial weights deviate, for this process."""
    _jitter_numpy(size)
    _jitter_torch(size)


def _jitter_numpy(size: float) -> None:
    def noisy(draw: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(draw)
        def drawn(*arguments: Any, **options: Any) -> Any:
            values = draw(*arguments, **options)
            found = jittered(values, size)
            return found if isinstance(values, np.ndarray) else float(found)

        return drawn

    methods = {name: noisy(getattr(np.random.Generator, name)) for name in _DRAWS}
    generator = type("JitteredGenerator", (np.random.Generator,), methods)
    plain = np.random.default_rng

    def default_rng(seed: Any = None) -> np.random.Generator:
        made: np.random.Generator = generator(plain(seed).bit_generator)
        return made

    np.random.default_rng = default_rng  # type: ignore[assignment]


def _jitter_torch(size: float) -> None:
    import torch
    from torch import nn

    def noisy(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_meta:  # a shape without numbers
            return tensor
        with torch.no_grad():
            tensor.copy_(torch.from_numpy(jittered(tensor.detach().numpy(), size)))
        return tensor

    def after(made: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        return wraps(made)(lambda *arguments, **options: noisy(made(*arguments, **options)))

    for name in _INITIALIZERS:
        setattr(nn.init, name, after(getattr(nn.init, name)))


if os.environ.get("WIESEL_JITTER"):
    add_noise(float(os.environ["WIESEL_JITTER"]))
