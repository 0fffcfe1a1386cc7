"""Labels that people gave in the workbench train models of every kind of task."""

import json

import numpy as np
import pytest

from wiesel.end_to_end import TwoStage
from wiesel.nn import BiLSTMTagger
from wiesel.project.labels import answers_for, label_store
from wiesel.project.pipeline import prepare, run_project
from wiesel.project.runs import keep_run
from wiesel.project.settings import read_project
from wiesel.project.workspace import open_workspace
from wiesel.spans import HiddenMarkov, Span

SETS = """\
classes = ["billing", "urgent"]
multi = true
[data]
train = "train.jsonl"
[votes]
lfs = ["rules.toml"]
[features]
n_dimensions = 4
[end_model]
name = "linear"
[method]
name = "majority_vote"
baselines = []
[training]
epochs = 1
epoch_size = 40
class_balance = {billing = 0.5, urgent = 0.5}
"""
SPANS = """\
classes = ["PERSON"]
spans = true
[data]
train = "train.jsonl"
[votes]
lfs = ["rules.toml"]
[method]
name = "majority_vote"
baselines = []
[training]
epochs = 1
epoch_size = 12
"""
RULES = """\
[[lf]]
kind = "keywords"
label = "LABEL"
keywords = ["Ada"]
column = "text"
"""


def write(folder, settings, label, texts):
    folder.mkdir()
    (folder / "wiesel.toml").write_text(settings)
    (folder / "rules.toml").write_text(RULES.replace("LABEL", label))
    rows = [json.dumps({"id": f"t{k}", "text": text}) for k, text in enumerate(texts)]
    (folder / "train.jsonl").write_text("\n".join(rows))
    return read_project(folder)


@pytest.fixture
def sets(tmp_path):
    texts = ["Ada pays", "Bob waits", "now", "Ada now"] * 5
    own = write(tmp_path / "sets", SETS, "billing", texts)
    with (own.folder / "rules.toml").open("a") as rules:
        rules.write(RULES.replace("LABEL", "urgent").replace("Ada", "now"))
    return own


@pytest.fixture
def spans(tmp_path):
    return write(
        tmp_path / "spans", SPANS, "PERSON", ["Ada met Bob.", "Bob left.", "So it is."] * 4
    )


def silent(stage, text):
    pass


def test_sets_of_labels_are_learned_and_random_ones_are_the_dev_rows(sets):
    store, labels = label_store(sets), open_workspace(sets).labels
    answers = answers_for(sets.task, labels)
    store.add("t0", answers.written(["billing"]), "ada")
    for k in range(5, 16):
        store.add(f"t{k}", answers.written(["urgent"] if k % 2 else []), "ada", "evaluate")
    data = prepare(sets, silent).data
    assert len(data.splits["dev"]) == 11
    assert data.truth["dev"].tolist() == [[0, k % 2] for k in range(5, 16)]
    # The random rows are the dev rows, so only the other one is a label of the training rows.
    known = np.flatnonzero((data.train_gold.y >= 0).any(axis=1))
    assert (known.tolist(), data.train_gold.y[0].tolist()) == ([0], [1, 0])
    gold = data.gold()
    assert len(gold) == 12
    assert gold.chosen == ["random"] * 11 + ["workbench"]
    assert gold.votes.n_items == 12


def test_a_run_on_sets_of_people_is_kept_with_its_figures(sets):
    answers = answers_for(sets.task, open_workspace(sets).labels)
    for k in range(12):
        text = answers.written(["billing"] if k % 2 else ["urgent"])
        label_store(sets).add(f"t{k}", text, "ada", "evaluate")
    run = keep_run(run_project(sets), "first")
    assert run.about["rows"][0]["method"] == "majority_vote"
    assert 0 <= run.about["rows"][0]["macro_f1"] <= 1
    view = open_workspace(sets).view(run, "dev")
    assert view.split == "train"  # where the rows are that people labeled
    assert view.gold[:12].tolist() == [[1, 0] if k % 2 else [0, 1] for k in range(12)]
    assert (view.gold[12:] == -1).all()
    assert view.proba.shape == (20, 2)
    row = view.per_label()[0]
    wrong = np.flatnonzero((view.gold[:, 0] != view.predicted[:, 0]) & view.known)
    assert sorted([*row.missed, *row.invented]) == wrong.tolist()


def test_spans_of_people_replace_soft_labels_of_their_documents(spans):
    store, answers = label_store(spans), answers_for(spans.task, open_workspace(spans).labels)
    store.add("t0", answers.written([(8, 11, "PERSON")]), "ada")  # Bob, and not Ada
    store.add("t1", answers.written([]), "ada")
    data = prepare(spans, silent).data
    votes = data.votes
    assert votes.known[:6].tolist() == [0, 0, 1, 0, 0, 0]
    assert (votes.known[7:] == -1).all()
    model = TwoStage(HiddenMarkov(), BiLSTMTagger(3), epochs=1, epoch_size=12)
    plan = model._plan(model.fit_inputs(data.splits["train"], votes), None, None)
    assert plan.targets[0].tolist() == [1, 0, 0]  # the function says that Ada is a person
    assert plan.targets[2].tolist() == [0, 1, 0]
    beyond = votes.documents.pointers[3]  # the same text, which nobody marked
    assert plan.targets[beyond].argmax() == 1


@pytest.mark.filterwarnings("ignore::wiesel.errors.CollapseWarning")  # one epoch finds no span
def test_random_documents_choose_the_epoch_and_are_not_learned(spans):
    store, answers = label_store(spans), answers_for(spans.task, open_workspace(spans).labels)
    for k in range(10):
        store.add(f"t{k}", answers.written([(0, 3, "PERSON")]), "ada", "evaluate")
    store.add("t11", answers.written([]), "ada")
    data = prepare(spans, silent).data
    assert len(data.splits["dev"]) == 10
    assert data.truth["dev"][0] == [Span(0, 3, "PERSON")]
    tokens = data.votes.documents.document_index
    assert set(tokens[data.votes.known >= 0].tolist()) == {11}
    run = keep_run(run_project(spans), "first")
    view = open_workspace(spans).view(run, "dev")
    assert view.gold[0] == [Span(0, 3, "PERSON")]
    assert {name for name, *_ in view.figures()} == {"precision", "recall", "span_f1"}
