"""Open projects with several labels and with spans: what their pages show, counted by hand."""

import json

import numpy as np
import pytest

from wiesel.errors import ParameterError
from wiesel.guidance import ItemFilter
from wiesel.lfs.text_rules import keywords
from wiesel.project.workspace import open_workspace
from wiesel.spans import Span

SETS = """\
classes = ["billing", "urgent"]
multi = true
[data]
train = "train.jsonl"
dev = "dev.jsonl"
[votes]
lfs = ["lfs.py", "rules.toml"]
[features]
n_dimensions = 3
"""
SET_RULES = """\
[[lf]]
name = "money"
kind = "keywords"
label = "billing"
keywords = ["invoice"]
column = "text"
exhaustive = ["urgent"]

[[lf]]
name = "slow"
kind = "keywords"
label = "urgent"
keywords = ["whenever"]
column = "text"
against = true
"""
SET_PYTHON = """\
from wiesel.multilabel import multilabel_function

@multilabel_function(exhaustive=True)
def exclaims(row):
    return {"urgent"} if "!" in row["text"] else None
"""
SPANS = """\
classes = ["PERSON", "PLACE"]
spans = true
[data]
train = "train.jsonl"
dev = "dev.jsonl"
[votes]
lfs = ["lfs.py", "rules.toml"]
"""
SPAN_RULES = """\
[[lf]]
name = "names"
kind = "keywords"
label = "PERSON"
keywords = ["Ada", "Paris"]
column = "text"

[[lf]]
name = "broken"
kind = "threshold"
label = "PERSON"
column = "text"
above = 3
"""
SPAN_PYTHON = """\
from wiesel.spans import gazetteer
towns = gazetteer("PLACE", ["Paris", "Rome"], name="towns")
"""


def write(folder, settings, rules, python, rows, dev):
    folder.mkdir()
    for name, text in (("wiesel.toml", settings), ("rules.toml", rules), ("lfs.py", python)):
        (folder / name).write_text(text)
    for name, own in (("train", rows), ("dev", dev)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in own))
    return folder


@pytest.fixture
def sets(tmp_path):
    texts = ["invoice whenever", "invoice now!", "hello", "whenever!"]
    rows = [{"id": k, "text": text} for k, text in enumerate(texts)]
    dev = [
        {"id": "a", "text": "an invoice", "label": ["billing", "urgent"]},
        {"id": "b", "text": "hi!", "label": []},
    ]
    return open_workspace(write(tmp_path / "sets", SETS, SET_RULES, SET_PYTHON, rows, dev))


@pytest.fixture
def spans(tmp_path):
    texts = ["Ada saw Paris.", "Rome", "Nobody."]
    rows = [{"id": k, "text": text} for k, text in enumerate(texts)]
    dev = [{"id": "a", "text": "Ada in Rome", "label": [[0, 3, "PERSON"], [7, 11, "PLACE"]]}]
    return open_workspace(write(tmp_path / "spans", SPANS, SPAN_RULES, SPAN_PYTHON, rows, dev))


def chosen(space, split="train", **wanted):
    return ItemFilter.of(wanted).rows(space.facts_of(split, None)).tolist()


def test_votes_of_a_row_are_for_and_against_its_labels(sets):
    # money votes for billing and, by its silence, against urgent; exclaims for urgent and against.
    assert [vote[:2] for vote in sets.votes_on("train", 1)] == [
        ("exclaims", "not billing"),
        ("money", "billing"),
        ("exclaims", "urgent"),
        ("money", "not urgent"),
    ]
    marks = sets.marks("train", [0, 1, 2, 3], None)
    assert [own.votes for own in marks] == [
        {"billing": 1},
        {"billing": 1, "urgent": 1},
        {},
        {"urgent": 1},
    ]
    assert sets.marks("dev", [0, 1], None)[0].gold == ("billing", "urgent")
    assert sets.marks("dev", [0, 1], None)[1].gold == ()


def test_filters_ask_for_one_of_the_labels(sets):
    assert chosen(sets, vote="urgent") == [1, 3]
    assert chosen(sets, voter="money") == [0, 1]
    assert chosen(sets, voter="money", vote="urgent") == []  # it votes against it
    assert chosen(sets, covered=False) == [2]
    assert chosen(sets, conflict=True) == [1, 3]
    assert chosen(sets, "dev", gold_class="urgent") == [0]
    assert chosen(sets, "dev", gold="known") == [0, 1]


def test_the_summary_has_a_row_for_each_voter_over_all_labels(sets):
    rows = {row["voter"]: row for row in sets.summary().to_dicts()}
    assert rows["money"]["polarity"] == ["billing", "not urgent"]
    assert rows["money"]["coverage"] == 0.5
    # On row 0 slow also votes against urgent, on row 1 exclaims contradicts both votes.
    assert (rows["money"]["overlap"], rows["money"]["conflict"]) == (0.5, 0.25)
    # Of its two votes on dev rows, that it is billing is right, that it is not urgent is wrong.
    assert (rows["money"]["support"], rows["money"]["precision"]) == (2, 0.5)
    assert rows["slow"]["precision"] is None


def test_a_rule_keeps_what_its_silence_means_when_it_is_changed(sets):
    entry = next(each for each in sets.lf_set.read().entries if each.name == "money")
    assert sets.shown_rule(entry).label == "billing"
    sets.add_rule(keywords("billing", ["bill"], column="text"), replaces="money")
    text = (sets.project.folder / "rules.toml").read_text()
    assert 'keywords = ["bill"]' in text
    assert 'exhaustive = ["urgent"]' in text
    sets.add_rule(keywords("not billing", ["hello"], column="text"))
    sets.refresh()
    assert ("not_billing_hello", "not billing") in [vote[:2] for vote in sets.votes_on("train", 2)]


def test_a_rule_against_a_label_is_shown_as_one(sets):
    entry = next(each for each in sets.lf_set.read().entries if each.name == "slow")
    assert sets.shown_rule(entry).label == "not urgent"
    sets.lf_set.switch("slow", on=False)
    sets.refresh()
    assert "slow" not in sets.votes.voters


def test_findings_know_how_common_each_label_is(sets):
    file = sets.project.file
    file.write_text(file.read_text() + "[training]\nclass_balance = {billing = 0.2}\n")
    found = open_workspace(file)
    assert found.on("billing").project.class_balance == {"not billing": 0.8, "billing": 0.2}
    assert found.on("urgent").project.class_balance is None
    assert any(row["sentence"].startswith("billing: ") for row in found.findings())


def test_labels_of_people_are_gold_for_every_label(sets):
    sets.store.add("2", sets.answers.written([]), "ada")
    sets.store.add("3", sets.answers.written(["urgent"]), "ada")
    sets.refresh(labels_only=True)
    assert sets.gold.tolist() == [[-1, -1], [-1, -1], [0, 0], [0, 1]]
    assert sets.on("urgent").gold.tolist() == [-1, -1, 0, 1]
    assert sets.marks("train", [2], None)[0].gold == ()
    seen = {row["item"] for row in sets.to_label(4, "random", "ada").to_records()}
    assert seen == {0, 1}


def test_previews_are_of_single_labels(sets):
    assert sets.silent_classes() == []
    proba = sets.previewed("train").proba
    assert proba.shape == (4, 2)
    assert ((proba > 0) & (proba < 1)).all()
    found = sets.preview_rule(keywords("not urgent", ["hello"], column="text"))
    assert (found.rows.tolist(), found.newly_covered) == ([2], 1)
    with pytest.raises(ParameterError, match="Name the label to explain"):
        sets.blame(0)
    assert "money" in sets.blame(1, "billing").voters.frame["voter"].to_list()


def test_spans_of_voters_are_counted_by_document(spans):
    assert spans.marks("train", [0, 1, 2], None) == [
        ({"PERSON": 2, "PLACE": 1}, (), None),
        ({"PLACE": 1}, (), None),
        ({}, (), None),
    ]
    assert spans.spans_on("train", 0) == [
        ("towns", Span(8, 13, "PLACE")),
        ("names", Span(0, 3, "PERSON")),
        ("names", Span(8, 13, "PERSON")),
    ]
    assert chosen(spans, vote="PLACE") == [0, 1]
    assert chosen(spans, conflict=True) == [0]  # Paris is both
    assert chosen(spans, covered=False) == [2]
    assert spans.disputed(5).tolist() == [0]


def test_a_rule_that_marks_no_spans_is_reported_and_the_others_vote(spans):
    assert spans.votes.voters == ("towns", "names")
    assert "Expected a span function" in spans.problems[0]
    rows = {row["voter"]: row for row in spans.summary().to_dicts()}
    assert rows["towns"]["precision"] == 1.0
    assert np.isclose(rows["towns"]["coverage"], 2 / 3)
    assert np.isclose(rows["names"]["conflict"], 1 / 3)


def test_the_preview_of_a_span_rule_counts_documents_and_gold(spans):
    spans.store.add("1", spans.answers.written([(0, 4, "PLACE")]), "ada")
    spans.refresh(labels_only=True)
    found = spans.preview_rule(keywords("PERSON", ["rome", "nobody"], column="text"))
    assert found.rows.tolist() == [1, 2]
    assert (found.conflicts, found.newly_covered) == (1, 1)
    assert (found.support, found.precision, found.breaks.tolist()) == (1, 0.0, [1])


def test_spans_of_people_are_gold_and_their_documents_are_not_asked_again(spans):
    spans.store.add("0", spans.answers.written([(0, 3, "PERSON")]), "ada")
    spans.refresh(labels_only=True)
    assert spans.gold == [[Span(0, 3, "PERSON")], None, None]
    asked = {row["item"] for row in spans.to_label(9, "recommended", "ada").to_records()}
    assert asked == {1, 2}
    asked = {row["item"] for row in spans.to_label(9, "towns", "bob").to_records()}
    assert asked >= {0, 1}


def test_what_needs_a_linear_model_says_that_spans_have_none(spans):
    assert spans.preview is None
    with pytest.raises(ParameterError, match="not for spans"):
        spans.suggestions()
    with pytest.raises(ParameterError, match="not for spans"):
        spans.blame(0)
