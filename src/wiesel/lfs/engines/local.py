"""The local engine: this machine, batch by batch, on as many cores as pay."""

import os
import time
from collections.abc import Callable, Iterator, Sequence

import polars as pl

from wiesel.lfs.batch import Batch
from wiesel.lfs.cache import cache_keys
from wiesel.lfs.column_votes import ColumnVotes, assemble
from wiesel.lfs.engines.base import Engine, Job
from wiesel.lfs.engines.pool import Share, WorkerPool
from wiesel.lfs.engines.portable import is_portable
from wiesel.lfs.engines.progress import progress_line
from wiesel.lfs.engines.running import passes, run_pass
from wiesel.lfs.function import LabelingFunction
from wiesel.lfs.python_function import PythonFunction
from wiesel.parameters import check_number
from wiesel.votes import VoteMatrix

__all__ = ["LocalEngine"]

_FIRST_ROWS, _FIRST_TEXTS = 64, 8192
"""The first piece: functions may be slow, the pass over texts is fast."""
_START_AFTER = 0.5
"""Seconds of work in this process before others are started, which takes about as long."""


class LocalEngine(Engine):
    """Applies labeling functions on this machine; rows in files are read batch by batch.

    Work that runs in Polars uses all cores by itself. Python functions and keywords run in this
    process at first; after half a second, `workers - 1` more processes are started and share the
    remaining rows with it. They are fresh processes: what a function writes into a global
    variable stays there. A function that cannot be sent, such as one that holds an open file,
    stays in this process.

    >>> from wiesel import apply_lfs, keywords
    >>> spam = keywords("spam", ["free"], column="text")
    >>> apply_lfs(spam, [{"text": "free"}], labels=["ham", "spam"], engine=LocalEngine(workers=1))
    VoteMatrix(1 items x 1 voters, 2 classes, 1 votes, 100.0 % of the items covered)
    """

    def __init__(
        self,
        workers: int | None = None,
        batch_rows: int | None = None,
        start_after: float = _START_AFTER,
    ) -> None:
        for name, value in (("workers", workers), ("batch_rows", batch_rows)):
            if value is not None:
                check_number(self, name, value, low=1, whole=True)
        self.workers = workers or _cores()
        self.batch_rows = batch_rows
        self.start_after = start_after

    def apply(self, job: Job) -> VoteMatrix:
        """Return the votes of all labeling functions on all rows."""
        parts = []
        with WorkerPool(self.workers - 1) as pool, progress_line(len(job.lfs)) as show:
            run = _Run(job, pool, self.start_after, show)
            for batch in job.source.batches(self.batch_rows or job.batch_rows):
                batch.stop_at_failure = job.stop_at_failure
                parts.append(run.part(batch))
        return parts[0] if len(parts) == 1 else VoteMatrix.concatenate(parts)


class _Run:
    """One call of `apply`: the job, the workers, and how patient this process still is."""

    def __init__(
        self, job: Job, pool: WorkerPool, patience: float, show: Callable[[int], None]
    ) -> None:
        self.job = job
        self.pool = pool
        self.patience = patience
        self.show = show
        self.shareable = {
            lf.name for lf in job.lfs if pool.n_workers and lf.divisible and is_portable(lf)
        }

    def part(self, batch: Batch) -> VoteMatrix:
        """Return the votes on one batch, those that are known from the cache."""
        job = self.job
        keys = [] if job.cache is None else cache_keys(job.lfs, batch, job.labels)
        known = {} if job.cache is None else job.cache.get(keys)
        columns = {place: known[key] for place, key in enumerate(keys) if key in known}
        waiting = [place for place in range(len(job.lfs)) if place not in columns]
        for places, votes in self._run([job.lfs[place] for place in waiting], batch):
            fresh = {waiting[place]: column for place, column in zip(places, votes, strict=True)}
            if job.cache is not None:
                job.cache.put({keys[place]: column for place, column in fresh.items()})
            job.report(failure for column in votes for failure in column.failures)
            columns.update(fresh)
        self.show(batch.start + len(batch))
        ordered = [columns[place] for place in range(len(job.lfs))]
        return assemble(ordered, job.labels, job.voters, batch.ids)

    def _run(
        self, lfs: Sequence[LabelingFunction], batch: Batch
    ) -> Iterator[tuple[list[int], list[ColumnVotes]]]:
        """Yield the votes of every pass, with the positions of its labeling functions."""
        for group in passes(lfs):
            shared = [place for place in group if lfs[place].name in self.shareable]
            if not len(batch) or pl.Object in batch.frame.dtypes:
                shared = []
            alone = [place for place in group if place not in shared]
            if shared:
                yield shared, self._shared([lfs[place] for place in shared], batch)
            if alone:
                yield alone, run_pass([lfs[place] for place in alone], batch, self.job.labels)

    def _shared(self, lfs: Sequence[LabelingFunction], batch: Batch) -> list[ColumnVotes]:
        """Run a pass here, and on the workers too once this process has worked long enough."""
        first_rows = _FIRST_ROWS if isinstance(lfs[0], PythonFunction) else _FIRST_TEXTS
        share = Share(len(batch), first_rows, 1 + self.pool.n_workers)
        labels = self.job.labels

        def vote(first: int, count: int) -> list[ColumnVotes]:
            self.show(batch.start + first)
            return run_pass(lfs, batch.piece(first, count), labels)

        began = time.perf_counter()
        done = not self.pool.running and share.work(vote, self.patience)
        self.patience -= time.perf_counter() - began
        if not done:
            threads = self.pool.help(share, lfs, batch, labels)
            share.work(vote)
            for thread in threads:
                thread.join()
        return share.votes()


def _cores() -> int:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
