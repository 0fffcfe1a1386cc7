"""Networks that are trained as a stack are the networks that are trained one by one."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_task import ONE_PASS
from torch import nn

from wiesel import (
    CrowdLayer,
    FeatureChecked,
    LabelSpace,
    MajorityVote,
    Snorkel,
    Supervised,
    TwoStage,
    WeaSEL,
    WeightedVote,
    load_model,
)
from wiesel.datasets.synthetic import make_features, make_votes
from wiesel.end_to_end.plan import fit_together, warn_if_collapsed
from wiesel.errors import CollapseWarning, ParameterError, SavedModelError, WieselWarning
from wiesel.evaluation import supported_threshold
from wiesel.nn import MLP, Ensemble, Linear
from wiesel.nn.encoders import EncoderLayers
from wiesel.training import History, seeded

# Three epochs on few items may well collapse; alone or together, it is the same.
pytestmark = pytest.mark.filterwarnings("ignore::wiesel.errors.CollapseWarning")

VOTES, GOLD = make_votes(150, n_voters=6)
X = make_features(GOLD, n_features=5).astype(np.float32)
HELD_OUT = (X[:60], GOLD[:60])
QUICK: dict[str, Any] = {**ONE_PASS, "epochs": 3, "batch_size": 32, "device": "cpu"}
PAIRS = [(seed, lr) for seed in (3, 0, 7) for lr in (0.01, 0.002)]


def network(seed: int) -> nn.Module:
    with seeded(seed):
        return MLP(5, 2, hidden=(8, 6, 4))


def plain_network(seed: int) -> nn.Module:
    """torch's own layers, with dropout and BatchNorm in the end model.

    There is no bias in front of BatchNorm: it has no effect on the loss, so its gradient is
    rounding noise, and Adam makes whole steps of that.
    """
    with seeded(seed):
        first = [nn.Linear(5, 8, bias=False), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.2)]
        return nn.Sequential(*first, nn.Linear(8, 2))


def test_a_seed_is_the_same_model_whoever_made_the_network():
    probas = [
        TwoStage(MajorityVote(), network(made), **QUICK).fit(X, VOTES).predict_proba(X)
        for made in (1, 2)
    ]
    np.testing.assert_array_equal(*probas)


def test_weights_that_somebody_set_are_where_training_starts():
    made = [network(1), network(2)]
    for net in made:
        assert net.is_untrained
        with torch.no_grad():
            net.layers[0].bias.add_(1)
        assert not net.is_untrained
    probas = [TwoStage(MajorityVote(), net, **QUICK).fit(X, VOTES).predict_proba(X) for net in made]
    assert np.abs(probas[0] - probas[1]).max() > 1e-6


def weasel(seed: int, lr: float, **options: Any) -> WeaSEL:
    given = {"encoder": (7,), "tau_1": 1.0, "seed": seed, "lr": lr, **QUICK, **options}
    return WeaSEL.paper(network(seed), **given)


def assert_same_fit(ours: Any, alone: Any) -> None:
    """Two fitted models are the same, but for the last digits."""
    assert np.allclose(ours.predict_proba(X), alone.predict_proba(X), atol=1e-4)
    assert ours.selection_.keys() == alone.selection_.keys()
    assert ours.selection_["epoch"] == alone.selection_["epoch"]
    assert ours.threshold_ == pytest.approx(alone.threshold_, abs=1e-4)
    assert ours.trained_on_ == alone.trained_on_
    assert len(ours.history_) == len(alone.history_)
    for first, second in zip(ours.history_.records, alone.history_.records, strict=True):
        assert first.keys() == second.keys()
        for name, value in first.items():
            # An item on the fence may fall to either side: 1 of 129 is 0.008.
            assert value == pytest.approx(second[name], abs=1e-2), name
    for first, second in zip(weights(ours.end_model_), weights(alone.end_model_), strict=True):
        assert torch.allclose(first, second, atol=2e-4)


def assert_same_encoder(ours: WeaSEL, alone: WeaSEL) -> None:
    """Two encoders are the same, but for what Adam makes of rounding noise."""
    first, second = ours.encoder_.state_dict(), alone.encoder_.state_dict()
    assert first.keys() == second.keys()
    # BatchNorm takes the bias in front of it away again, and its running mean follows the bias.
    noise = {"network.0.bias", "network.1.running_mean"}
    assert noise < first.keys()
    for name in first.keys() - noise:
        assert torch.allclose(first[name], second[name], atol=2e-4), name


def weights(module: nn.Module) -> list[torch.Tensor]:
    return list(module.state_dict().values())


@pytest.mark.parametrize("validation", [None, HELD_OUT], ids=["alone", "validation"])
def test_weasels_in_a_stack_are_weasels_trained_alone(validation):
    models = fit_together([weasel(*pair) for pair in PAIRS], X, VOTES, validation)
    for model, pair in zip(models, PAIRS, strict=True):
        alone = weasel(*pair).fit(X, VOTES, validation)
        assert_same_fit(model, alone)
        assert_same_encoder(model, alone)
        assert (model.seed, model.lr) == pair


@pytest.mark.parametrize(
    "options",
    [
        {"loss": "mig"},
        {"loss": "hellinger", "activation": "sigmoid"},
        {"loss": "l1", "class_conditional": True, "voting_only": True},
        {"loss": "no_stop_gradient", "encoding": "signed", "weight_average": 0.9},
        {
            "encoder": EncoderLayers((7,), trained=False),
            "class_balance": [0.3, 0.7],
            "encoding": "index",
        },
        {
            "encoder": EncoderLayers((7,), features=False),
            "voting_only": True,
            "patience": 1,
            "epochs": 6,
        },
    ],
    ids=str,
)
def test_every_option_of_weasel_can_be_stacked(options):
    models = fit_together([weasel(*pair, **options) for pair in PAIRS[:3]], X, VOTES, HELD_OUT)
    for model, pair in zip(models, PAIRS, strict=False):
        assert_same_fit(model, weasel(*pair, **options).fit(X, VOTES, HELD_OUT))


def test_torch_layers_of_the_users_own_can_be_stacked():
    def model(seed: int) -> TwoStage:
        return TwoStage(MajorityVote(), plain_network(seed), seed=seed, lr=0.01, **QUICK)

    for found, seed in zip(fit_together([model(0), model(1)], X, VOTES), (0, 1), strict=True):
        assert_same_fit(found, model(seed).fit(X, VOTES))
        assert found.label_model_.predict(VOTES).tolist()


def test_supervised_models_can_be_stacked():
    def model(seed: int) -> Supervised:
        return Supervised(network(seed), labels=VOTES.labels, seed=seed, lr=0.01, **QUICK)

    for found, seed in zip(fit_together([model(0), model(1)], X, GOLD), (0, 1), strict=True):
        assert_same_fit(found, model(seed).fit(X, GOLD))


def test_patience_ends_each_member_at_an_epoch_of_its_own():
    options = {"patience": 2, "epochs": 30}
    models = fit_together([weasel(s, 0.02, **options) for s in range(4)], X, VOTES, HELD_OUT)
    assert len({len(model.history_) for model in models}) > 1
    for seed, model in enumerate(models):
        assert_same_fit(model, weasel(seed, 0.02, **options).fit(X, VOTES, HELD_OUT))


def test_the_users_generator_and_networks_are_left_alone():
    state, models = torch.get_rng_state(), [weasel(*pair) for pair in PAIRS[:2]]
    before = [torch.cat([w.flatten() for w in weights(model.end_model)]) for model in models]
    fit_together(models, X, VOTES)
    assert torch.equal(state, torch.get_rng_state())
    for model, first in zip(models, before, strict=True):
        assert torch.equal(torch.cat([w.flatten() for w in weights(model.end_model)]), first)
    storages = {p.untyped_storage().data_ptr() for m in models for p in m.end_model_.parameters()}
    assert len(storages) == 2 * len(list(models[0].end_model_.parameters()))


def test_a_stack_goes_on_from_its_checkpoint(tmp_path: Path):
    options = {"checkpoint": tmp_path / "run.ckpt", "weight_average": 0.9}
    fit_together([weasel(*pair, **options, epochs=2) for pair in PAIRS], X, VOTES, HELD_OUT)
    resumed = fit_together([weasel(*pair, **options) for pair in PAIRS], X, VOTES, HELD_OUT)
    for model, pair in zip(resumed, PAIRS, strict=True):
        assert_same_fit(
            model, weasel(*pair, **options | {"checkpoint": None}).fit(X, VOTES, HELD_OUT)
        )


def test_models_of_any_kind_are_fitted_together():
    def models() -> list[Any]:
        quick = {"seed": 1, "lr": 0.01, **QUICK}
        return [
            weasel(0, 0.1),
            weasel(1, 0.1, epochs=4),
            TwoStage(MajorityVote(), network(0), **quick),
            TwoStage(Snorkel(), network(0), **quick),
            TwoStage(FeatureChecked(), network(0), class_balance=[0.3, 0.7], **quick),
            TwoStage(MajorityVote(), network(0), loss="mig", **quick),
        ]

    for ours, alone in zip(fit_together(models(), X, VOTES, HELD_OUT), models(), strict=True):
        assert_same_fit(ours, alone.fit(X, VOTES, HELD_OUT))
    assert fit_together([], X, VOTES) == []


def test_two_stages_with_different_label_models_are_one_stack(monkeypatch):
    label_models = [MajorityVote(), Snorkel(), FeatureChecked()]
    models = [TwoStage(label_model, network(0), lr=0.01, **QUICK) for label_model in label_models]
    assert len({model.stack_key() for model in models}) == 1
    assert len({model.plan_key() for model in models}) == 3
    monkeypatch.setattr("wiesel.end_to_end.plan.train", None)
    fit_together(models, X, VOTES)
    soft_labels = [model.soft_labels(X, VOTES) for model in models]
    assert not np.allclose(soft_labels[0], soft_labels[1])
    assert not np.allclose(models[0].predict_proba(X), models[1].predict_proba(X))


class Own(nn.Module):
    """A module whose code nobody knows."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 2)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.layer(features)


def test_what_cannot_be_stacked_is_trained_one_by_one_and_said():
    net = Own()
    models = [WeaSEL.paper(net, seed=seed, lr=0.01, tau_1=1.0, **QUICK) for seed in (0, 1)]
    with pytest.warns(
        WieselWarning, match=r"2 networks of WeaSEL.*one by one: .*end_model \(Own\)"
    ):
        fit_together(models, X, VOTES, HELD_OUT)
    for seed, model in enumerate(models):
        alone = WeaSEL.paper(net, seed=seed, lr=0.01, tau_1=1.0, **QUICK).fit(X, VOTES, HELD_OUT)
        assert_same_fit(model, alone)
        assert np.array_equal(model.predict_proba(X), alone.predict_proba(X))


class TestEnsembles:
    def test_the_prediction_is_the_mean_of_the_members(self):
        model = weasel(2, 0.01, members=3).fit(X, VOTES, HELD_OUT)
        probas = model.member_probas(X)
        assert probas.shape == (3, 150, 2)
        assert np.allclose(model.predict_proba(X), probas.mean(axis=0), atol=1e-6)
        assert np.allclose(model.spread(X), probas.std(axis=0))
        assert model.spread(X).max() > 0.01
        assert isinstance(model.end_model_, Ensemble)
        assert set(model.predict(X)) <= set(VOTES.labels)

    def test_member_k_is_what_seed_k_gives_alone(self):
        model = weasel(2, 0.01, members=3).fit(X, VOTES, HELD_OUT)
        assert [member.seed for member in model.members_] == [2, 3, 4]
        for member in model.members_:
            assert_same_fit(member, weasel(member.seed, 0.01).fit(X, VOTES, HELD_OUT))

    def test_a_module_of_the_users_own_keeps_its_weights(self):
        net = plain_network(5)
        model = WeaSEL.paper(net, tau_1=1.0, members=2, **QUICK).fit(X, VOTES)
        alone = WeaSEL.paper(net, tau_1=1.0, seed=1, **QUICK).fit(X, VOTES)
        assert_same_fit(model.members_[1], alone)

    def test_the_threshold_is_that_of_the_mean(self):
        model = weasel(2, 0.01, members=3).fit(X, VOTES, HELD_OUT)
        proba = model.predict_proba(HELD_OUT[0])[:, 1]
        threshold = 0.5 if model.threshold_ is None else model.threshold_
        assert threshold == pytest.approx(supported_threshold(proba, HELD_OUT[1]))
        assert model.selection_["by"] == "auc"
        assert model.selection_["epoch"] == [m.selection_["epoch"] for m in model.members_]

    def test_the_history_has_every_member_and_their_mean(self):
        model = weasel(2, 0.01, members=2).fit(X, VOTES)
        first, second = model.history_.members
        mean = (first[1]["loss_encoder"] + second[1]["loss_encoder"]) / 2
        assert model.history_[1]["loss_encoder"] == pytest.approx(mean)
        assert len(model.history_.to_frame()) == 3

    def test_voters_are_weighed_by_all_members(self):
        model = weasel(2, 0.01, members=2).fit(X, VOTES)
        both = [member.accuracies(X, VOTES) for member in model.members_]
        assert np.allclose(model.accuracies(X, VOTES), np.mean(both, axis=0))
        labels = [member.soft_labels(X, VOTES) for member in model.members_]
        assert np.allclose(model.soft_labels(X, VOTES), np.mean(labels, axis=0))
        assert str(model.explain(X[3], VOTES[3]))

    def test_one_network_has_no_spread(self):
        model = weasel(0, 0.01).fit(X, VOTES)
        assert model.member_probas(X).shape == (1, 150, 2)
        assert (model.spread(X) == 0).all()
        assert model.members_ == ()

    def test_crowd_methods_are_trained_one_by_one(self):
        model = CrowdLayer(network(0), members=2, lr=0.01, **QUICK)
        with pytest.warns(WieselWarning, match="one by one"):
            model.fit(X, VOTES, validation=HELD_OUT)
        assert model.spread(X).max() > 0
        assert model.confusions().shape == (6, 2, 2)

    def test_no_members_are_refused(self):
        with pytest.raises(ParameterError, match="members"):
            weasel(0, 0.01, members=0).fit(X, VOTES)

    @pytest.mark.parametrize("own", [False, True], ids=["shipped", "own"])
    def test_an_ensemble_comes_back_as_it_was(self, tmp_path: Path, own: bool):
        net = plain_network(0) if own else network(0)
        model = WeaSEL.paper(net, tau_1=1.0, members=2, lr=0.01, **QUICK).fit(X, VOTES, HELD_OUT)
        model.save(tmp_path / "model")
        loaded = load_model(tmp_path / "model", end_model=plain_network(9) if own else None)
        assert np.array_equal(loaded.member_probas(X), model.member_probas(X))
        assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
        assert np.array_equal(loaded.soft_labels(X, VOTES), model.soft_labels(X, VOTES))
        assert loaded.history_.to_dict() == model.history_.to_dict()
        assert (loaded.threshold_, loaded.selection_) == (model.threshold_, model.selection_)
        assert loaded.get_params()["members"] == 2
        assert [member.seed for member in loaded.members_] == [0, 1]
        kept = ", ".join(str(epoch) for epoch in model.selection_["epoch"])
        assert f"epoch {kept} of 3" in (tmp_path / "model" / "CARD.md").read_text()

    def test_an_ensemble_of_two_stages_comes_back(self, tmp_path: Path):
        model = TwoStage(MajorityVote(), network(0), members=2, lr=0.01, **QUICK).fit(X, VOTES)
        model.save(tmp_path / "model")
        loaded = load_model(tmp_path / "model")
        assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
        assert np.array_equal(loaded.soft_labels(X, VOTES), model.soft_labels(X, VOTES))

    def test_a_folder_that_lacks_members_is_refused(self, tmp_path: Path):
        model = weasel(0, 0.01, members=2).fit(X, VOTES)
        model.set_params(members=3).save(tmp_path / "model")
        with pytest.raises(SavedModelError, match="should have 3 members"):
            load_model(tmp_path / "model")


def _after(shares: list[list[float]], **options) -> list[TwoStage]:
    models = []
    for share in shares:
        model = TwoStage(MajorityVote(), Linear(3, 2), **options)
        model.labels_ = LabelSpace("ham", "spam")
        model.history_ = History([{"predicted_shares": share, "voted_shares": [0.5, 0.5]}])
        models.append(model)
    return models


@pytest.mark.filterwarnings("error::wiesel.errors.CollapseWarning")
def test_a_collapsed_network_among_healthy_ones_is_no_warning():
    warn_if_collapsed(_after([[1.0, 0.0], [0.4, 0.6], [0.5, 0.5]]))


def test_many_collapsed_networks_are_one_warning_with_options_the_method_has():
    with pytest.warns(CollapseWarning) as caught:
        warn_if_collapsed(_after([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]))
    (message,) = [str(warning.message) for warning in caught]
    assert message.startswith("2 of the 3 networks have collapsed")
    assert "class_balance" in message
    assert "tau_1" not in message


def test_a_collapsed_network_alone_is_named_with_the_class_it_predicts():
    with pytest.warns(CollapseWarning, match="predicts 'spam' for nearly all items"):
        warn_if_collapsed(_after([[0.002, 0.998]]))


def test_models_that_differ_in_the_middle_of_a_long_array_have_different_plans():
    # NumPy shows only the ends of an array with more than a thousand entries.
    weights = np.ones(1200)
    other = weights.copy()
    other[600] = 0.5
    keys = {TwoStage(WeightedVote(weights=w), nn.Linear(5, 2)).plan_key() for w in (weights, other)}
    assert len(keys) == 2
