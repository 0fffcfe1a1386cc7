import copy
import warnings

import numpy as np
import pytest
import torch
from scipy.special import softmax
from sklearn.base import clone
from tiny_task import FROZEN, VOTES_ONLY, linear, same_weights, tiny_task, weasel, weights_of
from torch import Tensor, nn

from wiesel import VoteMatrix, WeaSEL
from wiesel.errors import (
    CollapseWarning,
    FeatureError,
    NotFittedError,
    ParameterError,
    WieselWarning,
)
from wiesel.evaluation import supported_threshold
from wiesel.label_models.majority_vote import vote_balance
from wiesel.nn.encoders import EncoderLayers
from wiesel.nn.losses import AGREEMENT_LOSSES
from wiesel.training import seeded

# Two quick epochs of a tiny network may well predict one class; here that is no matter.
pytestmark = pytest.mark.filterwarnings("ignore::wiesel.errors.CollapseWarning")


class OwnEncoder(nn.Module):
    """An encoder of the user's: any module from a vector to scores."""

    def __init__(self, n_inputs: int, n_scores: int) -> None:
        super().__init__()
        with seeded(0):
            self.layers = nn.Sequential(nn.Linear(n_inputs, 4), nn.Tanh(), nn.Linear(4, n_scores))

    def forward(self, encoded: Tensor) -> Tensor:
        return self.layers(encoded)


def fitted(**options) -> WeaSEL:
    X, votes, _ = tiny_task()
    return weasel(**options).fit(X, votes)


@pytest.mark.parametrize(
    "options",
    [
        {"encoder": ()},
        {"encoder": (6,)},
        {"encoder": [6, 5, 4, 5, 6]},
        {"encoder": EncoderLayers((6,), batch_norm=False)},
        {"encoder": EncoderLayers((6,), dropout=0.0)},
        {"encoder": OwnEncoder(4 * 3 + 3, 4)},
        {"encoder": OwnEncoder(4 * 3 + 3, 8), "class_conditional": True},
        {"encoding": "signed"},
        {"encoding": "index"},
        {"encoding": "signed", "encoder": VOTES_ONLY},
        {"activation": "sigmoid"},
        {"activation": "relu"},
        {"activation": "tanh"},
        {"tau_2": "sqrt_input"},
        {"tau_2": "voters"},
        {"tau_2": 1.5},
        {"class_conditional": True},
        {"class_conditional": True, "activation": "sigmoid"},
        {"encoder": FROZEN},
        {"class_balance": [0.7, 0.3]},
        {"class_balance": {"class_1": 1, "class_0": 3}},
        *({"loss": name} for name in AGREEMENT_LOSSES),
    ],
    ids=str,
)
def test_every_option_trains_and_answers(options):
    X, votes, _ = tiny_task()
    model = weasel(**options).fit(X, votes)
    accuracies, soft = model.accuracies(X, votes), model.soft_labels(X, votes)
    assert accuracies.shape == ((48, 4, 2) if options.get("class_conditional") else (48, 4))
    assert np.isfinite(accuracies).all()
    assert soft.shape == model.predict_proba(X).shape == (48, 2)
    assert np.allclose(soft.sum(axis=1), 1)
    assert set(model.predict(X)) <= {"class_0", "class_1"}
    assert "effect on" in str(model.explain(X[0], votes[0])) or not votes.covered[0]


def test_the_weight_of_abstaining_voters_is_explained():
    X, votes, _ = tiny_task()
    model = weasel().fit(X, votes)
    voted = votes.dense() >= 0
    weights = np.abs(model.accuracies(X, votes))
    expected = np.where(voted, 0, weights).sum(axis=1) / weights.sum(axis=1)
    for row in (np.flatnonzero(voted.sum(axis=1) == size)[0] for size in (1, 2, 4)):
        found = model.explain(X[row], votes[row]).abstaining_share
        assert found == pytest.approx(expected[row], abs=1e-6)


@pytest.mark.parametrize(
    ("tau_2", "total"),
    [("sqrt_voters", 2.0), ("sqrt_input", np.sqrt(4 + 3)), ("voters", 4.0), (1.5, 1.5), (2, 2.0)],
)
def test_the_accuracies_of_an_item_sum_to_tau_2(tau_2, total):
    X, votes, _ = tiny_task()
    assert np.allclose(weasel(tau_2=tau_2).fit(X, votes).accuracies(X, votes).sum(axis=1), total)


def test_sqrt_input_without_features_counts_the_voters():
    assert fitted(tau_2="sqrt_input", encoder=VOTES_ONLY).encoder_.weighing.tau_2 == 2.0


def test_an_encoder_that_is_not_trained_keeps_its_parameters():
    X, votes, _ = tiny_task()
    own = OwnEncoder(4 * 3 + 3, 4).requires_grad_(False)
    model = weasel(encoder=own, epochs=3).fit(X, votes)
    assert same_weights(weights_of(model.encoder_.network), weights_of(own))
    assert not same_weights(weights_of(model.end_model_), weights_of(linear()))


def test_an_mlp_encoder_that_is_not_trained_is_the_one_the_seed_draws():
    once = weights_of(fitted(encoder=FROZEN, epochs=1).encoder_)
    more = weights_of(fitted(encoder=FROZEN, epochs=4).encoder_)
    parameters = [name for name in once if "running" not in name and "num_batches" not in name]
    assert len(parameters) > 2
    assert all(torch.equal(once[name], more[name]) for name in parameters)


def test_a_trained_encoder_changes():
    once, more = fitted(epochs=1).encoder_, fitted(epochs=4).encoder_
    assert not same_weights(weights_of(once), weights_of(more))


def test_both_networks_are_trained_by_every_loss():
    for loss in AGREEMENT_LOSSES:
        model = fitted(loss=loss, encoder=OwnEncoder(15, 4))
        assert not same_weights(weights_of(model.encoder_.network), weights_of(model.encoder)), loss
        assert not same_weights(weights_of(model.end_model_), weights_of(model.end_model)), loss


def test_certain_probabilistic_votes_train_the_same_network_as_plain_votes():
    X, votes, _ = tiny_task()
    one_hot = (votes.dense()[:, :, None] == np.arange(2)).astype(float)
    certain = VoteMatrix.from_proba(one_hot, votes.labels, votes.voters)
    assert certain.distribution is not None
    plain, other = weasel().fit(X, votes), weasel().fit(X, certain)
    assert same_weights(weights_of(plain.end_model_), weights_of(other.end_model_))
    assert same_weights(weights_of(plain.encoder_), weights_of(other.encoder_))


def test_an_unsure_vote_pushes_less_than_a_sure_one():
    X, votes, _ = tiny_task()
    model = weasel(tau_1=0.0).fit(X, votes)
    proba = np.zeros((2, 4, 2))
    proba[0, 0], proba[1, 0] = (0.1, 0.9), (0.4, 0.6)
    unsure = VoteMatrix.from_proba(proba, votes.labels, votes.voters)
    soft = model.soft_labels(X[:2], unsure)
    assert np.allclose(soft, softmax(0.5 * proba[:, 0], axis=1), atol=1e-6)


class TestClassBalance:
    def test_none_is_uniform(self):
        assert np.array_equal(fitted().class_balance_, [0.5, 0.5])

    def test_a_mapping_is_by_class_name(self):
        balance = fitted(class_balance={"class_1": 1, "class_0": 3}).class_balance_
        assert np.array_equal(balance, [0.75, 0.25])

    def test_validation_counts_the_gold_labels(self):
        X, votes, gold = tiny_task()
        model = weasel(class_balance="validation").fit(X, votes, validation=(X, gold))
        counts = np.bincount(gold) + 1
        assert np.allclose(model.class_balance_, counts / counts.sum())

    @pytest.mark.parametrize("n_classes", [2, 3])
    def test_gold_items_are_counted_beside_the_votes(self, n_classes: int):
        X, votes, gold = tiny_task(n_classes=n_classes)
        model = weasel(linear(3, n_classes), class_balance="auto")
        model.fit(X, votes, validation=(X[:10], gold[:10]))
        counts = np.bincount(gold[:10], minlength=n_classes)
        counts = counts + 15 * n_classes * vote_balance(votes)
        assert np.allclose(model.class_balance_, counts / counts.sum())

    def test_votes_are_enough_to_estimate_it(self):
        X, votes, _ = tiny_task(n_items=400, n_voters=5, coverage=0.9)
        model = weasel(class_balance="votes", epochs=1).fit(X, votes)
        assert model.class_balance_.sum() == pytest.approx(1)
        assert (model.class_balance_ > 0.2).all()
        assert np.array_equal(model.class_balance_, vote_balance(votes)), "as `auto` without gold"

    def test_validation_without_a_validation_set_is_refused(self):
        with pytest.raises(ParameterError, match="needs gold labels: give validation"):
            fitted(class_balance="validation")

    def test_one_number_too_many_is_refused(self):
        with pytest.raises(ParameterError, match="2 positive numbers"):
            fitted(class_balance=[0.2, 0.3, 0.5])


class TestTau1:
    def test_without_a_validation_set_it_is_a_third_and_a_message_says_so(self):
        with pytest.warns(WieselWarning, match="tau_1 is lowered to 1/3") as caught:
            assert fitted(tau_1=None).tau_1_ == 1 / 3
        # `fitted` is the caller of fit: the warning points at the user's line, not into Wiesel.
        assert caught[0].filename == __file__

    def test_with_a_validation_set_it_is_one(self):
        X, votes, gold = tiny_task()
        assert weasel(tau_1=None).fit(X, votes, validation=(X, gold)).tau_1_ == 1.0

    def test_a_given_one_is_kept_without_a_word(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert fitted(tau_1=0.25).tau_1_ == 0.25

    def test_fit_does_not_change_the_option(self):
        X, votes, gold = tiny_task()
        model = weasel(tau_1=None).fit(X, votes, validation=(X, gold))
        assert model.tau_1 is None


class TestValidation:
    def test_the_best_epoch_by_auc_is_kept(self):
        X, votes, gold = tiny_task()
        model = weasel(epochs=6).fit(X, votes, validation=(X, gold))
        scores = model.history_.column("validation_auc")
        assert model.history_.best_epoch == int(np.argmax(scores)) + 1
        assert model.selection_ == {
            "by": "auc",
            "epoch": model.history_.best_epoch,
            "score": max(scores),
        }

    def test_gold_may_be_names(self):
        X, votes, gold = tiny_task()
        names = np.array(votes.labels.names)[gold]
        by_name = weasel().fit(X, votes, validation=(X, names))
        by_index = weasel().fit(X, votes, validation=(X, gold))
        assert same_weights(weights_of(by_name.end_model_), weights_of(by_index.end_model_))

    def test_several_classes_are_selected_by_accuracy_and_have_no_threshold(self):
        X, votes, gold = tiny_task(n_classes=3)
        model = weasel(linear(3, 3)).fit(X, votes, validation=(X, gold))
        assert model.selection_["by"] == "accuracy"
        assert model.threshold_ is None

    def test_one_class_in_the_validation_set_is_selected_by_accuracy(self):
        X, votes, gold = tiny_task()
        model = weasel().fit(X, votes, validation=(X[gold == 1], gold[gold == 1]))
        assert model.selection_["by"] == "accuracy"

    def test_the_threshold_is_the_one_that_gold_supports_and_used_by_predict(self):
        X, votes, gold = tiny_task()
        model = weasel(epochs=4).fit(X, votes, validation=(X, gold))
        proba = model.predict_proba(X)[:, 1]
        threshold = 0.5 if model.threshold_ is None else model.threshold_
        assert threshold == pytest.approx(supported_threshold(proba, gold))
        chosen = proba >= threshold
        assert (model.predict(X) == np.where(chosen, "class_1", "class_0")).all()

    def test_predict_follows_a_threshold_that_is_set(self):
        X, votes, gold = tiny_task()
        model = weasel().fit(X, votes, validation=(X, gold))
        model.threshold_ = 1.1
        assert set(model.predict(X)) == {"class_0"}
        model.threshold_ = None
        expected = np.array(["class_0", "class_1"])[model.predict_proba(X).argmax(axis=1)]
        assert (model.predict(X) == expected).all()

    def test_without_one_the_last_epoch_is_kept(self):
        model = fitted(epochs=3)
        assert model.selection_ == {"by": "last epoch", "epoch": 3}
        assert model.threshold_ is None
        assert model.history_.best_epoch is None

    def test_it_does_not_change_what_is_trained_only_what_is_kept(self):
        X, votes, gold = tiny_task()
        plain = weasel(epochs=3).fit(X, votes)
        selected = weasel(epochs=3).fit(X, votes, validation=(X, gold))
        ours, theirs = (
            plain.history_.column("loss_encoder"),
            selected.history_.column("loss_encoder"),
        )
        assert ours == theirs


class TestHistory:
    def test_it_has_the_losses_agreement_voters_and_class_shares_of_every_epoch(self):
        X, votes, gold = tiny_task()
        history = weasel(epochs=3).fit(X, votes, validation=(X, gold)).history_
        assert len(history) == 3
        assert history.column("epoch") == [1, 2, 3]
        assert set(history.last) == {
            "epoch",
            "loss_end_model",
            "loss_encoder",
            "agreement",
            "predicted_shares",
            "voted_shares",
            "effective_voters",
            "largest_voter_share",
            "voting_share",
            "validation_auc",
        }

    def test_its_numbers_are_what_they_say(self):
        X, votes, _ = tiny_task()
        model = weasel(epochs=1).fit(X, votes)
        record, covered = model.history_.last, votes.covered
        predicted = model.predict_proba(X)[covered].argmax(axis=1)
        wanted = model.soft_labels(X, votes)[covered].argmax(axis=1)
        shares = model.accuracies(X, votes)[covered] / 2
        entropy = -(shares * np.log(shares)).sum(axis=1)
        assert record["agreement"] == pytest.approx((predicted == wanted).mean())
        assert record["predicted_shares"] == pytest.approx(
            np.bincount(predicted, minlength=2) / len(predicted)
        )
        assert record["effective_voters"] == pytest.approx(np.exp(entropy).mean(), rel=1e-5)
        assert record["largest_voter_share"] == pytest.approx(shares.mean(axis=0).max(), rel=1e-5)

    def test_one_loss_for_both_networks_has_one_name(self):
        assert "loss_agreement" in fitted(loss="l1").history_.last

    def test_the_losses_fall(self):
        losses = fitted(
            epochs=40, lr=0.05, encoder=EncoderLayers((5,), dropout=0.0)
        ).history_.column("loss_end_model")
        assert losses[-1] < losses[0]


class TestCollapse:
    def test_an_end_model_that_predicts_one_class_is_reported_with_advice(self):
        X, votes, _ = tiny_task()
        net = linear()
        with torch.no_grad():
            net.bias.copy_(torch.tensor([50.0, -50.0]))
        with pytest.warns(CollapseWarning, match="'class_0' for nearly all items") as caught:
            weasel(net, lr=1e-6, encoder=FROZEN).fit(X, votes)
        assert "validation set" in str(caught[0].message)
        assert caught[0].filename == __file__

    def test_a_voter_that_takes_all_the_weight_is_reported(self):
        class Favorite(OwnEncoder):
            def forward(self, encoded: Tensor) -> Tensor:
                return super().forward(encoded) + torch.tensor([100.0, 0, 0, 0])

        X, votes, _ = tiny_task()
        with pytest.warns(CollapseWarning, match="One voter has all the weight"):
            weasel(encoder=Favorite(15, 4)).fit(X, votes)

    def test_one_class_is_no_collapse_where_the_votes_are_for_one_class(self):
        X, votes, _ = tiny_task()
        ones = VoteMatrix.from_dense(np.where(votes.dense() < 0, -1, 1), votes.labels, votes.voters)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            weasel(epochs=60, lr=0.05).fit(X, ones)

    def test_a_single_voter_with_all_the_weight_is_no_collapse(self):
        X, votes, _ = tiny_task()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            weasel().fit(X, votes.select([votes.voters[0]]))


class TestOptionsAsParameters:
    def test_get_params_names_every_constructor_argument(self):
        params = weasel().get_params()
        assert {"end_model", "epochs", "lr", "encoder", "tau_1", "loss", "checkpoint"} <= set(
            params
        )
        assert not [name for name in params if name.endswith("_")]

    def test_set_params_changes_options_and_returns_the_model(self):
        model = weasel()
        assert model.set_params(epochs=7, tau_2=3.0) is model
        assert (model.epochs, model.tau_2) == (7, 3.0)

    @pytest.mark.parametrize(
        ("name", "meant"), [("epoch", "epochs"), ("tau1", "tau_1"), ("zzz", None)]
    )
    def test_an_unknown_option_is_refused_with_a_suggestion(self, name: str, meant: str | None):
        words = f"Did you mean '{meant}'" if meant else "Allowed: .*'lr'"
        with pytest.raises(ParameterError, match=f"WeaSEL has no option '{name}'. .*{words}"):
            WeaSEL(linear(), **{name: 3})
        with pytest.raises(ParameterError, match=f"no option '{name}'"):
            weasel().set_params(**{name: 3})

    def test_sklearn_clones_it_unfitted_with_its_own_module(self):
        model = fitted(epochs=1)
        copied = clone(model)
        assert copied.epochs == 1
        assert copied.encoder == model.encoder
        assert copied.end_model is not model.end_model
        with pytest.raises(NotFittedError, match="not fitted yet"):
            copied.predict(np.zeros((1, 3)))

    def test_a_deep_copy_of_a_fitted_model_predicts_the_same(self):
        X, _, _ = tiny_task()
        model = fitted()
        assert np.array_equal(copy.deepcopy(model).predict_proba(X), model.predict_proba(X))

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"epochs": 0}, "'epochs' option of WeaSEL must be a whole number at least 1; got 0"),
            ({"epochs": 2.5}, "'epochs'.*whole number"),
            ({"epochs": True}, "'epochs'"),
            ({"batch_size": 1}, "'batch_size'.*at least 2"),
            ({"lr": -1}, "'lr'.*at least 0"),
            ({"lr": float("nan")}, "'lr'"),
            ({"lr": float("inf")}, "'lr'"),
            ({"weight_decay": "no"}, "'weight_decay'.*got 'no'"),
            ({"seed": -1}, "'seed'"),
            ({"patience": 0}, "'patience'"),
            ({"encoder": EncoderLayers(dropout=1.5)}, "'dropout'.*at most 1"),
            ({"tau_1": -0.1}, "'tau_1'"),
            ({"tau_2": "sqrt_voter"}, "'tau_2'.*'sqrt_input'.*Did you mean 'sqrt_voters'"),
            ({"tau_2": -1}, "'tau_2'"),
            ({"encoding": "onehot"}, "Did you mean 'one_hot'"),
            ({"activation": "gelu"}, "'activation'.*'softmax'"),
            ({"loss": "symetric"}, "Did you mean 'symmetric'"),
            ({"class_balance": "vote"}, "Did you mean 'votes'"),
            ({"encoder": 70}, r"sizes of its hidden layers.*\(70, 70\).*got 70"),
            ({"encoder": (5, 0)}, "sizes of its hidden layers"),
            ({"encoder": (5, 2.5)}, "sizes of its hidden layers"),
            ({"encoder": "mlp"}, "sizes of its hidden layers"),
            ({"device": "tpu9"}, "device 'tpu9' cannot be used"),
            ({"encoder": nn.Linear(7, 4)}, "must read vectors of 15 numbers"),
            ({"encoder": nn.Linear(15, 3)}, r"must return 4 scores .* shape \(2, 3\)"),
        ],
        ids=str,
    )
    def test_a_value_that_is_not_allowed_is_refused_before_training(self, options, words: str):
        with pytest.raises(ParameterError, match=words):
            fitted(**options)

    def test_numbers_of_numpy_are_numbers(self):
        assert len(fitted(epochs=np.int64(1), lr=np.float32(0.01)).history_) == 1


class TestLeavesThingsAlone:
    def test_the_user_s_module_arrays_and_votes_are_untouched(self):
        X, votes, gold = tiny_task()
        net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.1), nn.Linear(4, 2))
        net[1].eval()  # a frozen part must stay frozen, though the whole is in training mode
        before, modes = weights_of(net), [part.training for part in net.modules()]
        arrays = X.copy(), gold.copy(), votes.dense()
        weasel(net).fit(X, votes, validation=(X, gold))
        assert same_weights(before, weights_of(net))
        assert [part.training for part in net.modules()] == modes
        assert all(parameter.grad is None for parameter in net.parameters())
        for array, kept in zip((X, gold, votes.dense()), arrays, strict=True):
            assert np.array_equal(array, kept)

    def test_the_user_s_encoder_is_untouched(self):
        own = OwnEncoder(15, 4)
        before = weights_of(own)
        fitted(encoder=own)
        assert same_weights(before, weights_of(own))
        assert own.training

    def test_a_module_that_fails_keeps_its_mode(self):
        X, votes, _ = tiny_task()
        net = nn.Sequential(nn.Linear(99, 2))
        with pytest.raises(FeatureError):
            weasel(net).fit(X, votes)
        assert net.training

    def test_a_lazy_module_stays_lazy(self):
        X, votes, _ = tiny_task()
        net = nn.LazyLinear(2)
        weasel(net).fit(X, votes)
        assert net.has_uninitialized_params()

    def test_the_global_random_state_is_untouched(self):
        class Noisy(nn.Linear):
            def forward(self, features: Tensor) -> Tensor:
                return super().forward(features + torch.rand_like(features))

        X, votes, gold = tiny_task()
        net = Noisy(3, 2)
        torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()  # noqa: NPY002
        weasel(net).fit(X, votes, validation=(X, gold))
        assert torch.equal(torch.get_rng_state(), torch_state)
        assert np.array_equal(np.random.get_state()[1], numpy_state[1])  # noqa: NPY002

    def test_options_are_untouched_by_fit(self):
        X, votes, gold = tiny_task()
        model = weasel(tau_1=None, class_balance="validation")
        before = model.get_params()
        model.fit(X, votes, validation=(X, gold))
        assert all(model.get_params()[name] is value for name, value in before.items())

    def test_two_models_share_no_network(self):
        X, votes, _ = tiny_task()
        net = linear()
        first, second = weasel(net).fit(X, votes), weasel(net, epochs=3).fit(X, votes)
        assert first.end_model_ is not second.end_model_
        assert not same_weights(weights_of(first.end_model_), weights_of(second.end_model_))

    def test_the_warning_filters_are_untouched(self):
        before = list(warnings.filters)
        fitted()
        assert warnings.filters == before


class TestSeed:
    def test_the_same_seed_gives_the_same_weights(self):
        first, second = fitted(seed=3), fitted(seed=3)
        assert same_weights(weights_of(first.end_model_), weights_of(second.end_model_))
        assert same_weights(weights_of(first.encoder_), weights_of(second.encoder_))
        assert first.history_.records == second.history_.records

    def test_it_does_not_depend_on_the_global_state(self):
        first = fitted()
        with seeded(99):
            second = fitted()
        assert same_weights(weights_of(first.end_model_), weights_of(second.end_model_))

    def test_another_seed_gives_other_weights(self):
        first, second = fitted(seed=3), fitted(seed=4)
        assert not same_weights(weights_of(first.encoder_), weights_of(second.encoder_))

    def test_fitting_again_is_the_same_as_fitting_anew(self):
        X, votes, _ = tiny_task()
        model = weasel()
        first = weights_of(model.fit(X, votes).end_model_)
        assert same_weights(first, weights_of(model.fit(X, votes).end_model_))


def test_the_trained_model_is_in_evaluation_mode_and_unfitted_ones_say_so():
    model = fitted()
    assert not model.end_model_.training
    assert not model.encoder_.training
    X, votes, _ = tiny_task()
    for use in (
        lambda: weasel().predict(X),
        lambda: weasel().soft_labels(X, votes),
        lambda: weasel().accuracies(X, votes),
        lambda: weasel().explain(X[0], votes[0]),
        lambda: weasel().save("nowhere"),
    ):
        with pytest.raises(NotFittedError, match="This WeaSEL is not fitted yet"):
            use()


@pytest.mark.parametrize(("epochs", "warns"), [(5, True), (6, True), (7, False)])
def test_training_that_ends_with_the_warm_up_is_told_so(epochs: int, warns: bool):
    X, votes, _ = tiny_task()
    model = WeaSEL(linear(), epochs=epochs, epoch_size=16, encoder=(4,))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, votes)
    told = [str(found.message) for found in caught if "warm_up" in str(found.message)]
    assert len(told) == warns
    assert all(f"trains for {epochs} epochs" in said for said in told)


class TestDefaults:
    """What issue 17 names as wrong before the redesign."""

    def test_the_papers_configuration_takes_an_array_as_class_balance(self):
        X, votes, _ = tiny_task()
        balance = np.array([0.7, 0.3])
        model = WeaSEL.paper(linear(), class_balance=balance, epochs=1, tau_1=1.0)
        for other in (clone(model), WeaSEL(linear()).set_params(**model.get_params(deep=False))):
            assert np.array_equal(other.class_balance, balance)
            assert (other.tau_2, other.start, other.lr) == ("sqrt_voters", None, 1e-4)
        assert np.array_equal(model.fit(X, votes).class_balance_, balance)

    def test_what_the_user_says_is_never_overwritten(self):
        model = WeaSEL.paper(linear(), lr=0.5, voting_only=True)
        assert (model.lr, model.voting_only) == (0.5, True)
        assert model.set_params(epochs=3).lr == 0.5

    def test_an_option_in_the_constructor_or_set_later_trains_the_same_model(self):
        X, votes, _ = tiny_task()
        quick = {"epoch_size": 96, "encoder": (5,)}
        given = WeaSEL(linear(), epochs=9, **quick).fit(X, votes)
        later = WeaSEL(linear(), **quick).set_params(epochs=9).fit(X, votes)
        assert len(given.history_) == 9
        assert same_weights(weights_of(given.end_model_), weights_of(later.end_model_))

    def test_the_balance_that_is_stored_is_the_one_that_is_used(self):
        X, votes, _ = tiny_task(coverage=0.3)
        assert not votes.covered.all()
        options = {"class_balance": [0.8, 0.2], "epochs": 2, "warm_up": 1, "epoch_size": 96}
        model = WeaSEL(linear(), **options).fit(X, votes)
        assert np.array_equal(model.class_balance_, [0.8, 0.2])
        assert np.allclose(model.soft_labels(X, votes)[~votes.covered], [0.8, 0.2])

    def test_items_without_votes_are_not_trained_on(self):
        X, votes, _ = tiny_task(coverage=0.3)
        quick = {"epochs": 2, "warm_up": 1, "epoch_size": 96, "encoder": (5,)}
        model = WeaSEL(linear(), **quick).fit(X, votes)
        other = X.copy()
        other[~votes.covered] *= -50
        assert model.trained_on_["items"] == votes.covered.sum()
        again = WeaSEL(linear(), **quick).fit(other, votes)
        assert same_weights(weights_of(model.end_model_), weights_of(again.end_model_))

    def test_without_a_validation_set_training_is_shorter(self):
        X, votes, gold = tiny_task()
        quick = {"epoch_size": 48, "encoder": (5,)}
        assert len(WeaSEL(linear(), **quick).fit(X, votes).history_) == 8
        assert len(WeaSEL(linear(), **quick).fit(X, votes, (X, gold)).history_) == 20

    def test_what_is_no_start_is_refused(self):
        with pytest.raises(ParameterError, match=r"'start'.*MajorityVote\(\).*or None"):
            fitted(start="auto")

    def test_an_epoch_has_as_many_items_as_asked(self):
        seen: list[int] = []

        class Counting(nn.Linear):
            def forward(self, values: Tensor) -> Tensor:
                if self.training:
                    seen.append(len(values))
                return super().forward(values)

        X, votes, _ = tiny_task()
        weasel(Counting(3, 2), epochs=1, epoch_size=80, batch_size=16).fit(X, votes)
        assert sum(seen) == 80

    def test_it_has_at_most_25_options(self):
        assert len(WeaSEL.option_names()) <= 25
