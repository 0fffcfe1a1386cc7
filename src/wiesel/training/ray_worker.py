"""The code that runs in a Ray Train worker and reports to the process that started it."""

from collections.abc import Mapping
from typing import Any

from wiesel.errors import TrainingError, WieselError
from wiesel.nn.workers import PeerLost, Worker
from wiesel.training.engines import TrainingJob
from wiesel.training.history import watching
from wiesel.training.loop import run
from wiesel.training.parts import PartState, state_of_part

__all__ = ["train_part"]


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
            # As bytes, because the process of the mailbox would load torch for tensors.
            result = ray.cloudpickle.dumps({"histories": histories, "weights": weights})
            ray.get(mailbox.keep.remote(result))
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
