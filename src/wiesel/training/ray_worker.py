"""The code that runs in a Ray Train worker and reports to the process that started it."""

from collections.abc import Mapping
from typing import Any

from wiesel.errors import TrainingError, WieselError
from wiesel.nn.workers import PeerLost, Worker
from wiesel.training.engines import TrainingJob
from wiesel.training.loop import run
from wiesel.training.parts import PartState, state_of_part
from wiesel.training.progress import watching

__all__ = ["Mailbox", "train_part"]


class Mailbox:
    """An actor on the machine that started training; workers leave messages in it.

    Every epoch is reported once, in order, no matter how often training restarts.

    >>> mailbox = Mailbox()
    >>> mailbox.begin(0)
    0
    >>> mailbox.tell({"epoch": 1}), mailbox.tell({"epoch": 1})
    (False, False)
    >>> mailbox.take()
    [{'epoch': 1}]
    """

    def __init__(self) -> None:
        self._records: list[Mapping[str, Any]] = []
        self._n_sent: int | None = None
        self._stopped = False
        self._result: dict[str, Any] | None = None
        self._refusal: Exception | None = None

    def begin(self, n_done: int) -> int:
        """Return how many epochs are known here; initially `n_done`, from an earlier training."""
        if self._n_sent is None:
            self._n_sent = n_done
        return self._n_sent

    def tell(self, record: Mapping[str, Any]) -> bool:
        """Keep the record of an epoch, and return whether training should stop."""
        if record["epoch"] > (self._n_sent or 0):
            self._records.append(record)
            self._n_sent = record["epoch"]
        return self._stopped

    def take(self) -> list[Mapping[str, Any]]:
        """Return the records since the last call."""
        new, self._records = self._records, []
        return new

    def stop(self) -> None:
        """Let training end after the current epoch."""
        self._stopped = True

    def keep(self, result: dict[str, Any]) -> None:
        """Store the result of training."""
        self._result = result

    def result(self) -> dict[str, Any] | None:
        """Return the result of training, or None if there is none yet."""
        return self._result

    def refuse(self, error: Exception) -> None:
        """Store the first error that would only occur again: another attempt is pointless."""
        self._refusal = self._refusal or error

    def refusal(self) -> Exception | None:
        """Return the error stored by `refuse`, or None."""
        return self._refusal


def train_part(config: dict[str, Any]) -> None:
    """Train as one of several workers; the leading worker stores the result."""
    import ray
    import torch.distributed as dist

    mailbox = config["mailbox"]
    if ray.get(mailbox.refusal.remote()) is not None:
        return

    def tell(record: Mapping[str, Any]) -> None:
        if ray.get(mailbox.tell.remote(record)):
            raise KeyboardInterrupt

    try:
        job: TrainingJob = ray.get(config["job"][0])
        worker = Worker(dist.group.WORLD, dist.get_rank(), dist.get_world_size())
        with watching(tell):
            state = state_of_part(job, worker).resumed(job.fingerprint)
            _tell_what_is_missing(state, mailbox)
            histories = run(state, job.data, job.validation, job.fingerprint)
        if worker.leads:
            weights = [objective.state_dict() for objective in job.objectives]
            ray.get(mailbox.keep.remote({"histories": histories, "weights": weights}))
    except PeerLost:
        raise
    except WieselError as error:
        ray.get(mailbox.refuse.remote(error))
        raise
    except Exception as error:
        failure = TrainingError(f"A worker failed: {type(error).__name__}: {error}")
        ray.get(mailbox.refuse.remote(failure))
        raise


def _tell_what_is_missing(state: PartState, mailbox: Any) -> None:
    """Report epochs that only the checkpoint has: the leader was lost before it reported them."""
    import ray

    if state.worker.leads:
        n_sent = ray.get(mailbox.begin.remote(state.epochs_done))
        for record in state.mean_records()[n_sent:]:
            ray.get(mailbox.tell.remote(record))
