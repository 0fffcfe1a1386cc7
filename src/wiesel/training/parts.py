"""The state of training in one of several workers, each with a part of every batch.

All workers go through the same batches in the same order. So any number of workers trains the
same network as a single process, within rounding.
"""

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from wiesel.nn.part_layers import see_whole_batches
from wiesel.nn.streams import set_seed
from wiesel.nn.workers import PartStreams, Worker
from wiesel.training.batches import Batch, StackedItems, TrainingData, batch_bounds, shuffled
from wiesel.training.checkpoint import (
    Checkpoint,
    described,
    progress_of,
    read_checkpoint,
)
from wiesel.training.engines import TrainingJob
from wiesel.training.objective import Record
from wiesel.training.state import TrainingState, single_state, stacked_state

__all__ = ["PartState", "state_of_part"]

Bounds = list[tuple[int, int]]


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

        def found() -> bytes:
            interrupted = False
            try:
                finish(records)
            except KeyboardInterrupt:
                interrupted = True
            # Only the leader keeps the best weights.
            return json.dumps([[described(m.progress) for m in self.members], interrupted]).encode()

        progress, interrupted = json.loads(self.worker.from_leader(found))
        if not self.worker.leads:
            for member, its in zip(self.members, progress_of(progress), strict=True):
                member.progress = its
        # Machines may round differently; this gives all workers the same weights again.
        for vector in self.parameters.vectors:
            self.worker.broadcast(vector)
        if interrupted:
            raise KeyboardInterrupt

    def _found(self, fingerprint: str) -> Checkpoint | None:
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
