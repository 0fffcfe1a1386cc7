import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from wiesel.errors import SavedModelError
from wiesel.nn import CNN, LSTM, MLP, Ensemble, Linear, shipped_module, shipped_spec
from wiesel.nn.end_models import Dropout, evaluating, fused_logits
from wiesel.training import seeded

SHIPPED = [
    (MLP(5, 3, hidden=(4,)), torch.zeros(2, 5)),
    (MLP(5, 3, hidden=()), torch.zeros(2, 5)),
    (Linear(5, 3), torch.zeros(2, 5)),
    (LSTM(vocabulary=9, n_classes=3, embedding=4, hidden=3), torch.ones(2, 6, dtype=torch.long)),
    (CNN(channels=1, n_classes=3, filters=(2, 2)), torch.zeros(2, 1, 8, 8)),
]


@pytest.mark.parametrize(("module", "batch"), SHIPPED, ids=lambda value: type(value).__name__)
def test_a_shipped_module_returns_logits_and_can_be_rebuilt(module: nn.Module, batch: torch.Tensor):
    assert module.eval()(batch).shape == (2, 3)
    rebuilt = shipped_module(shipped_spec(module))
    assert type(rebuilt) is type(module)
    rebuilt.load_state_dict(module.state_dict())
    assert torch.equal(rebuilt.eval()(batch), module(batch))


def test_the_default_mlp_is_the_paper_s():
    kinds = [type(layer).__name__ for layer in MLP(300, 2).layers]
    sizes = [layer.out_features for layer in MLP(300, 2).layers if isinstance(layer, nn.Linear)]
    assert sizes == [50, 50, 25, 2]
    # Dropout after both layers of 50, none after that of 25.
    assert kinds == ["Linear", "ReLU", "Dropout"] * 2 + ["Linear", "ReLU", "Linear"]


def test_an_lstm_does_not_see_the_padding():
    lstm = LSTM(vocabulary=9, n_classes=2, embedding=4, hidden=3).eval()
    short, padded = torch.tensor([[3, 5]]), torch.tensor([[3, 5, 0, 0, 0]])
    assert torch.allclose(lstm(short), lstm(padded), atol=1e-6)


def test_an_lstm_reads_an_empty_text():
    assert torch.isfinite(LSTM(9, 2).eval()(torch.zeros(1, 4, dtype=torch.long))).all()


def test_a_module_of_the_user_s_is_not_shipped():
    class MLP(nn.Module):
        """The same name as a shipped one, by accident."""

    assert shipped_spec(nn.Linear(3, 2)) is None
    assert shipped_spec(MLP()) is None


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"name": "MPL", "arguments": {}}, "Did you mean 'MLP'"),
        ({"name": "MLP"}, "arguments"),
        ({"name": "MLP", "arguments": {"n_features": 3}}, "n_classes"),
        ({"name": "Linear", "arguments": {"n_features": 3, "n_classes": 2, "evil": 1}}, "evil"),
        ({"name": "Sequential", "arguments": {}}, "no shipped end model"),
        ({"name": ["MLP"], "arguments": {}}, "no shipped end model"),
    ],
)
def test_a_description_that_fits_no_shipped_module_is_refused(spec, words: str):
    with pytest.raises(SavedModelError, match=words):
        shipped_module(spec)


def test_dropout_keeps_the_mean_and_the_share():
    with seeded(0):
        dropped = Dropout(0.3)(torch.ones(20_000))
    assert dropped.mean().item() == pytest.approx(1, abs=0.02)
    assert (dropped == 0).float().mean().item() == pytest.approx(0.3, abs=0.02)
    assert np.allclose(dropped.unique().numpy(), [0, 1 / 0.7])


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_dropout_of_nothing_and_of_everything(p: float):
    assert torch.equal(Dropout(p)(torch.ones(5)), torch.full((5,), 1 - p))


@pytest.mark.parametrize(
    ("hidden", "kinds"),
    [
        ((), ["Linear"]),
        ((4,), ["Linear", "ReLU", "Dropout", "Linear"]),
        ((5, 4), ["Linear", "ReLU", "Dropout", "Linear", "ReLU", "Linear"]),
    ],
)
def test_dropout_follows_all_hidden_layers_but_the_last_of_several(hidden, kinds):
    assert [type(layer).__name__ for layer in MLP(3, 2, hidden=hidden).layers] == kinds


def test_a_cnn_is_two_padded_convolutions_and_a_linear_layer():
    cnn = CNN(channels=2, n_classes=3, filters=(4, 5)).eval()
    images = torch.randn(2, 2, 9, 8, generator=torch.Generator().manual_seed(0))
    weights = dict(cnn.named_parameters())
    first, second, last = (
        (weights[f"layers.{k}.weight"], weights[f"layers.{k}.bias"]) for k in (0, 3, 8)
    )
    values = functional.max_pool2d(functional.conv2d(images, *first, padding=1).relu(), 2)
    values = functional.conv2d(values, *second, padding=1).relu()
    values = functional.adaptive_avg_pool2d(values, 4).reshape(2, -1)
    assert torch.allclose(cnn(images), functional.linear(values, *last), atol=1e-6)


def test_evaluating_puts_every_part_back_into_its_mode():
    net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(2).eval()))
    modes = [part.training for part in net.modules()]
    with evaluating(net):
        assert not any(part.training for part in net.modules())
    assert [part.training for part in net.modules()] == modes == [True, True, True, True, False]


def test_a_perceptron_without_calls_of_its_layers_answers_the_same() -> None:
    net = MLP(6, 3, hidden=(5, 4)).eval()
    net.layers[1] = nn.Tanh()  # a layer of the user's choice
    items = torch.randn(7, 6)
    assert torch.equal(net(items), net.layers(items))


def test_a_hook_on_a_layer_of_a_perceptron_sees_what_it_returns() -> None:
    net, seen = MLP(6, 3).eval(), []
    net.layers[0].register_forward_hook(lambda layer, inputs, found: seen.append(found.shape))
    net(torch.zeros(2, 6))
    assert seen == [(2, 50)]


def nested_ensemble() -> Ensemble:
    networks = [MLP(5, 3, hidden=(4, 6)).eval() for _ in range(5)]
    inner = Ensemble(networks[:2]), Ensemble(networks[2:4], [0.3, 0.7])
    return Ensemble([*inner, networks[4]], [0.5, 0.2, 0.3], [0.1, -0.4, 0.0]).eval()


def test_fused_logits_are_those_of_the_members_one_by_one() -> None:
    ensemble, batch = nested_ensemble(), torch.randn(7, 5)
    for features in (batch, batch[:1]):
        found = fused_logits(ensemble, features)
        assert found is not None
        torch.testing.assert_close(found, ensemble(features))


def test_fused_logits_follow_every_change_of_the_weights() -> None:
    ensemble, batch = nested_ensemble(), torch.randn(1, 5)
    last = ensemble.members[2].layers[0]
    before = fused_logits(ensemble, batch)
    last.weight.data.mul_(3)  # no counter of torch notices a change of the data
    last.bias = nn.Parameter(torch.full((4,), 2.0))
    found = fused_logits(ensemble, batch)
    torch.testing.assert_close(found, ensemble(batch))
    assert not torch.allclose(found, before)


def test_members_without_weight_are_left_out_of_fused_logits() -> None:
    networks = [MLP(5, 2).eval(), MLP(5, 2).eval(), nn.Linear(5, 2)]
    ensemble, batch = Ensemble(networks, [0.4, 0.6, 0.0]), torch.randn(2, 5)
    found = fused_logits(ensemble, batch)
    assert found is not None
    torch.testing.assert_close(found, ensemble(batch))


def test_other_networks_are_not_fused() -> None:
    batch, net = torch.randn(1, 5), MLP(5, 2).eval()
    watched, changed, own = (MLP(5, 2).eval() for _ in range(3))
    watched.layers[2].register_forward_hook(lambda *_: None)
    changed.layers[1] = nn.Tanh()
    own.layers[0].forward = lambda values: values[:, :1].expand(-1, 50)  # type: ignore[method-assign]
    other_offsets = Ensemble([net, net], None, [0.0, 1.0])
    others = [watched, changed, own, MLP(5, 2, hidden=(7,)).eval(), nn.Linear(5, 2), other_offsets]
    assert fused_logits(Ensemble([net, net]), batch) is not None
    for other in others:
        assert fused_logits(Ensemble([net, other]), batch) is None
    for features in (batch.double(), torch.randn(1, 6), {"x": batch}):
        assert fused_logits(Ensemble([net, net]), features) is None
    assert fused_logits(net, batch) is None
    torch.testing.assert_close(own(batch), own.layers(batch))
