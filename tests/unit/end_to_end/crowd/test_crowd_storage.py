"""Saved crowd models: sizes and values that somebody else wrote are checked before they count."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forged_models import manifest_of, rewrite
from largest_tensor import LargestTensor
from tiny_task import ONE_PASS, linear, tiny_task

from wiesel import (
    MBEM,
    AggNet,
    CoNAL,
    ConfusionNet,
    CrowdLayer,
    DoctorNet,
    MaxMIG,
    Raykar,
    load_model,
)
from wiesel.errors import SavedModelError
from wiesel.nn import MLP

pytestmark = pytest.mark.filterwarnings("ignore::wiesel.errors.WieselWarning")

METHODS = [MaxMIG, CrowdLayer, DoctorNet, MBEM, AggNet, Raykar, ConfusionNet, CoNAL]
HUGE = 10**9
WRONG: list[Any] = [None, -1, 1e308, "text", [], [1], {"a": 1}, True]


@pytest.fixture(params=METHODS, ids=lambda cls: cls.__name__)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    X, votes, gold = tiny_task()
    model = request.param(MLP(3, 2, hidden=(4,)), **ONE_PASS, epochs=1, lr=0.01)
    model.fit(X, votes, validation=(X, gold)).save(tmp_path / "model")
    return tmp_path / "model"


def enlarged(axis: int) -> Callable[[dict[str, Any]], None]:
    def change(manifest: dict[str, Any]) -> None:
        for shape in manifest["learned"]["voter_shapes"].values():
            if len(shape) > axis:
                shape[axis] = HUGE

    return change


@pytest.mark.parametrize("axis", [0, 1])
def test_huge_shapes_of_voters_take_no_memory(folder: Path, axis: int):
    rewrite(folder, enlarged(axis))
    # Some methods know their sizes without them, and load as if nothing had happened.
    with LargestTensor() as largest, contextlib.suppress(SavedModelError):
        load_model(folder)
    assert largest.n_bytes > 0
    assert largest.n_bytes < 1e6


def test_a_huge_rank_takes_no_memory(tmp_path: Path):
    X, votes, _ = tiny_task()
    CrowdLayer(MLP(3, 2, hidden=(4,)), **ONE_PASS, epochs=1).fit(X, votes).save(tmp_path / "model")
    rewrite(tmp_path / "model", lambda m: m["parameters"].update(rank=HUGE))
    with (
        LargestTensor() as largest,
        pytest.raises(SavedModelError, match="do not fit the voters"),
    ):
        load_model(tmp_path / "model")
    assert largest.n_bytes < 1e6


def test_what_loads_with_a_wrong_value_still_answers_or_says_why(folder: Path):
    X, votes, _ = tiny_task()
    original = (folder / "manifest.json").read_bytes()
    keys = list(manifest_of(folder)["learned"])
    refused = 0
    for key in keys:
        for value in WRONG:
            (folder / "manifest.json").write_bytes(original)
            rewrite(folder, lambda m, k=key, v=value: m["learned"].__setitem__(k, v))
            try:
                model = load_model(folder)
            except SavedModelError:
                refused += 1
                continue
            assert np.isfinite(model.predict_proba(X)).all()
            assert np.isfinite(model.soft_labels(X, votes)).all()
            assert np.isfinite(model.voter_accuracies()).all()
    assert refused >= len(WRONG)


@pytest.mark.parametrize("layer", ["no_such_layer", "", None])
def test_heads_on_a_layer_they_were_not_trained_on_are_refused(tmp_path: Path, layer: Any):
    X, votes, _ = tiny_task()
    DoctorNet(MLP(3, 2, hidden=(4,)), **ONE_PASS, epochs=1).fit(X, votes).save(tmp_path / "model")
    rewrite(tmp_path / "model", lambda m: m["learned"].update(last_layer=layer))
    with pytest.raises(SavedModelError):
        load_model(tmp_path / "model")


def test_a_saved_threshold_is_the_one_that_is_explained(tmp_path: Path):
    X, votes, gold = tiny_task()
    model = Raykar(linear(), **ONE_PASS, epochs=2, lr=0.05).fit(X, votes, validation=(X, gold))
    model.threshold_ = 0.0
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model", end_model=linear())
    assert {loaded.explain(X[i], votes[i]).label for i in range(8)} == {"class_1"}
