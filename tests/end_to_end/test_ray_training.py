"""Training on a real Ray cluster on this machine; nodes are lost in test_ray_pipeline.py."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from ray_nodes import TRAINING_ON_RAY, connected_cluster
from torch import nn

from wiesel import (
    Committee,
    LabelSpace,
    MajorityVote,
    TextFeatures,
    TwoStage,
    VoteMatrix,
)
from wiesel.datasets.synthetic import make_features, make_votes
from wiesel.errors import DataError, FeatureError, ParameterError
from wiesel.nn import MLP
from wiesel.project.ray_predictions import predict_on_ray
from wiesel.training import RayTrain
from wiesel.training.progress import watching

pytestmark = TRAINING_ON_RAY

TWO = RayTrain(workers=2)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster to which this process is connected."""
    with connected_cluster(n_nodes=1, num_cpus=4) as own:
        yield own


@pytest.fixture(scope="module")
def task() -> Any:
    votes, gold = make_votes(150, n_voters=5, coverage=0.7, seed=3)
    return make_features(gold, n_features=5, seed=3).astype(np.float32), votes, gold


def assert_same_history(here: Any, there: Any) -> None:
    assert len(here) == len(there) > 1
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
    here = Committee(network, **options).fit(X, votes, validation)
    model = Committee(network, **options)
    seen: list[Any] = []
    with watching(lambda record: seen.append(record["epoch"])):
        model.fit(X, votes, validation, engine=TWO)
    # The networks that read votes are one stack, those that learn from gold another.
    assert seen == [1, 2, 3, 4] * 2
    assert [len(member.history_) for member in model.members_] == [4] * len(here.members_)
    for one, other in zip(here.members_, model.members_, strict=True):
        assert_same_history(one.history_, other.history_)
    np.testing.assert_allclose(model.predict_proba(X), here.predict_proba(X), atol=0.01)
    assert model.end_model_.training is False


@pytest.mark.usefixtures("cluster")
def test_what_cannot_be_is_refused_before_anything_runs(task: Any):
    X, votes, _ = task
    network = nn.Linear(5, 2)
    with pytest.raises(ParameterError, match="50 workers need 50 CPUs; the cluster has 4"):
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
    counts = predict_on_ray(
        tmp_path / "model", tmp_path / "rows-*.parquet", tmp_path / "out", "mail", part_rows=16
    )
    files = sorted((tmp_path / "out").iterdir())
    assert [file.name for file in files] == [f"part-0000000{k}.parquet" for k in range(5)]
    found = pl.concat([pl.read_parquet(file) for file in files])
    assert found["id"].to_list() == rows["mail"].to_list()
    assert found["prediction"].to_list() == model.predict(X).tolist()
    assert counts == dict(found["prediction"].value_counts().rows())
    with pytest.raises(DataError, match="eggs"):
        predict_on_ray(tmp_path / "model", tmp_path / "rows-*.parquet", tmp_path / "no", "eggs")
    assert not (tmp_path / "no").exists()
