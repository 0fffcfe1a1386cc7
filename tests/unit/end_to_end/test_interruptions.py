"""Training that is stopped: by Ctrl-C, by kill -9, or by its own success."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_task import FROZEN, VOTES_ONLY, linear, same_weights, tiny_task, weasel, weights_of
from torch import Tensor, nn
from torch.utils.data import Dataset

from wiesel import MajorityVote, Supervised, TwoStage, load_model
from wiesel.end_to_end.plan import inputs_digest
from wiesel.errors import SavedModelError, WieselWarning
from wiesel.nn.encoders import EncoderLayers
from wiesel.training import as_inputs
from wiesel.training.history import read_checkpoint

pytestmark = pytest.mark.filterwarnings("ignore::wiesel.errors.CollapseWarning")


class Interrupting(nn.Linear):
    """Raises KeyboardInterrupt, as Ctrl-C does, in the middle of training."""

    steps_left = 8

    def forward(self, features: Tensor) -> Tensor:
        if self.training:
            self.steps_left -= 1
            if self.steps_left == 0:
                raise KeyboardInterrupt
        return super().forward(features)


def test_ctrl_c_keeps_the_best_weights_and_says_so():
    X, votes, gold = tiny_task(coverage=1.0)
    model = weasel(Interrupting(3, 2), epochs=20)
    with pytest.warns(WieselWarning, match="interrupted after 2 epochs; the best weights") as said:
        model.fit(X, votes, validation=(X, gold))
    assert said[0].filename == __file__
    assert model.history_.interrupted
    assert model.selection_["epoch"] == model.history_.best_epoch <= 2
    assert model.predict_proba(X).shape == (48, 2)
    assert model.soft_labels(X, votes).shape == (48, 2)


def test_ctrl_c_in_the_first_epoch_leaves_a_model_that_can_be_used_and_saved(tmp_path: Path):
    X, votes, gold = tiny_task(coverage=1.0)
    net = Interrupting(3, 2)
    net.steps_left = 2
    model = weasel(net)
    with pytest.warns(WieselWarning, match="interrupted after 0 epochs"):
        model.fit(X, votes, validation=(X, gold))
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model", end_model=linear())
    assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.history_.interrupted


def test_ctrl_c_while_a_dataset_is_read_keeps_what_was_learned():
    class Slow(Dataset[Tensor]):
        reads = 0

        def __len__(self) -> int:
            return len(X)

        def __getitem__(self, position: int) -> Tensor:
            self.reads += 1
            if self.reads > 300:
                raise KeyboardInterrupt
            return torch.from_numpy(X[position])

    X, votes, _ = tiny_task(coverage=1.0)
    with pytest.warns(WieselWarning, match="interrupted after [1-9]"):
        model = weasel(epochs=50, encoder=VOTES_ONLY).fit(Slow(), votes)
    assert model.predict_proba(X).shape == (48, 2)


# The child can be killed in the middle: after epoch 3 it waits for words that never come.
CHILD = """
import os, sys
sys.path[:0] = {folders!r}
if os.environ.get("WIESEL_JITTER"):
    import jitter
from tiny_task import linear, tiny_task, weasel
from wiesel.end_to_end import WeaSEL
from wiesel.end_to_end.weasel.model import WeaSELObjective

start = WeaSELObjective.start_epoch
def start_epoch(self, epoch, data):
    start(self, epoch, data)
    if epoch == 4:
        print("ready", {{"sympy", "torch._dynamo"}} & sys.modules.keys(), flush=True)
        sys.stdin.read()
WeaSELObjective.start_epoch = start_epoch

X, votes, gold = tiny_task()
weasel(epochs=7, checkpoint={file!r}).fit(X, votes, validation=(X, gold))
"""


def test_a_run_that_was_killed_goes_on_to_the_same_weights(tmp_path: Path):
    X, votes, gold = tiny_task()
    whole = weasel(epochs=7).fit(X, votes, validation=(X, gold))
    file = tmp_path / "run.ckpt"
    here = Path(__file__).parent
    code = CHILD.format(folders=[str(here), str(here.parents[1])], file=str(file))
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True
    ) as child:
        assert child.stdout is not None
        # Training imports no compiler, which would take it two seconds.
        assert child.stdout.readline() == "ready set()\n"
        os.kill(child.pid, signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
    resumed = weasel(epochs=7, checkpoint=file).fit(X, votes, validation=(X, gold))
    assert same_weights(weights_of(resumed.end_model_), weights_of(whole.end_model_))
    assert same_weights(weights_of(resumed.encoder_), weights_of(whole.encoder_))
    assert resumed.history_.records == whole.history_.records
    assert resumed.threshold_ == whole.threshold_


def run_in_two_parts(build, fit, file: Path) -> None:
    """Three epochs, then five from the checkpoint, must equal five in one go."""
    whole = fit(build(epochs=5))
    fit(build(epochs=3, checkpoint=file))
    before = file.read_bytes()
    resumed = fit(build(epochs=5, checkpoint=file))
    assert file.read_bytes() != before
    assert same_weights(weights_of(resumed.end_model_), weights_of(whole.end_model_))
    assert resumed.history_.records == whole.history_.records


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"encoder": FROZEN},
        {"encoder": EncoderLayers(hidden=(5,), dropout=0.5), "loss": "mig"},
        {"weight_average": 0.9},
        {"class_conditional": True, "class_balance": [0.3, 0.7]},
    ],
    ids=str,
)
def test_weasel_resumes_to_the_same_weights(tmp_path: Path, options):
    X, votes, gold = tiny_task()
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.2), nn.Linear(4, 2))
    run_in_two_parts(
        lambda **more: weasel(net, **options, **more),
        lambda model: model.fit(X, votes, validation=(X, gold)),
        tmp_path / "run.ckpt",
    )


def test_weasel_resumes_without_a_validation_set(tmp_path: Path):
    X, votes, _ = tiny_task()
    run_in_two_parts(weasel, lambda model: model.fit(X, votes), tmp_path / "run.ckpt")


def test_two_stage_and_supervised_resume_to_the_same_weights(tmp_path: Path):
    X, votes, gold = tiny_task()
    quick = {"lr": 0.01, "batch_size": 16}
    run_in_two_parts(
        lambda **more: TwoStage(MajorityVote(), linear(), **quick, **more),
        lambda model: model.fit(X, votes),
        tmp_path / "two_stage.ckpt",
    )
    run_in_two_parts(
        lambda **more: Supervised(linear(), labels=["a", "b"], **quick, **more),
        lambda model: model.fit(X, gold),
        tmp_path / "supervised.ckpt",
    )


def test_a_finished_run_is_not_trained_again(tmp_path: Path):
    X, votes, _ = tiny_task()
    file = tmp_path / "run.ckpt"
    first = weasel(checkpoint=file).fit(X, votes)
    os.utime(file, ns=(1, 1))
    again = weasel(checkpoint=file).fit(X, votes)
    assert file.stat().st_mtime_ns == 1
    assert same_weights(weights_of(first.end_model_), weights_of(again.end_model_))


@pytest.mark.parametrize(
    "change",
    ["options", "seed", "votes", "inputs", "network", "validation", "gold", "no validation"],
)
def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path, change: str):
    X, votes, gold = tiny_task()
    file = tmp_path / "run.ckpt"
    weasel(checkpoint=file).fit(X, votes, validation=(X, gold))
    options = {"options": {"tau_2": 3.0}, "seed": {"seed": 9}}.get(change, {})
    net = linear(seed=5) if change == "network" else linear()
    model = weasel(net, checkpoint=file, epochs=5, **options)
    other = tiny_task(seed=2)
    validation = {
        "validation": (other.X, gold),
        "gold": (X, 1 - gold),
        "no validation": None,
    }.get(change, (X, gold))
    with pytest.raises(SavedModelError, match="with other options or other data"):
        model.fit(
            other.X if change == "inputs" else X,
            other.votes if change == "votes" else votes,
            validation=validation,
        )


def test_an_interrupted_run_can_go_on_from_its_checkpoint(tmp_path: Path):
    X, votes, gold = tiny_task(coverage=1.0)
    file = tmp_path / "run.ckpt"

    class Patient(nn.Linear):
        interrupt = True

        def forward(self, features: Tensor) -> Tensor:
            written = read_epochs(file)
            if self.training and self.interrupt and written == 2:
                raise KeyboardInterrupt
            return super().forward(features)

    def read_epochs(path: Path) -> int:
        if not path.exists():
            return 0
        found = read_checkpoint(path, fingerprint)
        return 0 if found is None else len(found.progress[0].history)

    net = Patient(3, 2)
    whole = weasel(net, epochs=4)
    net.interrupt = False
    whole.fit(X, votes, validation=(X, gold))
    fingerprint = whole.trained_on_["fingerprint"]
    net.interrupt = True
    with pytest.warns(WieselWarning, match="interrupted after 2 epochs"):
        weasel(net, epochs=4, checkpoint=file).fit(X, votes, validation=(X, gold))
    net.interrupt = False
    resumed = weasel(net, epochs=4, checkpoint=file).fit(X, votes, validation=(X, gold))
    assert not resumed.history_.interrupted
    assert same_weights(weights_of(resumed.end_model_), weights_of(whole.end_model_))


def test_every_row_of_few_inputs_counts_in_their_fingerprint() -> None:
    """A checkpoint of other inputs is not continued."""
    X = np.zeros((5, 2), dtype=np.float32)
    digests = {inputs_digest(as_inputs(X))}
    for row in range(5):
        other = X.copy()
        other[row, 1] = 1
        digests.add(inputs_digest(as_inputs(other)))
    assert len(digests) == 6
