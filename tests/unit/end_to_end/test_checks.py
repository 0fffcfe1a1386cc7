"""Inputs that a network cannot read: what is wrong, and what to do."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset

from wiesel import (
    Committee,
    CrowdLayer,
    MajorityVote,
    TwoStage,
    VoteMatrix,
    WeaSEL,
    load_model,
)
from wiesel.datasets.synthetic import make_features, make_votes
from wiesel.errors import FeatureError, SavedModelError, TrainingError
from wiesel.nn import LSTM, Linear
from wiesel.training.inputs import as_inputs, is_matrix

VOTES, GOLD = make_votes(60, n_voters=4)
X = make_features(GOLD, n_features=4)
# Steps that are large enough for any initial weights.
QUICK = {"epochs": 1, "epoch_size": 640, "lr": 0.3, "weight_average": None, "progress": False}


def two_stage(net: nn.Module) -> TwoStage:
    return TwoStage(MajorityVote(), net, **QUICK)


def conv() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 2, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 2))


@pytest.mark.parametrize("kind", [two_stage, WeaSEL, Committee], ids=["two", "weasel", "committee"])
def test_a_network_for_another_width_is_refused_in_our_words(kind):
    with pytest.raises(FeatureError, match=r"X has 4 features, and the first layer.*takes 7") as e:
        kind(nn.Linear(7, 2)).fit(X, VOTES)
    assert "mat1" not in str(e.value)


def test_the_validation_set_is_named():
    with pytest.raises(FeatureError, match=r"cannot read validation X: X has 3 features"):
        two_stage(nn.Linear(4, 2)).fit(X, VOTES, validation=(X[:, :3], GOLD))


def test_a_fitted_model_refuses_another_width():
    model = two_stage(nn.Linear(4, 2)).fit(X, VOTES)
    with pytest.raises(FeatureError, match=r"X has 3 features, but TwoStage is expecting 4"):
        model.predict(X[:, :3])
    with pytest.raises(FeatureError, match=r"items x features.*got \(4,\).*X.reshape\(1, -1\)"):
        model.predict(X[0])
    with pytest.raises(FeatureError, match=r"items x features.*got a dict"):
        model.predict({"x": X})
    assert model.predict(X[:0]).shape == (0,)


@pytest.mark.parametrize(
    ("net", "values", "words"),
    [
        (conv(), np.zeros((60, 3, 8, 8), np.uint8), r"whole numbers.*X.astype\('float32'\) / 255"),
        (nn.Linear(4, 2), X.astype(int), r"whole numbers.*X.astype\('float32'\)\.$"),
        (conv(), np.zeros((60, 8, 8, 3), np.float32), r"8 channels.*X.transpose\(0, 3, 1, 2\)"),
        (conv(), np.zeros((60, 1, 8, 8), np.float32), r"1 channels.*first layer takes 3\.$"),
        (nn.Linear(4, 2), X[:, 0], r"one number for each item. Reshape your data"),
    ],
    ids=["uint8", "counts", "channels last", "gray", "one number"],
)
def test_what_people_get_wrong_most_often_has_a_cure(net: nn.Module, values, words: str):
    with pytest.raises(FeatureError, match=words):
        two_stage(net).fit(values, VOTES)


def test_anything_else_is_told_as_the_network_said_it():
    net = LSTM(5, 2)
    with pytest.raises(FeatureError, match=r"cannot read X: \w+: .*an item of X is of the shape"):
        two_stage(net).fit(X, VOTES)


def test_votes_in_the_place_of_features_are_noticed():
    with pytest.raises(FeatureError, match=r"X must be features, not votes: fit\(X, votes\)"):
        two_stage(nn.Linear(4, 2)).fit(VOTES, VOTES)


class Items(Dataset):
    """A Dataset of whatever items."""

    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, row):
        return self.items[row]


def test_a_dataset_of_vectors_is_as_good_as_an_array():
    data = Items([(torch.tensor(row), 1) for row in X])
    assert is_matrix(as_inputs(data))
    model = WeaSEL(Linear(4, 2), warm_up=0, **QUICK).fit(data, VOTES)
    assert model.n_features_in_ == 4
    assert np.allclose(model.predict_proba(data), model.predict_proba(X), atol=1e-6)


def test_a_dataset_without_vectors_says_what_it_has():
    assert not is_matrix(as_inputs(Items([torch.zeros(2, 2)] * 3)))
    with pytest.raises(FeatureError, match=r"fit\(..., encoder_X=...\)"):
        WeaSEL(nn.Sequential(nn.Flatten(), nn.Linear(4, 2))).fit(
            Items([torch.zeros(2, 2)] * 60), VOTES
        )
    with pytest.raises(FeatureError, match=r"a dict of \{'text': str\}.*wiesel.TextFeatures"):
        as_inputs(Items([{"text": "a mail"}] * 3))
    with pytest.raises(FeatureError, match=r"got str.*wiesel.TextFeatures"):
        as_inputs(Items(["a mail"] * 3))


def test_numbers_in_an_array_of_objects_are_numbers():
    assert len(as_inputs(X.astype(object))) == 60
    with pytest.raises(FeatureError, match="array of numbers"):
        as_inputs(np.array([["a", "b"]], dtype=object))


# Two items are too few to learn both classes from, and a warning says so.
@pytest.mark.filterwarnings("ignore::wiesel.errors.WieselWarning")
@pytest.mark.parametrize("n_items", [2, 1])
def test_few_items_are_learned_from_or_refused_in_a_sentence(n_items: int):
    votes = VoteMatrix.from_dense([[0, 0, 0], [1, 1, 1]][:n_items], ["ham", "spam"])
    for model in (two_stage(Linear(4, 2)), Committee(Linear(4, 2), networks=1, **QUICK)):
        if n_items == 2:
            assert model.fit(X[:2], votes).predict(X[:2]).shape == (2,)
            continue
        with pytest.raises(ValueError, match="training needs at least two"):
            model.fit(X[:1], votes)


def test_images_for_a_network_of_vectors_name_both_shapes_and_the_cure():
    X = np.zeros((20, 3, 4, 4), dtype=np.float32)
    votes, _ = make_votes(20, 3)
    with pytest.raises(FeatureError, match=r"the shape \(3, 4, 4\).*takes a vector.*48 features"):
        TwoStage(MajorityVote(), Linear(3, 2), epochs=1).fit(X, votes)


@pytest.mark.parametrize("kind", [two_stage, WeaSEL, CrowdLayer, Committee])
@pytest.mark.parametrize("net", [nn.Flatten(), nn.Linear(4, 2).requires_grad_(False)])
def test_a_network_without_weights_to_train_is_refused(kind, net):
    narrow = X[:, :2] if isinstance(net, nn.Flatten) else X
    with pytest.raises(TrainingError, match="nothing to train"):
        kind(net).fit(narrow, VOTES)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_weights_of_another_precision_are_refused_with_the_cure(dtype):
    with pytest.raises(FeatureError, match=rf"weights are {dtype}.*net\.float\(\)"):
        two_stage(nn.Linear(4, 2).to(dtype)).fit(X, VOTES)


def test_a_committee_trains_lazy_networks(tmp_path):
    lazy = nn.Sequential(nn.LazyLinear(3), nn.LazyLinear(2))
    members = [two_stage(lazy), two_stage(lazy)]
    model = Committee(lazy, members=members).fit(X, VOTES)
    assert model.predict_proba(X).shape == (60, 2)
    assert isinstance(lazy[0], nn.LazyLinear)
    model.save(tmp_path / "model")
    with pytest.raises(SavedModelError, match="call the module once"):
        load_model(tmp_path / "model", end_model=lazy)


@pytest.mark.filterwarnings("ignore")  # torch calls its compiled modules deprecated
def test_a_committee_trains_compiled_networks():
    compiled = torch.jit.script(nn.Linear(4, 2))
    model = Committee(compiled, members=[two_stage(compiled), two_stage(compiled)])
    assert model.fit(X, VOTES).predict_proba(X).shape == (60, 2)
