"""End models by name."""

import numpy as np
import pytest
import torch

from wiesel.errors import FeatureError, LabelingFunctionError, MissingExtraError, ParameterError
from wiesel.nn import CNN, LSTM, MLP, Linear
from wiesel.nn.names import END_MODELS, end_model_by_name


@pytest.mark.parametrize(
    ("name", "X", "kind"),
    [
        ("mlp", np.zeros((4, 7), np.float32), MLP),
        ("linear", np.zeros((4, 7), np.float32), Linear),
        ("lstm", np.full((4, 5), 9), LSTM),
        ("cnn", np.zeros((4, 3, 8, 8), np.float32), CNN),
    ],
)
def test_every_name_gives_a_network_that_reads_the_inputs(name, X, kind):
    network = end_model_by_name(name, X, n_classes=3)
    assert type(network) is kind
    assert network(torch.from_numpy(X)).shape == (4, 3)


def test_the_same_seed_gives_the_same_weights_and_leaves_the_generator_alone():
    X = np.zeros((4, 7), np.float32)
    before = torch.get_rng_state()
    first, second, other = (end_model_by_name("mlp", X, 2, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    weights = [next(network.parameters()) for network in (first, second, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_options_reach_the_network():
    network = end_model_by_name("mlp", np.zeros((4, 7)), 2, options={"hidden": [5]})
    assert network.arguments["hidden"] == [5]
    with pytest.raises(ParameterError, match="cannot be made with"):
        end_model_by_name("mlp", np.zeros((4, 7)), 2, options={"hiden": [5]})


@pytest.mark.parametrize("name", ["mpl", "module", "transformer", "mlp:3", ""])
def test_an_unknown_name_is_refused_with_those_there_are(name):
    with pytest.raises(ParameterError, match=r"There is no end model.*(Did you mean|Allowed)"):
        end_model_by_name(name, np.zeros((4, 7)), 2)


def test_inputs_of_another_shape_are_refused():
    with pytest.raises(FeatureError, match=r"'cnn' reads inputs of 4 dimensions.*\(4, 7\)"):
        end_model_by_name("cnn", np.zeros((4, 7)), 2)


def test_a_class_of_ones_own_gets_what_it_takes(tmp_path):
    file = tmp_path / "net.py"
    file.write_text(
        "from torch import nn\n"
        "class Net(nn.Linear):\n"
        "    def __init__(self, n_features, n_classes, bias=True):\n"
        "        super().__init__(n_features, n_classes, bias)\n"
        "def no_module(): return 3\n"
    )
    network = end_model_by_name(f"module:{file}:Net", np.zeros((4, 7)), 2, options={"bias": False})
    assert (network.in_features, network.out_features, network.bias) == (7, 2, None)
    with pytest.raises(ParameterError, match="has no class 'Nett'"):
        end_model_by_name(f"module:{file}:Nett", np.zeros((4, 7)), 2)
    with pytest.raises(ParameterError, match=r"no torch\.nn\.Module"):
        end_model_by_name(f"module:{file}:no_module", np.zeros((4, 7)), 2)


def test_a_file_that_is_missing_or_broken_is_named(tmp_path):
    with pytest.raises(ParameterError, match="there is no file"):
        end_model_by_name(f"module:{tmp_path / 'no.py'}:Net", np.zeros((4, 7)), 2)
    (tmp_path / "broken.py").write_text("import nothing_of_this_name\n")
    with pytest.raises(LabelingFunctionError, match="line 1"):
        end_model_by_name(f"module:{tmp_path / 'broken.py'}:Net", np.zeros((4, 7)), 2)


def test_a_transformer_without_the_extra_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    with pytest.raises(MissingExtraError, match=r"wiesel\[transformers\]"):
        end_model_by_name(f"transformer:{tmp_path}", None, 2)


def test_a_transformer_is_read_from_a_local_folder(tmp_path):
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8}
    config = transformers.BertConfig(vocab_size=20, num_hidden_layers=1, **sizes)
    transformers.BertForSequenceClassification(config).save_pretrained(tmp_path)
    network = end_model_by_name(f"transformer:{tmp_path}", None, 3)
    tokens = torch.ones(2, 5, dtype=torch.long)
    assert network(input_ids=tokens, attention_mask=tokens).logits.shape == (2, 3)
    with pytest.raises(ParameterError, match=r"no config\.json"):
        end_model_by_name(f"transformer:{tmp_path / 'nowhere'}", None, 3)


def test_every_kind_of_name_is_described():
    assert {name.partition(":")[0] for name in END_MODELS} == {
        "mlp",
        "linear",
        "lstm",
        "cnn",
        "transformer",
        "module",
    }
