"""A few gold items, after training without any."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import softmax
from scipy.stats import ttest_1samp
from sklearn.metrics import roc_auc_score
from tiny_task import ONE_PASS, linear, tiny_task, weasel

from wiesel import Supervised, TwoStage
from wiesel.datasets.synthetic import make_features, make_votes
from wiesel.end_to_end.fine_tuning import _calibrated_losses, _worth_training
from wiesel.errors import FeatureError, NotFittedError, ParameterError
from wiesel.label_models import MajorityVote
from wiesel.nn import MLP
from wiesel.training import seeded

pytestmark = pytest.mark.filterwarnings("ignore::wiesel.errors.CollapseWarning")


def auc(model, X, gold) -> float:
    return float(roc_auc_score(gold, model.predict_proba(X)[:, 1]))


def task(seed: int, accuracies: float = 0.56):
    """Votes that are hardly better than chance, features that are."""
    votes, gold = make_votes(500, n_voters=5, accuracies=accuracies, coverage=0.6, seed=seed)
    return make_features(gold, n_features=6, separation=1.0, seed=seed), votes, gold


def trained(seed: int, X, votes) -> TwoStage:
    with seeded(seed):
        network = MLP(6, 2, hidden=(16,))
    return TwoStage(MajorityVote(), network, **ONE_PASS, epochs=15, lr=5e-3, seed=seed).fit(
        X, votes
    )


def test_gold_items_help_where_votes_are_poor():
    gains = []
    for seed in range(2):
        X, votes, gold = task(seed)
        few, rest = np.arange(80), np.arange(80, 500)
        model = trained(seed, X, votes)
        before = auc(model, X[rest], gold[rest])
        said = model.fine_tune(X[few], gold[few])
        assert said.loss_after <= said.loss_before
        gains.append(auc(model, X[rest], gold[rest]) - before)
    assert min(gains) >= -0.01
    assert np.mean(gains) > 0.02


def test_five_gold_items_a_class_tune_the_threshold_and_nothing_else():
    X, votes, gold = task(0)
    model = trained(0, X, votes)
    few = np.concatenate([np.flatnonzero(gold == k)[:5] for k in (0, 1)])
    before = model.predict_proba(X)
    said = model.fine_tune(X[few], gold[few])
    assert (said.epochs, said.items) == (0, 10)
    assert np.array_equal(model.predict_proba(X), before)
    assert model.threshold_ is not None


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
    assert np.mean(after) > np.mean(before) - 0.01
    assert np.mean(after) > np.mean(alone) + 0.02


def test_a_training_that_harms_leaves_the_model_as_it_is():
    X, votes, gold = task(0, accuracies=0.9)
    model = trained(0, X, votes)
    before = model.predict_proba(X)
    said = model.fine_tune(X[:20], gold[:20], epochs=3, lr=5.0)
    assert (said.epochs, said.loss_after) == (0, said.loss_before)
    assert np.array_equal(model.predict_proba(X), before)


def test_the_members_of_an_ensemble_are_tuned_with_it():
    X, votes, gold = tiny_task()
    with seeded(0):
        network = MLP(3, 2, hidden=(6,))
    model = weasel(network, members=2, epochs=3).fit(X, votes)
    said = model.fine_tune(X, gold, lr=0.02)
    assert said.epochs > 0
    assert np.allclose(model.member_probas(X).mean(axis=0), model.predict_proba(X), atol=1e-6)


def test_a_gain_that_may_be_chance_is_no_reason_to_train():
    steady, shaky = np.array([0.1, 0.11, 0.09]), np.array([2.0, -1.5, 0.1])
    assert _worth_training(np.stack([np.ones(3), 1 - steady])) == 1
    assert _worth_training(np.stack([np.ones(3), 1 - shaky])) == 0


def test_a_wrong_scale_or_base_rate_alone_is_no_reason_to_train():
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 2, 200)
    logits = np.column_stack([-gold, gold]) + rng.standard_normal((200, 2))
    losses = [
        _calibrated_losses(softmax(changed, axis=1), gold).mean()
        for changed in (logits, 4 * logits, logits + np.array([3.0, 0.0]))
    ]
    assert losses == pytest.approx([losses[0]] * 3, abs=0.01)


def test_an_unfitted_model_cannot_be_tuned():
    X, _, gold = tiny_task()
    with pytest.raises(NotFittedError):
        weasel(linear()).fine_tune(X, gold)


def test_too_few_gold_items_are_refused():
    X, votes, gold = tiny_task()
    with pytest.raises(FeatureError, match="4 gold items"):
        weasel().fit(X, votes).fine_tune(X[:3], gold[:3])


def test_a_wrong_number_of_epochs_is_refused():
    X, votes, gold = tiny_task()
    with pytest.raises(ParameterError, match="epochs"):
        weasel().fit(X, votes).fine_tune(X, gold, epochs=0)


def test_calibrated_losses_are_those_of_the_best_scale_and_shifts():
    """The same problem, solved without its gradient: the loss, and half the squares of numbers."""
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 3, 40)
    logits = 2 * np.eye(3)[gold] + rng.normal(size=(40, 3))
    proba = softmax(logits, axis=1)

    def losses(numbers: np.ndarray) -> np.ndarray:
        moved = softmax(np.exp(numbers[0]) * np.log(proba) + numbers[1:], axis=1)
        return -np.log(moved[np.arange(40), gold])

    best = minimize(lambda n: losses(n).sum() + 0.5 * np.square(n).sum(), np.zeros(4)).x
    assert np.abs(best[:3]).min() > 0.01
    assert np.allclose(_calibrated_losses(proba, gold), losses(best), atol=1e-3)


@pytest.mark.parametrize("gain", [0.02, 0.05, 0.1])
def test_training_is_worth_it_by_a_one_sided_t_test(gain: float):
    rng = np.random.default_rng(1)
    before = rng.normal(size=30)
    losses = np.stack([before, before + 0.1, before - gain + 0.2 * rng.normal(size=30), before])
    test = ttest_1samp(losses[0] - losses[2], 0, alternative="greater")
    assert _worth_training(losses) == (2 if test.pvalue < 0.05 else 0)
