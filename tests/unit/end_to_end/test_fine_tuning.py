"""A few gold items, after training without any."""

import copy

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from tiny_task import ONE_PASS, linear, tiny_task, weasel
from torch import nn

from wiesel import Committee, Supervised, TwoStage
from wiesel.datasets.synthetic import make_features, make_votes
from wiesel.end_to_end import fine_tuning
from wiesel.end_to_end.plan import GoldItems
from wiesel.errors import FeatureError, NotFittedError, ParameterError
from wiesel.label_models import MajorityVote
from wiesel.multilabel import MultiLabelVotes
from wiesel.nn import MLP
from wiesel.training import TrainingData, TrainOptions, as_inputs, seeded, train
from wiesel.training.loop import stratified_folds

pytestmark = pytest.mark.filterwarnings("ignore::wiesel.errors.CollapseWarning")


def auc(model, X, gold) -> float:
    return float(roc_auc_score(gold, model.predict_proba(X)[:, 1]))


def task(seed: int, accuracies: float = 0.56):
    """Votes that are hardly better than chance, features that are."""
    votes, gold = make_votes(500, n_voters=5, accuracies=accuracies, coverage=0.6, seed=seed)
    return make_features(gold, n_features=6, separation=1.0, seed=seed), votes, gold


def trained(seed: int, X, votes, **options) -> TwoStage:
    with seeded(seed):
        network = MLP(6, 2, hidden=(16,))
    fitted = {**ONE_PASS, "epochs": 15, "lr": 5e-3, "seed": seed, **options}
    return TwoStage(MajorityVote(), network, **fitted).fit(X, votes)


def test_gold_items_help_where_votes_are_poor():
    gains = []
    for seed in range(3):
        X, votes, gold = task(seed)
        few, rest = np.arange(80), np.arange(80, 500)
        model = trained(seed, X, votes)
        before = auc(model, X[rest], gold[rest])
        said = model.fine_tune(X[few], gold[few])
        assert said.items == 80
        assert said.loss_after < said.loss_before
        gains.append(auc(model, X[rest], gold[rest]) - before)
    assert np.mean(gains) > 0.02


def test_a_dozen_gold_items_do_no_harm_and_fine_tuning_beats_training_on_them_alone():
    before, after, alone = [], [], []
    for seed in range(3):
        X, votes, gold = task(seed, accuracies=0.75)
        few, rest = np.arange(12), np.arange(12, 500)
        model = trained(seed, X, votes)
        before.append(auc(model, X[rest], gold[rest]))
        model.fine_tune(X[few], gold[few])
        after.append(auc(model, X[rest], gold[rest]))
        with seeded(seed):
            network = MLP(6, 2, hidden=(16,))
        options = {**ONE_PASS, "epochs": 60, "lr": 5e-3, "batch_size": 12, "seed": seed}
        supervised = Supervised(network, labels=votes.labels, **options)
        alone.append(auc(supervised.fit(X[few], gold[few]), X[rest], gold[rest]))
    assert np.mean(after) > np.mean(before) - 0.02
    assert np.mean(after) > np.mean(alone) + 0.02


def test_it_minimizes_the_cross_entropy_and_the_distance_from_the_weights_before(monkeypatch):
    """The problem is convex for a linear network: any solver finds the same weights."""
    X, _, gold = tiny_task()
    model = TwoStage(MajorityVote(), nn.Linear(3, 2), **ONE_PASS, epochs=2, lr=0.05)
    model.fit(X, tiny_task()[1])
    monkeypatch.setattr(fine_tuning, "_STEPS", 3000)
    monkeypatch.setattr(fine_tuning, "supported_share", lambda *_: 1.0)  # all the way
    start = [p.detach().clone() for p in model.end_model_.parameters()]
    expected = [p.clone().requires_grad_() for p in start]
    targets = torch.from_numpy(0.9 * np.eye(2)[gold] + 0.05).float()
    solver = torch.optim.LBFGS(expected, max_iter=500, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        solver.zero_grad()
        logits = torch.from_numpy(X).float() @ expected[0].T + expected[1]
        value = -(targets * torch.log_softmax(logits, dim=1)).sum(dim=1).mean()
        apart = [((p - q) ** 2).sum() for p, q in zip(expected, start, strict=True)]
        value = value + 1000 / len(gold) ** 2 * torch.stack(apart).sum()
        value.backward()
        return value

    solver.step(loss)
    model.fine_tune(X, gold)
    for found, wanted in zip(model.end_model_.parameters(), expected, strict=True):
        assert torch.allclose(found, wanted, atol=2e-3)


def test_a_few_items_move_the_weights_less_than_many():
    X, votes, gold = task(0)
    moved = []
    for n_items in (10, 100):
        model = trained(0, X, votes)
        before = torch.nn.utils.parameters_to_vector(model.end_model_.parameters()).clone()
        model.fine_tune(X[:n_items], gold[:n_items])
        after = torch.nn.utils.parameters_to_vector(model.end_model_.parameters())
        moved.append(float((after - before).detach().norm()))
    assert moved[0] < moved[1]


def test_networks_go_a_part_of_the_way_if_votes_say_more_than_labels(monkeypatch):
    """Features that are mostly noise, and votes that are nearly always right or hardly ever."""

    def way(accuracy):
        """How far networks go, of the whole way to the labels."""
        X, votes, gold = task(0, accuracies=accuracy)
        X = np.hstack([X, np.random.default_rng(0).normal(size=(len(X), 60))])
        lengths = []
        for shares in (fine_tuning.supported_share, lambda *_: 1.0):
            monkeypatch.setattr(fine_tuning, "supported_share", shares)
            with seeded(0):
                network = MLP(66, 2, hidden=(16,))
            options = {**ONE_PASS, "epochs": 60, "lr": 5e-3, "seed": 0}
            model = TwoStage(MajorityVote(), network, **options).fit(X, votes)
            before = torch.nn.utils.parameters_to_vector(model.end_model_.parameters()).clone()
            model.fine_tune(X[:200], gold[:200])
            after = torch.nn.utils.parameters_to_vector(model.end_model_.parameters())
            lengths.append(float((after - before).detach().norm()))
            monkeypatch.undo()
        return lengths[0] / lengths[1]

    assert way(0.97) < way(0.55) - 0.1


def test_the_loss_afterwards_is_that_of_networks_that_left_the_items_out(monkeypatch):
    """A network that leaves out a fold is one that was fine-tuned without it, from its start."""
    monkeypatch.setattr(fine_tuning, "supported_share", lambda *_: 1.0)  # all the way
    X, votes, gold = task(1)
    few = np.arange(60)
    model = trained(1, X, votes, members=5)
    networks = [copy.deepcopy(member.end_model_) for member in model.members_]
    said = model.fine_tune(X[few], gold[few])
    assert said.loss_after == pytest.approx(
        log_loss(gold[few], model.out_of_fold_proba(X[few])), rel=1e-5
    )
    fold = stratified_folds(gold[few], 5, seed=1)[2]
    known = GoldItems(model.task_.held_out(as_inputs(X[few]), gold[few]), np.ones(60, bool))
    objective = model.task_.gold_objective(networks[2], known.known, 0.1, fold)
    data = TrainingData(known.known.inputs)
    options = TrainOptions(
        epochs=1, epoch_size=150 * 60, batch_size=60, lr=2e-3, weight_decay=0.0, pull=1000 / 60**2
    )
    with seeded(1):
        train(objective, data, options)
    expected = torch.softmax(objective.end_model(torch.from_numpy(X[few][fold]).float()), dim=1)
    found = model.out_of_fold_proba(X[few])[fold]
    assert np.allclose(found, expected.detach().numpy(), atol=1e-3)


def test_the_members_of_an_ensemble_are_tuned_with_it():
    X, votes, gold = tiny_task()
    with seeded(0):
        network = MLP(3, 2, hidden=(6,))
    model = weasel(network, members=2, epochs=3).fit(X, votes)
    before = model.predict_proba(X)
    model.fine_tune(X, gold)
    assert np.allclose(model.member_probas(X).mean(axis=0), model.predict_proba(X), atol=1e-6)
    assert not np.allclose(model.predict_proba(X), before)


def test_all_networks_of_a_committee_learn_and_keep_their_weights():
    X, votes, gold = tiny_task()
    model = Committee(linear(), networks=1, **ONE_PASS, epochs=2).fit(X, votes)
    weights, before = dict(model.member_weights_), model.member_probas(X)
    model.fine_tune(X, gold)
    assert model.member_weights_ == weights
    assert (np.abs(model.member_probas(X) - before).max(axis=(1, 2)) > 1e-4).all()


def test_several_labels_are_tuned_where_gold_is_known():
    rng = np.random.default_rng(0)
    gold = (rng.random((200, 2)) < 0.4).astype(int)
    X = (2.0 * gold - 1 + rng.normal(size=(200, 2))).astype(np.float32)
    said = np.where(rng.random((200, 4, 2)) < 0.6, gold[:, None], 1 - gold[:, None])
    votes = MultiLabelVotes.from_dense(said, ["a", "b"])
    with seeded(0):
        network = MLP(2, 2, hidden=(8,))
    model = TwoStage(MajorityVote(), network, **{**ONE_PASS, "epochs": 3}).fit(X, votes)
    before = copy.deepcopy(model)
    known = gold.copy()
    known[:, 1] = -1
    found = model.fine_tune(X[:60], known[:60])
    assert found.loss_after < found.loss_before
    areas = [auc(own.one("a"), X[60:], gold[60:, 0]) for own in (before, model)]
    assert areas[1] > areas[0] - 0.02
    assert model.threshold_[1] == 0.5


def test_dropout_is_off_and_the_statistics_of_batch_norm_stay():
    X, votes, gold = tiny_task()
    with seeded(0):
        network = nn.Sequential(
            nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.9), nn.Linear(8, 2)
        )
    model = TwoStage(MajorityVote(), network, **ONE_PASS, epochs=2).fit(X, votes)
    kept = model.end_model_[1].running_mean.clone()
    model.fine_tune(X, gold)
    assert torch.equal(model.end_model_[1].running_mean, kept)


def test_an_unfitted_model_cannot_be_tuned():
    X, _, gold = tiny_task()
    with pytest.raises(NotFittedError):
        weasel(linear()).fine_tune(X, gold)


def test_too_few_gold_items_are_refused():
    X, votes, gold = tiny_task()
    with pytest.raises(FeatureError, match="2 gold items"):
        weasel().fit(X, votes).fine_tune(X[:1], gold[:1])


def test_a_classifier_of_scikit_learn_is_refused_with_the_cure():
    X, votes, gold = tiny_task()
    model = TwoStage(MajorityVote(), LogisticRegression()).fit(X, votes)
    with pytest.raises(ParameterError, match="fit it again, with the gold items"):
        model.fine_tune(X, gold)
