"""What a worker of Ray Train tells, without a cluster: calls of the mailbox are plain calls."""

import copy
import pickle
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import HashStore, ProcessGroupGloo

from wiesel import MajorityVote, TwoStage
from wiesel.datasets.synthetic import make_features, make_votes
from wiesel.end_to_end.plan import plan_all, split_networks
from wiesel.io.ray_session import Mailbox
from wiesel.training.loop import TrainingJob
from wiesel.training.parts import PeerLost
from wiesel.training.ray_train import train_part


class Called:
    """An actor that is called at once; it loses the worker that tells of an epoch."""

    def __init__(self, mailbox: Mailbox, lost_in: int | None) -> None:
        self._mailbox, self._lost_in = mailbox, lost_in

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            if name == "tell" and arguments[0]["epoch"] == self._lost_in:
                raise PeerLost("the machine is off")
            return getattr(self._mailbox, name)(*arguments)

        return SimpleNamespace(remote=call)


@pytest.fixture(autouse=True)
def one_worker(monkeypatch):
    ray = SimpleNamespace(get=lambda value: value, cloudpickle=pickle)
    monkeypatch.setitem(sys.modules, "ray", ray)
    group = ProcessGroupGloo(HashStore(), 0, 1)
    monkeypatch.setattr(dist, "group", SimpleNamespace(WORLD=group))
    monkeypatch.setattr(dist, "get_rank", lambda: 0)
    monkeypatch.setattr(dist, "get_world_size", lambda: 1)


def job_of(checkpoint: Any, epochs: int, members: int = 1) -> TrainingJob:
    votes, gold = make_votes(30, n_voters=4, coverage=0.9)
    X = make_features(gold, n_features=3).astype(np.float32)
    torch.manual_seed(0)
    model = TwoStage(
        MajorityVote(), nn.Linear(3, 2), epochs=epochs, checkpoint=checkpoint, members=members
    )
    fits = plan_all(split_networks(model), model.fit_inputs(X, votes), None)
    return TrainingJob(
        [fit.objective for fit in fits],
        [fit.random_state for fit in fits],
        fits[0].plan.data,
        [fit.options for fit in fits],
        None,
        "a fingerprint",
    )


def attempt(job: TrainingJob, mailbox: Mailbox, lost_in: int | None = None) -> None:
    with torch.random.fork_rng():
        train_part({"job": [copy.deepcopy(job)], "mailbox": Called(mailbox, lost_in)})


@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("lost_in", [1, 2, 3])
def test_an_epoch_that_was_kept_but_not_told_is_told_after_the_loss(tmp_path, lost_in, members):
    job, mailbox = job_of(tmp_path / "checkpoint", 3, members), Mailbox()
    with pytest.raises(PeerLost):
        attempt(job, mailbox, lost_in)
    attempt(job, mailbox)
    assert [record["epoch"] for record in mailbox.take()] == [1, 2, 3]
    found = mailbox.result()
    assert found is not None
    assert isinstance(found, bytes)  # which the process of the mailbox reads without torch
    assert len(pickle.loads(found)["histories"][0]) == 3  # noqa: S301 - written above


def test_without_a_checkpoint_no_epoch_is_told_twice():
    job, mailbox = job_of(None, 3), Mailbox()
    with pytest.raises(PeerLost):
        attempt(job, mailbox, lost_in=3)
    attempt(job, mailbox)
    assert [record["epoch"] for record in mailbox.take()] == [1, 2, 3]


def test_epochs_of_an_earlier_training_are_not_told_again(tmp_path):
    attempt(job_of(tmp_path / "checkpoint", 2), Mailbox())
    mailbox = Mailbox()
    attempt(job_of(tmp_path / "checkpoint", 4), mailbox)
    assert [record["epoch"] for record in mailbox.take()] == [3, 4]
