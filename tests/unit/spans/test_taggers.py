import itertools
import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from wiesel import (
    Committee,
    MajorityVote,
    Supervised,
    TwoStage,
    VoteMatrix,
    WeaSEL,
    load_model,
    spans,
)
from wiesel.cli.main import app
from wiesel.end_to_end import FeatureEM, MaxMIG
from wiesel.end_to_end.weasel.spans import TokenBlocks, WeaSELTokenObjective, build_token_encoder
from wiesel.errors import CollapseWarning, FeatureError, ParameterError, SavedModelError, VoteError
from wiesel.nn import BiLSTMTagger, LinearTagger, encode_votes
from wiesel.nn.end_models import shipped_module, shipped_spec
from wiesel.nn.taggers import TagChain, view_hash
from wiesel.saving import read_folder, write_folder
from wiesel.spans import (
    Documents,
    HiddenMarkov,
    SpanLabels,
    TokenVotes,
    apply_span_lfs,
    evaluate_spans,
    gazetteer,
)
from wiesel.tasks.spans import SoftTokenObjective, SpansTask, TokenLogits
from wiesel.training import TokenInputs, TrainingData

TEXTS = ["Ada met Bob", "so Bob met Ada again", "", "nobody"] * 6
FAST = {"epochs": 4, "epoch_size": 200, "lr": 0.005, "batch_size": 8, "progress": False}


def documents():
    return Documents.from_texts(TEXTS)


def votes():
    names = gazetteer("PER", ["Ada", "Bob"], name="names")
    return apply_span_lfs(names, documents(), labels=["PER"])


def tagger():
    return LinearTagger(3)


class Rows(torch.nn.Module):
    """Answers with the number of the word; wrong on purpose where asked."""

    def __init__(self, n_tags: int = 3):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(n_tags))

    def forward(self, words, mask):
        return words.unsqueeze(-1) * self.scale


def test_each_token_is_in_one_section_and_padding_gives_no_logits():
    inputs = TokenInputs(
        Documents.from_texts(["a b c d e", "", "f"]), {"words": np.arange(1, 7)}, 2
    )
    batch = inputs.take(np.arange(len(inputs)))
    assert [int(n) for n in batch["mask"].sum(dim=1)] == [2, 2, 1, 1]
    logits = TokenLogits(Rows(), 3)(batch)
    assert logits[:, 0].tolist() == [1, 2, 3, 4, 5, 6]


def test_a_section_ends_with_a_sentence_if_it_can():
    inputs = TokenInputs(Documents.from_texts(["a b . c d . e f g h"]), length=4)
    assert inputs.take(np.arange(len(inputs)))["mask"].sum(dim=1).tolist() == [3, 3, 4]


def test_the_numbers_of_a_word_are_those_of_its_views():
    batch = TokenInputs(Documents.from_texts(["Ada7 is"])).take(np.arange(1))
    assert batch["words"][0, 0] == view_hash("words", "ada0")
    assert batch["prefixes"][0, 0] == view_hash("prefixes", "ada")
    assert batch["suffixes"][0, 0] == view_hash("suffixes", "da7")
    assert batch["shapes"][0, 0] == view_hash("shapes", "Xxd")
    grams = {view_hash("grams", text) for text in ("<is", "is>", "<is>")}
    assert set(batch["grams"][0, 1].tolist()) == grams | {0}


def test_features_of_the_wrong_size_or_without_numbers_are_refused():
    two = Documents.from_texts(["a b"])
    with pytest.raises(FeatureError, match="are of 3 tokens; the documents have 2"):
        TokenInputs(two, {"words": np.arange(3)})
    with pytest.raises(FeatureError, match="NaN or infinity for token 1"):
        TokenInputs(two, {"words": np.array([1, np.nan])})


def test_a_tagger_of_the_wrong_shape_is_refused():
    inputs = TokenInputs(Documents.from_texts(["a b"]), {"words": np.arange(1, 3)})
    with pytest.raises(FeatureError, match=r"\(1, 2, 3\); got the shape \(1, 2, 5\)"):
        TokenLogits(Rows(5), 3)(inputs.take(np.arange(1)))
    with pytest.raises(FeatureError, match=r"shape \(items, tokens, 3\), one for each tag"):
        TwoStage(HiddenMarkov(), LinearTagger(5), **FAST).fit(documents(), votes())


def test_a_linear_tagger_reads_the_words_around_a_token():
    """Logits are sums of rows of tables: one table for each place in the window."""
    network = LinearTagger(2, rows=50, window=1, step=2, chain=False)
    words = torch.tensor([[1, 2, 3]])
    with torch.no_grad():
        for place, table in enumerate(network.tables):
            table.weight.copy_(torch.arange(50.0)[:, None] * 10.0**place)
        found = network({"words": words, "mask": words > 0})[0, :, 0]
    # before + 10 times the word + 100 times the next one
    assert found.tolist() == [2 * 210, 2 * 321, 2 * 32]


def test_the_lstm_stands_beside_a_linear_tagger():
    """Logits are those of both parts; taggers of earlier versions, which say sizes, have one."""
    torch.manual_seed(0)
    batch = TokenInputs(documents()).take(np.arange(4))
    both = BiLSTMTagger(3).eval()
    both.chain = None
    with torch.no_grad():
        for table in both.linear.tables:
            table.weight.normal_()
        found, linear = both(batch), both.linear(batch)
        both.linear = None
        assert torch.allclose(found, both(batch) + linear)
        assert linear.abs().max() > 1
    assert BiLSTMTagger(3, {"words": 9}).linear is None
    assert BiLSTMTagger(3, linear_rows=0).linear is None
    assert BiLSTMTagger.from_arguments(BiLSTMTagger(3).arguments).linear is not None


def test_a_chain_returns_the_marginals_of_all_legal_sequences():
    """Compared with the sum over all sequences, for texts of two lengths and two labels."""
    torch.manual_seed(0)
    chain, scores = TagChain(5), torch.randn(2, 4, 5)
    torch.nn.init.normal_(chain.pairs, std=0.3)
    torch.nn.init.normal_(chain.first, std=0.3)
    lengths, legal = [4, 2], SpanLabels(("PER", "LOC")).allowed
    mask = torch.arange(4) < torch.tensor(lengths)[:, None]
    found = chain(scores, mask).exp()
    for item, length in enumerate(lengths):
        expected = torch.zeros(length, 5)
        for path in itertools.product(range(5), repeat=length):
            pairs = list(itertools.pairwise(path))
            if path[0] in (2, 4) or not all(legal[pair] for pair in pairs):
                continue
            score = 3 * chain.first[path[0]] + 3 * sum(chain.pairs[pair] for pair in pairs)
            weight = (score + scores[item, range(length), path].sum()).exp().detach()
            expected[range(length), path] += weight
        expected /= expected.sum(dim=1, keepdim=True)
        assert torch.allclose(found[item, :length], expected, atol=1e-6)


def test_a_chain_stays_finite_with_extreme_scores():
    """A tag that is certain and that no legal sequence reaches is still no NaN."""
    chain, scores = TagChain(3), torch.zeros(1, 60, 3)
    scores[..., 2], scores[0, 30] = 500.0, torch.tensor([-900.0, -900.0, 900.0])
    scores.requires_grad_()
    found = chain(scores, torch.ones(1, 60, dtype=torch.bool))
    found[..., 0].sum().backward(retain_graph=True)
    assert torch.isfinite(found).all()
    assert torch.isfinite(scores.grad).all()
    assert torch.isfinite(chain.pairs.grad).all()
    scores.grad = None
    found[0, 0, 2].backward()
    assert scores.grad[0, 0, 2] == 0  # otherwise a soft label of the impossible pulls forever
    assert chain(torch.zeros(2, 0, 3), torch.ones(2, 0, dtype=torch.bool)).shape == (2, 0, 3)


@pytest.mark.parametrize("kind", [LinearTagger, BiLSTMTagger])
def test_taggers_that_were_saved_without_a_chain_have_none(kind):
    spec = shipped_spec(kind(3))
    assert shipped_module(spec).chain is not None
    del spec["arguments"]["chain"]
    old = shipped_module(spec)
    assert old.chain is None
    assert shipped_module(shipped_spec(old)).chain is None


def test_a_chain_knows_a_word_by_the_tag_before_it():
    """`x` is in the span that `a` begins and outside after `c`; the words alone do not tell."""
    own = Documents.from_words([["a", "x", "x", "b"], ["c", "x", "x", "b"]] * 20)
    gold = [[(0, 5, "PER")], []] * 20
    f1 = {}
    for chain in (False, True):
        network = LinearTagger(3, window=0, chain=chain)
        model = Supervised(network, epochs=8, epoch_size=400, batch_size=16, progress=False)
        f1[chain] = evaluate_spans(gold, model.fit(own, gold).predict(own), own, ["PER"]).exact
    assert f1[True]["all"].f1 == 1.0
    assert not f1[False]["all"].f1 > 0.9


@pytest.mark.parametrize("method", ["two_stage", "weasel", "committee"])
def test_votes_on_new_texts_add_names_that_no_training_text_has(method, tmp_path):
    """The tagger has never read `Zyx`; the function's list, applied to the new text, has it."""
    seen = Documents.from_texts(["Zyx met Bob", "so Ada met nobody"])
    names = gazetteer("PER", ["Ada", "Bob", "Zyx"], name="names")
    on_seen = apply_span_lfs(names, seen, labels=["PER"])
    model = METHODS[method]().fit(documents(), votes())
    model.save(tmp_path / "model")
    for each in (model, load_model(tmp_path / "model")):
        found = [[span[:3] for span in own] for own in each.predict(seen, on_seen)]
        assert found == [[(0, 3, "PER"), (8, 11, "PER")], [(3, 6, "PER")]]
        assert np.allclose(each.predict_proba(seen, on_seen).sum(axis=1), 1)
    with pytest.raises(FeatureError, match="X and votes must be of the same documents"):
        model.predict(seen, votes())


def test_a_tagger_and_votes_that_disagree_meet_in_the_middle():
    """The geometric mean with a doubt of 5 percent of each tag, and half of `O`."""
    task = SpansTask(SpanLabels(("PER",)))
    sure, unsure = np.array([[1.0, 0.0, 0.0]]), np.array([[0.4, 0.4, 0.2]])
    expected = np.sqrt([[1.0 * 0.4, 0.05 * 0.4, 0.05 * 0.2]]) * [0.5, 1, 1]
    assert np.allclose(task.with_votes(sure, unsure), expected / expected.sum())
    opposite = task.with_votes(sure, np.array([[0.0, 1.0, 0.0]]))[0]
    assert opposite.argmax() == 1


def test_the_default_learning_rate_suits_every_tagger():
    """Words that the votes mark are learned by heart in the default number of steps."""
    names = [f"n{k}" for k in range(60)]
    words = np.random.default_rng(0).permutation([*names, *(f"w{k}" for k in range(240))] * 3)
    own = Documents.from_words(words.reshape(-1, 10))
    marks = apply_span_lfs(gazetteer("PER", names), own, labels=["PER"])
    model = TwoStage(HiddenMarkov(), LinearTagger(3), epochs=2, epoch_size=1600, progress=False)
    found = model.fit(own, marks).predict(own)
    report = evaluate_spans(marks.majority(), found, own, ["PER"])
    assert report.exact["all"].f1 > 0.95


METHODS = {
    "two_stage": lambda: TwoStage(HiddenMarkov(), tagger(), **FAST),
    "two_stage_lstm": lambda: TwoStage(MajorityVote(), BiLSTMTagger(3, hidden=8), **FAST),
    "weasel": lambda: WeaSEL(tagger(), warm_up=2, **FAST),
    "committee": lambda: Committee(tagger(), networks=1, **FAST),
    "ensemble": lambda: TwoStage(HiddenMarkov(), tagger(), members=2, **FAST),
}


@pytest.mark.filterwarnings("ignore:The 2 networks of TwoStage are trained one by one")
@pytest.mark.parametrize("name", METHODS)
def test_every_method_learns_what_the_rules_know_and_is_saved(name, tmp_path):
    model = METHODS[name]().fit(documents(), votes())
    seen = Documents.from_texts(["so Ada met nobody", ""])
    found = model.predict(seen)
    assert [span[:3] for span in found[0]] == [(3, 6, "PER")]
    assert found[1] == []
    assert 0 < found[0][0].confidence <= 1
    model.save(tmp_path / "tagger")
    loaded = load_model(tmp_path / "tagger")
    assert np.allclose(loaded.predict_proba(seen), model.predict_proba(seen))
    assert loaded.predict(list(seen.texts)) == found
    assert loaded.labels_ == SpanLabels(("PER",))
    soft = loaded.soft_labels(documents(), votes())
    assert np.allclose(soft, model.soft_labels(documents(), votes()))
    assert np.allclose(soft.sum(axis=1), 1)
    assert soft[0].argmax() == 1  # everybody votes B-PER on the first token
    why = loaded.explain(documents()[1], votes()[1])
    assert [(each.text, each.voted_for) for each in why.spans] == [
        ("Bob", ("names",)),
        ("Ada", ("names",)),
    ]
    assert str(why) == str(model.explain(documents()[1], votes()[1]))


def test_gold_spans_train_a_tagger():
    gold = [[span[:3] for span in own] for own in votes().spans("names")]
    model = Supervised(tagger(), **FAST).fit(documents(), gold)
    assert model.labels_ == SpanLabels(("PER",))
    assert model.predict("Bob met nobody")[0][0][:3] == (0, 3, "PER")
    with pytest.raises(ParameterError, match="no gold span, so their labels are needed"):
        Supervised(tagger()).fit(documents(), [[]] * len(TEXTS))


def test_a_token_that_voters_disagree_about_is_not_outside():
    own = Documents.from_texts(["so Paris met nobody at all on that long day"] * 12)
    names = gazetteer("PER", ["Paris"], name="names")
    cities = gazetteer("LOC", ["Paris"], name="cities")
    both = apply_span_lfs([names, cities], own, labels=["PER", "LOC"])
    model = WeaSEL(LinearTagger(5), warm_up=1, **{**FAST, "epochs": 2}).fit(own, both)
    outside = model.soft_labels(own, both)[:, 0].reshape(12, -1)
    assert (outside[:, 1] < 0.5).all()
    assert (np.delete(outside, 1, axis=1) > 0.5).all()


def test_weasel_on_tokens_learns_the_start_for_as_many_epochs_as_it_says():
    own, soft = votes(), np.tile([0.5, 0.25, 0.25], (votes().n_tokens, 1))
    encoder = build_token_encoder(WeaSEL(tagger()), len(own.voters), 3, 1.0).eval()
    network, blocks = TokenLogits(Rows(), 3), TokenBlocks(own)
    objective = WeaSELTokenObjective(network, encoder, own, soft, warm_up=2)
    numbers = TokenInputs(own.documents, {"words": np.arange(own.n_tokens)})
    batch = TrainingData(numbers).gather(np.arange(2))
    logits = network(batch.inputs).log_softmax(1)
    cast, around = blocks.of(np.arange(8))  # tokens
    label = encoder.soft_label(encode_votes(cast, "one_hot", around), cast)[1].log_softmax(1)
    for epoch, warming in ((1, True), (2, True), (3, False)):
        objective.start_epoch(epoch, None)
        losses = objective.losses(batch)
        target = torch.tensor(soft[:8]) if warming else label.exp()
        expected = -(target * logits).sum(dim=1).mean().item()
        assert losses["end_model"].item() == pytest.approx(expected, rel=1e-5)
        target = torch.tensor(soft[:8]) if warming else logits.exp()
        expected = -(target * label).sum(dim=1).mean().item()
        assert losses["encoder"].item() == pytest.approx(expected, rel=1e-5)


def test_weasel_on_tokens_learns_the_spans_that_people_marked_after_its_start_too():
    # Of TEXTS, "Ada met Bob" has one marked name, and people say nothing of "so Bob met Ada again".
    own = votes().with_known([[(0, 3, "PER")], *[None] * (len(TEXTS) - 1)])
    encoder = build_token_encoder(WeaSEL(tagger()), len(own.voters), 3, 1.0).eval()
    network = TokenLogits(Rows(), 3)
    soft = np.full((own.n_tokens, 3), 1 / 3)
    objective = WeaSELTokenObjective(network, encoder, own, soft, warm_up=0)
    numbers = TokenInputs(own.documents, {"words": np.arange(own.n_tokens)})
    batch = TrainingData(numbers).gather(np.arange(2))
    logits = network(batch.inputs).log_softmax(1)
    cast, around = TokenBlocks(own).of(np.arange(8))
    label = encoder.soft_label(encode_votes(cast, "one_hot", around), cast)[1].log_softmax(1)
    known = torch.tensor([[0.0, 1, 0], [1, 0, 0], [1, 0, 0]])  # B-PER, O, O
    for name, mine, other in (("end_model", logits, label), ("encoder", label, logits)):
        wanted = torch.cat([known, other[3:].exp()])
        expected = -(wanted * mine).sum(dim=1).mean().item()
        assert objective.losses(batch)[name].item() == pytest.approx(expected, rel=1e-5)


def test_the_encoder_reads_the_vote_shares_of_the_tokens_beside():
    own = Documents.from_words([["w"] * 3, ["w"]])
    said = [[1, 1], [0, 2], [0, 1], [2, 2]]
    blocks = TokenBlocks(TokenVotes(own, VoteMatrix.from_dense(said, SpanLabels("A").tags)))
    _, around = blocks.of(np.arange(4))
    before = [[0, 0, 0], [0, 1, 0], [0.5, 0, 0.5], [0, 0, 0]]
    after = [[0.5, 0, 0.5], [0.5, 0.5, 0], [0, 0, 0], [0, 0, 0]]
    assert around.tolist() == np.hstack([before, after]).tolist()


def test_an_encoder_of_other_sizes_or_of_no_use_is_refused(tmp_path):
    model = WeaSEL(tagger(), warm_up=1, encoder=(8,), **{**FAST, "epochs": 2})
    model.fit(documents(), votes()).save(tmp_path / "tagger")
    manifest, files = read_folder(tmp_path / "tagger")
    other = {**manifest["parameters"], "encoder": {"$tuple": [9]}}
    write_folder(tmp_path / "tagger", {**manifest, "parameters": other}, files)
    with pytest.raises(SavedModelError, match="do not fit the encoder"):
        load_model(tmp_path / "tagger")
    for weights in model.encoder_.parameters():
        weights.data.fill_(3e38)
    model.save(tmp_path / "tagger")
    with pytest.raises(SavedModelError, match=r"soft labels of row 0 are \[nan"):
        load_model(tmp_path / "tagger")
    write_folder(tmp_path / "tagger", {**manifest, "voters": [[]]}, files)
    with pytest.raises(SavedModelError, match="expected a list of names"):
        load_model(tmp_path / "tagger")


def test_validation_keeps_the_best_epoch_and_a_label_model_goes_token_by_token():
    held_out = Documents.from_texts(["Ada met Bob"]), [[(0, 3, "PER"), (8, 11, "PER")]]
    model = TwoStage(MajorityVote(), tagger(), **FAST)
    model.fit(documents(), votes(), validation=held_out)
    assert model.history_.best_epoch is not None
    assert model.selection_["by"] == "span_f1"
    assert model.threshold_ is None
    assert model.soft_labels(documents(), votes())[1].tolist() == [1, 0, 0]
    averaged = Committee(tagger(), networks=1, **FAST)
    averaged.fit(documents(), votes(), validation=held_out)
    with pytest.raises(ParameterError, match="Gold spans select the epoch"):
        averaged.fit(documents(), votes(), gold=held_out[1] * 24)
    assert sum(averaged.member_weights_.values()) == pytest.approx(1)


def test_soft_labels_are_learned_and_the_history_counts_spans():
    own = Documents.from_words([["a", "b"]])
    objective = SoftTokenObjective(TokenLogits(Rows(), 3), np.array([[0, 1, 0], [0.5, 0.5, 0]]))
    data = TrainingData(TokenInputs(own, {"words": np.array([0, 5])}))
    batch = data.gather(np.arange(1))
    assert objective.losses(batch)["end_model"].item() == pytest.approx(np.log(3))
    assert objective.diagnose(data) == {"agreement": 0.5, "spans_found": 0, "spans_wanted": 1}


def test_a_tagger_that_finds_no_span_warns():
    slow = {**FAST, "lr": 1e-9, "epochs": 1}
    network = LinearTagger(3)
    network.bias.data[:] = torch.tensor([5.0, 0.0, 0.0])
    with pytest.warns(CollapseWarning, match="finds no span in the training texts"):
        TwoStage(HiddenMarkov(), network, **slow).fit(documents(), votes())


def test_what_cannot_be_trained_on_is_refused():
    with pytest.raises(FeatureError, match="same items in the same order"):
        TwoStage(MajorityVote(), tagger(), **FAST).fit(documents(), votes().votes)
    silent = apply_span_lfs(gazetteer("PER", ["Zoe"]), documents(), labels=["PER"])
    with pytest.raises(VoteError, match="nothing to learn from: 1 voters cast no vote"):
        WeaSEL(tagger(), **FAST).fit(documents(), silent)
    with pytest.raises(FeatureError, match="of the same documents in the same order"):
        TwoStage(HiddenMarkov(), tagger()).fit(Documents.from_texts(["Ada"]), votes())
    with pytest.raises(FeatureError, match="A tagger reads Documents, or texts"):
        TwoStage(HiddenMarkov(), tagger()).fit(np.zeros((24, 3)), votes())
    with pytest.raises(ParameterError, match="validation must be"):
        TwoStage(HiddenMarkov(), tagger(), **FAST).fit(
            documents(), votes(), validation=Documents.from_texts(["Ada"])
        )
    with pytest.raises(ParameterError, match=r"FeatureEM does tasks with .* are for spans"):
        TwoStage(FeatureEM(), tagger(), **FAST).fit(documents(), votes())
    with pytest.raises(ParameterError, match=r"MaxMIG does tasks with one label .* for spans"):
        MaxMIG(tagger(), **FAST).fit(documents(), votes())
    with pytest.raises(ParameterError, match=r"WeaSEL for spans .* leave out loss='l1'"):
        WeaSEL(tagger(), loss="l1").fit(documents(), votes())
    with pytest.raises(SavedModelError):
        load_model("no/such/folder")


@pytest.mark.parametrize("old", ["SpanTwoStage", "SpanWeaSEL", "BiLSTMTagger", "load_span_model"])
def test_an_old_name_says_the_new_one(old):
    with pytest.raises(AttributeError, match=rf"{old} is wiesel\..* now"):
        getattr(spans, old)


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


def test_the_logits_of_a_linear_tagger_are_sums_of_rows_and_padding_adds_none():
    tagger = LinearTagger(2, rows=8, window=0, step=2.0, chain=False)
    with torch.no_grad():
        tagger.tables[0].weight.copy_(torch.arange(16.0).view(8, 2) ** 2)
        tagger.bias.copy_(torch.tensor([0.5, -0.5]))
    rows = tagger.tables[0].weight
    # Number 10 is in row 3, as rows 1 to 7 serve all numbers but 0, which is padding.
    words, grams = torch.tensor([[3, 10, 7]]), torch.tensor([[[2, 0], [0, 0], [1, 6]]])
    found = tagger({"words": words, "grams": grams, "mask": words > 0})
    expected = torch.stack([rows[3] + rows[2], rows[3], rows[7] + rows[1] + rows[6]]) + tagger.bias
    assert torch.allclose(found[0], 2.0 * expected)
