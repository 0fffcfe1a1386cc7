"""Files of annotation tools on the command line."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

FILES = Path(__file__).parents[1] / "io" / "files"


@pytest.fixture
def tasks(tmp_path):
    return Path(shutil.copy(FILES / "label_studio.json", tmp_path / "tasks.json"))


def test_inspect_shows_annotators_and_takes_ground_truth_as_gold(wiesel, tasks):
    found = json.loads(wiesel("inspect", str(tasks), "--json").stdout)
    assert [row["voter"] for row in found["voters"]] == [
        "ann@example.org",
        "annotator 2",
        "bert v2",
    ]
    assert found["voters"][0]["support"] == 1
    assert found["next"].startswith("wiesel aggregate")


def test_labels_go_back_to_the_tool_they_came_from(wiesel, tasks, tmp_path):
    output = tmp_path / "predictions.json"
    done = wiesel("aggregate", str(tasks), "--method", "majority_vote", "-o", str(output))
    assert done.exit_code == 0, done.output
    written = json.loads(output.read_text())
    assert [task["id"] for task in written] == [11, 12]
    assert written[0]["predictions"][0]["result"][0]["from_name"] == "kind"
    assert written[1]["predictions"][0]["score"] == 1.0
    table = tmp_path / "labels.csv"
    wiesel("aggregate", str(tasks), "--method", "majority_vote", "-o", str(table))
    assert pl.read_csv(table)["label"].to_list() == ["spam", "ham"]


def test_soft_labels_for_tools_and_the_hub(wiesel, tasks, tmp_path):
    model = str(tmp_path / "model")
    assert wiesel("fit", "majority_vote", str(tasks), "-o", model).exit_code == 0
    place = tmp_path / "tasks.jsonl"
    done = wiesel("soft-labels", model, str(tasks), "-o", str(place), "--format", "prodigy")
    assert done.exit_code == 0, done.output
    assert [json.loads(line)["accept"] for line in place.read_text().splitlines()] == [
        ["spam"],
        ["ham"],
    ]
    hub = tmp_path / "hub"
    wiesel("soft-labels", model, str(tasks), "-o", str(hub), "--format", "hugging-face")
    assert "class_label" in (hub / "README.md").read_text()


def test_rows_are_found_by_id(wiesel, tmp_path):
    votes = tmp_path / "votes.csv"
    votes.write_text("id,a,b\nm1,spam,ham\nm2,ham,\nm3,,\n")
    rows = tmp_path / "rows.csv"
    rows.write_text("id,text\nm3,third\nm2,second\nm1,first\n")
    pl_votes = tmp_path / "votes.parquet"
    from wiesel.io import read_votes, write_votes

    write_votes(read_votes(votes, labels=["ham", "spam"], id_column="id"), pl_votes)
    model = str(tmp_path / "model")
    wiesel("fit", "majority_vote", str(pl_votes), "-o", model)
    place = tmp_path / "doccano.jsonl"
    words = ["soft-labels", model, str(pl_votes), "-o", str(place), "--format", "doccano"]
    assert "--rows" in wiesel(*words).output
    done = wiesel(*words, "--rows", str(rows))
    assert "1 items" in done.output
    assert [json.loads(line)["text"] for line in place.read_text().splitlines()] == [
        "first",
        "second",
    ]


def test_mistakes_are_told_in_the_words_of_the_command_line(wiesel, tasks, tmp_path):
    wrong = wiesel(
        "aggregate", str(tasks), "-o", str(tmp_path / "x.json"), "--format", "labelstudio"
    )
    assert "Did you mean 'label_studio'" in wrong.output
    answers = tmp_path / "answers.csv"
    answers.write_text("task,worker,label\nt,a,x\nt,b,y\n")
    wrong = wiesel("aggregate", str(answers), "-o", str(tmp_path / "x.json"), "--format", "argilla")
    assert "annotation tool" in wrong.output
    other = tmp_path / "other.json"
    other.write_text('[{"name": "x"}]')
    assert "label_studio" in wiesel("inspect", str(other)).output
