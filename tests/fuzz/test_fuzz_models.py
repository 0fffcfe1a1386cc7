"""Model folders and bundles, damaged and forged: loaded whole, or refused, and never obeyed."""

import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from attacks import Tally, forged, tree, tries

from wiesel import Committee, DawidSkene, MajorityVote, Snorkel, TwoStage, WeaSEL, load_model
from wiesel.catalog import METHODS
from wiesel.end_to_end import EndToEndModel
from wiesel.errors import SavedModelError
from wiesel.features import Standardizer
from wiesel.io import write_votes
from wiesel.labels import as_indices
from wiesel.multilabel import MultiLabelSpace, MultiLabelVotes, PerLabel
from wiesel.nn import LSTM, MLP, Linear
from wiesel.project import read_project, run_project
from wiesel.project.bundle import load_bundle
from wiesel.saving import write_folder
from wiesel.votes import VoteMatrix

pytestmark = pytest.mark.filterwarnings("ignore")

DENSE = [[0, 0, -1], [0, 1, -1], [1, 1, 1], [-1, 1, 0]] * 5


def votes() -> VoteMatrix:
    return VoteMatrix.from_dense(DENSE, labels=["ham", "spam"], voters=["a", "b", "c"])


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, Path]:
    """One saved model of several kinds; nobody changes them."""
    place, X = tmp_path_factory.mktemp("models"), np.random.default_rng(0).normal(size=(20, 3))
    quick: dict[str, Any] = {"epochs": 1, "batch_size": 8, "epoch_size": None}
    tokens = np.ones((20, 4), dtype=np.int64)
    made: dict[str, Any] = {
        "two_stage": TwoStage(MajorityVote(), MLP(3, 2, hidden=(4,)), **quick).fit(X, votes()),
        "weasel": WeaSEL(MLP(3, 2, hidden=(4,)), **quick).fit(X, votes()),
        "ensemble": WeaSEL(Linear(3, 2), members=2, **quick).fit(X, votes()),
        "crowd_layer": METHODS["crowd_layer"].cls(Linear(3, 2), **quick).fit(X, votes()),
        "doctor_net": METHODS["doctor_net"].cls(MLP(3, 2, hidden=(4,)), **quick).fit(X, votes()),
        "lstm": TwoStage(Snorkel(), LSTM(5, 2, 3, 3, (4,)), **quick).fit(tokens, votes()),
        "dawid_skene": DawidSkene().fit(votes()),
        "committee": Committee(Linear(3, 2), networks=1, **quick).fit(X, votes()),
        "imply_loss": METHODS["imply_loss"].cls(Linear(3, 2), **quick).fit(X, votes()),
        "labels": PerLabel(MajorityVote()).fit(label_votes()),
        "labels_two_stage": TwoStage(MajorityVote(), Linear(3, 2), **quick).fit(X, label_votes()),
        "labels_weasel": WeaSEL(Linear(3, 2), encoder=(4,), **quick).fit(X, label_votes()),
    }
    for name, model in made.items():
        model.save(place / name)
    made["reader"] = TwoStage(MajorityVote(), Linear(3, 2), **quick).fit(X, votes())
    made["reader"].save(place / "reader", features=Standardizer().fit(X))
    return {name: place / name for name in made}


def label_votes() -> MultiLabelVotes:
    cells = [[[1, 0], [0, 0]], [[0, 1], [1, -1]], [[1, 1], [1, 0]], [[0, 0], [-1, 1]]] * 5
    return MultiLabelVotes.from_dense(cells, ["sports", "money"], ["a", "b"])


def used(model: Any) -> None:
    """Ask a model that could be loaded; its answers are probabilities."""
    if isinstance(model, PerLabel):
        cells = np.ones((2, len(model.voters_), len(model.labels_)), dtype=int)
        several = MultiLabelVotes.from_dense(cells, model.labels_, model.voters_)
        assert np.isfinite(model.predict_proba(several)).all()
        return
    if isinstance(model.labels_, MultiLabelSpace):
        assert np.isfinite(model.predict_proba(np.array([[0.0, 1, 2], [-3, 3, 1]]))).all()
        return
    cells = [[0] * len(model.voters_), [1] * len(model.voters_)]
    matrix = VoteMatrix.from_dense(as_indices(cells), model.labels_, model.voters_)
    if not isinstance(model, EndToEndModel):
        assert np.isfinite(model.predict_proba(matrix)).all()
        return
    is_lstm = isinstance(model.end_model_, LSTM)
    X = np.ones((2, 4), dtype=np.int64) if is_lstm else np.array([[0.0, 1, 2], [-3, 3, 1]])
    assert np.isfinite(model.predict_proba(X)).all()
    if hasattr(model, "soft_labels"):
        assert np.isfinite(model.soft_labels(X, matrix)).all()


def test_saved_models(models, tmp_path):
    tally = Tally("saved models")
    for rng in tries("saved models", least=30):
        name = rng.choice(sorted(models))
        folder = tmp_path / "model"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(models[name], folder)
        forged(folder, rng)
        before = tree(tmp_path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = tally.attempt((name, rng), load_model, folder)
            if model is not None:
                tally.attempt((name, "used"), used, model)
        assert tree(tmp_path) == before, "loading wrote something"
    tally.report()
    assert tally.counts["refused"] > 0


def test_what_is_saved_again_is_what_was_loaded(models, tmp_path):
    tally = Tally("saved again")
    for rng in tries("saved again", least=4):
        name = rng.choice(sorted(models))
        model = load_model(models[name])
        tally.attempt(name, model.save, tmp_path / "again")
        assert type(load_model(tmp_path / "again")) is type(model)
    tally.report()
    assert not tally.counts["refused"]


PROJECT = """\
classes = ["billing", "technical"]
[data]
train = "train.csv"
dev = "dev.csv"
[votes]
file = "votes.parquet"
[features]
kind = "{kind}"
{options}
[end_model]
name = "{network}"
[method]
name = "majority_vote"
baselines = []
[training]
epochs = 1
"""
BUNDLES = {
    "tfidf": ("tfidf", "n_dimensions = 2", "linear"),
    "tokens": ("tokens", "length = 4", "lstm"),
    "tabular": ("tabular", 'numeric = ["age"]\ncategorical = ["job"]', "linear"),
}


@pytest.fixture(scope="module")
def bundles(tmp_path_factory) -> dict[str, Path]:
    """Models with features of every kind, as `wiesel run` saves them."""
    found = {}
    for name, (kind, options, network) in BUNDLES.items():
        folder = tmp_path_factory.mktemp("bundles") / name
        folder.mkdir()
        text = PROJECT.format(kind=kind, options=options, network=network)
        (folder / "wiesel.toml").write_text(text)
        pl.DataFrame(ROWS).write_csv(folder / "dev.csv")
        pl.DataFrame(ROWS).drop("label").write_csv(folder / "train.csv")
        cells = [[0, 0], [1, 1]] * 6
        matrix = VoteMatrix.from_dense(cells, ["billing", "technical"], ["a", "b"], ROWS["id"])
        write_votes(matrix, folder / "votes.parquet")
        run_project(read_project(folder))
        found[name] = folder / "out/model"
    return found


ROWS = {
    "id": [f"m{n}" for n in range(12)],
    "text": ["the invoice is wrong", "the app will crash"] * 6,
    "age": [20 + n for n in range(12)],
    "job": ["cook", "nurse", None] * 4,
    "label": ["billing", "technical"] * 6,
}


def test_bundles(bundles, tmp_path):
    tally, rows = Tally("bundles"), pl.DataFrame(ROWS)
    for rng in tries("bundles", least=20):
        name = rng.choice(sorted(bundles))
        folder = tmp_path / "model"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(bundles[name], folder)
        forged(folder, rng)
        bundle = tally.attempt((name, rng), load_bundle, folder)
        if bundle is not None and bundle.features is not None:
            proba = tally.attempt((name, "predict"), bundle.predict_proba, rows)
            assert proba is None or np.isfinite(proba).all(), (name, proba)
    tally.report()
    assert tally.counts["refused"] > 0


def test_files_beside_a_model(models, tmp_path):
    tally = Tally("files beside a model")
    for rng in tries("files beside a model", least=5):
        folder = tmp_path / "model"
        shutil.rmtree(folder, ignore_errors=True)
        write_folder(folder, {"class": "MajorityVote"}, {"arrays.safetensors": b""})
        (folder / rng.choice(("lfs.py", "conftest.py", "weights.pkl", ".pth", "a b"))).touch()
        with pytest.raises(SavedModelError, match="also holds"):
            load_model(folder)
        tally.counts["refused"] += 1
    tally.report()
