"""The user's optimizer, schedule and callback."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

from wiesel import Committee, MajorityVote, Supervised, TwoStage, WeaSEL
from wiesel.datasets.synthetic import make_features, make_votes
from wiesel.errors import ParameterError, TrainingError
from wiesel.training import RayTrain, TrainingHooks, cosine
from wiesel.training.objective import FusedAdam

VOTES, GOLD = make_votes(96, n_voters=5, seed=1)
X = make_features(GOLD, n_features=3, seed=1).astype(np.float32)
QUICK: dict[str, Any] = {"epochs": 3, "lr": 0.05, "batch_size": 32, "epoch_size": None}


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(3, 2)


def two_stage(**options: Any) -> TwoStage:
    return TwoStage(MajorityVote(), network(), **{**QUICK, "weight_average": None, **options})


def weights(model: Any) -> torch.Tensor:
    return model.end_model_.weight.detach()


def test_plain_gradient_descent_takes_the_steps_of_its_formula():
    """One step over all items: the new weights are the old ones minus lr times the gradient."""
    start = network()
    soft = torch.tensor(MajorityVote().fit_predict_proba(VOTES), dtype=torch.float32)
    covered = torch.tensor(VOTES.covered)
    logits = start(torch.tensor(X))
    cross_entropy = -(soft * logits.log_softmax(1)).sum(1)[covered].mean()
    cross_entropy.backward()
    hooks = TrainingHooks(optimizer=torch.optim.SGD)
    model = two_stage(epochs=1, batch_size=96, lr=0.5).fit(X, VOTES, hooks=hooks)
    torch.testing.assert_close(weights(model), start.weight.data - 0.5 * start.weight.grad)


def test_torchs_adam_gives_what_the_built_in_one_gives():
    adam = partial(torch.optim.Adam, weight_decay=7e-7)
    for members in (1, 3):
        here = two_stage(members=members).fit(X, VOTES).predict_proba(X)
        own = two_stage(members=members).fit(X, VOTES, hooks=TrainingHooks(optimizer=adam))
        np.testing.assert_allclose(own.predict_proba(X), here, atol=1e-5)


def test_a_schedule_scales_the_rate_by_the_share_of_steps_done():
    seen: list[float] = []

    def halved(done: float) -> float:
        seen.append(done)
        return 0.5

    scheduled = two_stage().fit(X, VOTES, hooks=TrainingHooks(schedule=halved))
    n_steps = 3 * int(np.ceil(VOTES.covered.sum() / 32))
    np.testing.assert_allclose(seen, np.arange(n_steps) / n_steps)
    half = two_stage(lr=0.025).fit(X, VOTES)
    torch.testing.assert_close(weights(scheduled), weights(half))
    sgd = TrainingHooks(schedule=halved, optimizer=torch.optim.SGD)
    half = two_stage(lr=0.025).fit(X, VOTES, hooks=TrainingHooks(optimizer=torch.optim.SGD))
    torch.testing.assert_close(weights(two_stage().fit(X, VOTES, hooks=sgd)), weights(half))


def test_a_callback_sees_every_epoch_and_can_end_training():
    seen: list[dict[str, Any]] = []

    def two_epochs(record: Any) -> bool:
        seen.append(dict(record))
        return record["epoch"] == 2

    model = two_stage(members=2).fit(X, VOTES, hooks=TrainingHooks(on_epoch=two_epochs))
    assert [(record["epoch"], record["epochs"]) for record in seen] == [(1, 3), (2, 3)]
    assert all(record["loss_end_model"] > 0 for record in seen)
    assert len(model.history_) == 2


def test_every_method_takes_them():
    for model in (Committee(network(), networks=1, **QUICK), WeaSEL(network(), warm_up=1, **QUICK)):
        seen: list[int] = []
        model.fit(X, VOTES, hooks=TrainingHooks(on_epoch=lambda r, seen=seen: seen.append(r)))
        assert len(seen) == 3
    seen = []
    hooks = TrainingHooks(on_epoch=seen.append)
    Supervised(network(), labels=VOTES.labels, **QUICK).fit(X, GOLD, hooks=hooks)
    assert len(seen) == 3


@pytest.mark.parametrize(
    "make", [torch.optim.AdamW, partial(torch.optim.SGD, momentum=0.9), torch.optim.SGD]
)
def test_training_resumes_with_the_state_of_the_optimizer(make: Any, tmp_path: Path):
    hooks = TrainingHooks(optimizer=make, schedule=lambda done: 1 - done / 2)
    whole = two_stage().fit(X, VOTES, hooks=hooks)
    interrupted = TrainingHooks(
        optimizer=make, schedule=hooks.schedule, on_epoch=lambda record: _interrupt(record, 2)
    )
    file = tmp_path / "checkpoint"
    with pytest.raises(RuntimeError):
        two_stage(checkpoint=file).fit(X, VOTES, hooks=interrupted)
    resumed = two_stage(checkpoint=file).fit(X, VOTES, hooks=hooks)
    assert len(resumed.history_) == 3
    torch.testing.assert_close(weights(resumed), weights(whole))


def _interrupt(record: Any, epoch: int) -> None:
    if record["epoch"] == epoch:
        raise RuntimeError("the machine is gone")


def test_more_epochs_continue_from_a_checkpoint(tmp_path: Path):
    file = tmp_path / "checkpoint"
    two_stage(checkpoint=file, epochs=2).fit(X, VOTES)
    more = two_stage(checkpoint=file, epochs=5).fit(X, VOTES)
    torch.testing.assert_close(weights(more), weights(two_stage(epochs=5).fit(X, VOTES)))


def test_what_cannot_be_is_refused():
    with pytest.raises(ParameterError, match=r"optimizer of TrainingHooks .* got 'adamw'"):
        TrainingHooks(optimizer="adamw")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"hooks are functions .* got <function cosine"):
        two_stage().fit(X, VOTES, hooks=cosine)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="leave engine out, or hooks"):
        two_stage().fit(X, VOTES, engine=RayTrain(workers=2), hooks=TrainingHooks())
    with pytest.raises(ParameterError, match="leave hooks out"):
        TwoStage(MajorityVote(), LogisticRegression()).fit(X, VOTES, hooks=TrainingHooks())
    with pytest.raises(TrainingError, match=r"The hook <lambda> must return a torch optimizer"):
        two_stage().fit(X, VOTES, hooks=TrainingHooks(optimizer=lambda groups: None))
    with pytest.raises(TrainingError, match=r"The schedule <lambda> must .* returned -1"):
        two_stage().fit(X, VOTES, hooks=TrainingHooks(schedule=lambda done: -1))


def test_without_hooks_steps_are_the_same_to_the_last_digit():
    weights = [torch.ones(3), torch.ones(3)]
    for each in weights:
        each.grad = torch.tensor([0.1, -2.0, 3.0])
    first, second = (FusedAdam([([each], 0.3)]) for each in weights)
    first.step()
    second.step(1.0)
    assert torch.equal(*weights)
