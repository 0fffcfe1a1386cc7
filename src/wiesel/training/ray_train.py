"""Training on the machines of a Ray cluster: each worker has a part of every batch.

Ray Train starts the workers, connects them (gloo on CPUs, nccl on GPUs) and restarts them if one
is lost. The workers run the same training loop as a single process.
"""

import sys
import sysconfig
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from wiesel.errors import (
    FeatureError,
    MissingExtraError,
    ParameterError,
    TrainingError,
    WieselError,
)
from wiesel.io.ray_session import Mailbox, load_ray, ray_session
from wiesel.nn.stacking import RandomStreams, stack_modules
from wiesel.parameters import check_number
from wiesel.training.history import History, progress_bar, watching
from wiesel.training.loop import TrainingJob, run
from wiesel.training.parts import PartState, PeerLost, Worker, state_of_part

__all__ = ["RayTrain", "train_part"]

_POLL_SECONDS = 0.2
"""Seconds between two checks of the workers' progress."""


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


@dataclass(frozen=True, kw_only=True)
class RayTrain:
    """Trains with the workers of a Ray cluster: `fit(X, votes, engine=RayTrain(workers=2))`.

    Every worker computes its part of every batch. So any number of workers trains the same model
    as this process alone, within rounding. If a worker is lost, training continues from the
    model's `checkpoint`, which must be on storage that all machines share; without a checkpoint
    it starts again. Without a cluster, the workers are processes on this machine.

    >>> RayTrain(workers=4, address="10.0.0.1:6379").workers
    4
    """

    workers: int = 2
    """How many processes train together."""
    cpus: int = 1
    """How many CPU cores each worker has."""
    gpu: bool = False
    """Whether each worker has a GPU."""
    address: str | None = None
    """The cluster's address; None uses the program's connection, or starts a local cluster."""
    retries: int = 3
    """How many times training continues after a worker is lost."""

    def __post_init__(self) -> None:
        for name, low in (("workers", 1), ("cpus", 1), ("retries", 0)):
            check_number(self, name, getattr(self, name), low=low, whole=True)

    @property
    def device(self) -> torch.device:
        """The device on which the workers train."""
        return torch.device("cuda" if self.gpu else "cpu")

    def train(self, job: TrainingJob) -> list[History]:
        """Train the networks of the job in place, and return what happened."""
        _load_ray_train()
        batch_size = job.options[0].batch_size
        if self.workers > batch_size:
            raise ParameterError(
                f"{self.workers} workers cannot share batches of {batch_size} items. Give the "
                "model a larger batch_size, or RayTrain fewer workers."
            )
        if len(job.objectives) > 1:  # fails before anything is sent if they cannot be stacked
            stack_modules(job.objectives, RandomStreams(job.random_states))
        with ray_session(self.address) as ray:
            self._check_cores(ray)
            result = self._result(ray, self._portable(job))
        for objective, weights in zip(job.objectives, result["weights"], strict=True):
            objective.load_state_dict(weights)
            objective.eval().to("cpu")
        histories: list[History] = result["histories"]
        return histories

    def _portable(self, job: TrainingJob) -> TrainingJob:
        """The job with paths and devices that are valid on another machine."""
        options = []
        for own in job.options:
            path = None if own.checkpoint is None else str(Path(own.checkpoint).absolute())
            changes = {"checkpoint": path, "device": self.device.type, "engine": None}
            options.append(replace(own, **changes))  # type: ignore[arg-type]
        return replace(job, data=replace(job.data), options=options)

    def _check_cores(self, ray: Any) -> None:
        wanted = {"CPU": self.workers * self.cpus, "GPU": self.workers if self.gpu else 0}
        there = ray.cluster_resources()
        for kind, count in wanted.items():
            if there.get(kind, 0) < count:
                raise ParameterError(
                    f"{self.workers} workers need {count} {kind}s; the cluster has "
                    f"{there.get(kind, 0):g}. Use fewer workers, or add machines."
                )

    def _result(self, ray: Any, job: TrainingJob) -> dict[str, Any]:
        node = ray.get_runtime_context().get_node_id()
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)
        mailbox = ray.remote(num_cpus=0, scheduling_strategy=here)(Mailbox).remote()
        options = job.options[0]
        sent = [_sent(ray, job)]  # in a list, or Ray would hand the workers the job itself
        with tempfile.TemporaryDirectory(prefix="wiesel-") as folder:
            trainer = self._trainer({"job": sent, "mailbox": mailbox}, folder)
            run = _Run(trainer)
            run.start()
            with progress_bar(options.epochs, 0, options.progress) as show:
                while run.is_alive():
                    try:
                        run.join(_POLL_SECONDS)
                        for record in ray.get(mailbox.take.remote()):
                            show(record)
                    except KeyboardInterrupt:
                        # The workers end with the best weights so far; a second Ctrl-C quits now.
                        if run.is_asked_to_stop:
                            raise
                        run.is_asked_to_stop = True
                        mailbox.stop.remote()
                for record in ray.get(mailbox.take.remote()):
                    show(record)
        result = ray.get(mailbox.result.remote())
        error = ray.get(mailbox.refusal.remote())
        if error is not None:
            raise error
        if result is None:
            raise TrainingError(
                f"Training on Ray ended without a result after {self.retries} new attempts: "
                f"{_short(run.error)}. The logs of the workers are on the Ray dashboard."
            ) from run.error
        found: dict[str, Any] = ray.cloudpickle.loads(result)
        return found

    def _trainer(self, config: dict[str, Any], folder: str) -> Any:
        from ray import train
        from ray.train.torch import TorchConfig, TorchTrainer

        return TorchTrainer(
            train_part,
            train_loop_config=config,
            torch_config=TorchConfig(backend="cpu:gloo,cuda:nccl" if self.gpu else "gloo"),
            scaling_config=train.ScalingConfig(
                num_workers=self.workers,
                use_gpu=self.gpu,
                resources_per_worker={"CPU": self.cpus} | ({"GPU": 1} if self.gpu else {}),
                placement_strategy="SPREAD",
            ),
            run_config=train.RunConfig(
                name="training",
                storage_path=folder,
                failure_config=train.FailureConfig(max_failures=self.retries),
                logging_config=train.LoggingConfig(log_level="ERROR"),
            ),
        )


class _Run(threading.Thread):
    """The thread that runs Ray Train while this process shows its progress."""

    def __init__(self, trainer: Any) -> None:
        super().__init__(daemon=True)
        self._trainer = trainer
        self.error: Exception | None = None
        self.is_asked_to_stop = False

    def run(self) -> None:
        """Run Ray Train until it is done."""
        try:
            self._trainer.fit()
        except Exception as error:  # noqa: BLE001 - raised by the code that waits for this thread
            self.error = error


def _load_ray_train() -> None:
    load_ray()
    try:
        import ray.train.torch  # noqa: F401
        from ray.train import LoggingConfig  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            f"Training on several machines needs Ray Train ({error}): pip install -U 'wiesel[ray]'"
        ) from error


def _sent(ray: Any, job: TrainingJob) -> Any:
    """The job in the cluster's object store, from which every machine reads it once."""
    with _own_code_travels(ray.cloudpickle, job):
        try:
            return ray.put(job)
        except Exception as error:  # a user's class may raise anything when pickled
            reason = _short(error)
            try:
                ray.cloudpickle.dumps(job.data)
            except Exception:  # noqa: BLE001
                raise FeatureError(
                    f"X cannot be sent to the workers: {reason}. Give arrays or tensors, or a "
                    "Dataset without open files, locks and the like."
                ) from error
            raise ParameterError(
                f"The network cannot be sent to the workers: {reason}. It must not hold open "
                "files, locks and the like."
            ) from error


@contextmanager
def _own_code_travels(cloudpickle: Any, job: TrainingJob) -> Iterator[None]:
    """Send the code of networks whose modules are not installed: other machines lack it."""
    installed = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib"))
    own = str(Path(__file__).parents[1])
    kinds = {type(part) for objective in job.objectives for part in objective.modules()}
    registered = []
    # Modules that the user has registered stay registered.
    for name in {kind.__module__ for kind in kinds} - cloudpickle.list_registry_pickle_by_value():
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        if file and name != "__main__" and not file.startswith((*installed, own)):
            cloudpickle.register_pickle_by_value(module)
            registered.append(module)
    try:
        yield
    finally:
        for module in registered:
            cloudpickle.unregister_pickle_by_value(module)


def _short(error: BaseException | None) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}".rstrip(": .")
