"""What `RayTrain` refuses without a cluster, and how inputs travel."""

import pickle
import sys

import numpy as np
import pytest
import torch
from torch import nn

from wiesel import CrowdLayer, MajorityVote, TwoStage
from wiesel.datasets.synthetic import make_features, make_votes
from wiesel.errors import FeatureError, MissingExtraError, ParameterError
from wiesel.training import RayTrain, as_inputs


@pytest.fixture
def task():
    votes, gold = make_votes(40, n_voters=4, coverage=0.9)
    return make_features(gold, n_features=3), votes


def test_without_ray_the_extra_is_named(task, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'wiesel\[ray\]'"):
        TwoStage(MajorityVote(), nn.Linear(3, 2)).fit(*task, engine=RayTrain())


def test_more_workers_than_items_of_a_batch_are_refused(task):
    pytest.importorskip("ray.train")
    model = TwoStage(MajorityVote(), nn.Linear(3, 2), batch_size=4)
    with pytest.raises(ParameterError, match="5 workers cannot share batches of 4 items"):
        model.fit(*task, engine=RayTrain(workers=5))


def test_methods_whose_batches_cannot_be_shared_are_refused(task):
    with pytest.raises(ParameterError, match="CrowdLayer cannot be trained by several workers"):
        CrowdLayer(nn.Linear(3, 2)).fit(*task, engine=RayTrain())


def test_the_name_of_an_engine_is_refused(task):
    with pytest.raises(ParameterError, match=r"RayTrain\(workers=2\); got 'ray'"):
        TwoStage(MajorityVote(), nn.Linear(3, 2)).fit(*task, engine="ray")


def test_a_number_of_workers_is_checked():
    with pytest.raises(ParameterError, match="'workers'"):
        RayTrain(workers=0)


def test_a_memory_map_travels_as_its_file(tmp_path):
    np.save(tmp_path / "X.npy", np.arange(40, dtype=np.float32).reshape(20, 2))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")[5:]
    content = pickle.dumps(as_inputs(mapped))
    assert str(tmp_path / "X.npy").encode() in content
    rows = np.array([3, 0])
    there = pickle.loads(content)  # noqa: S301
    assert there.take(rows).tolist() == [[16, 17], [10, 11]]
    (tmp_path / "X.npy").unlink()
    with pytest.raises(FeatureError, match="Put it on storage that all machines share"):
        pickle.loads(content)  # noqa: S301


def test_tensors_and_arrays_arrive_as_they_were():
    for values in (torch.arange(6.0).view(3, 2), np.arange(6.0).reshape(3, 2)):
        there = pickle.loads(pickle.dumps(as_inputs(values)))  # noqa: S301
        assert there.take(np.array([1])).tolist() == [[2, 3]]
