"""What all methods for crowds share: posteriors, explanations, thousands of workers."""

import numpy as np
import pytest
import torch
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
    VoteMatrix,
    load_model,
    summarize,
)
from wiesel.datasets.synthetic import make_features, make_votes
from wiesel.end_to_end.crowd import crowd_model, voter_models
from wiesel.end_to_end.crowd.voter_models import VoterMatrices, in_parts, matrix_rank
from wiesel.end_to_end.vote_payloads import DensePayload, EntryPayload, vote_entries
from wiesel.errors import FeatureError, VoteError
from wiesel.training import as_inputs

CPU = torch.device("cpu")
METHODS = [MaxMIG, CrowdLayer, DoctorNet, MBEM, AggNet, Raykar, ConfusionNet, CoNAL]


def test_sparse_batches_hold_the_votes_of_dense_ones():
    X, votes, _ = tiny_task()
    rows = np.array([5, 0, 17, 3])
    dense = DensePayload(votes, as_inputs(X)).gather(rows, torch.empty(0), CPU).votes
    entries = EntryPayload(votes).gather(rows, torch.empty(0), CPU)
    rebuilt = torch.zeros_like(dense)
    rebuilt[entries.items, entries.voters, entries.classes] = entries.mass
    assert torch.equal(dense, rebuilt)
    assert torch.equal(entries.counts(2), dense.sum(dim=1))
    middle = entries.part(1, 3)
    assert torch.equal(middle.counts(2), dense.sum(dim=1)[1:3])


def test_probabilistic_votes_are_entries_with_a_mass():
    votes = VoteMatrix.from_proba([[[0.75, 0.25], [0, 0]]], ["a", "b"])
    entries = vote_entries(votes.one_hot(), 2)
    assert entries.mass.tolist() == [0.75, 0.25]
    assert entries.voters.tolist() == [0, 0]


def test_soft_labels_follow_bayes_rule():
    X, votes, _ = tiny_task()
    model = Raykar(linear(), **ONE_PASS, epochs=4, lr=0.05).fit(X, votes)
    joint, confusions = np.log(model.predict_proba(X)), model.confusions()
    for item, voter, voted in zip(
        votes.item_index, votes.voter_index, votes.class_index, strict=True
    ):
        joint[item] += np.log(confusions[voter, :, voted])
    expected = np.exp(joint) / np.exp(joint).sum(axis=1, keepdims=True)
    assert np.allclose(model.soft_labels(X, votes), expected, atol=1e-5)


def test_an_explanation_adds_up_to_the_log_odds_of_the_votes():
    X, votes, _ = tiny_task()
    model = AggNet(linear(), **ONE_PASS, epochs=4, lr=0.05).fit(X, votes)
    item = int(votes.votes_per_item.argmax())
    found = model.explain(X[item], votes[item])
    index = votes.labels.index(found.label)
    odds = np.log(found.soft_label[index] / found.soft_label[1 - index])
    prior = np.log(found.end_proba[index] / found.end_proba[1 - index])
    assert sum(push.effect for push in found.pushes) == pytest.approx(odds - prior, abs=1e-4)
    assert f"Item {item}" in str(found)


def test_accuracies_are_those_that_the_summary_shows():
    X, votes, _ = tiny_task()
    model = CrowdLayer(linear(), **ONE_PASS, epochs=2, lr=0.05).fit(X, votes)
    shown = summarize(votes, label_model=model).frame["learned"].to_numpy()
    assert np.allclose(shown, model.voter_accuracies())


def test_unknown_voters_and_lengths_are_refused():
    X, votes, _ = tiny_task()
    model = Raykar(linear(), **ONE_PASS, epochs=1).fit(X, votes)
    with pytest.raises(VoteError, match="voter_3"):
        model.soft_labels(X, votes.select(votes.voters[:3]))
    with pytest.raises(FeatureError, match="47"):
        model.soft_labels(X[:47], votes)
    with pytest.raises(VoteError, match="voter_3"):
        model.confusions(["voter_33"])


def test_matrices_are_factorized_where_they_would_be_too_many():
    assert matrix_rank(1000, 100, None) is None
    assert matrix_rank(10_000, 100**2, None) == 8
    assert matrix_rank(10, 100, 3) == 3
    matrices = VoterMatrices(10_000, torch.eye(100), rank=8)
    assert sum(p.numel() for p in matrices.parameters()) < 10_000 * 100**2 / 10


MANY = {cls.__name__: (cls, {}) for cls in METHODS} | {
    "UnionNet": (ConfusionNet, {"structure": "union"}),
    "WDN": (DoctorNet, {"variant": "WDN"}),
    "BIWDN": (DoctorNet, {"variant": "BIWDN"}),
}


@pytest.fixture(scope="module")
def ten_thousand_workers() -> tuple[VoteMatrix, np.ndarray]:
    """Votes and gold labels; drawing them takes longer than training."""
    return make_votes(100, 10_000, n_classes=4, coverage=3e-4, seed=0)


@pytest.mark.parametrize("name", MANY)
def test_ten_thousand_workers_take_little_memory(name: str, ten_thousand_workers):
    """A batch of dense votes would be 64 x 10,000 x 4 x 4 bytes = 10 MB, as would a copy."""
    votes, gold = ten_thousand_workers
    X = make_features(gold, 4)
    cls, options = MANY[name]
    model = cls(linear(4, 4), **ONE_PASS, epochs=1, lr=0.01, **options)
    with LargestTensor() as largest:
        model.fit(X, votes)
    numbers = sum(p.numel() for p in model.voter_model_.state_dict().values())
    assert numbers < 10_000 * 4 * 16
    # A doctor has an opinion on every item, so these alone look at all of them.
    assert 0 < largest.n_bytes < (20e6 if cls is DoctorNet else 10e6)
    assert model.voter_accuracies().shape == (10_000,)
    assert np.allclose(model.soft_labels(X, votes).sum(axis=1), 1)


@pytest.fixture(scope="module")
def many_workers_and_classes() -> tuple[VoteMatrix, np.ndarray]:
    """The same with many classes."""
    return make_votes(40, 250, n_classes=100, coverage=0.02, seed=0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::wiesel.errors.WieselWarning")
@pytest.mark.parametrize("name", MANY)
def test_many_workers_times_many_classes_never_stand_in_memory_at_once(
    name: str, many_workers_and_classes, monkeypatch: pytest.MonkeyPatch
):
    """Full matrices would be 250 x 100 x 100 x 4 bytes = 10 MB, and as much for gradients."""
    # An eighth of the workers, and of what may be in memory.
    monkeypatch.setattr(voter_models, "_MOST_NUMBERS", voter_models._MOST_NUMBERS // 8)
    monkeypatch.setattr(crowd_model, "_NUMBERS_AT_ONCE", crowd_model._NUMBERS_AT_ONCE // 8)
    votes, gold = many_workers_and_classes
    X = make_features(gold, 4)
    cls, options = MANY[name]
    with LargestTensor() as largest:
        model = cls(linear(4, 100), **ONE_PASS, epochs=1, lr=0.01, **options).fit(X, votes)
        model.soft_labels(X, votes)
        model.voter_accuracies()
    assert 0 < largest.n_bytes <= 4 * 2**24 / 8


def test_parts_give_the_value_and_the_gradient_of_the_whole():
    weights = torch.arange(12.0).view(6, 2).requires_grad_()
    whole = in_parts(torch.exp, 1, weights)
    parts = in_parts(torch.exp, 2**23, weights)  # two rows at a time
    assert torch.equal(whole, parts)
    gradients = [torch.autograd.grad(value.sum(), weights)[0] for value in (whole, parts)]
    assert torch.equal(*gradients)


def test_matrices_of_more_than_sixteen_million_numbers_have_a_low_rank():
    assert matrix_rank(2**22, 4, None) is None
    assert matrix_rank(2**22 + 1, 4, None) == 8
    assert matrix_rank(2**22 + 1, 4, 3) == 3


def test_factors_times_vectors_are_the_matrices_times_vectors():
    matrices = VoterMatrices(5, torch.randn(3, 4), rank=2)
    torch.nn.init.normal_(matrices.left)
    vectors, voters = torch.randn(6, 4), torch.tensor([4, 0])
    expected = torch.einsum("nd,jcd->njc", vectors, matrices(voters))
    assert torch.allclose(matrices.times(vectors, voters), expected, atol=1e-5)


@pytest.mark.filterwarnings("ignore::wiesel.errors.WieselWarning")
@pytest.mark.parametrize("cls", METHODS)
def test_voters_of_an_ensemble_are_what_its_members_say_on_average(cls, tmp_path):
    X, votes, _ = tiny_task()
    model = cls(linear(), **ONE_PASS, epochs=1, lr=0.01, members=2).fit(X, votes)
    each = [member.confusions() for member in model.members_]
    assert len(each) == 2
    assert np.allclose(model.confusions(), np.mean(each, axis=0))
    balances = [member.class_balance_ for member in model.members_]
    assert np.allclose(model.class_balance_, np.mean(balances, axis=0))
    assert model.class_balance_.sum() == pytest.approx(1)
    evidence = [member._log_votes(X, votes) for member in model.members_]
    assert np.allclose(model._log_votes(X, votes), np.mean(evidence, axis=0), atol=1e-5)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model", end_model=linear())
    assert np.allclose(loaded.soft_labels(X, votes), model.soft_labels(X, votes))
    assert np.allclose(loaded.voter_accuracies(), model.voter_accuracies())
