"""A project whose labels are of parts of texts: run, report, explain, predict, evaluate."""

import json
import os
import random
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tiny_project import assert_no_places, tiny_project
from wiesel.cli.main import app
from wiesel.errors import ParameterError, WieselError, WieselWarning
from wiesel.project.pipeline import run_project
from wiesel.project.settings import read_project
from wiesel.project.spans import _of_votes
from wiesel.saving import write_json
from wiesel.spans import evaluate_spans
from wiesel.spans.documents import spans_of_proba

NAMES, CITIES = ("Ada", "Bob", "Cy", "Dora", "Emil"), ("Bonn", "Paris", "Bath", "Rome", "Oslo")
PROJECT = """
classes = ["PER", "LOC"]
spans = true
[data]
train = "train.jsonl"
dev = "dev.jsonl"
test = "test.conll"
[votes]
lfs = ["rules.toml", "lfs.py"]
[training]
epochs = 3
lr = 0.02
batch_size = 8
"""
RULES = """
[[lf]]
kind = "keywords"
name = "names"
label = "PER"
keywords = ["Ada", "Bob", "Cy", "Bath"]
column = "text"
"""
LFS = """
from wiesel.spans import gazetteer, span_function
cities = gazetteer("LOC", ["Bonn", "Paris", "Bath"], name="cities")
@span_function
def after_in(document):
    words = document.words
    return [document.span(k, k + 1, "LOC") for k in range(1, len(words)) if words[k - 1] == "in"]
"""


def sentence(rng):
    """A text, and its gold spans."""
    who, where = rng.choice(NAMES), rng.choice(CITIES)
    text = f"{who} was <b> in {where} ."
    place = text.index(where)
    return text, [[0, len(who), "PER"], [place, place + len(where), "LOC"]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A small project, run once."""
    place, rng = tmp_path_factory.mktemp("spans"), random.Random(0)
    for name, content in (("wiesel.toml", PROJECT), ("rules.toml", RULES), ("lfs.py", LFS)):
        (place / name).write_text(content)
    for split, size in (("train", 60), ("dev", 20)):
        rows = [(f"{split}{k}", *sentence(rng)) for k in range(size)]
        lines = [json.dumps({"id": key, "text": text, "label": own}) for key, text, own in rows]
        (place / f"{split}.jsonl").write_text("\n".join(lines))
    tagged = [
        f"{rng.choice(NAMES)} B-PER\nwas O\nin O\n{rng.choice(CITIES)} B-LOC\n" for _ in "abcde"
    ]
    (place / "test.conll").write_text("\n".join(tagged))
    run_project(read_project(place))
    return place


def called(*words, code=0):
    result = CliRunner().invoke(app, [*map(str, words)])
    assert result.exit_code == code, result.output
    return result.stdout if "--json" in words else result.output


def test_a_run_leaves_spans_figures_model_and_a_report_with_marked_texts(folder):
    out = folder / "out"
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["judged_on"] == "test"
    assert [row["method"] for row in metrics["methods"]] == ["hidden_markov", "majority_vote"]
    assert metrics["splits"]["dev"]["exact"]["all"]["f1"] > 0.5
    found = [json.loads(line) for line in (out / "spans_train.jsonl").read_text().splitlines()]
    assert len(found) == 60
    first, second, alone = [*metrics["methods"], *metrics["references"]]
    assert alone["method"] == "labels alone: end model"
    assert first["span_f1_low"] <= first["span_f1"] <= first["span_f1_high"]
    for other in (second, alone):
        apart = other["span_f1"] - first["span_f1"]
        assert other["difference"] == pytest.approx(apart)
        assert other["difference_low"] < apart < other["difference_high"]
        assert 0 <= other["p_value"] <= 1
    assert "points of F1 of exact spans" in metrics["verdict"]
    page = (out / "report.html").read_text()
    assert "points of F1 of exact spans" in page
    for words in ("<mark ", "who voted", "after_in", "overlap F1", "spans = true"):
        assert words in page
    assert "was <b>" not in page
    # Rules that find the names of this project beat a tagger that read 60 texts.
    alone = page.split("The votes alone")[1]
    assert "majority vote" in alone
    assert "soft labels of hidden_markov" in alone
    assert "hidden_markov, tagger and votes" in alone


def test_the_saved_model_tells_no_place_of_its_author(folder):
    assert_no_places(folder / "out/model")


def test_the_quality_of_the_votes_alone_is_that_of_their_spans(folder):
    project = read_project(folder)
    outcome = run_project(project)
    table = _of_votes(outcome, "test")
    data = outcome.data
    votes, gold = data.votes_by_split["test"], data.truth["test"]
    by_hand = evaluate_spans(gold, votes.majority(), data.splits["test"], ["PER", "LOC"])
    row = table.frame.row(0, named=True)
    assert row["spans of"] == "majority vote"
    assert row["F1"] == pytest.approx(by_hand.exact["all"].f1)
    soft = outcome.main.model.soft_labels(data.splits["test"], votes)
    spans = spans_of_proba(soft, data.splits["test"], data.labels)
    by_hand = evaluate_spans(gold, spans, data.splits["test"], ["PER", "LOC"])
    assert table.frame.row(1, named=True)["F1"] == pytest.approx(by_hand.exact["all"].f1)
    both = outcome.main.model.predict(data.splits["test"], votes)
    by_hand = evaluate_spans(gold, both, data.splits["test"], ["PER", "LOC"])
    assert table.frame.row(2, named=True)["F1"] == pytest.approx(by_hand.exact["all"].f1)


def test_a_document_is_explained_by_who_voted(folder):
    model = folder / "out" / "model"
    why = json.loads(called("explain", model, "--item", "dev3", "--project", folder, "--json"))
    assert why["item"] == "dev3"
    assert any("after_in" in span["voted_for"] for span in why["spans"])
    assert "LOC" in called("explain", model, "--item", "dev3", "--project", folder)
    missing = called("explain", model, "--item", "dev99", "--project", folder, code=1)
    assert "There is no item 'dev99'" in missing
    assert "Did you mean" in missing


def test_a_document_whose_id_is_in_two_files_is_named_with_its_split(folder, tmp_path):
    for file in folder.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_text(file.read_text())
    # A file in CoNLL columns has no ids: its sentences are numbered.
    (tmp_path / "train.jsonl").write_text('{"id": 0, "text": "Ada was in Bonn ."}\n')
    explain = ("explain", folder / "out" / "model", "--project", tmp_path, "--item")
    assert "say train:0 or test:0" in called(*explain, "0", code=1)
    assert called(*explain, "train:0").startswith("0: ")


def test_the_saved_tagger_serves_the_verbs_of_spans(folder, tmp_path):
    model, found = folder / "out" / "model", tmp_path / "found.jsonl"
    called("spans", "predict", model, folder / "dev.jsonl", "-o", found)
    assert '"id": "dev3"' in found.read_text()
    told = json.loads(called("spans", "evaluate", folder / "dev.jsonl", found, "--json"))
    report = json.loads(called("evaluate", model, folder / "dev.jsonl", "--json"))["report"]
    assert report["exact"]["all"] == told["exact"]["all"]
    said = called("evaluate", model, folder / "dev.jsonl", "--against", model, code=1)
    assert "--against is for models of one label for each item" in said
    assert "is one of spans: leave --against out" in said
    assert "5 documents" in called("predict", model, folder / "test.conll")
    shown = called("inspect", model)
    assert "TwoStage" in shown
    assert "wiesel predict" in shown
    assert "hidden_markov, majority_vote" in called("inspect", folder)


@pytest.mark.parametrize("extension", ["conll", "json", "jsonl"])
def test_spans_are_written_as_the_name_of_the_file_says_and_judged(folder, tmp_path, extension):
    model, found = folder / "out" / "model", tmp_path / f"found.{extension}"
    lines = (folder / "dev.jsonl").read_text().splitlines()
    # CoNLL columns keep neither white space nor texts without a word.
    empty = json.dumps({"id": "empty", "text": " ", "label": []})
    (tmp_path / "gold.jsonl").write_text("\n".join([*lines[:3], empty]))
    called("predict", model, tmp_path / "gold.jsonl", "-o", found)
    told = json.loads(called("spans", "evaluate", tmp_path / "gold.jsonl", found, "--json"))
    report = json.loads(called("evaluate", model, tmp_path / "gold.jsonl", "--json"))["report"]
    assert told["exact"]["all"] == report["exact"]["all"]
    if extension != "json":  # predictions in Label Studio are not its annotations
        back = json.loads(called("spans", "evaluate", found, tmp_path / "gold.jsonl", "--json"))
        assert back["exact"]["all"]["precision"] == report["exact"]["all"]["recall"]
    (tmp_path / "other.conll").write_text("Eve B-PER\n")
    judged = called("spans", "evaluate", tmp_path / "gold.jsonl", tmp_path / "other.conll", code=1)
    assert "not of the same texts" in judged


def test_a_label_model_has_its_own_options(folder, tmp_path):
    text = "epochs = 1\n[options.hidden_markov]\nonly_supported = false"
    outcome = run_project(changed(folder, tmp_path, "epochs = 3", text), ["hidden_markov"])
    assert not outcome.main.model.label_model_.only_supported
    assert outcome.main.model.epochs == 1


def test_compare_gives_a_row_for_each_method_and_writes_only_its_cache(folder, tmp_path):
    project = changed(folder, tmp_path, "epochs = 3", "epochs = 1")
    text = called("compare", project.folder, "weasel,majority_vote", "--json")
    told = json.loads(text[text.index("{") :])
    assert [row["method"] for row in told["runs"]] == ["weasel", "majority_vote"]
    assert told["on"] == "test"
    assert [file.name for file in (tmp_path / "out").iterdir()] == [".cache"]
    assert "cannot learn spans" in called("compare", folder, "doctor_net", code=1)


def test_several_projects_are_compared_if_their_tasks_are_of_one_kind(folder, tmp_path):
    other = changed(folder, tmp_path / "other", "epochs = 3", "epochs = 1")
    told = json.loads(called("compare", folder, other.folder, "majority_vote", "--json"))
    assert [row["data"] for row in told["runs"]] == [folder.name, "other"]
    mixed = tiny_project(tmp_path)
    assert "different kinds of tasks" in called("compare", folder, mixed, "snorkel", code=1)


def test_a_tagger_is_trained_once_until_a_document_or_a_vote_changes(folder, tmp_path):
    project = changed(folder, tmp_path, "epochs = 3", "epochs = 1")
    assert not run_project(project, ["majority_vote"]).main.reused
    first = run_project(project, ["majority_vote"])
    assert first.main.reused
    rules = tmp_path / "rules.toml"
    rules.write_text(rules.read_text().replace('"Ada", ', ""))
    again = run_project(project, ["majority_vote"])
    assert not again.main.reused
    assert first.proba["test"] != again.proba["test"]


def test_a_rule_labeled_together_links_tokens(folder, tmp_path):
    project = changed(folder, tmp_path, "epochs = 3", "epochs = 1")
    with (tmp_path / "lfs.py").open("a") as file:
        file.write("from wiesel.spans import pattern\nlink = pattern('together', r'was <b>')\n")
    outcome = run_project(project, ["hidden_markov"])
    assert outcome.main.model.label_model_.link_voters_ == ("together_was_b",)
    assert "together_was_b" not in outcome.main.model.voters_


def test_the_verb_run_prints_voters_figures_and_texts(folder, tmp_path):
    project = changed(folder, tmp_path, "epochs = 3", "epochs = 1")
    text = called("run", project.folder, "--method", "majority_vote")
    for words in ("cities", "overlap F1", "precision", "wiesel predict"):
        assert words in text
    again = called("run", project.folder, "--method", "majority_vote")
    assert "nothing has changed" in again
    assert "overlap F1" in again


def test_labels_that_are_never_found_and_dev_texts_without_spans_do_not_end_a_run(folder, tmp_path):
    project = changed(
        folder, tmp_path, 'classes = ["PER", "LOC"]', 'classes = ["PER", "LOC", "ORG"]'
    )
    (tmp_path / "dev.jsonl").write_text('{"text": " ", "label": []}\n')
    with pytest.warns(WieselWarning, match="no gold span"):
        outcome = run_project(project, ["majority_vote"])
    # An untrained tagger would be as good on documents without spans: no epoch is chosen by them.
    assert len(outcome.main.model.history_.records) == 3
    assert outcome.main.model.history_.best_epoch is None
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert metrics["splits"]["test"]["exact"]["ORG"]["precision"] is None
    assert metrics["splits"]["dev"]["token_accuracy"] is None
    assert (tmp_path / "out" / "model").is_dir()


def test_two_runs_do_not_mix_their_files(folder, tmp_path, monkeypatch):
    """While one writes, another cannot get the lock."""
    fcntl = pytest.importorskip("fcntl")
    project, tried = changed(folder, tmp_path, "epochs = 3", "epochs = 1"), []

    def write(value, path):
        handle = os.open(path.parent / ".cache", os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(handle)
        tried.append(path.name)
        write_json(value, path)

    monkeypatch.setattr("wiesel.project.pipeline.write_json", write)
    run_project(project, ["majority_vote"])
    assert tried == ["metrics.json"]


def changed(folder, tmp_path, old, new):
    tmp_path.mkdir(exist_ok=True)
    for file in folder.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_text(file.read_text())
    text = (tmp_path / "wiesel.toml").read_text()
    assert old in text
    (tmp_path / "wiesel.toml").write_text(text.replace(old, new))
    return read_project(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("spans = true", "spans = true\nmulti = true", "exclude each other"),
        ('classes = ["PER", "LOC"]\n', "", "what the labels are"),
        ("[training]", '[method]\nname = "doctor_net"\n[training]', "cannot learn spans"),
        ("[training]", '[features]\nkind = "tfidf"\n[training]', "reads words"),
        ("epochs = 3", "epoch = 3", "epoch"),
    ],
)
def test_what_a_project_of_spans_cannot_do_is_said(folder, tmp_path, old, new, words):
    with pytest.raises(ParameterError, match=words):
        run_project(changed(folder, tmp_path, old, new))


def test_gold_of_another_label_or_outside_of_the_text_is_refused(folder, tmp_path):
    project = changed(folder, tmp_path, "epochs = 3", "epochs = 1")
    for span, words in (([0, 3, "ORG"], "'ORG'"), ([0, 99, "PER"], "characters 0 to 99")):
        (tmp_path / "dev.jsonl").write_text(json.dumps({"text": "Ada", "label": [span]}))
        with pytest.raises(WieselError, match=words):
            run_project(project)
