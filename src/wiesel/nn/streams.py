"""Random numbers from a seed, and for networks that are trained as a stack."""

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

__all__ = ["RandomStreams", "seeded", "set_seed"]


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
