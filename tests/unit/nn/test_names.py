"""End models by name."""

import json

import numpy as np
import pytest
import torch

from wiesel.errors import (
    FeatureError,
    LabelingFunctionError,
    MissingExtraError,
    ParameterError,
    SavedModelError,
)
from wiesel.nn import CNN, LSTM, MLP, Linear
from wiesel.nn.names import END_MODELS, end_model_by_name, module_from_spec, module_spec


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
    with pytest.raises(ParameterError, match=r"no option 'hiden'.*Did you mean 'hidden'"):
        end_model_by_name("mlp", np.zeros((4, 7)), 2, options={"hiden": [5]})
    with pytest.raises(ParameterError, match="cannot be made with"):
        end_model_by_name("mlp", np.zeros((4, 7)), 2, options={"hidden": ["wide"]})


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
    with pytest.raises(ParameterError, match=r"not a torch\.nn\.Module"):
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


def test_a_stored_transformer_is_made_anew_without_its_folder(tmp_path):
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8}
    config = transformers.BertConfig(vocab_size=20, num_hidden_layers=1, num_labels=3, **sizes)
    network = transformers.BertForSequenceClassification(config)
    spec = json.loads(json.dumps(module_spec(network)))
    again = module_from_spec(spec)
    again.load_state_dict(network.state_dict())
    tokens = torch.ones(2, 5, dtype=torch.long)
    networks = [each.eval() for each in (network, again)]
    first, second = (each(input_ids=tokens).logits for each in networks)
    assert torch.allclose(first, second, atol=1e-6)
    assert module_spec(network.bert) is None, "only sequence classifiers are rebuilt"


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"model_type": "no_such_thing"}, "has no architecture 'no_such_thing'"),
        ({"model_type": ["bert"]}, "cannot be built again"),
        ({"model_type": "bert", "hidden_size": "wide"}, "cannot be built again"),
        (3, "cannot be built again"),
    ],
)
def test_a_forged_transformer_is_refused(config, words):
    pytest.importorskip("transformers")
    with pytest.raises(SavedModelError, match=words):
        module_from_spec({"name": "transformer", "arguments": {"config": config}})


def test_settings_that_name_code_are_never_stored_or_read():
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8}
    config = transformers.BertConfig(vocab_size=20, num_hidden_layers=1, **sizes)
    config.auto_map = {"AutoModelForSequenceClassification": "somebody/code--file.Net"}
    spec = module_spec(transformers.BertForSequenceClassification(config))
    stored = spec["arguments"]["config"]
    assert "auto_map" not in stored
    assert not [name for name in stored if name.startswith("_")]
    forged = {**stored, "auto_map": config.auto_map, "attn_implementation": "somebody/kernel"}
    made = module_from_spec({"name": "transformer", "arguments": {"config": forged}})
    assert made.config._attn_implementation == "eager"
    assert not hasattr(made.config, "auto_map")


def test_a_classifier_of_scikit_learn_has_a_name():
    name = "sklearn:linear_model.LogisticRegression"
    classifier = end_model_by_name(name, None, 2, seed=3, options={"C": 0.5})
    assert (classifier.C, classifier.random_state) == (0.5, 3)
    with pytest.raises(ParameterError, match=r"no option 'penalti'.*Did you mean 'penalty'"):
        end_model_by_name(name, None, 2, options={"penalti": 1})


@pytest.mark.parametrize(
    "name",
    [
        "sklearn:ensemble.RandomForestClassifier",
        "sklearn:preprocessing.StandardScaler",
        "sklearn:os.system",
    ],
)
def test_only_classifiers_that_can_be_saved_have_a_name(name):
    with pytest.raises(ParameterError, match=r"There is no end model.*saved as data"):
        end_model_by_name(name, None, 2)


def test_every_kind_of_name_is_described():
    assert {name.partition(":")[0] for name in END_MODELS} == {
        "mlp",
        "linear",
        "lstm",
        "cnn",
        "transformer",
        "sklearn",
        "module",
        "tagger",
        "linear_tagger",
    }
