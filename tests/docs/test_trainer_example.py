"""The how-to's Trainer example, run with a tiny network made on the spot."""

from pathlib import Path

import polars as pl
import pytest
from markdown_blocks import blocks_of

from wiesel import MajorityVote, VoteMatrix
from wiesel.io import soft_labeled_rows, to_hugging_face

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "import-export.md"


@pytest.mark.filterwarnings("ignore:.pin_memory.")
def test_a_trainer_learns_the_soft_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for package in ("accelerate", "datasets", "tokenizers"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    loss, training = [block.code for block in blocks_of(PAGE) if "soft_label_loss" in block.code]
    texts = ["win a free prize now", "see you at eight"] * 20
    votes = VoteMatrix.from_dense([[1, 1, 0], [0, 0, -1]] * 20, ["ham", "spam"])
    proba = MajorityVote().fit(votes).predict_proba(votes)
    rows = soft_labeled_rows(pl.DataFrame({"text": texts}), proba, votes.labels)
    tokenizer = word_tokenizer(texts)
    network = tiny_network(len(tokenizer))
    names = {
        "dataset": to_hugging_face(rows, votes.labels),
        "tokenizer": tokenizer,
        "network": network,
    }
    training = training.replace('"out",', '"out", num_train_epochs=40, learning_rate=1e-2,')
    exec(f"import torch\n{loss}\n{training}", names)
    tokens = tokenizer(texts[:2], return_tensors="pt", padding=True)
    learned = network.eval()(**tokens).logits.softmax(-1)[:, 1]
    # Two of three votes said spam for the first text; none of two for the second.
    assert abs(learned[0] - 2 / 3) < 0.1
    assert learned[1] < 0.1


def word_tokenizer(texts):
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.WordLevelTrainer(special_tokens=["[PAD]", "[UNK]"])
    words.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]")


def tiny_network(n_words: int):
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = BertConfig(vocab_size=n_words, intermediate_size=16, num_labels=2, **sizes)
    return BertForSequenceClassification(config)
