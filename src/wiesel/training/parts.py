"""Training in several processes, each with a part of every batch.

All workers go through the same batches in the same order. So any number of workers trains the
same network as a single process, within rounding.
"""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from wiesel import errors
from wiesel.errors import ParameterError, WieselError
from wiesel.nn.end_models import Dropout
from wiesel.nn.stacking import (
    RandomStreams,
    StackedBatchNorm,
    count_batch,
    flat,
    items_first,
    members_first,
    set_seed,
)
from wiesel.training.batches import Batch, StackedItems, TrainingData, batch_bounds, shuffled
from wiesel.training.history import (
    Checkpoint,
    described,
    progress_of,
    read_checkpoint,
)
from wiesel.training.loop import TrainingJob, TrainingState, single_state, stacked_state
from wiesel.training.objective import Record

__all__ = ["PartState", "PartStreams", "PeerLost", "Worker", "see_whole_batches", "state_of_part"]

Bounds = list[tuple[int, int]]


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
        return self._of_worker(super().uniform(self._worker.n_items, *size[1:]))

    def bernoulli(self, p: float, *size: int) -> Tensor:
        """Return this worker's part of ones with probability `p`, else zeros: (members, *size)."""
        return self._of_worker(super().bernoulli(p, self._worker.n_items, *size[1:]))

    def _of_worker(self, numbers: Tensor) -> Tensor:
        return numbers[:, self._worker.start : self._worker.stop]


@dataclass(frozen=True)
class PartBatch(Batch):
    """A worker's part of a batch."""

    all_rows: Tensor = None  # type: ignore[assignment]
    """The positions of all items of the batch, including those of the other workers."""


@dataclass(kw_only=True)
class PartState(TrainingState):
    """What the loop changes, in one of several workers."""

    worker: Worker
    streams: PartStreams
    """The random numbers of each network, even if there is only one."""

    def batches(self, data: TrainingData) -> Iterator[Batch]:
        """Yield this worker's part of the batches of an epoch."""
        # Random numbers that a network draws directly differ between workers: each has other items.
        set_seed(int(self.streams.states[0].sum()) + self.worker.number)
        n_items = len(data.items)
        epoch_size = self.options.epoch_size or n_items
        orders = shuffled(self.streams.permutations, n_items, epoch_size)
        bounds = batch_bounds(epoch_size, self.options.batch_size)
        own = [self.worker.part(start, stop) for start, stop in bounds]
        orders = orders if len(self.members) > 1 else orders[0]
        parts = self._parts(data, orders, own)
        for (start, stop), batch in zip(bounds, parts, strict=True):
            self.worker.set_batch(stop - start)
            rows = torch.from_numpy(data.items[orders[..., start:stop].numpy()])
            yield PartBatch(batch.rows, batch.inputs, batch.payload, rows.to(self.device))

    def _parts(self, data: TrainingData, orders: Tensor, own: Bounds) -> Iterator[Batch]:
        if len(self.members) > 1:
            if self.items is None:
                self.items = StackedItems(data, self.objective.prepare)
            return self.items.cut(orders, own)
        rows = data.items[np.concatenate([orders[start:stop].numpy() for start, stop in own])]
        ends = accumulate((stop - start for start, stop in own), initial=0)
        return data.cut(rows, list(pairwise(ends)), self.device, self.objective.prepare)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the losses of the whole batch, by name."""
        own = self.objective.outputs(batch)
        return self.objective.compare(batch.all_rows, self.worker.gather(own))  # type: ignore[attr-defined]

    def differentiate(self, losses: Sequence[Tensor]) -> None:
        """Set all gradients to those of the sum of the losses of the whole batch."""
        super().differentiate(losses)
        for vector in self.parameters.vectors:
            self.worker.all_reduce(vector.grad)  # type: ignore[arg-type]

    def finish_epoch(self, finish: Callable[[list[Record]], None], records: list[Record]) -> None:
        """Call `finish` on the leading worker only, and copy its results to all workers."""

        def finished() -> bytes:
            interrupted = False
            try:
                finish(records)
            except KeyboardInterrupt:
                interrupted = True
            # Only the leader keeps the best weights.
            return json.dumps([[described(m.progress) for m in self.members], interrupted]).encode()

        progress, interrupted = json.loads(self.worker.from_leader(finished))
        if not self.worker.leads:
            for member, its in zip(self.members, progress_of(progress), strict=True):
                member.progress = its
        # Machines may round differently; this gives all workers the same weights again.
        for vector in self.parameters.vectors:
            self.worker.broadcast(vector)
        if interrupted:
            raise KeyboardInterrupt

    def _stored_checkpoint(self, fingerprint: str) -> Checkpoint | None:
        """The leader's checkpoint: other machines may have an older file, or none."""
        path = self.options.checkpoint
        if path is None:
            return None

        def checked() -> bytes:
            found = read_checkpoint(path, fingerprint)
            return b"" if found is None else Path(path).read_bytes()

        content = self.worker.from_leader(checked)
        if not content:
            return None
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            return read_checkpoint(file.name, fingerprint)


def state_of_part(job: TrainingJob, worker: Worker) -> PartState:
    """Return the initial state for training a job as one of several workers."""
    if len(job.objectives) > 1:
        state = stacked_state(job.objectives, job.options, job.random_states)
    else:
        state = single_state(job.objectives[0], job.options[0])
    streams = PartStreams(job.random_states, worker)
    see_whole_batches(state.objective, worker, streams)
    known = {one.name: getattr(state, one.name) for one in fields(state)}
    return PartState(**{**known, "streams": streams}, worker=worker)


def see_whole_batches(module: nn.Module, worker: Worker, streams: PartStreams) -> None:
    """Let the layers of a network or a stack work as if the worker saw the whole batch.

    The layers stay in place, with their parameters; only their class changes.
    """
    for name, part in module.named_modules():
        if hasattr(part, "streams"):  # dropout in a stack
            part.streams = streams
        if type(part) in _PART_CLASSES:
            part.__class__ = _PART_CLASSES[type(part)]
            part.worker, part.streams = worker, streams
        elif isinstance(part, _BatchNorm) and not isinstance(part, nn.SyncBatchNorm):
            raise ParameterError(
                f"The layer {name} ({type(part).__name__}) normalizes over the items of a batch, "
                "of which each worker has a part. Use torch's own BatchNorm layers, or train "
                "without engine."
            )


class _Statistics:
    """Means and deviations of values (n, features) over all workers."""

    def __init__(self, values: Tensor, worker: Worker, eps: float) -> None:
        n_own, n_features = values.shape
        mean = values.sum(dim=0) / max(1, n_own)
        squares = (values - mean).square().sum(dim=0)
        table = values.new_zeros(worker.n_workers, 2 * n_features + 1)
        table[worker.number] = torch.cat([values.new_tensor([n_own]), mean, squares])
        worker.all_reduce(table)
        counts, means, own_squares = table[:, :1], table[:, 1:-n_features], table[:, -n_features:]
        self.count = float(counts.sum())
        if self.count <= 1:
            raise ValueError("BatchNorm cannot be trained with a batch of one item.")
        self.mean = (counts * means).sum(dim=0) / self.count
        # Squares around each part's mean lose no digits; the variance between parts is added.
        between = counts * (means - self.mean).square()
        self.squares = (own_squares + between).sum(dim=0)
        self.scale = (self.squares / self.count + eps).rsqrt()

    def move_running(self, layer: Any, momentum: float) -> None:
        """Move the running statistics of a layer toward these."""
        if layer.running_mean is None:
            return
        shape = layer.running_mean.shape
        layer.running_mean.lerp_(self.mean.view(shape), momentum)
        layer.running_var.lerp_((self.squares / (self.count - 1)).view(shape), momentum)


def _gradients(
    gradient: Tensor, normalized: Tensor, worker: Worker, count: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of weight, bias and normalized values, given that of the output.

    The last one is not scaled yet. The first two cover this worker's items only.
    """
    of_weight, of_bias = (gradient * normalized).sum(dim=0), gradient.sum(dim=0)
    sums = torch.stack([of_weight, of_bias])
    worker.all_reduce(sums)
    return of_weight, of_bias, gradient - (sums[1] + normalized * sums[0]) / count


class _Normalize(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, values: Tensor, weight: Tensor | None, bias: Tensor | None, layer: Any
    ) -> Tensor:
        found = _Statistics(values, layer.worker, layer.eps)
        if layer.training:
            found.move_running(layer, count_batch(layer))
        normalized = (values - found.mean) * found.scale
        ctx.worker, ctx.count = layer.worker, found.count
        ctx.save_for_backward(normalized, found.scale, weight)
        if weight is None:
            return normalized.clone()
        return torch.addcmul(bias, normalized, weight) if bias is not None else normalized * weight

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        normalized, scale, weight = ctx.saved_tensors
        found = _gradients(gradient, normalized, ctx.worker, ctx.count)
        of_weight, of_bias, of_normalized = found
        of_values = of_normalized * (scale if weight is None else scale * weight)
        needed = zip((of_values, of_weight, of_bias), ctx.needs_input_grad, strict=False)
        return *(value if wanted else None for value, wanted in needed), None


class _PartBatchNorm(_BatchNorm):
    """Batch normalization with the statistics of all workers' items."""

    worker: Worker

    def forward(self, values: Tensor) -> Tensor:
        """Return the normalized values: (items, features, ...)."""
        if not self.training and self.running_mean is not None:
            return super().forward(values)
        last = values.movedim(1, -1)
        normalized: Tensor = _Normalize.apply(  # type: ignore[no-untyped-call]
            last.reshape(-1, last.shape[-1]), self.weight, self.bias, self
        )
        return normalized.view(last.shape).movedim(-1, 1)


class _PartBatchNorm1d(_PartBatchNorm, nn.BatchNorm1d): ...


class _PartBatchNorm2d(_PartBatchNorm, nn.BatchNorm2d): ...


class _PartBatchNorm3d(_PartBatchNorm, nn.BatchNorm3d): ...


class _PartStackedBatchNorm(StackedBatchNorm):
    """Batch normalization of a stack with the statistics of all workers' items."""

    worker: Worker

    def forward(self, values: Tensor) -> Tensor:
        """Return the normalized values: (members, items, features)."""
        if not self.training and self.running_mean is not None:
            return super().forward(values)
        normalized: Tensor = _Normalize.apply(  # type: ignore[no-untyped-call]
            items_first(values), flat(self.weight), flat(self.bias), self
        )
        return members_first(normalized, len(values))


class _PartDropout(Dropout):
    """Our dropout, with the mask that one process would draw for these items."""

    worker: Worker
    streams: PartStreams

    def forward(self, values: Tensor) -> Tensor:
        """Return the values with a share `p` of them set to 0 and the rest scaled up."""
        own = self.worker.stop - self.worker.start
        if not self.training or not 0 < self.p < 1:
            return super().forward(values)
        if len(values) != own or values.device.type != "cpu":
            return super().forward(values)  # the first dimension is not items: any mask is fine
        return values * self._keep(*values.shape)

    def _keep(self, *size: int) -> Tensor:
        return self.streams.uniform(*size)[0].ge_(self.p).mul_(1 / (1 - self.p))


class _PartTorchDropout(_PartDropout):
    """torch's own dropout, with the mask that one process would draw for these items."""

    def _keep(self, *size: int) -> Tensor:
        return self.streams.bernoulli(1 - self.p, *size)[0].div(1 - self.p)


_PART_CLASSES: dict[type[nn.Module], type[nn.Module]] = {
    nn.BatchNorm1d: _PartBatchNorm1d,
    nn.BatchNorm2d: _PartBatchNorm2d,
    nn.BatchNorm3d: _PartBatchNorm3d,
    StackedBatchNorm: _PartStackedBatchNorm,
    Dropout: _PartDropout,
    nn.Dropout: _PartTorchDropout,
}
