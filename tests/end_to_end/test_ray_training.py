"""Features, training and predictions on a Ray cluster of two nodes, one of which is lost in each.

test_ray_cluster.py loses one while labeling functions vote.
"""

import os
import re
import runpy
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from ray_nodes import TRAINING_ON_RAY, added_node, connected_cluster, disconnected
from torch import nn

from wiesel import (
    Committee,
    LabelSpace,
    MajorityVote,
    TextFeatures,
    TwoStage,
    VoteMatrix,
    apply_lfs,
    keywords,
    load_model,
)
from wiesel.datasets.synthetic import make_features, make_votes
from wiesel.errors import DataError, FeatureError, ParameterError
from wiesel.features import vector_files, write_text_features
from wiesel.lfs.engines import ray_engine
from wiesel.lfs.engines.pieces import Piece
from wiesel.nn import MLP
from wiesel.project import predicting
from wiesel.training import RayTrain
from wiesel.training.history import watching

pytestmark = TRAINING_ON_RAY

LABELS = LabelSpace("ham", "spam")
TWO = RayTrain(workers=2)
PATIENCE = 900
"""Seconds that work waits for the test before it gives up."""


def wait_in(folder: str) -> None:
    """Say on which node this is, and wait until a node is lost."""
    import ray

    Path(folder, f"on-{ray.get_runtime_context().get_node_id()}").touch()
    until = time.monotonic() + PATIENCE
    while not Path(folder, "go").exists() and time.monotonic() < until:
        time.sleep(0.05)


class PatientVectors(vector_files.WriteVectors):
    def __call__(self, piece: Any, rows: pl.DataFrame) -> bytes:
        wait_in(str(Path(self.target).parent / "features"))
        return super().__call__(piece, rows)


class PatientPredictions(predicting.PredictJob):
    def __call__(self, piece: Any, rows: pl.DataFrame) -> bytes:
        wait_in(str(Path(self.folder).parent / "predict"))
        return super().__call__(piece, rows)


class DeadlyJob:
    columns = None

    def __call__(self, piece: Any, rows: pl.DataFrame) -> bytes:
        os._exit(3)


class PatientNetwork(nn.Module):
    """Waits in its second epoch."""

    def __init__(self, n_features: int, folder: str, n_batches: int) -> None:
        super().__init__()
        self.layer = nn.Linear(n_features, 2)
        self.folder, self.n_batches, self.n_seen = folder, n_batches, 0

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        if self.training and self.folder:
            self.n_seen += 1
            if self.n_seen > self.n_batches:
                wait_in(self.folder)
        return self.layer(values)


class TwoNodes:
    """A cluster whose second node can be lost, and comes back."""

    def __init__(self, cluster: Any) -> None:
        self._own = cluster

    def both(self) -> Any:
        """The cluster, with its second node added again if it was lost."""
        if not self._own.worker_nodes:
            added_node(self._own, num_cpus=1)
        return self._own

    @contextmanager
    def losing_one(self, notes: Path) -> Iterator[None]:
        """Kill the second node when it is at work, then let the work go on."""
        lost = next(iter(self.both().worker_nodes))
        notes.mkdir()
        stopped = threading.Event()

        def kill() -> None:
            while not (notes / f"on-{lost.node_id}").exists() and not stopped.wait(0.05):
                pass
            self._own.remove_node(lost, allow_graceful=False)
            (notes / "go").touch()

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            yield
        finally:
            stopped.set()
            killer.join()
        assert (notes / f"on-{lost.node_id}").exists()


@pytest.fixture(scope="module")
def nodes() -> Iterator[TwoNodes]:
    import ray

    # The workers of a training find room on the first node when the second is lost.
    with connected_cluster(n_nodes=1, num_cpus=2) as cluster:
        ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
        try:
            yield TwoNodes(cluster)
        finally:
            ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.fixture
def cluster(nodes: TwoNodes) -> Any:
    """A cluster of two nodes, to which this process is connected."""
    return nodes.both()


@pytest.fixture(scope="module")
def task() -> Any:
    votes, gold = make_votes(150, n_voters=5, coverage=0.7, seed=3)
    return make_features(gold, n_features=5, seed=3).astype(np.float32), votes, gold


def assert_same_history(here: Any, there: Any) -> None:
    assert len(here) == len(there) > 0
    for one, other in zip(here.records, there.records, strict=True):
        assert one.keys() == other.keys()
        for name in one:
            np.testing.assert_allclose(other[name], one[name], rtol=1e-3, atol=1e-3)


@pytest.mark.usefixtures("cluster")
def test_the_default_trains_what_one_process_trains(task: Any):
    X, votes, gold = task
    options = {"epochs": 4, "lr": 0.02, "epoch_size": None, "networks": 1, "batch_size": 48}
    torch.manual_seed(1)
    network, validation = MLP(5, 2, hidden=(16,)), (X[:40], gold[:40])
    here, model = (Committee(network, **options) for _ in range(2))
    seen_here: list[Any] = []
    seen: list[Any] = []
    with watching(lambda record: seen_here.append(record["epoch"])):
        here.fit(X, votes, validation)
    with watching(lambda record: seen.append(record["epoch"])):
        model.fit(X, votes, validation, engine=TWO)
    # The networks that learn votes are one stack; what learns gold comes after it.
    assert seen[:4] == [1, 2, 3, 4]
    assert seen == seen_here
    assert len(model.members_) == len(here.members_)
    for one, other in zip(here.members_, model.members_, strict=True):
        assert_same_history(one.history_, other.history_)
    np.testing.assert_allclose(model.predict_proba(X), here.predict_proba(X), atol=0.01)
    assert model.end_model_.training is False


@pytest.mark.usefixtures("cluster")
def test_what_cannot_be_is_refused_before_anything_runs(task: Any):
    X, votes, _ = task
    network = nn.Linear(5, 2)
    with pytest.raises(ParameterError, match="50 workers need 50 CPUs; the cluster has 3"):
        TwoStage(MajorityVote(), network).fit(X, votes, engine=RayTrain(workers=50))

    class WithLock:
        def __init__(self) -> None:
            self.lock = threading.Lock()

        def __len__(self) -> int:
            return len(X)

        def __getitem__(self, row: int) -> Any:
            with self.lock:
                return torch.from_numpy(X[row])

    with pytest.raises(FeatureError, match=r"X cannot be sent to the workers: .*lock"):
        TwoStage(MajorityVote(), network).fit(WithLock(), votes, engine=TWO)


@pytest.mark.usefixtures("cluster")
def test_a_saved_model_predicts_every_row_of_many_files_once(tmp_path: Path):
    texts = [f"{'free prize' if n % 3 == 0 else 'see you'} number {n % 7}" for n in range(60)]
    rows = pl.DataFrame({"mail": [f"m{n}" for n in range(60)], "text": texts})
    rows[:40].write_parquet(tmp_path / "rows-a.parquet")
    rows[40:].write_parquet(tmp_path / "rows-b.parquet")
    dense = np.array([[n % 3 == 0, n % 3 == 0, n % 3 != 1] for n in range(60)], dtype=np.int64)
    votes = VoteMatrix.from_dense(dense, LabelSpace("ham", "spam"))
    features = TextFeatures(min_count=1).fit(texts)
    X = features.transform(texts)
    options = {"epochs": 2, "lr": 0.05, "epoch_size": None}
    model = TwoStage(MajorityVote(), MLP(X.shape[1], 2, hidden=(4,)), **options).fit(X, votes)
    model.save(tmp_path / "model", features=features)
    counts = predicting.predict_on_ray(
        tmp_path / "model", tmp_path / "rows-*.parquet", tmp_path / "out", "mail", part_rows=16
    )
    files = sorted((tmp_path / "out").iterdir())
    assert [file.name for file in files] == [f"part-0000000{k}.parquet" for k in range(5)]
    found = pl.concat([pl.read_parquet(file) for file in files])
    assert found["id"].to_list() == rows["mail"].to_list()
    assert found["prediction"].to_list() == model.predict(X).tolist()
    assert counts == dict(found["prediction"].value_counts().rows())
    with pytest.raises(DataError, match="eggs"):
        predicting.predict_on_ray(
            tmp_path / "model", tmp_path / "rows-*.parquet", tmp_path / "no", "eggs"
        )
    assert not (tmp_path / "no").exists()


def test_the_python_of_the_how_to_page_runs_as_a_script(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    page = Path(__file__).parents[2] / "docs" / "how-to" / "scale-out.md"
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) > 3
    (tmp_path / "script.py").write_text("\n".join(blocks))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    # In this process: another one would load Ray and torch again.
    with disconnected(cluster):
        runpy.run_path("script.py", run_name="__main__")
    assert "VoteParts(5 parts, 200 items x 4 voters, 2 classes)" in capsys.readouterr().out


def test_a_part_that_ends_its_process_is_tried_again_and_then_reported(
    nodes: TwoNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    assert nodes
    monkeypatch.setattr(ray_engine, "_RETRIES", 1)
    pl.DataFrame({"n": range(3)}).write_parquet(tmp_path / "rows.parquet")
    piece = Piece(number=0, file=str(tmp_path / "rows.parquet"), first=0, count=3, start=0)
    with pytest.raises(DataError, match="in 2 attempts"):
        list(ray_engine.done_on_ray(DeadlyJob(), [piece]))


def test_a_lost_node_in_every_stage_changes_nothing(
    nodes: TwoNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    texts = [f"{'free prize' if n % 3 == 0 else 'see you'} number {n % 7}" for n in range(60)]
    frame = pl.DataFrame({"id": [f"m{n}" for n in range(60)], "text": texts})
    frame[:40].write_parquet(tmp_path / "rows-a.parquet")
    frame[40:].write_parquet(tmp_path / "rows-b.parquet")
    rows = tmp_path / "rows-*.parquet"
    rules = [keywords("spam", ["free"], column="text"), keywords("ham", ["see"], column="text")]
    votes = apply_lfs(rules, rows, labels=LABELS, ids="id")

    monkeypatch.setattr(vector_files, "WriteVectors", PatientVectors)
    with nodes.losing_one(tmp_path / "features"):
        features = write_text_features(
            TextFeatures(min_count=1, n_dimensions=4),
            rows,
            tmp_path / "X.npy",
            engine="ray",
            part_rows=8,
        )
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    np.testing.assert_allclose(X, features.transform(texts), atol=1e-4)
    expected = TextFeatures(min_count=1, n_dimensions=4).fit(texts)
    assert features.weights_ is not None
    assert expected.weights_ is not None
    assert features.weights_.terms == expected.weights_.terms
    np.testing.assert_allclose(features.weights_.idf, expected.weights_.idf, rtol=1e-5)

    options = {"epochs": 3, "lr": 0.05, "batch_size": 20, "epoch_size": None}

    def trained(folder: str, checkpoint: Path | None, engine: RayTrain | None) -> Any:
        torch.manual_seed(1)
        network = PatientNetwork(X.shape[1], folder, n_batches=3)
        model = TwoStage(MajorityVote(), network, **options, checkpoint=checkpoint)
        return model.fit(X, votes, engine=engine)

    alone = trained("", None, None)
    seen = []
    with (
        nodes.losing_one(tmp_path / "train"),
        watching(lambda record: seen.append(record["epoch"])),
    ):
        shared = trained(str(tmp_path / "train"), tmp_path / "checkpoint", RayTrain(workers=2))
    assert seen == [1, 2, 3]
    for one, other in zip(alone.history_.records, shared.history_.records, strict=True):
        assert other["loss_end_model"] == pytest.approx(one["loss_end_model"], abs=1e-3)

    small = TwoStage(MajorityVote(), MLP(X.shape[1], 2, hidden=(4,)), **options).fit(X, votes)
    small.save(tmp_path / "model", features=features)
    monkeypatch.setattr(predicting, "PredictJob", PatientPredictions)
    with nodes.losing_one(tmp_path / "predict"):
        counts = predicting.predict_on_ray(
            tmp_path / "model", rows, tmp_path / "out", "id", part_rows=8
        )
    found = pl.concat([pl.read_parquet(file) for file in sorted((tmp_path / "out").iterdir())])
    assert found["id"].to_list() == frame["id"].to_list()
    assert found["prediction"].to_list() == load_model(tmp_path / "model").predict(texts).tolist()
    assert sum(counts.values()) == 60
