"""The local engine: votes on this machine, batch by batch, on several cores if worthwhile."""

import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

import polars as pl

from wiesel.errors import Argument, LabelingFunctionError, WieselError, listed
from wiesel.labels import LabelSpace
from wiesel.lfs.batch import BATCH_ROWS, SLOW_BATCH_ROWS, Batch, ColumnVotes, RowSource, assemble
from wiesel.lfs.engines.pool import WorkerPool
from wiesel.lfs.engines.portable import Share, Vote, is_portable
from wiesel.lfs.engines.worker import passes, run_pass
from wiesel.lfs.failures import Clock, Failure, FailureLog, timing
from wiesel.lfs.fingerprints import VoteCache, cache_keys
from wiesel.lfs.function import LabelingFunction, Rule
from wiesel.lfs.python_function import PythonFunction
from wiesel.parameters import check_number, check_timeout
from wiesel.progress import progress
from wiesel.votes import VoteMatrix

__all__ = ["Engine", "Job", "LocalEngine"]

_FIRST_ROWS, _FIRST_TEXTS = 64, 2048
"""The size of the first piece: Python functions may be slow, keyword search is fast."""
_START_AFTER = 1.0
"""Seconds of work, done or expected, from which more processes pay off. Starting one takes half
as long."""


@dataclass(frozen=True)
class Job:
    """Labeling functions, the rows to apply them to, and what to do when one fails."""

    lfs: tuple[LabelingFunction, ...]
    source: RowSource
    labels: LabelSpace
    cache: VoteCache | None = None
    stop_at_failure: bool = True
    log: FailureLog = field(default_factory=FailureLog)
    timeout: float | None = None
    """The seconds after which a process that votes on one batch of rows is killed."""

    def __post_init__(self) -> None:
        check_timeout(self.timeout)

    @cached_property
    def fingerprints(self) -> tuple[str, ...]:
        """The fingerprint of every labeling function when the job begins."""
        return tuple(lf.fingerprint for lf in self.lfs)

    @property
    def voters(self) -> tuple[str, ...]:
        """The names of the labeling functions."""
        return tuple(lf.name for lf in self.lfs)

    @property
    def batch_rows(self) -> int:
        """The number of rows per batch."""
        return BATCH_ROWS if all(isinstance(lf, Rule) for lf in self.lfs) else SLOW_BATCH_ROWS

    def report(self, failures: Iterable[Failure]) -> None:
        """Raise the first failure that stops the job, or record them all."""
        failures = list(failures)
        for failure in failures:
            if self.stop_at_failure and failure.stops:
                raise failure.error()
        self.log.add(failures)


class Engine(ABC):
    """Applies labeling functions to rows, on this machine or on others.

    Every engine returns the same votes in the same order. An engine that uses other processes
    serializes labeling functions with `wiesel.lfs.engines.portable` and runs `vote_on_batch` there.
    """

    @abstractmethod
    def apply(self, job: Job) -> VoteMatrix:
        """Return the votes of all labeling functions on all rows."""


class LocalEngine(Engine):
    """Applies labeling functions on this machine; rows in files are read batch by batch.

    Polars uses all cores by itself. Python functions and keywords start in this process. If the
    rest is expected to take more than a second (`start_after`), or the previous rows took that
    long, `workers - 1` more processes start and share the remaining rows. Workers do not share
    memory: a global variable that a function sets changes only in its own process. A function that
    cannot be sent, for example because it refers to an open file, stays in this process.

    If a function crashes its worker, the row is found and reported (with `on_error="abstain"`, set
    aside), and only workers vote on the remaining rows. A crash in this process before that ends
    the program. With `isolate=True` (`engine="isolated"`), workers vote from the first row on, and
    a function that cannot be sent is refused.

    With a timeout (`apply_lfs(..., timeout=30)`), workers vote from the first row on, too, and one
    that does not finish a piece in time counts as crashed. Pieces start with one row and grow until
    one takes about 0.2 seconds. The clock starts when a worker begins to vote, not while it starts
    and imports. Rules other than keywords, and functions of a whole frame, stay in this process
    and have no time limit.

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
        isolate: bool = False,
    ) -> None:
        for name, value in (("workers", workers), ("batch_rows", batch_rows)):
            if value is not None:
                check_number(self, name, value, low=1, whole=True)
        self.workers = workers or _cores()
        self.batch_rows = batch_rows
        self.start_after = start_after
        self.isolate = isolate

    def apply(self, job: Job) -> VoteMatrix:
        """Return the votes of all labeling functions on all rows."""
        return self.vote_on(job, job.source.batches(self.batch_rows or job.batch_rows))

    def vote_on(
        self, job: Job, batches: Iterable[Batch], skipped: Sequence[int] = ()
    ) -> VoteMatrix:
        """Return the votes of labeling functions on batches of rows; those skipped abstain."""
        isolate = self.isolate or job.timeout is not None
        n_workers = self.workers if isolate else self.workers - 1
        what = f"{len(job.lfs):,} labeling functions"
        pool = WorkerPool(n_workers, job.timeout)
        with pool, progress(what) as show, timing() as clock:
            display = _ProgressDisplay(show, clock)
            clock.starting = display.show_function
            try:
                run = _Run(job, pool, self, display.show_row, skipped)
                parts = list(run.parts(batches))
            finally:
                clock.starting = None
        return parts[0] if len(parts) == 1 else VoteMatrix.concatenate(parts)


class _ProgressDisplay:
    """The progress display: the row, the current function, and the slowest functions."""

    def __init__(self, show: Callable[..., None], clock: Clock) -> None:
        self.show, self.clock = show, clock
        self.row = 0

    def show_row(self, row: int) -> None:
        """Report that all rows before this one are done."""
        self.row = row
        self.show(row, self.clock.slowest())

    def show_function(self, name: str) -> None:
        """Report a function before it starts, because it may never return."""
        self.show(self.row, self.clock.slowest() or f"now {name!r}")


@dataclass(eq=False)
class _PassGroup:
    """Labeling functions that run together on a batch."""

    places: list[int]
    share: Share | None
    """The rows, handed out piece by piece; None if workers cannot run these functions."""


@dataclass(eq=False)
class _BatchInProgress:
    """A batch in progress: its known votes, and the functions that still have to run."""

    batch: Batch
    keys: list[str]
    """The cache keys, one per labeling function; empty without a cache."""
    columns: dict[int, ColumnVotes]
    groups: list[_PassGroup]


class _Run:
    """One call of `apply`: the job, the workers, and the batches in progress."""

    def __init__(
        self,
        job: Job,
        pool: WorkerPool,
        engine: LocalEngine,
        show: Callable[[int], None],
        skipped: Sequence[int],
    ) -> None:
        self.job = job
        self.pool = pool
        self.start_after = engine.start_after
        self.timed = job.timeout is not None
        self.isolate = engine.isolate or self.timed
        self.show = show
        self.skipped = skipped
        self.spent = 0.0
        self.in_progress: deque[_BatchInProgress] = deque()
        self.shareable = {
            lf.name for lf in job.lfs if pool.n_workers and lf.divisible and is_portable(lf)
        }

    def parts(self, batches: Iterable[Batch]) -> Iterator[VoteMatrix]:
        """Yield the votes on every batch.

        Workers get one batch in advance, so that they keep working while this process reads the
        next one or assembles votes. This process does its part of the next batch before it waits
        for the workers' votes on the current one.
        """
        try:
            for batch in batches:
                self._begin(batch)
                if len(self.in_progress) > 1:
                    self._work(self.in_progress[-2])
                if len(self.in_progress) > 2:
                    yield self._finish()
            self._work(self.in_progress[-1])
            while self.in_progress:
                yield self._finish()
        except BaseException:
            self._keep()
            raise

    def _begin(self, batch: Batch) -> None:
        """Look up cached votes on a batch, and offer the rest to the workers."""
        job = self.job
        batch.stop_at_failure = job.stop_at_failure
        keys = [] if job.cache is None else cache_keys(job.lfs, job.fingerprints, batch, job.labels)
        known = {} if job.cache is None else job.cache.get(keys)
        columns = {place: known[key] for place, key in enumerate(keys) if key in known}
        columns |= {place: ColumnVotes.none() for place in self.skipped}
        waiting = [place for place in range(len(job.lfs)) if place not in columns]
        self.in_progress.append(
            _BatchInProgress(batch, keys, columns, list(self._groups(waiting, batch)))
        )
        if self.pool.running:
            self._offer(self.in_progress[-1])

    def _groups(self, waiting: Sequence[int], batch: Batch) -> Iterator[_PassGroup]:
        lfs = self.job.lfs
        can_be_sent = bool(len(batch)) and pl.Object not in batch.frame.dtypes
        for group in passes([lfs[place] for place in waiting]):
            places = [waiting[position] for position in group]
            shared = [p for p in places if can_be_sent and lfs[p].name in self.shareable]
            alone = [place for place in places if place not in shared]
            if self.isolate and len(batch):
                self._refuse_staying([lfs[place] for place in alone if lfs[place].divisible])
            if shared:
                yield _PassGroup(shared, self._share([lfs[place] for place in shared], batch))
            if alone:
                yield _PassGroup(alone, None)

    def _share(self, lfs: Sequence[LabelingFunction], batch: Batch) -> Share:
        first_rows = _FIRST_ROWS if isinstance(lfs[0], PythonFunction) else _FIRST_TEXTS
        if self.timed:  # many slow rows together must not look like one that never ends
            first_rows = 1
        share = Share(lfs, batch, first_rows, 1 + self.pool.n_workers)
        share.dangerous = self.isolate
        return share

    def _offer(self, current: _BatchInProgress) -> None:
        for group in current.groups:
            if group.share is not None and group.share.remaining:
                self.pool.help(group.share, self.job.labels)

    def _work(self, current: _BatchInProgress) -> None:
        """Do this process's part of a batch."""
        for group in current.groups:
            if group.share is not None:
                self._work_on(group.share)
            else:
                lfs = [self.job.lfs[place] for place in group.places]
                self._store_votes(current, group, run_pass(lfs, current.batch, self.job.labels))

    def _votes(self, share: Share) -> list[ColumnVotes]:
        """Wait for the workers' votes; vote here on the rows they left."""
        votes = share.votes()
        if share.complete:
            return votes
        if self.isolate:
            self._refuse_staying(share.lfs)
        share.work(self._voting(share))
        return share.votes()

    def _voting(self, share: Share) -> Vote:
        def vote(first: int, count: int) -> list[ColumnVotes]:
            self.show(share.batch.start + first)
            return run_pass(share.lfs, share.batch.piece(first, count), self.job.labels)

        return vote

    def _work_on(self, share: Share) -> None:
        """Vote on pieces of a batch here, and in workers too if that pays off."""
        vote = self._voting(share)

        def stays_alone(n_rows: int, seconds: float) -> bool:
            self.spent += seconds
            expected = seconds / n_rows * (share.remaining + share.batch.ahead)
            return max(expected, self.spent) < self.start_after

        if not self.pool.running:
            if not self.isolate and (not self.pool.n_workers or share.work(vote, stays_alone)):
                return
            for current in self.in_progress:
                self._offer(current)
        if not self.timed:  # nothing could stop a function in this process
            share.work(vote)

    def _refuse_staying(self, lfs: Sequence[LabelingFunction]) -> None:
        """Refuse functions that would have to vote in this process, if only workers may vote."""
        if not lfs:
            return
        danger = "no timeout could stop them" if self.timed else "a crash would end this program"
        option = "the timeout" if self.timed else Argument("engine", "isolated")
        raise LabelingFunctionError(
            f"{listed([lf.name for lf in lfs])} cannot be sent to another process, because of what "
            f"they refer to or what is in the rows, so {danger}. Define them in a .py file and "
            "load it with load_lfs, or leave ",
            option,
            " out.",
        )

    def _store_votes(
        self, current: _BatchInProgress, group: _PassGroup, votes: Sequence[ColumnVotes]
    ) -> None:
        """Store votes, and stop the job at a failure that should stop it."""
        fresh = dict(zip(group.places, votes, strict=True))
        if self.job.cache is not None:
            self.job.cache.put({current.keys[place]: column for place, column in fresh.items()})
        self.job.report(failure for column in votes for failure in column.failures)
        current.columns.update(fresh)

    def _finish(self) -> VoteMatrix:
        """Return the votes on the batch that was begun first."""
        current = self.in_progress[0]
        for group in current.groups:
            if group.share is not None:
                self._store_votes(current, group, self._votes(group.share))
        self.in_progress.popleft()
        self.show(current.batch.start + len(current.batch))
        ordered = [current.columns[place] for place in range(len(self.job.lfs))]
        return assemble(ordered, self.job.labels, self.job.voters, current.batch.ids)

    def _keep(self) -> None:
        """Cache the complete votes of a failed job."""
        for current in self.in_progress if self.job.cache is not None else ():
            for group in current.groups:
                if group.share is not None and group.share.complete:
                    with suppress(WieselError):
                        self._store_votes(current, group, group.share.votes())


def _cores() -> int:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
