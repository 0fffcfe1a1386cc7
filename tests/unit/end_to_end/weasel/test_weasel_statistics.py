"""Statistics of two voters in WeaSEL: what they add to the soft label, and that they help."""

import copy
import itertools
import pickle

import numpy as np
import pytest
import torch
from scipy.special import softmax
from sklearn.base import clone
from tiny_task import linear, tiny_task, weasel
from torch import Tensor, nn

from wiesel import Fixes, MajorityVote, Prioritizes, Reinforces, VoteMatrix, WeaSEL, load_model
from wiesel.datasets.synthetic import make_features
from wiesel.errors import ParameterError

ALL = [Fixes("a", "b"), Prioritizes("a", "b"), Reinforces("a", "b")]
# Both differ, both agree, only a, only b.
VOTES = VoteMatrix.from_dense([[0, 1], [1, 1], [0, -1], [-1, 1]] * 2, ["no", "yes"], ["a", "b"])
X = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)


class FixedScores(nn.Module):
    """An encoder with weights set by hand."""

    def __init__(self, scores: list[float]) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.tensor(scores), requires_grad=False)

    def forward(self, encoded: Tensor) -> Tensor:
        return self.scores.expand(len(encoded), -1)


def by_hand(statistics, weights: list[float], **options) -> WeaSEL:
    """A model whose accuracies are these weights (relu adds 1e-5)."""
    encoder = FixedScores([weight - 1e-5 for weight in weights])
    return weasel(
        encoder=encoder, statistics=statistics, activation="relu", epochs=1, **options
    ).fit(X, VOTES)


@pytest.mark.parametrize(
    ("statistic", "added"),
    [
        # What w adds to the logits of the four kinds of items.
        (Fixes("a", "b"), [[1, -1], [0, 0], [0, 0], [0, 0]]),
        (Prioritizes("a", "b"), [[1, 0], [0, 1], [0, 0], [0, 0]]),
        (Reinforces("a", "b"), [[0, 0], [0, 1], [0, 0], [0, 0]]),
        (Prioritizes("b", "a"), [[0, 1], [0, 1], [0, 0], [0, 0]]),
    ],
)
def test_the_soft_label_equals_the_formula(statistic, added):
    a, b, w = 0.4, 0.7, 1.3
    plain = np.array([[a, b], [0, a + b], [a, 0], [0, b]])
    expected = softmax(plain + w * np.array(added), axis=1)
    model = by_hand([statistic], [a, b, w])
    assert np.allclose(model.soft_labels(X, VOTES)[:4], expected, atol=1e-6)
    assert np.allclose(model.accuracies(X, VOTES), [a, b, w], atol=1e-6)


def test_several_statistics_add_up_and_an_explanation_counts_them():
    model = by_hand(ALL, [0.4, 0.7, 1.0, 0.5, 0.25])
    found = model.soft_labels(X, VOTES)[0]
    # a says no and b says yes: no gets 0.4 + 1 + 0.5, yes 0.7 - 1.
    assert np.allclose(found, softmax([1.9, -0.3]), atol=1e-6)
    explained = model.explain(X[0], VOTES[0])
    effects = {push.voter: abs(push.effect) for push in explained.pushes}
    assert effects["a"] == pytest.approx(0.4 + 2 * 1.0 + 0.5, abs=1e-5)
    assert effects["b"] == pytest.approx(0.7, abs=1e-5)


def test_where_one_voter_abstains_nothing_is_added():
    model = by_hand(ALL, [0.4, 0.7, 1.0, 0.5, 0.25])
    without = by_hand([], [0.4, 0.7])
    assert np.array_equal(model.soft_labels(X, VOTES)[2:4], without.soft_labels(X, VOTES)[2:4])


class OneWeight(nn.Module):
    """An encoder with a single learned weight for each column, the same for all items."""

    def __init__(self, n_columns: int) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.zeros(n_columns))

    def forward(self, encoded: Tensor) -> Tensor:
        return self.scores.expand(len(encoded), -1)


def planted(seed: int):
    """b is wrong exactly where a votes too; a is right there, and guesses where b is silent."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(2, size=800)
    a_votes, b_votes = rng.random(800) < 0.5, rng.random(800) < 0.6
    a = np.where(rng.random(800) < np.where(b_votes, 0.95, 0.5), gold, 1 - gold)
    b = np.where(a_votes, 1 - gold, gold)
    columns = [np.where(a_votes, a, -1), np.where(b_votes, b, -1)]
    columns += [np.where(rng.random(800) < 0.7, gold, 1 - gold) for _ in range(3)]
    return VoteMatrix.from_dense(np.stack(columns, axis=1), ["no", "yes"], list("abcde")), gold


@pytest.mark.parametrize("kind", [Fixes, Prioritizes])
def test_a_statistic_helps_where_b_is_wrong_when_a_votes(kind):
    right: dict[int, list[float]] = {0: [], 1: []}
    for seed, statistics in itertools.product(range(2), ([], [kind("a", "b")])):
        votes, gold = planted(seed)
        features = make_features(gold, n_features=3, separation=1.5, seed=seed)
        model = WeaSEL(
            linear(seed=seed),
            encoder=OneWeight(5 + len(statistics)),
            statistics=statistics,
            tau_2=6.0,
            voting_only=False,
            start=MajorityVote(),
            warm_up=2,
            **{"epochs": 10, "epoch_size": 800, "lr": 0.03, "weight_average": None, "seed": seed},
        ).fit(features, votes)
        labels = model.soft_labels(features, votes).argmax(axis=1)
        right[len(statistics)].append((labels == gold).mean())
    assert np.mean(right[1]) > np.mean(right[0]) + 0.03


@pytest.mark.parametrize(
    "options",
    [{}, {"encoder": "graph"}, {"class_conditional": True}, {"encoding": "signed"}],
    ids=str,
)
def test_models_with_statistics_train_and_come_back_from_a_file(options, tmp_path):
    X, votes, _ = tiny_task()
    statistics = [Fixes("voter_0", "voter_1"), Reinforces("voter_2", "voter_0")]
    model = weasel(statistics=statistics, voting_only=True, **options).fit(X, votes)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model", end_model=linear(seed=5))
    assert loaded.statistics == statistics
    assert np.array_equal(loaded.soft_labels(X, votes), model.soft_labels(X, votes))
    assert model.accuracies(X, votes).shape[:2] == (48, 6)
    assert clone(model).statistics == statistics


def test_a_statistic_is_plain_data_that_can_be_copied():
    for statistic in ALL:
        for same in (copy.deepcopy(statistic), pickle.loads(pickle.dumps(statistic))):  # noqa: S301
            assert repr(same) == repr(statistic)
    assert Fixes("a", "b") == ("fixes", "a", "b")
    assert by_hand([("fixes", "a", "b")], [0.4, 0.7, 1.0]).soft_labels(X, VOTES).shape == (8, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"statistics": [Fixes("a", "c")]}, "names 'c', which is not a voter"),
        ({"statistics": [Fixes("a", "a")]}, "names one voter twice"),
        ({"statistics": [("repairs", "a", "b")]}, r"Fixes\('a', 'b'\).*got \('repairs'"),
        ({"statistics": Fixes("a", "b")}, r"is a list.*got Fixes\('a', 'b'\) by itself"),
        ({"statistics": ["fixes"]}, r"Fixes\('a', 'b'\).*got 'fixes'"),
        ({"statistics": ALL, "encoding": "index"}, "encoding='index' cannot encode"),
    ],
)
def test_statistics_that_make_no_sense_are_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        weasel(**options).fit(X, VOTES)
