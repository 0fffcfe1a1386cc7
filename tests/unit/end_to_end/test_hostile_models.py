"""Model folders that somebody made to do harm: refused quickly, and with a reason."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from forged_models import rewrite
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays
from safetensors.torch import load, save
from tiny_task import tiny_task
from torch import nn

from wiesel import DawidSkene, FeatureEM, MajorityVote, TwoStage, load_model
from wiesel.end_to_end.storage import limited_parts
from wiesel.errors import FeatureError, SavedModelError
from wiesel.nn import CNN, LSTM, MLP, Linear

pytestmark = pytest.mark.filterwarnings("ignore::wiesel.errors.WieselWarning")

WEIGHTS = "weights.safetensors"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A saved model of two stages with a small perceptron."""
    X, votes, _ = tiny_task()
    TwoStage(MajorityVote(), MLP(3, 2, hidden=(4,)), epochs=1).fit(X, votes).save(tmp_path / "m")
    return tmp_path / "m"


def change_weights(folder: Path, change) -> None:
    weights = load((folder / WEIGHTS).read_bytes())
    change(weights)
    (folder / WEIGHTS).write_bytes(save(weights))
    rewrite(folder, lambda manifest: None)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused(model: Path, value: float):
    change_weights(model, lambda weights: next(iter(weights.values())).view(-1)[0].fill_(value))
    with pytest.raises(SavedModelError, match="hold NaN or infinities"):
        load_model(model)


def test_weights_that_lead_to_nan_are_refused(model: Path):
    change_weights(model, lambda weights: [part.fill_(3e38) for part in weights.values()])
    with pytest.raises(SavedModelError, match=r"NaN or infinity|not a distribution"):
        load_model(model)


def test_a_mask_of_infinities_in_a_buffer_is_no_harm(tmp_path: Path):
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 2)
            self.register_buffer("mask", torch.full((2, 2), float("-inf")))

        def forward(self, features):
            return self.layer(features)

    X, votes, _ = tiny_task()
    TwoStage(MajorityVote(), Masked(), epochs=1).fit(X, votes).save(tmp_path / "m")
    assert load_model(tmp_path / "m", end_model=Masked()).predict_proba(X).shape == (len(X), 2)


def test_inputs_that_lead_to_nan_are_refused_with_the_item(model: Path):
    X, _, _ = tiny_task()
    change_weights(model, lambda weights: [part.fill_(5) for part in weights.values()])
    X = X.astype(np.float32)
    X[2] = 3e38
    with pytest.raises(FeatureError, match="NaN or infinity for item 2"):
        load_model(model).predict_proba(X)


def test_a_transformer_of_millions_of_layers_is_refused_before_it_is_made(model: Path):
    pytest.importorskip("transformers")
    config = {"model_type": "bert", "num_hidden_layers": 3_000_000, "hidden_size": 12}
    spec = {"name": "transformer", "arguments": {"config": {**config, "num_attention_heads": 2}}}
    rewrite(model, lambda manifest: manifest["modules"].update(end_model=spec))
    with pytest.raises(SavedModelError, match="parts; the stored"):
        load_model(model)


@pytest.mark.parametrize("setting", ["num_labels", "num_hidden_layers", "vocab_size"])
def test_enormous_settings_of_a_transformer_are_refused(model: Path, setting: str):
    pytest.importorskip("transformers")
    spec = {"name": "transformer", "arguments": {"config": {"model_type": "bert", setting: 10**9}}}
    rewrite(model, lambda manifest: manifest["modules"].update(end_model=spec))
    with pytest.raises(SavedModelError, match=r"stored setting|parts|do not fit"):
        load_model(model)


def test_networks_that_other_threads_make_do_not_count():
    import threading

    with limited_parts(0):
        other = threading.Thread(target=lambda: [nn.Linear(1, 1) for _ in range(500)])
        other.start()
        other.join()
        with pytest.raises(SavedModelError, match="parts"):
            [nn.Linear(1, 1) for _ in range(500)]
    assert len([nn.Linear(1, 1) for _ in range(500)]) == 500


@pytest.mark.parametrize(
    ("network", "X"),
    [
        (Linear(3, 2), np.zeros((8, 3))),
        (MLP(3, 2, hidden=(4,)), np.zeros((8, 3))),
        (LSTM(vocabulary=5, n_classes=2, hidden=3, head=(4,)), np.ones((8, 4), dtype=np.int64)),
        (CNN(channels=1, n_classes=2), np.zeros((8, 1, 8, 8))),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_shipped_network_is_tried_and_passes(tmp_path: Path, network, X):
    _, votes, _ = tiny_task()
    TwoStage(MajorityVote(), network, epochs=1).fit(X, votes[:8]).save(tmp_path / "m")
    assert load_model(tmp_path / "m").predict_proba(X).shape == (8, 2)


def change_arrays(folder: Path, change) -> None:
    file = folder / "arrays.safetensors"
    arrays = {name: array.copy() for name, array in load_arrays(file.read_bytes()).items()}
    change(arrays)
    file.write_bytes(save_arrays(arrays))
    rewrite(folder, lambda manifest: None)


def test_a_label_model_with_nan_for_any_class_is_refused(tmp_path: Path):
    _, votes, _ = tiny_task()
    DawidSkene().fit(votes).save(tmp_path / "m")

    def last_is_nan(arrays):
        for array in arrays.values():
            array.reshape(-1)[-1] = np.nan

    change_arrays(tmp_path / "m", last_is_nan)
    with pytest.raises(SavedModelError, match="is inconsistent"):
        load_model(tmp_path / "m")


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("coefficients_", np.full((3, 2), np.nan)),
        ("coefficients_", np.ones((3, 5))),
        ("coefficients_", np.ones(3)),
        ("intercept_", np.array([1.0, np.inf])),
        ("units_", np.ones((9, 300))),
        ("units_", np.ones((4, 300))),
        ("units_", np.zeros((0, 0))),
    ],
    ids=lambda value: value if isinstance(value, str) else str(value.shape),
)
def test_a_label_model_whose_features_do_not_fit_is_refused(tmp_path: Path, name: str, array):
    X, votes, _ = tiny_task()
    FeatureEM().fit(votes, X=X).save(tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert loaded.predict_proba(votes, X).shape == (len(X), 2)
    assert (loaded.units_, loaded.coefficients_.shape) == (None, (3, 2))
    change_arrays(tmp_path / "m", lambda arrays: arrays.update({name: array}))
    if name == "units_":
        rewrite(tmp_path / "m", lambda manifest: manifest["learned"].pop("units_"))
    with pytest.raises(SavedModelError, match="is inconsistent"):
        load_model(tmp_path / "m")


def test_a_manifest_as_text_still_names_sizes(model: Path):
    manifest = json.loads((model / "manifest.json").read_text())
    assert manifest["bytes"].keys() == manifest["files"].keys()
