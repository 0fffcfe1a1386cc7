"""Several workers train the network that one process trains: here they are threads with gloo."""

import copy
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributed import HashStore, ProcessGroupGloo

from wiesel import MajorityVote, TwoStage, WeaSEL
from wiesel.datasets.synthetic import make_features, make_votes
from wiesel.end_to_end.plan import plan_all, split_networks
from wiesel.errors import ParameterError, SavedModelError, WieselError
from wiesel.nn import MLP
from wiesel.nn.end_models import Dropout
from wiesel.training.history import watching
from wiesel.training.loop import (
    TrainingJob,
    predict_logits,
    proba_of,
    run,
    single_state,
    stacked_state,
)
from wiesel.training.parts import PeerLost, Worker, state_of_part


def in_workers(n_workers: int, work: Callable[[Worker], Any]) -> list[Any]:
    """Return what `work` returns in each of several workers, or raise what the first raised."""
    store, answers = HashStore(), [None] * n_workers

    def worked(number: int) -> None:
        try:
            group = ProcessGroupGloo(store, number, n_workers)
            answers[number] = work(Worker(group, number, n_workers))
        except BaseException as error:  # noqa: BLE001
            answers[number] = error

    threads = [threading.Thread(target=worked, args=(number,)) for number in range(n_workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return answers


def job_of(
    model: Any, validation: Any = None, n_items: int = 61, n_classes: int = 2
) -> TrainingJob:
    votes, gold = make_votes(n_items, n_voters=4, n_classes=n_classes, coverage=0.9)
    X = make_features(gold, n_features=5).astype(np.float32)
    if validation:
        validation = X[:20], gold[:20]
    fits = plan_all(split_networks(model), model.fit_inputs(X, votes), validation)
    return TrainingJob(
        [fit.objective for fit in fits],
        [fit.random_state for fit in fits],
        fits[0].plan.data,
        [fit.options for fit in fits],
        fits[0].plan.validation,
        "a fingerprint",
    )


def trained_here(job: TrainingJob) -> tuple[list[Any], list[Any]]:
    job = copy.deepcopy(job)
    if len(job.objectives) > 1:
        state = stacked_state(job.objectives, job.options, job.random_states)
        state = state.resumed(job.fingerprint)
        histories = run(state, job.data, job.validation, job.fingerprint)
    else:
        with torch.random.fork_rng():
            torch.set_rng_state(job.random_states[0])
            state = single_state(job.objectives[0], job.options[0]).resumed(job.fingerprint)
            histories = run(state, job.data, job.validation, job.fingerprint)
    return histories, predictions(job)


def predictions(job: TrainingJob) -> list[Any]:
    return [proba_of(predict_logits(one.end_model, job.data.inputs)) for one in job.objectives]


def trained_there(job: TrainingJob, n_workers: int) -> list[Any]:
    def work(worker: Worker) -> Any:
        own = copy.deepcopy(job)
        state = state_of_part(own, worker).resumed(own.fingerprint)
        histories = run(state, own.data, own.validation, own.fingerprint)
        return histories, predictions(own)

    with torch.random.fork_rng():
        return in_workers(n_workers, work)


def assert_same(here: Sequence[Any], there: Sequence[Any]) -> None:
    for one, other in zip(here[0], there[0], strict=True):
        assert len(one) == len(other) > 0
        assert one.best_epoch == other.best_epoch
        for record, same in zip(one.records, other.records, strict=True):
            assert record.keys() == same.keys()
            for name in record:
                np.testing.assert_allclose(same[name], record[name], rtol=2e-4, atol=2e-5)
    # Not the weights: those whose gradient is zero, such as a bias before BatchNorm, drift.
    np.testing.assert_allclose(there[1], here[1], atol=5e-3)


OPTIONS: dict[str, Any] = {"epochs": 2, "lr": 0.01, "batch_size": 16, "epoch_size": None}


def normalized_network() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(
        nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU(), Dropout(0.4), nn.Linear(6, 6),
        nn.BatchNorm1d(6, affine=False, momentum=None), nn.Tanh(), nn.Dropout(0.2),
        nn.Linear(6, 2),
    )  # fmt: skip


class Pictures(nn.Module):
    """Five numbers as a picture with one row."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 3, (1, 2)), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(12, 2)
        )

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.layers(values[:, None, None])


@pytest.mark.parametrize(
    ("model", "n_workers"),
    [
        (TwoStage(MajorityVote(), nn.Linear(5, 2), **OPTIONS), 2),
        (TwoStage(MajorityVote(), normalized_network(), **OPTIONS), 3),
        (TwoStage(MajorityVote(), normalized_network(), loss="mig", **OPTIONS), 2),
        (TwoStage(MajorityVote(), Pictures(), **{**OPTIONS, "epochs": 1}), 2),
        (WeaSEL(MLP(5, 2, hidden=(4,)), tau_1=1.0, warm_up=1, **OPTIONS), 2),
        (WeaSEL(MLP(5, 2, hidden=(4,)), tau_1=1.0, loss="mig", start=None, **OPTIONS), 3),
        (TwoStage(MajorityVote(), normalized_network(), members=3, **OPTIONS), 2),
        (WeaSEL(MLP(5, 2, hidden=(4,)), tau_1=1.0, members=2, warm_up=1, **OPTIONS), 2),
    ],
    ids=["linear", "batch norm", "mig", "pictures", "weasel", "weasel mig", "stack", "weasels"],
)
def test_workers_train_what_one_process_trains(model: Any, n_workers: int):
    job = job_of(model, validation=True)
    here, there = trained_here(job), trained_there(job, n_workers)
    assert_same(here, there[0])


def test_a_batch_may_have_fewer_items_than_there_are_workers():
    job = job_of(TwoStage(MajorityVote(), normalized_network(), **{**OPTIONS, "batch_size": 29}))
    assert len(job.data.items) % 29 == 3
    there = trained_there(job, 4)
    assert_same(trained_here(job), there[0])


def test_all_workers_have_the_weights_of_the_leading_one():
    job = job_of(TwoStage(MajorityVote(), normalized_network(), weight_average=None, **OPTIONS))
    first, second = trained_there(job, 2)
    np.testing.assert_allclose(first[1], second[1], rtol=1e-6)


def test_workers_go_on_from_a_checkpoint_of_one_process(tmp_path: Any):
    model = TwoStage(MajorityVote(), normalized_network(), **OPTIONS)
    whole = trained_here(job_of(model.set_params(epochs=3)))
    checkpoint = str(tmp_path / "checkpoint")
    trained_here(job_of(model.set_params(epochs=1, checkpoint=checkpoint)))
    there = trained_there(job_of(model.set_params(epochs=3, checkpoint=checkpoint)), 2)
    assert_same(whole, there[0])


def test_what_the_leader_refuses_is_raised_by_all(tmp_path: Any):
    checkpoint = tmp_path / "checkpoint"
    checkpoint.write_text("no checkpoint")
    model = TwoStage(MajorityVote(), nn.Linear(5, 2), checkpoint=checkpoint, **OPTIONS)
    job = job_of(model)

    def work(worker: Worker) -> Any:
        own = copy.deepcopy(job)
        with pytest.raises(SavedModelError) as raised:
            state_of_part(own, worker).resumed("")
        return str(raised.value)

    first, second = in_workers(2, work)
    assert first == second


def test_an_interruption_of_the_leader_ends_training_everywhere():
    job = job_of(TwoStage(MajorityVote(), nn.Linear(5, 2), **{**OPTIONS, "epochs": 50}))

    def stop_after_two(record: Any) -> None:
        if record["epoch"] == 2:
            raise KeyboardInterrupt

    def work(worker: Worker) -> Any:
        own = copy.deepcopy(job)
        with watching(stop_after_two):
            return run(state_of_part(own, worker), own.data, None, "")[0]

    for history in in_workers(2, work):
        assert history.interrupted
        assert len(history) == 2


def test_a_normalization_of_ones_own_is_refused():
    class OwnNorm(nn.BatchNorm1d):
        pass

    network = nn.Sequential(OwnNorm(5), nn.Linear(5, 2))
    job = job_of(TwoStage(MajorityVote(), network, **OPTIONS))
    with pytest.raises(ParameterError, match=r"end_model\.0 \(OwnNorm\) normalizes over the items"):
        state_of_part(job, Worker(None, 0, 2))


def test_a_worker_that_is_gone_is_told_from_other_errors():
    def work(worker: Worker) -> Any:
        if not worker.leads:
            worker._group = None  # its process ends
            return None
        with pytest.raises(PeerLost, match="does not answer"):
            worker.all_reduce(torch.ones(2))
        return "told"

    assert in_workers(2, work) == ["told", None]
    assert not issubclass(PeerLost, WieselError)
