"""Projects whose end model is a transformer, a scikit-learn classifier, or the user's own."""

import re

import polars as pl
import pytest

# Two epochs on forty rows may well end in a warning; that is not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore::wiesel.errors.WieselWarning")

NET = """
from torch import nn

class Net(nn.Module):
    def __init__(self, n_features, n_classes, width=3):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n_features, width), nn.Linear(width, n_classes))

    def forward(self, features):
        return self.layers(features)
"""


def with_end_model(folder, lines: str, features: str | None = None) -> None:
    file = folder / "wiesel.toml"
    text = file.read_text().replace('name = "linear"', lines)
    if features is not None:
        text = text.replace('kind = "tfidf"\nn_dimensions = 3', features)
    file.write_text(text)


def write_transformer(folder, texts) -> None:
    """A folder as Hugging Face has it, with random weights and a tokenizer of whole words."""
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = sorted({word for text in texts for word in re.findall(r"\w+", text)})
    numbers = {word: place for place, word in enumerate(["[PAD]", "[UNK]", *words])}
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8}
    config = transformers.BertConfig(vocab_size=len(numbers), num_hidden_layers=1, **sizes)
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))


def test_a_transformer_goes_from_run_to_predict(tiny, tmp_path, wiesel, wiesel_json):
    write_transformer(tiny / "bert", pl.read_csv(tiny / "train.csv")["text"])
    tokens = 'kind = "tokens"\ntokenizer = "bert"\nlength = 8'
    with_end_model(tiny, 'name = "transformer:bert"', tokens)
    file = tiny / "wiesel.toml"
    file.write_text(file.read_text().replace("epoch_size = 320", "epoch_size = 40"))
    assert wiesel_json("run", tiny, "--method", "weasel,majority_vote")["method"] == "weasel"
    assert wiesel_json("run", tiny, "--method", "weasel,majority_vote")["reused"]["models"] == 2
    # The model is whole in itself: neither the folder of the transformer nor --end-model is needed.
    (tiny / "bert").rename(tmp_path / "elsewhere")
    predicted = wiesel_json("predict", tiny / "out/model", tiny / "test.csv")["predictions"]
    written = pl.read_parquet(tiny / "out/predictions.parquet").filter(split="test")
    probabilities = [row["p: billing"] for row in predicted]
    assert probabilities == pytest.approx(written["p: billing"].to_list(), abs=1e-5)
    assert wiesel("evaluate", tiny / "out/model", tiny / "test.csv").exit_code == 0


def test_a_folder_that_is_no_transformer_is_named(tiny, wiesel):
    pytest.importorskip("transformers")
    with_end_model(tiny, 'name = "transformer:bert"')
    assert "bert is not a Hugging Face model folder" in wiesel("run", tiny).stderr
    (tiny / "bert").mkdir()
    (tiny / "bert/config.json").write_text("{}")
    result = wiesel("run", tiny)
    assert result.exit_code == 1
    assert "bert cannot be read as a Hugging Face model" in result.stderr


def test_a_classifier_of_scikit_learn_goes_from_run_to_predict(tiny, wiesel, wiesel_json):
    with_end_model(tiny, 'name = "sklearn:linear_model.LogisticRegression"\nC = 0.5')
    first = wiesel("run", tiny)
    assert first.exit_code == 0, first.output
    assert "majority_vote, seed 0: fitted" in first.stderr
    assert wiesel_json("run", tiny)["reused"]["models"] == 1
    predicted = wiesel_json("predict", tiny / "out/model", tiny / "test.csv")["predictions"]
    written = pl.read_parquet(tiny / "out/predictions.parquet").filter(split="test")
    assert [row["p: billing"] for row in predicted] == pytest.approx(
        written["p: billing"].to_list()
    )
    with_option = (tiny / "wiesel.toml").read_text().replace("C = 0.5", "C = 0.25")
    (tiny / "wiesel.toml").write_text(with_option)
    assert wiesel_json("run", tiny)["reused"]["models"] == 0


@pytest.mark.parametrize(
    ("lines", "method", "words"),
    [
        ('name = "sklearn:linear_model.LogisticRegression"', "weasel", "step by step"),
        ('name = "sklearn:linear_model.LogistcRegression"', "snorkel", "Did you mean"),
        ('name = "sklearn:ensemble.RandomForestClassifier"', "snorkel", "saved as data"),
        ('name = "sklearn:naive_bayes.GaussianNB"\nsmooth = 1', "snorkel", "no option 'smooth'"),
    ],
)
def test_a_classifier_that_cannot_be_is_refused_before_training(tiny, wiesel, lines, method, words):
    with_end_model(tiny, lines)
    result = wiesel("run", tiny, "--method", method)
    assert result.exit_code == 1
    assert words in result.stderr
    assert "Unexpected" not in result.stderr


def test_a_network_of_ones_own_is_named_again_to_predict_and_explain(tiny, wiesel, wiesel_json):
    (tiny / "net.py").write_text(NET)
    with_end_model(tiny, 'name = "module:net.py:Net"\nwidth = 5')
    assert wiesel("run", tiny).exit_code == 0
    name = f"module:{tiny / 'net.py'}:Net"
    for words in (["predict", tiny / "test.csv"], ["explain", "--item", "m0", "--project", tiny]):
        command = (words[0], tiny / "out/model", *words[1:])
        refused = wiesel(*command)
        assert refused.exit_code == 1
        assert f"--end-model {name}" in refused.stderr, "the message has the option to add"
        # The width of 5 is not given again: the model knows the options it was made with.
        assert wiesel_json(*command, "--end-model", name)["ok"]


def test_a_model_saved_in_python_with_its_features_predicts_a_table(tmp_path, wiesel_json):
    from wiesel import MajorityVote, TwoStage, VoteMatrix
    from wiesel.features import TextFeatures
    from wiesel.nn import Linear

    texts = ["free prize", "see you at lunch", "win a prize", "lunch at noon"] * 4
    votes = VoteMatrix.from_dense([[1], [0], [1], [0]] * 4, ["ham", "spam"])
    features = TextFeatures(min_count=1)
    X = features.fit_transform(texts)
    quick = {"epochs": 2, "epoch_size": None, "progress": False}
    model = TwoStage(MajorityVote(), Linear(X.shape[1], 2), **quick).fit(X, votes)
    model.save(tmp_path / "model", features=features, column="review")
    pl.DataFrame({"review": texts}).write_csv(tmp_path / "rows.csv")
    found = wiesel_json("predict", tmp_path / "model", tmp_path / "rows.csv")["predictions"]
    assert [row["prediction"] for row in found] == model.predict(X).tolist()


def test_predictions_of_a_committee_use_votes_on_the_rows(tiny, tmp_path, wiesel, wiesel_json):
    assert wiesel("run", tiny, "--method", "committee,majority_vote").exit_code == 0
    rows, votes = tmp_path / "new.csv", tmp_path / "votes.parquet"
    rows.write_text("id,text\nn1,I cannot log in\nn2,the invoice is wrong\nn3,a strange word\n")
    named = ("--labels", "billing,technical", "--id", "id")
    applied = wiesel("apply", rows, "--lfs", tiny / "lfs.py", "-o", votes, *named)
    assert applied.exit_code == 0, applied.output
    alone = wiesel_json("predict", tiny / "out/model", rows)["predictions"]
    told = wiesel_json("predict", tiny / "out/model", rows, "--votes", votes)["predictions"]
    assert [row["id"] for row in told] == ["n1", "n2", "n3"]
    billing = [[row["p: billing"] for row in found] for found in (alone, told)]
    assert billing[0][0] == pytest.approx(billing[1][0], abs=1e-6)  # nobody votes on it
    assert billing[1][1] != pytest.approx(billing[0][1], abs=1e-4)
    assert billing[1][1] > 0.5
    assert told[1]["prediction"] == "billing"
    # Rows are matched by id, whatever the order of the votes.
    turned = tmp_path / "turned.csv"
    turned.write_text("id,text\nn2,the invoice is wrong\nn1,I cannot log in\n")
    found = wiesel_json("predict", tiny / "out/model", turned, "--votes", votes)["predictions"]
    assert [row["p: billing"] for row in found] == pytest.approx([billing[1][1], billing[1][0]])
    missing = tmp_path / "missing.csv"
    missing.write_text("id,text\nn9,hello\n")
    refused = wiesel("predict", tiny / "out/model", missing, "--votes", votes)
    assert (refused.exit_code, "no votes on 1 of the 1 rows" in refused.output) == (1, True)
    assert wiesel("run", tiny, "--method", "majority_vote").exit_code == 0
    other = wiesel("predict", tiny / "out/model", rows, "--votes", votes)
    assert (other.exit_code, "method committee" in other.output) == (1, True)
