import json

import numpy as np
import polars as pl
import pytest
from experiments.framework import methods
from experiments.framework.methods import build, data_of, groups_of, material, train_and_test
from experiments.framework.planted import duplicated, independent, votes_of, with_adversaries
from experiments.framework.runner import Run
from experiments.framework.soft_labels import as_one_voter, chosen_snorkel

from wiesel import LabelSpace, VoteMatrix
from wiesel.datasets.synthetic import make_features, make_votes
from wiesel.io import Dataset, Split
from wiesel.label_models import Triplet


def split(seed, n_items=120):
    votes, gold = make_votes(n_items, n_voters=6, coverage=0.5, seed=seed)
    rows = pl.DataFrame({"id": [f"i{seed}_{i}" for i in range(n_items)]})
    return Split(rows, gold, votes, make_features(gold, n_features=4, seed=0))


@pytest.fixture
def tiny(monkeypatch):
    splits = {name: split(seed) for seed, name in enumerate(("train", "valid", "test"))}
    dataset = Dataset("tiny", splits["train"].votes.labels, splits)
    monkeypatch.setattr(methods, "dataset_of", lambda name: dataset)
    return dataset


ALL_METHODS = (
    "gold",
    "validation",
    "snorkel",
    "triplet",
    "triplet_mean",
    "triplet_median",
    "majority_vote",
    "majority_vote_hard",
    "weasel_random",
    "weasel",
)


@pytest.mark.parametrize("method", ALL_METHODS)
def test_every_method_is_trained_and_measured(tiny, method):
    records = train_and_test([Run("tiny", method, 0, {"epochs": 2, "lr": 0.01})])
    assert len(records[0]["curve"]) == 2
    measures = ("auc", "f1", "f1_at_half", "validation", "validation_f1", "threshold")
    assert all(0 <= records[0][name] <= 1 for name in measures)
    json.dumps(records)


def test_a_group_gives_what_its_runs_give_alone(tiny):
    runs = [
        Run("tiny", "weasel", seed, {"epochs": 3, "lr": lr})
        for seed in (0, 1)
        for lr in (0.01, 0.03)
    ]
    [group] = groups_of(runs)
    together = train_and_test(group)
    alone = [train_and_test([run])[0] for run in runs]
    for one, other in zip(together, alone, strict=True):
        assert one["auc"] == pytest.approx(other["auc"], abs=1e-3)
        assert one["curve"] == pytest.approx(other["curve"], abs=1e-3)
    assert len({record["auc"] for record in together}) > 1


def test_a_hint_is_the_truth_and_noise_beside_the_features(tiny):
    hinted = data_of(Run("tiny", "gold", 0, {"hint": 0.5}))
    assert data_of(Run("tiny", "gold", 0)) is tiny
    for name in ("train", "valid", "test"):
        features, hint = np.split(hinted[name].features, [4], axis=1)
        assert np.array_equal(features, tiny[name].features.astype(np.float32))
        assert np.corrcoef(hint[:, 0], tiny[name].gold)[0, 1] == pytest.approx(
            1 / 1.25**0.5, abs=0.05
        )
    [told] = train_and_test([Run("tiny", "gold", 0, {"epochs": 5, "lr": 0.01, "hint": 0.1})])
    assert told["auc"] > 0.99


def test_an_unknown_method_is_refused(tiny):
    with pytest.raises(ValueError, match="no method 'weasle'"):
        build(Run("tiny", "weasle", 0), tiny)


def test_the_validation_row_never_sees_its_own_held_out_rows(tiny):
    X, y, (held_out, gold), _ = material(Run("tiny", "validation", 0), tiny)
    assert (len(X), len(y), len(held_out), len(gold)) == (96, 96, 24, 24)
    everything = np.concatenate([X, held_out])
    assert np.array_equal(np.sort(everything, axis=0), np.sort(tiny.valid.features, axis=0))


def test_a_label_model_becomes_one_voter_with_its_soft_labels(tiny):
    votes, _ = as_one_voter(Run("tiny", "triplet_mean", 0), tiny)
    balance = np.bincount(tiny.valid.gold) / len(tiny.valid)
    expected = Triplet().fit(tiny.train.votes, balance).predict_proba(tiny.train.votes)
    covered = tiny.train.votes.covered
    assert np.array_equal(votes.covered, covered)
    assert votes.distribution == pytest.approx(expected[covered], abs=1e-6)


def test_the_configuration_of_snorkel_is_chosen_on_validation(tiny):
    votes, held_out = tiny.train.votes, tiny.valid.votes
    model, noted = chosen_snorkel(votes, held_out, tiny.valid.gold)
    flipped, noted_flipped = chosen_snorkel(votes, held_out, 1 - tiny.valid.gold)
    assert noted["label_model"]["epochs"] == model.epochs
    assert noted["label_model_validation"] > 0.5 > noted_flipped["label_model_validation"]
    assert flipped.epochs != model.epochs or flipped.lr != model.lr


def test_planted_voters_are_the_truth_and_coins():
    labels, gold = LabelSpace("no", "yes"), np.arange(400) % 2
    copied = duplicated(gold, labels, 3, np.random.default_rng(0))
    own = independent(gold, labels, 3, np.random.default_rng(0))
    assert np.array_equal(copied.select(["truth"]).dense()[:, 0], gold)
    coins = copied.select(["coin_0", "coin_1", "coin_2"]).dense()
    assert (coins == coins[:, :1]).all()
    flips = own.select(["coin_0", "coin_1", "coin_2"]).dense()
    assert 0.3 < (flips[:, 0] == flips[:, 1]).mean() < 0.7


def test_train_and_validation_are_planted_with_the_same_voters(tiny):
    train, valid = votes_of(Run("tiny", "weasel", 0, {"coins": 4, "draw": 0}), tiny)
    assert train.voters == valid.voters
    assert np.array_equal(valid.select(["truth"]).dense()[:, 0], tiny.valid.gold)
    again, _ = votes_of(Run("tiny", "weasel", 7, {"coins": 4, "draw": 0}), tiny)
    assert np.array_equal(again.dense(), train.dense())


def test_the_adversary_votes_negative_where_the_original_abstains():
    labels = LabelSpace("negative", "positive")
    votes = VoteMatrix.from_dense([[1, -1], [-1, 0]], labels, ["excellent", "bad"])
    attacked = with_adversaries(votes, 2)
    assert attacked.voters == ("excellent", "bad", "adversary_0", "adversary_1")
    assert attacked.dense().tolist() == [[1, -1, 1, 1], [-1, 0, 0, 0]]
    assert with_adversaries(votes, 0).dense().tolist() == votes.dense().tolist()


def test_silent_voters_are_left_out_of_train_and_validation(tiny):
    train, valid = votes_of(Run("tiny", "weasel", 0, {"silent": ["voter_1"]}), tiny)
    assert train.voters == valid.voters == ("voter_0", "voter_2", "voter_3", "voter_4", "voter_5")
    options = {"silent": ["voter_1"], "epochs": 2, "lr": 0.01}
    assert len(train_and_test([Run("tiny", "weasel", 0, options)])[0]["curve"]) == 2
