"""Processes that train one network together, each with a part of every batch."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from wiesel import errors
from wiesel.errors import WieselError
from wiesel.nn.stacking import RandomStreams

__all__ = ["PartStreams", "PeerLost", "Worker"]


class PeerLost(RuntimeError):
    """Another worker no longer answers."""


class Worker:
    """One of the processes that train together, and its part of the current batch.

    `group` is a process group of `torch.distributed`. Worker 0 leads: it evaluates the network
    between epochs, and the others copy its results.
    """

    def __init__(self, group: Any, number: int, n_workers: int) -> None:
        self._group = group
        self.number, self.n_workers = number, n_workers
        self.start, self.stop, self.n_items = 0, 0, 0

    @property
    def leads(self) -> bool:
        """Whether this is the worker that evaluates the network between epochs."""
        return self.number == 0

    def part(self, start: int, stop: int) -> tuple[int, int]:
        """Return this worker's part of the items `start:stop`; parts differ by one item at most.

        >>> [Worker(None, number, 3).part(10, 18) for number in range(3)]
        [(10, 12), (12, 15), (15, 18)]
        """
        size = stop - start
        first, last = (size * k // self.n_workers for k in (self.number, self.number + 1))
        return start + first, start + last

    def set_batch(self, n_items: int) -> None:
        """Set how many items the next batch has, and which of them are this worker's."""
        self.n_items = n_items
        self.start, self.stop = self.part(0, n_items)

    def all_reduce(self, tensor: Tensor) -> None:
        """Replace a tensor by its sum over all workers."""
        self._wait(lambda: self._group.allreduce([tensor]))

    def broadcast(self, tensor: Tensor) -> None:
        """Replace a tensor by the leading worker's."""
        self._wait(lambda: self._group.broadcast(tensor, 0))

    def gather(self, outputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the outputs of all workers for the whole batch, (..., n_items, n) each.

        Gradients reach only this worker's part. Summed over all workers, they are the gradients
        of a single process.
        """
        joined = torch.cat(list(outputs.values()), dim=-1)
        everything = joined.new_zeros(*joined.shape[:-2], self.n_items, joined.shape[-1])
        everything[..., self.start : self.stop, :] = joined.detach()
        self.all_reduce(everything)
        before, after = everything[..., : self.start, :], everything[..., self.stop :, :]
        together = torch.cat([before, joined, after], dim=-2)
        sizes = [value.shape[-1] for value in outputs.values()]
        parts = together.split(sizes, dim=-1)  # type: ignore[no-untyped-call]
        return dict(zip(outputs, parts, strict=True))

    def from_leader(self, make: Callable[[], bytes]) -> bytes:
        """Return on all workers what `make` returns on the leading one, or raise what it raises.

        Only data is sent: no worker runs code from another worker.
        """
        message, failed = b"", 0
        if self.leads:
            try:
                message = make()
            except WieselError as error:
                message, failed = json.dumps([type(error).__name__, str(error)]).encode(), 1
        header = torch.tensor([len(message), failed])
        self.broadcast(header)
        size, failed = header.tolist()
        content = torch.zeros(size + 1, dtype=torch.uint8)  # one more: it is never empty
        content[:size] = (
            torch.frombuffer(bytearray(message), dtype=torch.uint8) if size and self.leads else 0
        )
        self.broadcast(content)
        found = content[:size].numpy().tobytes()
        if failed:
            kind, message = json.loads(found)
            raise getattr(errors, kind, errors.TrainingError)(message)
        return found

    def _wait(self, ask: Callable[[], Any]) -> None:
        try:
            ask().wait()
        except RuntimeError as error:  # raised by gloo and nccl when a connection ends
            raise PeerLost(f"another worker does not answer: {error}") from error


class PartStreams(RandomStreams):
    """Random numbers for a part of a batch: those that one process would draw for these items.

    Every worker draws the numbers of the whole batch, so all generators stay in the same state.
    """

    def __init__(self, states: Sequence[Tensor], worker: Worker) -> None:
        super().__init__(states)
        self._worker = worker

    def uniform(self, *size: int) -> Tensor:
        """Return this worker's part of numbers from [0, 1): (members, *size), items first."""
        return self._own(super().uniform(self._worker.n_items, *size[1:]))

    def bernoulli(self, p: float, *size: int) -> Tensor:
        """Return this worker's part of ones with probability `p`, else zeros: (members, *size)."""
        return self._own(super().bernoulli(p, self._worker.n_items, *size[1:]))

    def _own(self, numbers: Tensor) -> Tensor:
        return numbers[:, self._worker.start : self._worker.stop]
