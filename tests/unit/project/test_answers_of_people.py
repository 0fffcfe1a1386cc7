"""What people answer in tasks with several labels and with spans, and what it is worth as gold."""

import json
import sqlite3
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from wiesel.errors import DataError
from wiesel.io import LabelStore, Split
from wiesel.label_sets import MultiLabelSpace
from wiesel.labels import LabelSpace
from wiesel.project.labels import answers_for, label_store, labeled_gold
from wiesel.project.settings import read_project
from wiesel.spans.tags import Span, SpanLabels

_SETS = answers_for("several labels", MultiLabelSpace("billing", "technical", "urgent"))
_SPANS = answers_for("spans", SpanLabels(("DEVICE", "MONTH")))
_OLD = """
CREATE TABLE labels (number INTEGER PRIMARY KEY AUTOINCREMENT, item TEXT NOT NULL,
    person TEXT NOT NULL, label TEXT, purpose TEXT NOT NULL, time REAL NOT NULL,
    withdrawn INTEGER NOT NULL DEFAULT 0)
"""


def old_store(path):
    """A store as version 0.1 wrote it."""
    with sqlite3.connect(path) as connection:
        connection.execute(_OLD)
        answer = "INSERT INTO labels (item, person, label, purpose, time) VALUES (?, ?, ?, ?, ?)"
        connection.execute(answer, ("m1", "ada", "billing", "evaluate", 1.0))
        connection.execute(answer, ("m2", "ada", None, "learn", 2.0))
    connection.close()
    return path


def project(tmp_path, head):
    (tmp_path / "wiesel.toml").write_text(
        f'classes = ["billing", "technical"]\n{head}\n[data]\ntrain = "train.csv"\n'
        '[votes]\nlfs = ["rules.toml"]\n'
    )
    return read_project(tmp_path)


def split(*ids):
    return Split(pl.DataFrame({"id": list(ids)}), np.full(len(ids), -1))


def test_a_store_of_an_earlier_version_keeps_its_answers_and_takes_new_ones(tmp_path):
    store = LabelStore(old_store(tmp_path / "labels.sqlite"))
    store.add("m3", "technical", "bob")
    assert store.labels().select("item", "label", "purpose").rows() == [
        ("m1", "billing", "evaluate"),
        ("m3", "technical", "learn"),
    ]
    assert store.seen_by("ada") == {"m1", "m2"}
    assert store.undo("ada") == "m2"


def test_many_processes_open_an_old_store_at_once(tmp_path):
    path = old_store(tmp_path / "labels.sqlite")
    code = (
        "import sys; from wiesel.io import LabelStore; print(len(LabelStore(sys.argv[1]).labels()))"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    assert [each.communicate(timeout=120)[0].strip() for each in started] == ["1"] * 4


def test_an_earlier_version_still_adds_answers_to_a_new_store(tmp_path):
    path = tmp_path / "labels.sqlite"
    LabelStore(path).add("m1", "billing", "ada")
    with sqlite3.connect(path) as connection:
        old = "INSERT INTO labels (item, person, label, purpose, time) VALUES (?, ?, ?, ?, ?)"
        connection.execute(old, ("m2", "bob", "technical", "learn", 5.0))
    connection.close()
    assert LabelStore(path).labels()["label"].to_list() == ["billing", "technical"]


def test_classes_given_earlier_are_sets_of_one_label(tmp_path):
    path = old_store(tmp_path / "labels.sqlite")
    store = LabelStore(path, "several labels")
    store.add("m2", _SETS.written({"technical", "billing"}), "ada")
    assert store.labels(_SETS.joined)["label"].to_list() == [
        '["billing"]',
        '["billing", "technical"]',
    ]


def test_answers_of_another_kind_of_task_are_refused_and_kept(tmp_path):
    path = tmp_path / "labels.sqlite"
    LabelStore(path, "spans").add("m1", "[]", "ada")
    with pytest.raises(DataError, match=r"answers for spans.*the project is for one label"):
        LabelStore(path).labels()
    assert LabelStore(path, "spans").labels()["label"].to_list() == ["[]"]


@pytest.mark.parametrize(
    ("answers", "given", "expected"),
    [
        (_SETS, [["billing"], ["billing", "urgent"], []], ["billing"]),
        (_SETS, [["billing"], []], None),  # half of two people
        (_SETS, [[], [], ["urgent"]], []),
        (_SPANS, [[[0, 4, "MONTH"]], [[0, 4, "MONTH"], [6, 9, "DEVICE"]]], None),
        (_SPANS, [[[0, 4, "MONTH"]], [[0, 4, "MONTH"], [6, 9, "DEVICE"]], [[0, 5, "MONTH"]]],
         [[0, 4, "MONTH"]]),
    ],
)  # fmt: skip
def test_the_majority_decides_label_by_label_and_span_by_span(answers, given, expected):
    found = answers.joined([answers.written(each) for each in given])
    assert (None if found is None else json.loads(found)) == expected


def test_two_who_differ_leave_a_row_unknown_until_it_is_resolved(tmp_path):
    own = project(tmp_path, "multi = true")
    store, labels = label_store(own), MultiLabelSpace("billing", "technical")
    answers = answers_for(own.task, labels)
    store.add("a", answers.written(["billing"]), "ada")
    store.add("a", answers.written([]), "bob")
    store.add("b", answers.written([]), "bob")
    assert labeled_gold(own, split("b", "a", "c"), labels).tolist() == [[0, 0], [-1, -1], [-1, -1]]
    store.resolve("a", answers.written(["technical"]))
    assert labeled_gold(own, split("b", "a", "c"), labels)[1].tolist() == [0, 1]


def test_spans_that_people_marked_are_gold_by_purpose(tmp_path):
    own = project(tmp_path, "spans = true")
    labels = SpanLabels(("billing", "technical"))
    store, answers = label_store(own), answers_for(own.task, labels)
    store.add("a", answers.written([(3, 5, "billing")]), "ada", "evaluate")
    store.add("b", answers.written([]), "ada")
    gold = labeled_gold(own, split("a", "b", "c"), labels)
    assert gold == [[Span(3, 5, "billing")], [], None]
    assert labeled_gold(own, split("a", "b", "c"), labels, "learn") == [None, [], None]


@pytest.mark.parametrize(
    ("answers", "wrong", "message"),
    [
        (_SPANS, [(0, 4, "MONTH"), (3, 6, "DEVICE")], "Spans do not overlap"),
        (_SPANS, [(4, 4, "MONTH")], "at least one character"),
        (_SPANS, [(0, 4, "YEAR")], "YEAR.*Were its classes renamed"),
        (_SETS, ["bilings"], "'bilings' is not a label"),
    ],
)
def test_wrong_answers_are_refused(answers, wrong, message):
    with pytest.raises(DataError, match=message):
        answers.written(wrong)


def test_agreement_counts_labels_and_spans():
    frame = {"item": ["a", "a"], "person": ["ada", "bob"], "label": ['["urgent"]', "[]"]}
    row = _SETS.agreement(pl.DataFrame(frame)).to_records()[0]
    assert (row["both"], round(row["agreement"], 3)) == (3, 0.667)  # two of three labels
    marked = {**frame, "label": ['[[0, 4, "MONTH"], [6, 9, "DEVICE"]]', '[[0, 4, "MONTH"]]']}
    row = _SPANS.agreement(pl.DataFrame(marked)).to_records()[0]
    assert (row["both"], round(row["agreement"], 3)) == (1, 0.667)  # F1: one hit of two and one


def test_one_label_keeps_its_words():
    answers = answers_for("one label", LabelSpace("ham", "spam"))
    with pytest.raises(DataError, match=r"egg.*not classes of the project"):
        answers.gold(2, [0], ["egg"])
    assert answers.gold(3, [1], ["spam"]).tolist() == [-1, 1, -1]
