"""The interface of engines: jobs in, votes out."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from wiesel.labels import LabelSpace
from wiesel.lfs.cache import VoteCache
from wiesel.lfs.failures import Failure, FailureLog
from wiesel.lfs.function import LabelingFunction
from wiesel.lfs.rules import Rule
from wiesel.lfs.sources import BATCH_ROWS, SLOW_BATCH_ROWS, RowSource
from wiesel.parameters import check_timeout
from wiesel.votes import VoteMatrix

__all__ = ["Engine", "Job"]


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
