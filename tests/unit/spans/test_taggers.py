import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from wiesel import MajorityVote, VoteMatrix
from wiesel.cli.main import app
from wiesel.errors import FeatureError, ParameterError, SavedModelError, VoteError
from wiesel.saving import read_folder, write_folder
from wiesel.spans import (
    Documents,
    HiddenMarkov,
    SpanLabels,
    SpanTwoStage,
    SpanWeaSEL,
    TokenVotes,
    apply_span_lfs,
    gazetteer,
    load_span_model,
)
from wiesel.spans.storage import span_model_contents
from wiesel.spans.tagger import TokenInputs, TokenLogits
from wiesel.spans.weasel import TokenEncoder, WeaSELTokenObjective, _TokenBlocks
from wiesel.training import TrainingData

TEXTS = ["Ada met Bob", "so Bob met Ada again", "", "nobody"] * 6
FAST = {"epochs": 10, "lr": 0.05, "batch_size": 4, "progress": False}


def votes():
    documents = Documents.from_texts(TEXTS)
    return apply_span_lfs(gazetteer("PER", ["Ada", "Bob"], name="names"), documents, labels=["PER"])


class Rows(torch.nn.Module):
    """Answers with the number of the word; wrong on purpose where asked."""

    def __init__(self, n_tags: int = 3):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(n_tags))

    def forward(self, words, mask):
        return words.unsqueeze(-1) * self.scale


def test_each_token_is_in_one_stretch_and_padding_gives_no_logits():
    documents = Documents.from_texts(["a b c d e", "", "f"])
    inputs = TokenInputs({"words": np.arange(1, 7)}, documents, length=2)
    batch = inputs.take(np.arange(len(inputs)))
    assert [int(n) for n in batch["mask"].sum(dim=1)] == [2, 2, 1, 1]
    logits = TokenLogits(Rows(), 3)(batch)
    assert logits[:, 0].tolist() == [1, 2, 3, 4, 5, 6]


def test_a_tagger_of_the_wrong_shape_is_refused():
    inputs = TokenInputs({"words": np.arange(1, 3)}, Documents.from_texts(["a b"]))
    with pytest.raises(FeatureError, match=r"\(1, 2, 3\); got the shape \(1, 2, 5\)"):
        TokenLogits(Rows(5), 3)(inputs.take(np.arange(1)))


@pytest.mark.parametrize("model", [SpanTwoStage(**FAST), SpanWeaSEL(**FAST)])
def test_a_tagger_learns_what_the_rules_know_and_is_saved(model, tmp_path):
    model.fit(votes())
    documents = Documents.from_texts(["so Ada met nobody", ""])
    spans = model.predict(documents)
    assert [span[:3] for span in spans[0]] == [(3, 6, "PER")]
    assert spans[1] == []
    assert 0 < spans[0][0].confidence <= 1
    model.save(tmp_path / "tagger")
    loaded = load_span_model(tmp_path / "tagger")
    assert np.allclose(loaded.predict_proba(documents), model.predict_proba(documents))
    assert loaded.predict(list(documents.texts)) == spans
    soft = loaded.soft_labels(votes())
    assert np.allclose(soft, model.soft_labels(votes()))
    assert np.allclose(soft.sum(axis=1), 1)
    assert soft[0].argmax() == 1  # everybody votes B-PER on the first token
    assert str(loaded.explain(votes())[0]) == str(model.explain(votes())[0])


def test_a_token_that_voters_disagree_about_is_not_outside():
    documents = Documents.from_texts(["so Paris met nobody at all on that long day"] * 12)
    names = gazetteer("PER", ["Paris"], name="names")
    cities = gazetteer("LOC", ["Paris"], name="cities")
    both = apply_span_lfs([names, cities], documents, labels=["PER", "LOC"])
    model = SpanWeaSEL(**{**FAST, "epochs": 2}).fit(both)
    outside = model.soft_labels(both)[:, 0].reshape(12, -1)
    assert (outside[:, 1] < 0.5).all()
    assert (np.delete(outside, 1, axis=1) > 0.5).all()


@pytest.mark.parametrize("start", [MajorityVote(), HiddenMarkov()])
def test_weasel_on_tokens_starts_from_a_label_model(start):
    model = SpanWeaSEL(start=start, **FAST).fit(votes())
    assert model.predict(["Ada met"])[0][0][:3] == (0, 3, "PER")
    with pytest.raises(ParameterError, match="'start' option of SpanWeaSEL"):
        SpanWeaSEL(start="hmm").fit(votes())


def test_weasel_on_tokens_learns_the_start_for_as_many_epochs_as_it_says():
    own, soft = votes(), np.tile([0.5, 0.25, 0.25], (votes().documents.n_tokens, 1))
    encoder = TokenEncoder(len(own.voters) + 1, 3, ()).eval()
    tagger, blocks = TokenLogits(Rows(), 3), _TokenBlocks(own.with_silence())
    objective = WeaSELTokenObjective(tagger, encoder, blocks, soft, warm_up=2)
    numbers = TokenInputs({"words": np.arange(own.documents.n_tokens)}, own.documents)
    batch = TrainingData(numbers).gather(np.arange(2))
    logits = tagger(batch.inputs).log_softmax(1)
    eight = np.arange(8)  # tokens
    label = encoder(*blocks.of(eight)).log_softmax(1)
    for epoch, warming in ((1, True), (2, True), (3, False)):
        objective.start_epoch(epoch, None)
        losses = objective.losses(batch)
        target = torch.tensor(soft[:8]) if warming else label.exp()
        expected = -(target * logits).sum(dim=1).mean().item()
        assert losses["end_model"].item() == pytest.approx(expected, rel=1e-5)
        target = torch.tensor(soft[:8]) if warming else logits.exp()
        expected = -(target * label).sum(dim=1).mean().item()
        assert losses["encoder"].item() == pytest.approx(expected, rel=1e-5)


def test_the_encoder_reads_the_vote_shares_of_the_tokens_beside():
    documents = Documents.from_words([["w"] * 3, ["w"]])
    said = [[1, 1], [-1, 2], [0, 1], [2, 2]]
    blocks = _TokenBlocks(TokenVotes(documents, VoteMatrix.from_dense(said, SpanLabels("A").tags)))
    _, around = blocks.of(np.arange(4))
    before = [[0, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]]
    after = [[0, 0, 1], [0.5, 0.5, 0], [0, 0, 0], [0, 0, 0]]
    assert around.tolist() == np.hstack([before, after]).tolist()


def test_an_encoder_of_other_sizes_or_of_no_use_is_refused(tmp_path):
    model = SpanWeaSEL(**{**FAST, "epochs": 1}).fit(votes())
    model.save(tmp_path / "tagger")
    model.hidden = (8,)
    changed, _ = span_model_contents(model)
    manifest, files = read_folder(tmp_path / "tagger")
    write_folder(tmp_path / "tagger", changed, files)
    with pytest.raises(SavedModelError, match="do not fit the sizes of the TokenEncoder"):
        load_span_model(tmp_path / "tagger")
    model.hidden = SpanWeaSEL().hidden
    for weights in model.encoder_.parameters():
        weights.data.fill_(3e38)
    model.save(tmp_path / "tagger")
    with pytest.raises(SavedModelError, match="NaN or infinity as soft labels"):
        load_span_model(tmp_path / "tagger")
    write_folder(tmp_path / "tagger", {**manifest, "voters": [[]]}, files)
    with pytest.raises(SavedModelError, match="Voter names must be non-empty strings"):
        load_span_model(tmp_path / "tagger")


def test_a_vocabulary_with_words_the_tagger_has_no_row_for_is_refused(tmp_path):
    """What is tried on load need not hold the word: only its number would be out of range."""
    model = SpanTwoStage(**{**FAST, "epochs": 1}).fit(votes())
    manifest, files = span_model_contents(model)
    state = json.loads(files["features.json"])
    state["vocabularies"]["words"].append("babbage")
    files["features.json"] = json.dumps(state).encode()
    write_folder(tmp_path / "tagger", manifest, files)
    with pytest.raises(SavedModelError, match=r"saved words have numbers up to \d+; the tagger"):
        load_span_model(tmp_path / "tagger")


def test_validation_keeps_the_best_epoch_and_a_label_model_goes_token_by_token():
    held_out = Documents.from_texts(["Ada met Bob"]), [[(0, 3, "PER"), (8, 11, "PER")]]
    model = SpanTwoStage(label_model=MajorityVote(), **FAST).fit(votes(), validation=held_out)
    assert model.history_.best_epoch is not None
    assert "validation_span_f1" in model.history_.records[0]
    assert model.soft_labels(votes())[1].tolist() == [1, 0, 0]


def test_what_cannot_be_trained_on_is_refused():
    with pytest.raises(VoteError, match="needs TokenVotes"):
        SpanTwoStage().fit(votes().votes)
    silent = apply_span_lfs(gazetteer("PER", ["Zoe"]), Documents.from_texts(TEXTS), labels=["PER"])
    with pytest.raises(VoteError, match="nothing to learn from: 1 voters cast no vote"):
        SpanWeaSEL(**FAST).fit(silent)
    with pytest.raises(ParameterError, match="validation must be"):
        SpanTwoStage(**FAST).fit(votes(), validation=Documents.from_texts(["Ada"]))
    with pytest.raises(ParameterError, match="label_model"):
        SpanTwoStage(label_model="hmm").fit(votes())
    with pytest.raises(SavedModelError):
        load_span_model("no/such/folder")


def test_the_command_goes_from_texts_to_figures(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"id": f"t{k}", "text": text or "-"} for k, text in enumerate(TEXTS)]
    (tmp_path / "texts.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "lfs.py").write_text(
        "from wiesel.spans import gazetteer\n"
        "names = gazetteer('PER', ['Ada', 'Bob'], name='names')\n"
    )
    common = ["--lfs", "lfs.py", "--labels", "PER"]
    shown = run("apply", "texts.jsonl", *common, "--id", "id", "-o", "a.jsonl", "--html", "a.html")
    assert "t0: [Ada PER] met [Bob PER]" in shown
    assert (tmp_path / "a.html").read_text().count("<mark") == 24
    run("fit", "texts.jsonl", *common, "-o", "tagger", "--epochs", "2")
    run("predict", "tagger", "texts.jsonl", "--id", "id", "-o", "p.jsonl")
    report = json.loads(run("evaluate", "a.jsonl", "p.jsonl", "--json"))
    assert report["exact"]["all"]["n_gold"] == 24


def run(*words: str) -> str:
    result = CliRunner().invoke(app, ["spans", *words])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_command_says_in_one_line_what_is_wrong(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.jsonl").write_text('{"body": "Ada"}\n')
    (tmp_path / "lfs.py").write_text(
        "from wiesel.spans import gazetteer\nn = gazetteer('PER', ['Ada'])\n"
    )
    wrong = CliRunner().invoke(
        app, ["spans", "apply", "t.jsonl", "--lfs", "lfs.py", "--labels", "PER"]
    )
    assert wrong.exit_code == 1
    assert "text" in wrong.output
    assert "Traceback" not in wrong.output
